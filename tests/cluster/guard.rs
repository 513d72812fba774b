//! Guard rails on a real API server: rule sets are checked where they are written, steps where the Job is made.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::{
    controlplane::ControlPlane,
    layers::{annotation, job, pod_of},
    podlayer::Webhook,
};

#[test]
fn a_step_is_held_by_the_rules_for_its_pod() {
    let plane = ControlPlane::shared();
    let webhook = Webhook::start(plane, &[]);
    let namespace = plane.namespace("ci");
    webhook.register(plane, &namespace, "Fail");
    let spec = json!({"restartPolicy": "Never", "containers": [
        {"name": "container-0", "image": "own:1", "resources": {"limits": {"memory": "1Gi"}}}]});
    let create = |name: &str, step: &str| {
        let annotations = json!({"podlayer.dev/pod-spec-patch": step});
        plane.kubectl_in(&["create", "-f", "-"], &job(&namespace, name, &annotations, &spec).to_string())
    };

    // Without a rule set what is built in holds.
    let refused = create("host", "hostNetwork: true\n");
    let wanted = "spec.hostNetwork may not be changed by a step, allowed: the built-in list, built-in rules, annotation \
                  podlayer.dev/pod-spec-patch, line 1 column 1";
    assert!(!refused.ok && refused.stderr.contains(wanted), "{}", refused.stderr);
    assert!(refused.stderr.contains("is invalid") || refused.stderr.contains("Invalid"), "{}", refused.stderr);

    let labels = json!({"podlayer.dev/layer": "step-rules"});
    let rules = |name: &str, text: &str| {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": webhook.own, "labels": labels},
               "data": {"match": format!("namespaces: [\"{namespace}\"]"), "rules": text}})
    };
    for (text, wanted) in [
        ("allow: [\"containers[*].imagee\"]", "unknown field \"imagee\" in containers[*], did you mean \"image\"?"),
        ("allow: [hostNetwork]", "write privileged: true beside it if that is meant"),
    ] {
        let refused = plane.kubectl_in(&["create", "-f", "-"], &rules("bad", text).to_string());
        assert!(!refused.ok && refused.stderr.contains(wanted), "{}", refused.stderr);
    }
    let mut forgeable = rules("bad", "{}");
    forgeable["data"]["match"] = json!("matchLabels: {team: a}");
    let refused = plane.kubectl_in(&["create", "-f", "-"], &forgeable.to_string());
    assert!(refused.stderr.contains("label \"team\" is set by whoever makes the pod"), "{}", refused.stderr);

    let text = "allow: [\"@builtin\", tolerations]\nimages: [\"own:*\"]\nlimits: {\"containers[*].resources.limits.memory\": 2Gi}\n";
    let matching = format!("namespaces: [\"{namespace}\"]");
    webhook.layer(plane, "steps", &labels, &BTreeMap::from([("match", matching.as_str()), ("rules", text)]));
    webhook.wait_for("steps", "good");
    for (name, step, wanted) in [
        (
            "image",
            "containers: [{name: container-0, image: evil:1}]",
            "spec.containers[name=container-0].image is an image",
        ),
        ("memory", "containers: [{name: container-0, resources: {limits: {memory: 4Gi}}}]", "is above 2Gi"),
        ("removed", "containers: [{name: container-0, resources: {limits: {memory: null}}}]", "was taken away"),
        (
            "request",
            "containers: [{name: container-0, resources: {requests: {memory: 1.5Gi}}}]",
            "above limits.memory of 1Gi",
        ),
    ] {
        let refused = create(name, step);
        assert!(!refused.ok && refused.stderr.contains(wanted), "{step}: {}", refused.stderr);
        assert!(refused.stderr.contains("annotation podlayer.dev/pod-spec-patch, line 1"), "{}", refused.stderr);
    }
    let made = create(
        "allowed",
        "tolerations: [{key: spot, operator: Exists}]\ncontainers: [{name: container-0, image: own:2}]",
    );
    assert!(made.ok, "{}", made.stderr);
    let pod = pod_of(plane, &namespace, "allowed");
    assert_eq!(pod["spec"]["containers"][0]["image"], "own:2");
    let keys: Vec<&Value> = pod["spec"]["tolerations"].as_array().unwrap().iter().map(|t| &t["key"]).collect();
    assert!(keys.contains(&&json!("spot")), "{keys:?}");
    assert_eq!(annotation(&pod, "podlayer.dev/applied")["layers"], json!(["step"]));
    Webhook::unregister(plane, &namespace);
}

#[test]
fn with_layers_only_a_pod_has_no_privilege_of_its_own() {
    let plane = ControlPlane::shared();
    let webhook = Webhook::start(plane, &["--privileged", "LayersOnly"]);
    let namespace = plane.namespace("ci");
    webhook.register(plane, &namespace, "Fail");
    let spec = |more: Value| {
        let mut spec = json!({"restartPolicy": "Never", "containers": [{"name": "a", "image": "b:1"}]});
        spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        spec
    };
    let create = |name: &str, spec: &Value| {
        let job = job(&namespace, name, &json!({}), spec).to_string();
        plane.kubectl_in(&["create", "-f", "-"], &job)
    };
    let refused = create("forged", &spec(json!({"hostPID": true})));
    assert!(
        !refused.ok && refused.stderr.contains("spec.hostPID gives privileges (the node's processes)"),
        "{}",
        refused.stderr
    );
    let made = create("plain", &spec(json!({})));
    assert!(made.ok, "{}", made.stderr);
    pod_of(plane, &namespace, "plain");
    webhook.layer(
        plane,
        "host",
        &json!({"podlayer.dev/layer": "default"}),
        &BTreeMap::from([("podSpecPatch", "hostPID: true")]),
    );
    webhook.wait_for("host", "good");
    let made = create("given", &spec(json!({})));
    assert!(made.ok, "{}", made.stderr);
    assert_eq!(pod_of(plane, &namespace, "given")["spec"]["hostPID"], true);
    Webhook::unregister(plane, &namespace);
}
