//! Layers reach pods.

use std::{collections::BTreeMap, time::Duration};

use serde_json::{Value, json};

use crate::{
    controlplane::{ControlPlane, wait_for, wait_until},
    podlayer::Webhook,
};

const STEP: &str = "containers:\n- name: container-0\n  resources:\n    requests: {cpu: 2, memory: 4Gi}\n    limits: {cpu: 2, memory: 4Gi}\n";

/// A Job whose template is opted in, with annotations on the template.
pub(crate) fn job(namespace: &str, name: &str, annotations: &Value, spec: &Value) -> Value {
    json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name, "namespace": namespace, "labels": {"own": "label"}},
           "spec": {"backoffLimit": 0, "template": {
               "metadata": {"labels": {"podlayer.dev/enabled": "true"}, "annotations": annotations}, "spec": spec}}})
}

/// The pod that the Job controller makes.
pub(crate) fn pod_of(plane: &ControlPlane, namespace: &str, job: &str) -> Value {
    wait_for(Duration::from_secs(60), &format!("the pod of Job {job}"), || {
        let pods = plane.get_json(&["pods", "-n", namespace, "-l", &format!("batch.kubernetes.io/job-name={job}")]);
        pods["items"].as_array()?.first().cloned()
    })
}

pub(crate) fn annotation(pod: &Value, key: &str) -> Value {
    serde_json::from_str(pod["metadata"]["annotations"][key].as_str().unwrap_or("null")).unwrap()
}

/// A pod's spec as the API server makes it with no webhook in the way.
fn without_podlayer(plane: &ControlPlane, namespace: &str, pod: &Value) -> Value {
    let mut plain = pod.clone();
    plain["metadata"] = json!({"name": "plain", "namespace": namespace});
    let made = plane.kubectl_in(&["create", "--dry-run=server", "-o", "json", "-f", "-"], &plain.to_string());
    assert!(made.ok, "{}", made.stderr);
    serde_json::from_str::<Value>(&made.stdout).unwrap()["spec"].clone()
}

/// The token volume's name is random: the same in every pod for comparison.
fn without_token_name(spec: &Value) -> Value {
    let text = spec.to_string();
    match text.find("kube-api-access-") {
        Some(at) => serde_json::from_str(&text.replace(&text[at..at + "kube-api-access-".len() + 5], "token")).unwrap(),
        None => spec.clone(),
    }
}

#[test]
fn a_jobs_pod_gets_default_class_and_step_and_says_so() {
    let plane = ControlPlane::shared();
    let webhook = Webhook::start(plane, &[]);
    let namespace = plane.namespace("ci");
    webhook.register(plane, &namespace, "Fail");
    for account in ["ci", "buildkite"] {
        plane.apply(&json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": account, "namespace": namespace}}).to_string());
    }
    let default = json!({"podlayer.dev/layer": "default", "podlayer.dev/order": "10"});
    let patch = "serviceAccountName: ci\ncontainers:\n- name: container-0\n  env:\n  - {name: TOKEN, value: abc}\n- name: dind\n  resources: {limits: {cpu: 1}}\n";
    webhook.layer(plane, "base", &default, &BTreeMap::from([("podSpecPatch", patch)]));
    let class = json!({"podlayer.dev/layer": "class"});
    let gpu = BTreeMap::from([
        ("match", "{}"),
        ("podSpecPatch", "nodeSelector: {pool: gpu}\ncontainers:\n- name: dind\n  image: docker:27\n"),
        ("podMetadata", "labels: {team: render}\n"),
    ]);
    webhook.layer(plane, "gpu", &class, &gpu);
    webhook.wait_for("base", "good");
    webhook.wait_for("gpu", "good");

    let before = webhook.metric("podlayer_decisions_total{outcome=\"patched\"}");
    let annotations =
        json!({"podlayer.dev/classes": "gpu", "podlayer.dev/pod-spec-patch": STEP, "podlayer.dev/applied": "forged"});
    let spec = json!({"restartPolicy": "Never", "containers": [
        {"name": "container-0", "image": "busybox:1", "env": [{"name": "CI", "value": "true"}]}, {"name": "agent", "image": "agent:1"}]});
    plane.apply(&job(&namespace, "whole", &annotations, &spec).to_string());
    let pod = pod_of(plane, &namespace, "whole");

    let containers = pod["spec"]["containers"].as_array().unwrap();
    let names: Vec<&str> = containers.iter().map(|c| c["name"].as_str().unwrap()).collect();
    // The class's dind came first, as new items do with kubectl; the default names it behind container-0, and that holds.
    assert_eq!(names, ["container-0", "dind", "agent"]);
    assert_eq!(
        containers[1]["resources"],
        json!({"limits": {"cpu": "1"}, "requests": {"cpu": "1"}}),
        "the default met the class's dind"
    );
    assert_eq!(containers[0]["env"], json!([{"name": "TOKEN", "value": "abc"}, {"name": "CI", "value": "true"}]));
    let power = json!({"cpu": "2", "memory": "4Gi"});
    assert_eq!(containers[0]["resources"], json!({"limits": power, "requests": power}));
    assert_eq!(pod["spec"]["serviceAccountName"], "ci");
    assert_eq!(pod["spec"]["nodeSelector"], json!({"pool": "gpu"}));
    assert_eq!(pod["metadata"]["labels"]["team"], "render");
    assert_eq!(pod["metadata"]["ownerReferences"][0]["kind"], "Job");
    assert_eq!(pod["metadata"]["finalizers"], json!(["batch.kubernetes.io/job-tracking"]));

    let stamp = annotation(&pod, "podlayer.dev/applied");
    assert_eq!(stamp["v"], 1);
    assert_eq!(stamp["layers"], json!(["default/base", "class/gpu", "step"]));
    assert_eq!(stamp["skipped"], json!([]));
    assert_eq!(stamp["stack"].as_str().unwrap().len(), 12);
    let provenance = annotation(&pod, "podlayer.dev/provenance");
    let dind = "spec.containers[name=dind]";
    let container = "spec.containers[name=container-0]";
    let fields = ["limits.cpu", "limits.memory", "requests.cpu", "requests.memory"];
    let fields = fields.map(|field| format!("{container}.resources.{field}"));
    assert_eq!(
        provenance,
        json!({"v": 1, "more": 0, "removed": {}, "set": {
            "class/gpu": ["metadata.labels.team", format!("{dind}.image"), "spec.nodeSelector.pool"],
            "default/base": [format!("{container}.env[name=TOKEN].value"), format!("{dind}.resources.limits.cpu"), "spec.serviceAccountName"],
            "step": fields,
        }})
    );
    // One call for the pod; the Job's own checks are counted apart.
    let after = webhook.metric("podlayer_decisions_total{outcome=\"patched\"}");
    assert!((after - before - 1.0).abs() < 0.5, "called {} times", after - before);

    // Made again from what `get` prints, it ends the same.
    let mut again = pod.clone();
    let metadata = &pod["metadata"];
    again["metadata"] = json!({"name": "again", "namespace": namespace, "labels": metadata["labels"], "annotations": metadata["annotations"]});
    again["status"] = Value::Null;
    let made = plane.kubectl_in(&["create", "-o", "json", "-f", "-"], &again.to_string());
    assert!(made.ok, "{}", made.stderr);
    let made: Value = serde_json::from_str(&made.stdout).unwrap();
    assert_eq!(made["spec"], pod["spec"]);
    assert_eq!(made["metadata"]["annotations"], pod["metadata"]["annotations"]);
    Webhook::unregister(plane, &namespace);
}

#[test]
fn a_pod_that_is_not_opted_in_is_untouched_and_one_without_layers_keeps_its_spec() {
    let plane = ControlPlane::shared();
    let webhook = Webhook::start(plane, &[]);
    let namespace = plane.namespace("ci");
    webhook.register(plane, &namespace, "Fail");
    let base = json!({"podlayer.dev/layer": "default"});
    webhook.layer(
        plane,
        "base",
        &base,
        &BTreeMap::from([("podSpecPatch", "hostNetwork: true"), ("match", "matchLabels: {a: b}")]),
    );
    webhook.wait_for("base", "good");
    let pod = |name: &str, labels: Value| {
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": namespace, "labels": labels},
               "spec": {"containers": [{"name": "a", "image": "b:1"}]}})
    };
    let plain = without_podlayer(plane, &namespace, &pod("x", json!({})));
    for (name, labels, stamped) in [
        ("out", json!({"a": "b"}), false),
        ("no", json!({"podlayer.dev/enabled": "yes"}), false),
        ("in", json!({"podlayer.dev/enabled": "true"}), true),
    ] {
        plane.apply(&pod(name, labels).to_string());
        let made = plane.get_json(&["pod", name, "-n", &namespace]);
        let annotations = made["metadata"]["annotations"].as_object().unwrap();
        assert_eq!(annotations.contains_key("podlayer.dev/applied"), stamped, "{name}");
        assert_eq!(without_token_name(&made["spec"]), without_token_name(&plain), "{name}");
        if stamped {
            assert_eq!(annotation(&made, "podlayer.dev/applied")["layers"], json!([]));
        }
    }
    Webhook::unregister(plane, &namespace);
}

#[test]
fn a_changed_layer_is_in_force_for_the_next_pod_and_a_bad_one_leaves_the_last_good() {
    let plane = ControlPlane::shared();
    let webhook = Webhook::start(plane, &[]);
    let namespace = plane.namespace("ci");
    webhook.register(plane, &namespace, "Fail");
    let labels = json!({"podlayer.dev/layer": "default"});
    let env = |value: &str| format!("containers:\n- name: a\n  env:\n  - {{name: A, value: {value}}}\n");
    let made = || {
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": namespace,
            "labels": {"podlayer.dev/enabled": "true"}}, "spec": {"containers": [{"name": "a", "image": "b:1"}]}});
        let made = plane.kubectl_in(&["create", "--dry-run=server", "-o", "json", "-f", "-"], &pod.to_string());
        assert!(made.ok, "{}", made.stderr);
        serde_json::from_str::<Value>(&made.stdout).unwrap()["spec"]["containers"][0]["env"][0]["value"].clone()
    };
    webhook.layer(plane, "base", &labels, &BTreeMap::from([("podSpecPatch", env("one").as_str())]));
    wait_until(Duration::from_secs(20), "the first version", || made() == "one");
    for value in ["two", "three"] {
        webhook.layer(plane, "base", &labels, &BTreeMap::from([("podSpecPatch", env(value).as_str())]));
        // The promise is one second; making a pod through kubectl takes longer than that here, so the next is the test.
        std::thread::sleep(Duration::from_secs(1));
        assert_eq!(made(), value);
    }
    // Refused where it is written…
    let bad = webhook.config_map("base", &labels, &BTreeMap::from([("podSpecPatch", "llamas: true")]));
    let refused = plane.kubectl_in(&["apply", "-f", "-"], &bad.to_string());
    let text = format!(
        "unknown field \"llamas\" in the pod spec, ConfigMap {}/base podSpecPatch, line 1 column 1",
        webhook.own
    );
    assert!(!refused.ok && refused.stderr.contains(&text), "{}", refused.stderr);
    // …and if it gets past that, the last good version stays.
    Webhook::unregister(plane, &namespace);
    plane.apply(&bad.to_string());
    webhook.wait_for("base", "stale");
    webhook.register(plane, &namespace, "Fail");
    assert_eq!(made(), "three");
    let told = webhook.get("/layers");
    assert!(told.contains(&text.replace('"', "\\\"")), "{told}");
    // Deleted, it ends.
    plane.kubectl(&["delete", "configmap", "base", "-n", &webhook.own]);
    wait_until(Duration::from_secs(20), "the layer to end", || made() == Value::Null);
    Webhook::unregister(plane, &namespace);
}

#[test]
fn with_ignore_a_stopped_webhook_costs_the_stamp_and_nothing_else() {
    let plane = ControlPlane::shared();
    let mut webhook = Webhook::start(plane, &[]);
    let namespace = plane.namespace("ci");
    webhook.register(plane, &namespace, "Ignore");
    assert!(webhook.stop(), "podlayer ends well on SIGTERM");
    plane.apply(
        &job(
            &namespace,
            "down",
            &json!({}),
            &json!({"restartPolicy": "Never", "containers": [{"name": "a", "image": "b:1"}]}),
        )
        .to_string(),
    );
    let pod = pod_of(plane, &namespace, "down");
    assert_eq!(pod["metadata"]["annotations"]["podlayer.dev/applied"], Value::Null);
    Webhook::unregister(plane, &namespace);
}
