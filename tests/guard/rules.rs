//! What rule sets of an admin allow and forbid; rows as in `bypasses`.

use podlayer::admission::Policy;

use crate::{
    bypasses::{check, row},
    support::{buildkite, made, plain, rules, with_step},
};

#[test]
fn rules_of_an_admin() {
    check(&[
        row("allow: [\"containers[*].env\"]", plain, "containers: [{name: build, env: [{name: A, value: b}]}]", ""),
        row(
            "allow: [\"spec.containers[name=build].env\"]",
            plain,
            "containers: [{name: build, env: [{name: A, value: b}]}]",
            "",
        ),
        row(
            "allow: [\"containers[*].env\"]",
            plain,
            "containers: [{name: build, image: x}]",
            "spec.containers[name=build].image may not be changed by a step, allowed: env, step-rules/ci, annotation podlayer.dev/pod-spec-patch, line 1 column 28",
        ),
        row(
            "allow: [\"containers[*].env[CI_*]\"]",
            plain,
            "containers: [{name: build, env: [{name: CI_A, value: b}]}]",
            "",
        ),
        row(
            "allow: [\"containers[*].env[CI_*]\"]",
            plain,
            "containers: [{name: build, env: [{name: A, value: b}]}]",
            "spec.containers[name=build].env[name=A].value",
        ),
        row(
            "allow: [\"@builtin\", tolerations]",
            plain,
            "tolerations: [{key: a}]\ncontainers: [{name: build, image: x}]",
            "",
        ),
        row(
            "allow: [tolerations]",
            plain,
            "tolerations: [{key: a}]\ncontainers: [{name: build, image: x}]",
            "spec.containers[name=build].image",
        ),
        row("allow: []", plain, "containers: [{name: build, image: x}]", "allowed: nothing"),
        row("allow: [\"nodeSelector[pool]\"]", plain, "nodeSelector: {pool: a}", ""),
        row("allow: [\"nodeSelector[pool]\"]", plain, "nodeSelector: {pool: a, zone: b}", "spec.nodeSelector.zone"),
        // A star is never the CI system's; a name or role is.
        row(
            "allow: [\"containers[*].env\"]",
            buildkite,
            "containers: [{name: agent, env: [{name: A, value: b}]}]",
            "spec.containers[name=agent].env[name=A].value",
        ),
        row(
            "allow: [\"containers[agent].env\"]",
            buildkite,
            "containers: [{name: agent, env: [{name: A, value: b}]}]",
            "",
        ),
        row(
            "allow: [\"containers[@agent].env\"]",
            buildkite,
            "containers: [{name: agent, env: [{name: A, value: b}]}]",
            "",
        ),
        row(
            "allow: [\"containers[@command].env\"]",
            buildkite,
            "containers: [{name: container-0, env: [{name: A, value: b}]}]",
            "",
        ),
        row(
            "allow: [\"containers[@sidecar].env\"]",
            buildkite,
            "containers: [{name: container-0, env: [{name: A, value: b}]}]",
            "env[name=A].value",
        ),
        row(
            "{privileged: true, allow: [\"containers[*].securityContext\"]}",
            plain,
            "containers: [{name: build, securityContext: {privileged: true}}]",
            "",
        ),
        row(
            "{privileged: true, allow: [\"@builtin\"]}",
            plain,
            "containers: [{name: db, image: x, securityContext: {privileged: true}}]",
            "securityContext.privileged",
        ),
        row("images: [\"registry/*\"]", plain, "containers: [{name: build, image: registry/a}]", ""),
        row(
            "images: [\"registry/*\"]",
            plain,
            "containers: [{name: build, image: evil/registry/a}]",
            "image is an image that a step may not use, allowed: registry/*",
        ),
        row(
            "images: [\"registry/*\"]",
            plain,
            "containers: [{name: db, image: evil}]",
            "spec.containers[name=db].image is an image",
        ),
        row(
            "images: [\"registry/*\"]",
            plain,
            "initContainers: [{name: db, image: evil}]",
            "spec.initContainers[name=db].image",
        ),
        row(
            "{images: [\"registry/*\"], allow: [\"@builtin\", \"volumes[*].image\"]}",
            plain,
            "volumes: [{name: i, image: {reference: evil}}]",
            "spec.volumes[name=i].image is an image",
        ),
        row(
            "secrets: [\"team-*\"]",
            plain,
            "containers: [{name: build, env: [{name: A, valueFrom: {secretKeyRef: {name: team-a, key: k}}}]}]",
            "",
        ),
        row(
            "secrets: [\"team-*\"]",
            plain,
            "containers: [{name: build, env: [{name: A, valueFrom: {secretKeyRef: {name: other, key: k}}}]}]",
            "reads Secret \"other\", which a step may not, allowed: team-*",
        ),
        row(
            "secrets: [\"team-*\"]",
            plain,
            "containers: [{name: build, envFrom: [{secretRef: {name: other}}]}]",
            "reads Secret \"other\"",
        ),
        row(
            "secrets: [\"team-*\"]",
            plain,
            "volumes: [{name: v, secret: {secretName: other}}]",
            "reads Secret \"other\"",
        ),
        row(
            "secrets: []",
            plain,
            "volumes: [{name: v, projected: {sources: [{secret: {name: other}}]}}]",
            "allowed: none",
        ),
    ]);
}

#[test]
fn a_mount_that_a_layer_gives_another_container_is_not_the_steps() {
    let layer =
        crate::support::default("containers: [{name: cacher, image: c, volumeMounts: [{name: node, mountPath: /n}]}]");
    let step = with_step(plain(), "containers: [{name: build, volumeMounts: [{name: node, mountPath: /n}]}]");
    for text in ["{}", "onViolation: Deny"] {
        let found = made(&step, &[layer.clone(), rules(text)], &Policy::default()).unwrap_err();
        assert!(found.contains("mounts volume node, whose hostPath a step may not use"), "{found}");
    }
    // The pod's own mount is no secret of anybody's.
    let mut own = step;
    own["spec"]["containers"][0]["volumeMounts"] =
        serde_json::json!([{"name": "node", "mountPath": "/m", "readOnly": true}]);
    let read_only =
        "containers: [{name: build, volumeMounts: [{name: node, mountPath: /n, readOnly: true, subPath: x}]}]";
    made(&with_step(own.clone(), read_only), &[], &Policy::default()).unwrap();
    let found = made(&own, &[], &Policy::default()).unwrap_err();
    assert!(found.contains("mounts volume node"), "{found}");
}

#[test]
fn limits() {
    const RULES: &str = "limits: {\"containers[*].resources.limits.memory\": 2Gi, \"containers[*].resources.requests.cpu\": 1, \
                         activeDeadlineSeconds: 3600}";
    check(&[
        row(RULES, plain, "containers: [{name: build, resources: {limits: {memory: 2048Mi}}}]", ""),
        row(
            RULES,
            plain,
            "containers: [{name: build, resources: {limits: {memory: 2049Mi}}}]",
            "spec.containers[name=build].resources.limits.memory is above 2Gi, the most that a step may set",
        ),
        row(
            RULES,
            plain,
            "containers: [{name: build, resources: {requests: {cpu: 1001m}}}]",
            "resources.requests.cpu is above 1",
        ),
        // Without a limit there is no maximum.
        row(
            RULES,
            plain,
            "containers: [{name: build, resources: {limits: {memory: null}}}]",
            "limits.memory was taken away",
        ),
        row(RULES, plain, "containers: [{name: build, resources: null}]", "limits.memory was taken away"),
        row(
            RULES,
            plain,
            "containers: [{name: build, resources: {$patch: replace, requests: {cpu: 1}}}]",
            "limits.memory was taken away",
        ),
        row(
            RULES,
            plain,
            "containers: [{name: db, image: db}]",
            "spec.containers[name=db].resources.limits.memory is missing",
        ),
        row(RULES, plain, "containers: [{name: db, image: db, resources: {limits: {memory: 1Gi}}}]", ""),
        row(RULES, plain, "activeDeadlineSeconds: 3601", "spec.activeDeadlineSeconds is above 3600"),
        row(RULES, plain, "initContainers: [{name: i, image: i, resources: {limits: {memory: 9Gi}}}]", ""),
    ]);
}
