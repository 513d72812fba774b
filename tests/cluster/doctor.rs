//! `podlayer doctor` against an installation that is broken in one way after another. On a control plane of its own, since
//! it looks at all namespaces.

use std::{collections::BTreeMap, process::Command, time::Duration};

use serde_json::{Value, json};

use crate::{
    controlplane::{ControlPlane, free_port, wait_until},
    layers::job,
    podlayer::{Webhook, base64, binary},
};

struct Run {
    code: i32,
    findings: Vec<Value>,
    text: String,
}

impl Run {
    fn codes(&self) -> Vec<&str> {
        self.findings.iter().map(|finding| finding["code"].as_str().unwrap()).collect()
    }

    fn text_of(&self, code: &str) -> &str {
        let found = self.findings.iter().find(|finding| finding["code"] == code);
        found.unwrap_or_else(|| panic!("{code} is not among {}", self.text))["text"].as_str().unwrap()
    }
}

fn doctor(kubeconfig: &str, args: &[&str]) -> Run {
    let run =
        Command::new(binary()).args(["doctor", "-o", "json", "--kubeconfig", kubeconfig]).args(args).output().unwrap();
    let text = format!("{}{}", String::from_utf8_lossy(&run.stdout), String::from_utf8_lossy(&run.stderr));
    let findings = serde_json::from_slice(&run.stdout).unwrap_or_default();
    Run { code: run.status.code().unwrap(), findings, text }
}

fn pod(namespace: &str, name: &str) -> String {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": namespace,
        "labels": {"podlayer.dev/enabled": "true"}}, "spec": {"containers": [{"name": "a", "image": "b"}]}})
    .to_string()
}

#[test]
fn the_doctor_finds_what_is_wrong_and_says_how_to_mend_it() {
    let plane = &ControlPlane::start();
    let webhook = Webhook::start(plane, &[]);
    let own = webhook.own.clone();
    let namespace = plane.namespace("ci");
    webhook.register(plane, &namespace, "Ignore");
    let name = format!("zz-podlayer-{namespace}");
    let args = ["-n", &own, "--webhook-configuration", &name, "--probe-namespace", &namespace];
    let look = || doctor(plane.kubeconfig(), &args);

    let healthy = look();
    assert_eq!((healthy.code, healthy.codes()), (0, Vec::new()), "{}", healthy.text);
    let text = Command::new(binary()).args(["doctor", "--kubeconfig", plane.kubeconfig()]).args(args).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&text.stdout), "nothing to mend\n");
    assert_eq!(plane.get_json(&["pods", "-n", &namespace])["items"], json!([]), "it changes nothing");

    // Somebody who may read nothing learns that nothing is known.
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("kubeconfig");
    let kubeconfig = std::fs::read_to_string(plane.kubeconfig()).unwrap();
    std::fs::write(&path, kubeconfig.replace(plane.token(), plane.jane_token())).unwrap();
    let jane = doctor(path.to_str().unwrap(), &args);
    assert_eq!(jane.code, 1);
    assert!(jane.codes().iter().all(|code| ["not-allowed", "not-checked"].contains(code)), "{}", jane.text);
    let nowhere = format!("https://127.0.0.1:{}", free_port());
    std::fs::write(&path, kubeconfig.replace(plane.server(), &nowhere)).unwrap();
    let away = doctor(path.to_str().unwrap(), &args);
    assert_eq!(away.code, 2);
    assert!(away.text.contains("failed to reach the API server"), "{}", away.text);

    let missing = doctor(plane.kubeconfig(), &["-n", &own, "--webhook-configuration", "none"]);
    assert_eq!(
        (missing.code, missing.codes()),
        (1, vec!["configuration-missing", "validation-missing"]),
        "{}",
        missing.text
    );

    // A pod that came by another way, and one in podlayer's own namespace.
    let elsewhere = plane.namespace("elsewhere");
    plane.apply(&pod(&elsewhere, "unstamped"));
    plane.apply(&pod(&own, "own"));
    let found = look();
    assert_eq!(found.codes(), ["namespace-shared", "pod-unstamped"], "{}", found.text);
    assert!(
        found.text_of("pod-unstamped").contains(&format!("1 opted-in pods in {elsewhere} were made without podlayer"))
    );
    plane.kubectl(&["delete", "pod", "own", "-n", &own, "--force"]);
    plane.kubectl(&["delete", "pod", "unstamped", "-n", &elsewhere, "--force"]);

    // The Event of a kubelet that doesn't find a pull secret; there are no kubelets here. Of two pods only one is ours.
    plane.apply(&pod(&namespace, "ours"));
    plane.apply(&pod(&namespace, "theirs").replace("podlayer.dev/enabled", "other"));
    for (name, secrets) in [("ours", "regcred, other"), ("theirs", "foreign"), ("gone", "long-gone")] {
        let event = json!({"apiVersion": "v1", "kind": "Event", "metadata": {"name": format!("{name}.1"), "namespace": namespace},
            "involvedObject": {"apiVersion": "v1", "kind": "Pod", "namespace": namespace, "name": name},
            "type": "Warning", "reason": "FailedToRetrieveImagePullSecret", "message": format!(
                "Unable to retrieve some image pull secrets ({secrets}); attempting to pull the image may not succeed.")});
        plane.apply(&event.to_string());
    }
    let found = look();
    assert_eq!(found.codes(), ["pull-secret-missing"], "{}", found.text);
    let text = found.text_of("pull-secret-missing");
    assert!(text.contains(&format!("pod {namespace}/ours ")) && text.contains("regcred, other"), "{text}");
    plane.kubectl(&["delete", "pod", "ours", "theirs", "-n", &namespace, "--force"]);

    // A bad layer and a bad Job, which get in where nothing validates.
    plane.kubectl(&["delete", "validatingwebhookconfiguration", &name]);
    webhook.layer(
        plane,
        "base",
        &json!({"podlayer.dev/layer": "default"}),
        &BTreeMap::from([("podSpecPatch", "llamas: true")]),
    );
    let spec = json!({"restartPolicy": "Never", "containers": [{"name": "a", "image": "b"}]});
    let annotations = json!({"podlayer.dev/pod-spec-patch": "alpacas: true"});
    plane.apply(&job(&namespace, "refused", &annotations, &spec).to_string());
    wait_until(Duration::from_secs(60), "the Job to be found", || look().codes().contains(&"job-refused"));
    let found = look();
    assert_eq!(found.codes(), ["layer-bad", "job-refused", "validation-missing"], "{}", found.text);
    assert!(found.text_of("job-refused").contains("unknown field \"alpacas\" in the pod spec"), "{}", found.text);
    assert!(found.text_of("layer-bad").contains("unknown field \"llamas\""), "{}", found.text);
    plane.kubectl(&["delete", "job", "refused", "-n", &namespace]);
    plane.kubectl(&["delete", "configmap", "base", "-n", &own]);

    // The API server doesn't trust podlayer.
    let bundle = |pem: &str, policy: &str| {
        let patch: Vec<Value> = [0, 1]
            .iter()
            .flat_map(|at| {
                [
                    json!({"op": "add", "path": format!("/webhooks/{at}/clientConfig/caBundle"), "value": base64(pem.as_bytes())}),
                    json!({"op": "replace", "path": format!("/webhooks/{at}/failurePolicy"), "value": policy}),
                ]
            })
            .collect();
        let patch = json!(patch).to_string();
        let patched = plane.kubectl(&["patch", "mutatingwebhookconfiguration", &name, "--type=json", "-p", &patch]);
        assert!(patched.ok, "{}", patched.stderr);
    };
    let ca = |days: i64| {
        let mut params = rcgen::CertificateParams::new(vec!["other.example".to_owned()]).unwrap();
        params.not_after = time::OffsetDateTime::now_utc() + time::Duration::days(days);
        params.self_signed(&rcgen::KeyPair::generate().unwrap()).unwrap().pem()
    };
    bundle(&ca(300), "Ignore");
    wait_until(Duration::from_secs(30), "the other CA to count", || look().codes().contains(&"probe-unstamped"));
    let found = look();
    assert_eq!(found.codes(), ["probe-unstamped", "validation-missing"], "{}", found.text);
    assert!(found.text_of("probe-unstamped").contains("failurePolicy Ignore"), "{}", found.text);
    bundle(&ca(300), "Fail");
    wait_until(Duration::from_secs(30), "Fail to count", || look().codes().contains(&"probe-refused"));
    assert!(look().text_of("probe-refused").contains("does not hold the CA"), "{}", look().text);
    bundle(&ca(-2), "Ignore");
    wait_until(Duration::from_secs(30), "the expired CA to be found", || look().codes().contains(&"ca-expired"));

    // A configuration that names a Service: one that isn't there, then one whose pod isn't ready.
    let selected = plane.namespace("selected");
    let hook = json!({"name": "pods.podlayer.dev", "sideEffects": "None", "admissionReviewVersions": ["v1"], "failurePolicy": "Ignore",
        "timeoutSeconds": 1, "clientConfig": {"service": {"namespace": own, "name": "podlayer", "path": "/mutate"}},
        "namespaceSelector": {"matchExpressions": [{"key": "kubernetes.io/metadata.name", "operator": "In", "values": [selected, own]}]},
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}]});
    let configuration = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": "zz-selected"}, "webhooks": [hook]});
    plane.apply(&configuration.to_string());
    let args = ["-n", &own, "--webhook-configuration", "zz-selected", "--probe-namespace", &selected];
    let found = doctor(plane.kubeconfig(), &args);
    for code in
        ["ca-missing", "service-missing", "selector-wide", "not-opted-in", "validation-missing", "probe-unstamped"]
    {
        assert!(found.codes().contains(&code), "{code}: {}", found.text);
    }
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "podlayer", "namespace": own},
        "spec": {"selector": {"app": "podlayer"}, "ports": [{"port": 443}]}});
    let replica = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "replica", "namespace": own,
        "labels": {"app": "podlayer"}}, "spec": {"containers": [{"name": "a", "image": "b"}]}});
    plane.apply(&service.to_string());
    plane.apply(&replica.to_string());
    let found = doctor(plane.kubeconfig(), &args);
    assert!(found.text_of("replicas-missing").contains("none of 1 replicas"), "{}", found.text);
    assert!(found.text_of("not-checked").contains("what replica replica has in force"), "{}", found.text);
}
