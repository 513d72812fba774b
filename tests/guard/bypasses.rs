//! Ways around guard rails. Each row: rules (nothing: the built-in list), pod, step patch, part of the refusal (nothing:
//! it is allowed).

use podlayer::admission::Policy;
use serde_json::Value;

use crate::support::{buildkite, made, plain, rules, with_step};

pub(crate) struct Row {
    rules: &'static str,
    pod: fn() -> Value,
    step: &'static str,
    refusal: &'static str,
}

pub(crate) const fn row(rules: &'static str, pod: fn() -> Value, step: &'static str, refusal: &'static str) -> Row {
    Row { rules, pod, step, refusal }
}

pub(crate) fn check(rows: &[Row]) {
    let mut wrong = Vec::new();
    for Row { rules: text, pod, step, refusal } in rows {
        let sources: Vec<_> = if text.is_empty() { Vec::new() } else { vec![rules(text)] };
        let found = made(&with_step(pod(), step), &sources, &Policy::default()).err().unwrap_or_default();
        let right = if refusal.is_empty() { found.is_empty() } else { found.contains(refusal) };
        if !right {
            wrong.push(format!("rules: {text}\nstep:  {step}\nwants: {refusal:?}\nfound: {found:?}"));
        }
        assert!(
            refusal.is_empty() || found.is_empty() || found.contains("annotation podlayer.dev/pod-spec-patch"),
            "{found}"
        );
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

const AGENT: &str = "agent is the CI system's or another injector's, allowed there: resources";

#[test]
fn what_the_built_in_list_allows() {
    check(&[
        row(
            "",
            plain,
            "containers: [{name: build, image: x, env: [{name: A, value: b}], envFrom: [{configMapRef: {name: c}}]}]",
            "",
        ),
        row(
            "",
            plain,
            "containers: [{name: build, command: [a], args: [b], workingDir: /w, resources: {limits: {cpu: 2}}}]",
            "",
        ),
        row("", plain, "activeDeadlineSeconds: 60", ""),
        row(
            "",
            plain,
            "volumes: [{name: a, emptyDir: {}}, {name: b, configMap: {name: c}}, {name: c, secret: {secretName: s}}, {name: d, \
             persistentVolumeClaim: {claimName: p}}, {name: e, projected: {sources: [{configMap: {name: c}}]}}, {name: f, \
             ephemeral: {volumeClaimTemplate: {spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}}}]\n\
             containers: [{name: build, volumeMounts: [{name: a, mountPath: /a}, {name: c, mountPath: /c}]}]",
            "",
        ),
        row(
            "",
            plain,
            "containers: [{name: db, image: db, ports: [{containerPort: 80}], securityContext: {runAsUser: 70, runAsNonRoot: true, privileged: false, capabilities: {drop: [ALL]}}, readinessProbe: {tcpSocket: {port: 80}}}]",
            "",
        ),
        row("", plain, "initContainers: [{name: db, image: db, restartPolicy: Always}]", ""),
        row(
            "",
            buildkite,
            "containers: [{name: container-0, image: x, env: [{name: LD_PRELOAD, value: x}]}, {name: agent, resources: {limits: {cpu: 1}}}]",
            "",
        ),
        row(
            "",
            buildkite,
            "containers: [{name: \"*\", resources: {requests: {memory: 1Gi}}}]\ninitContainers: [{name: copy-agent, resources: {limits: {cpu: 1}}}]",
            "",
        ),
        // The workspace is the author's containers' as well.
        row(
            "",
            buildkite,
            "containers: [{name: db, image: db, volumeMounts: [{name: workspace, mountPath: /workspace}]}]",
            "",
        ),
        row(
            "",
            buildkite,
            "volumes: [{name: c, emptyDir: {}}]\ncontainers: [{name: container-0, volumeMounts: [{name: c, mountPath: /workspace/cache}]}]",
            "",
        ),
        row("", buildkite, "initContainers: [{name: copy-agent}, {name: own, image: own}]", ""),
        // What changes nothing is no change.
        row("", plain, "serviceAccountName: default\nhostNetwork: null\ntolerations: []", "spec.tolerations"),
        row("", plain, "serviceAccountName: default\nhostNetwork: null", ""),
    ]);
}

#[test]
fn fields_beyond_the_built_in_list() {
    let mut rows = Vec::new();
    for (step, path) in [
        ("tolerations: [{key: a}]", "spec.tolerations"),
        ("nodeSelector: {pool: big}", "spec.nodeSelector.pool"),
        ("affinity: {nodeAffinity: {}}", "spec.affinity.nodeAffinity"),
        ("serviceAccountName: admin", "spec.serviceAccountName"),
        ("serviceAccount: admin", "spec.serviceAccount"),
        ("automountServiceAccountToken: true", "spec.automountServiceAccountToken"),
        ("hostNetwork: true", "spec.hostNetwork"),
        ("hostPID: true", "spec.hostPID"),
        ("hostIPC: true", "spec.hostIPC"),
        ("hostUsers: true", "spec.hostUsers"),
        ("shareProcessNamespace: true", "spec.shareProcessNamespace"),
        ("runtimeClassName: runc", "spec.runtimeClassName"),
        ("priorityClassName: system-node-critical", "spec.priorityClassName"),
        ("schedulerName: x", "spec.schedulerName"),
        ("dnsConfig: {nameservers: [1.1.1.1]}", "spec.dnsConfig.nameservers"),
        ("hostAliases: [{ip: 1.1.1.1, hostnames: [github.com]}]", "spec.hostAliases[ip=1.1.1.1].hostnames"),
        ("imagePullSecrets: [{name: s}]", "spec.imagePullSecrets[name=s]"),
        ("securityContext: {runAsUser: 0}", "spec.securityContext.runAsUser"),
        ("securityContext: {sysctls: [{name: a, value: b}]}", "spec.securityContext.sysctls"),
        (
            "topologySpreadConstraints: [{topologyKey: z, maxSkew: 1, whenUnsatisfiable: DoNotSchedule}]",
            "spec.topologySpreadConstraints",
        ),
        ("overhead: {cpu: 1}", "spec.overhead.cpu"),
        ("resourceClaims: [{name: r, resourceClaimName: c}]", "spec.resourceClaims[name=r].resourceClaimName"),
        (
            "containers: [{name: build, securityContext: {privileged: true}}]",
            "spec.containers[name=build].securityContext.privileged",
        ),
        (
            "containers: [{name: build, securityContext: {capabilities: {add: [SYS_ADMIN]}}}]",
            "securityContext.capabilities.add",
        ),
        (
            "containers: [{name: build, lifecycle: {postStart: {exec: {command: [x]}}}}]",
            "spec.containers[name=build].lifecycle",
        ),
        ("containers: [{name: build, volumeDevices: [{name: own, devicePath: /dev/x}]}]", "volumeDevices"),
        ("containers: [{name: build, resources: {claims: [{name: gpu}]}}]", "resources.claims gives privileges"),
        ("volumes: [{name: h, hostPath: {path: /}}]", "spec.volumes[name=h].hostPath.path"),
        ("volumes: [{name: h, csi: {driver: d}}]", "spec.volumes[name=h].csi.driver"),
        ("volumes: [{name: h, nfs: {server: s, path: /}}]", "spec.volumes[name=h].nfs"),
        (
            "volumes: [{name: h, projected: {sources: [{serviceAccountToken: {path: t, audience: vault}}]}}]",
            "spec.volumes[name=h].projected.sources gives privileges",
        ),
        (
            "volumes: [{name: kube-api-access-y, projected: {sources: [{serviceAccountToken: {path: t}}]}}]",
            "projected.sources gives privileges",
        ),
        // Sibling fields: the list stays, what is beside it changes.
        ("volumes: [{name: own, emptyDir: null, hostPath: {path: /}}]", "spec.volumes[name=own].hostPath.path"),
        (
            "volumes: [{name: own, $retainKeys: [name, hostPath], hostPath: {path: /}}]",
            "spec.volumes[name=own].hostPath.path",
        ),
        // A volume of the admin's is no other's to change or to mount.
        ("volumes: [{name: node, hostPath: {path: /}}]", "spec.volumes[name=node].hostPath.path"),
        ("volumes: [{name: node, hostPath: null, emptyDir: {}}]", "spec.volumes[name=node].hostPath.path"),
        (
            "containers: [{name: build, volumeMounts: [{name: node, mountPath: /n}]}]",
            "mounts volume node, whose hostPath a step may not use",
        ),
        ("containers: [{name: db, image: x, volumeMounts: [{name: node, mountPath: /n}]}]", "mounts volume node"),
    ] {
        rows.push(row("", plain, step, path));
    }
    check(&rows);
}

#[test]
fn directives_aliases_globs_roles_and_names() {
    check(&[
        row("", plain, "$retainKeys: [containers, volumes, restartPolicy, serviceAccountName]", "spec.serviceAccount"),
        row("", plain, "tolerations: [{$patch: replace}, {key: a}]", "spec.tolerations"),
        row(
            "",
            plain,
            "containers: [{$patch: replace}, {name: build, image: own:1, securityContext: {privileged: true}}]",
            "securityContext.privileged",
        ),
        row(
            "",
            buildkite,
            "containers: [{$patch: replace}, {name: container-0, image: own:1}]",
            "can't be changed by a layer",
        ),
        row("", buildkite, "containers: [{name: agent, $patch: delete}]", "spec.containers[name=agent]"),
        row(
            "",
            plain,
            "$setElementOrder/containers: [{name: db}, {name: build}]\ncontainers: [{name: db, image: x}]",
            "",
        ),
        row(
            "",
            buildkite,
            "$setElementOrder/containers: [{name: agent}, {name: container-0}]",
            "spec.containers would stand in another order, which a step may not change: write them in this one: container-0, agent, checkout",
        ),
        row("", plain, "x: &x {hostPath: {path: /}}", "unknown field"),
        row("", plain, "volumes: [&v {name: a, hostPath: {path: /}}]", "spec.volumes[name=a].hostPath.path"),
        row(
            "",
            plain,
            "containers: [{name: build, securityContext: &s {privileged: true}}]",
            "securityContext.privileged",
        ),
        row(
            "",
            plain,
            "containers: [{name: \"b*\", securityContext: {privileged: true}}]",
            "spec.containers[name=build].securityContext.privileged",
        ),
        row(
            "",
            plain,
            "containers: [{name: \"@command\", securityContext: {privileged: true}}]",
            "spec.containers[name=build].securityContext.privileged",
        ),
        row("", buildkite, "containers: [{name: \"*\", env: [{name: BASH_ENV, value: /x}]}]", AGENT),
        row("", buildkite, "containers: [{name: \"@agent\", image: evil}]", "spec.containers[name=agent].image"),
        // Names that only look alike are other containers; they are added, without privilege.
        row("", buildkite, "containers: [{name: \"\u{430}gent\", image: x}]", ""),
        row("", plain, "HostNetwork: true", "unknown field \"HostNetwork\""),
        row("", plain, "\"host\\u004eetwork\": true", "spec.hostNetwork"),
        row(
            "",
            plain,
            "containers: [{name: \"bu\\u0069ld\", securityContext: {privileged: true}}]",
            "securityContext.privileged",
        ),
        row(
            "",
            plain,
            "containers: [{name: ' build', securityContext: {privileged: true}, image: x}]",
            "securityContext.privileged",
        ),
        // Twice in one list is refused before.
        row(
            "",
            plain,
            "volumes: [{name: a, emptyDir: {}}, {name: a, hostPath: {path: /}}]",
            "volume a stands twice in volumes",
        ),
    ]);
}

#[test]
fn the_ci_systems_containers_volumes_and_secrets() {
    check(&[
        row("", buildkite, "containers: [{name: agent, env: [{name: LD_PRELOAD, value: /workspace/x.so}]}]", AGENT),
        row(
            "",
            buildkite,
            "containers: [{name: checkout, env: [{name: BASH_ENV, value: /x}]}]",
            "checkout is the CI system's",
        ),
        row("", buildkite, "containers: [{name: agent, envFrom: [{configMapRef: {name: mine}}]}]", AGENT),
        row("", buildkite, "containers: [{name: agent, image: evil}]", AGENT),
        row("", buildkite, "containers: [{name: agent, workingDir: /x}]", AGENT),
        row("", buildkite, "containers: [{name: agent, lifecycle: {postStart: {exec: {command: [x]}}}}]", AGENT),
        row("", buildkite, "containers: [{name: agent, readinessProbe: {exec: {command: [x]}}}]", AGENT),
        row(
            "",
            buildkite,
            "containers: [{name: agent, volumeMounts: [{name: workspace, mountPath: /usr/local/bin}]}]",
            AGENT,
        ),
        row("", buildkite, "containers: [{name: agent, volumeMounts: [{mountPath: /hooks, $patch: delete}]}]", AGENT),
        row("", buildkite, "containers: [{name: agent, env: [{name: BUILDKITE_AGENT_TOKEN, $patch: delete}]}]", AGENT),
        row("", buildkite, "initContainers: [{name: copy-agent, image: evil}]", "copy-agent is the CI system's"),
        row(
            "",
            buildkite,
            "initContainers: [{name: own, image: own}]",
            "would run before copy-agent, which is the CI system's",
        ),
        row(
            "",
            buildkite,
            "initContainers: [{name: db, image: db, restartPolicy: Always}]",
            "would run before copy-agent",
        ),
        // Volumes that they mount are code and secrets of theirs.
        row(
            "",
            buildkite,
            "volumes: [{name: hooks, configMap: {name: mine}}]",
            "spec.volumes[name=hooks].configMap.name",
        ),
        row(
            "",
            buildkite,
            "volumes: [{name: workspace, emptyDir: null, configMap: {name: mine}}]",
            "spec.volumes[name=workspace]",
        ),
        row(
            "",
            buildkite,
            "containers: [{name: container-0, volumeMounts: [{name: hooks, mountPath: /h}]}]",
            "mounts volume hooks, which is the CI system's",
        ),
        row(
            "",
            buildkite,
            "containers: [{name: container-0, volumeMounts: [{mountPath: /workspace, $patch: delete}]}]",
            "is the CI system's mount",
        ),
        row(
            "",
            buildkite,
            "containers: [{name: container-0, volumeMounts: [{mountPath: /workspace, subPath: x}]}]",
            "would stand over /workspace",
        ),
        row(
            "",
            buildkite,
            "volumes: [{name: c, emptyDir: {}}]\ncontainers: [{name: container-0, volumeMounts: [{name: c, mountPath: /workspace/}]}]",
            "would stand over /workspace",
        ),
        row(
            "",
            buildkite,
            "volumes: [{name: c, emptyDir: {}}]\ncontainers: [{name: container-0, volumeMounts: [{name: c, mountPath: /}]}]",
            "would stand over /workspace",
        ),
        row(
            "",
            buildkite,
            "volumes: [{name: c, emptyDir: {}}]\ncontainers: [{name: container-0, volumeMounts: [{name: c, mountPath: /a/../workspace}]}]",
            "would stand over /workspace",
        ),
        // Its Secrets, by every way.
        row(
            "",
            buildkite,
            "containers: [{name: container-0, env: [{name: T, valueFrom: {secretKeyRef: {name: agent-token, key: token}}}]}]",
            "reads Secret \"agent-token\" of the CI system",
        ),
        row(
            "",
            buildkite,
            "containers: [{name: container-0, envFrom: [{secretRef: {name: agent-token}}]}]",
            "reads Secret \"agent-token\"",
        ),
        row(
            "",
            buildkite,
            "containers: [{name: db, image: x, envFrom: [{secretRef: {name: agent-token}}]}]",
            "reads Secret \"agent-token\"",
        ),
        row("", buildkite, "volumes: [{name: s, secret: {secretName: agent-token}}]", "reads Secret \"agent-token\""),
        row(
            "",
            buildkite,
            "volumes: [{name: s, projected: {sources: [{secret: {name: agent-token}}]}}]",
            "reads Secret \"agent-token\"",
        ),
        row(
            "",
            buildkite,
            "containers: [{name: container-0, volumeMounts: [{name: agent-config, mountPath: /s}]}]",
            "reads Secret \"agent-token\"",
        ),
        row(
            "secrets: [\"*\"]",
            buildkite,
            "containers: [{name: container-0, envFrom: [{secretRef: {name: agent-token}}]}]",
            "reads Secret \"agent-token\"",
        ),
        // Commands stay as the preset says, a container that is taken away and added again as well.
        row("", buildkite, "containers: [{name: container-0, command: [sh]}]", "can't be changed by a layer"),
        row(
            "",
            buildkite,
            "containers: [{$patch: replace}, {name: container-0, image: x}, {name: agent, image: evil}]",
            "can't be changed by a layer",
        ),
        // Another injector's containers.
        row(
            "",
            plain,
            "containers: [{name: istio-proxy, image: evil}]",
            "istio-proxy is the CI system's or another injector's",
        ),
    ]);
}

#[test]
fn containers_that_the_step_adds() {
    let mut rows = Vec::new();
    for (fields, path) in [
        ("securityContext: {privileged: true}", "securityContext.privileged gives privileges"),
        ("securityContext: {runAsUser: 0}", "securityContext.runAsUser gives privileges"),
        ("securityContext: {runAsNonRoot: false}", "securityContext.runAsNonRoot gives privileges"),
        (
            "securityContext: {allowPrivilegeEscalation: true}",
            "securityContext.allowPrivilegeEscalation gives privileges",
        ),
        ("securityContext: {capabilities: {add: [NET_ADMIN]}}", "securityContext.capabilities.add may not"),
        ("securityContext: {procMount: Unmasked}", "securityContext.procMount"),
        (
            "securityContext: {seccompProfile: {type: Unconfined}}",
            "securityContext.seccompProfile.type gives privileges",
        ),
        ("securityContext: {seLinuxOptions: {type: spc_t}}", "securityContext.seLinuxOptions.type"),
        ("securityContext: {appArmorProfile: {type: Unconfined}}", "securityContext.appArmorProfile.type"),
        ("securityContext: {windowsOptions: {hostProcess: true}}", "securityContext.windowsOptions.hostProcess"),
        ("ports: [{containerPort: 80, hostPort: 80}]", "ports[containerPort=80].hostPort gives privileges"),
        ("livenessProbe: {httpGet: {host: 169.254.169.254, port: 80}}", "livenessProbe.httpGet.host gives privileges"),
        ("lifecycle: {postStart: {tcpSocket: {host: 10.0.0.1, port: 80}}}", "lifecycle.postStart.tcpSocket.host gives"),
        ("volumeDevices: [{name: own, devicePath: /dev/x}]", "volumeDevices[devicePath=/dev/x].name"),
        ("resources: {claims: [{name: gpu}]}", "resources.claims gives privileges"),
        ("volumeMounts: [{name: node, mountPath: /n}]", "mounts volume node"),
    ] {
        let step: &'static str = format!("containers: [{{name: db, image: db, {fields}}}]").leak();
        rows.push(row("", plain, step, path));
    }
    rows.push(row(
        "containers: No",
        plain,
        "containers: [{name: db, image: db}]",
        "may not be added: the rules say containers: No",
    ));
    rows.push(row("containers: No", plain, "initContainers: [{name: db, image: db}]", "may not be added"));
    rows.push(row(
        "allow: [\"containers[*].env\"]",
        plain,
        "containers: [{name: db, image: db}]",
        "spec.containers[name=db].image",
    ));
    check(&rows);
}
