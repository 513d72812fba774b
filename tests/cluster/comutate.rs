//! Fields that the API server derived before podlayer was asked: derived anew after a layer's change, whether podlayer is
//! called once or twice.

use std::{collections::BTreeMap, time::Duration};

use serde_json::{Value, json};

use crate::{
    controlplane::{ControlPlane, wait_until},
    podlayer::Webhook,
};

#[test]
fn what_built_in_plugins_derived_follows_the_layers() {
    let plane = ControlPlane::shared();
    let webhook = Webhook::start(plane, &[]);
    let namespace = plane.namespace("derived");
    webhook.register(plane, &namespace, "Fail");
    // Cluster-wide, so named after the namespace.
    let (low, high, runtime) = (format!("low-{namespace}"), format!("high-{namespace}"), format!("kata-{namespace}"));
    for (name, value, preemption) in [(&low, 10, "PreemptLowerPriority"), (&high, 1234, "Never")] {
        plane.apply(
            &json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": value,
                    "preemptionPolicy": preemption})
            .to_string(),
        );
    }
    plane.apply(
        &json!({"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": runtime}, "handler": "kata",
                "overhead": {"podFixed": {"cpu": "250m"}}})
        .to_string(),
    );
    for (name, patch) in [
        ("priority", format!("priorityClassName: {high}\n")),
        ("no-priority", "priorityClassName: null\n".to_owned()),
        ("runtime", format!("runtimeClassName: {runtime}\n")),
        ("no-runtime", "runtimeClassName: null\n".to_owned()),
        ("no-token", "automountServiceAccountToken: false\n".to_owned()),
    ] {
        let data = BTreeMap::from([("match", "{}"), ("podSpecPatch", patch.as_str())]);
        webhook.layer(plane, name, &json!({"podlayer.dev/layer": "class"}), &data);
        webhook.wait_for(name, "good");
    }
    let make = |classes: &str, mut spec: Value| {
        spec["containers"] = json!([{"name": "a", "image": "b:1"}]);
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "spec": spec,
            "metadata": {"name": "p", "namespace": namespace, "labels": {"podlayer.dev/enabled": "true"},
                         "annotations": {"podlayer.dev/classes": classes}}});
        let calls = || {
            ["patched", "unchanged"]
                .iter()
                .map(|outcome| webhook.metric(&format!("podlayer_decisions_total{{outcome=\"{outcome}\"}}")))
                .sum::<f64>()
        };
        let before = calls();
        let made = plane.kubectl_in(&["create", "--dry-run=server", "-o", "json", "-f", "-"], &pod.to_string());
        assert!(made.ok, "{classes}: {}", made.stderr);
        (serde_json::from_str::<Value>(&made.stdout).unwrap()["spec"].clone(), (calls() - before).round() as i64)
    };
    for (policy, most) in [("Never", 1), ("IfNeeded", 2)] {
        let change = json!([{"op": "replace", "path": "/webhooks/0/reinvocationPolicy", "value": policy}]).to_string();
        let name = format!("zz-podlayer-{namespace}");
        let patched = plane.kubectl(&["patch", "mutatingwebhookconfiguration", &name, "--type=json", "-p", &change]);
        assert!(patched.ok, "{}", patched.stderr);
        wait_until(Duration::from_secs(30), "the API server to take the change", || {
            make("priority", json!({})).1 == most
        });
        let derived = |classes: &str, spec: Value| {
            let (made, calls) = make(classes, spec);
            assert!((1..=most).contains(&calls), "{policy}, {classes}: called {calls} times");
            made
        };
        for spec in [json!({}), json!({"priorityClassName": low})] {
            let made = derived("priority", spec);
            assert_eq!((&made["priority"], &made["preemptionPolicy"]), (&json!(1234), &json!("Never")), "{policy}");
        }
        let made = derived("no-priority", json!({"priorityClassName": high}));
        assert_eq!(
            (&made["priority"], &made["preemptionPolicy"]),
            (&json!(0), &json!("PreemptLowerPriority")),
            "{policy}"
        );
        assert_eq!(derived("runtime", json!({}))["overhead"], json!({"cpu": "250m"}), "{policy}");
        assert_eq!(derived("no-runtime", json!({"runtimeClassName": runtime}))["overhead"], Value::Null, "{policy}");
        let made = derived("no-token", json!({}));
        assert_eq!(
            (&made["volumes"], &made["containers"][0]["volumeMounts"]),
            (&Value::Null, &Value::Null),
            "{policy}"
        );
    }
    for (kind, name) in [("priorityclass", &low), ("priorityclass", &high), ("runtimeclass", &runtime)] {
        plane.kubectl(&["delete", kind, name]);
    }
    Webhook::unregister(plane, &namespace);
}
