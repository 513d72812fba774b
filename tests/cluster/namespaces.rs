//! Layers of a namespace's own, which reach its pods and no others.

use std::{collections::BTreeMap, time::Duration};

use serde_json::{Value, json};

use crate::{
    controlplane::{ControlPlane, wait_until},
    layers::annotation,
    podlayer::Webhook,
};

#[test]
fn a_namespace_has_layers_of_its_own_where_that_is_allowed() {
    let plane = ControlPlane::shared();
    let (team, other) = (plane.namespace("team"), plane.namespace("other"));
    // Where a node is chosen, guard rails hold layers of namespaces that aren't trusted.
    let webhook = Webhook::start(plane, &["--layer-namespaces", &team, "--trusted-layer-namespaces", &team]);
    for namespace in [&team, &other] {
        webhook.register(plane, namespace, "Fail");
    }
    let labels = |kind: &str| json!({"podlayer.dev/layer": kind});
    let set = |key: &str, value: &str| format!("nodeSelector: {{{key}: {value}}}\n");
    let anyone = |patch: &'static str| BTreeMap::from([("match", "{}"), ("podSpecPatch", patch)]);
    webhook.layer(plane, "base", &labels("default"), &BTreeMap::from([("podSpecPatch", set("a", "cluster").as_str())]));
    webhook.layer(plane, "gpu", &labels("class"), &anyone("nodeSelector: {gpu: cluster}\n"));
    let own = |namespace: &str, name: &str, kind: &str, data: Value| {
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": data,
            "metadata": {"name": name, "namespace": namespace, "labels": labels(kind)}});
        plane.apply(&map.to_string());
    };
    for namespace in [&team, &other] {
        own(namespace, "ours", "default", json!({"podSpecPatch": "nodeSelector: {a: team, b: team}\n"}));
        own(namespace, "fast", "class", json!({"match": "{}", "podSpecPatch": "nodeSelector: {fast: team}\n"}));
        // The cluster's class of this name stands before it.
        own(namespace, "gpu", "class", json!({"match": "{}", "podSpecPatch": "nodeSelector: {gpu: team}\n"}));
    }
    let make = |namespace: &str, classes: &str| {
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [{"name": "a", "image": "b:1"}]},
            "metadata": {"name": "p", "namespace": namespace, "labels": {"podlayer.dev/enabled": "true"},
                         "annotations": {"podlayer.dev/classes": classes}}});
        plane.kubectl_in(&["create", "--dry-run=server", "-o", "json", "-f", "-"], &pod.to_string())
    };
    let made = |namespace: &str, classes: &str| -> Value {
        serde_json::from_str(&make(namespace, classes).stdout).unwrap_or_default()
    };

    let mut pod = Value::Null;
    wait_until(Duration::from_secs(30), "the namespace's layers", || {
        pod = made(&team, "gpu,fast");
        pod["spec"]["nodeSelector"]["b"] == "team" && pod["spec"]["nodeSelector"]["gpu"] == "cluster"
    });
    assert_eq!(pod["spec"]["nodeSelector"], json!({"a": "team", "b": "team", "gpu": "cluster", "fast": "team"}));
    assert_eq!(
        annotation(&pod, "podlayer.dev/applied")["layers"],
        json!(["default/base", "namespace-default/ours", "class/gpu", "namespace-class/fast"])
    );
    // Nobody allowed the other namespace to have any.
    let pod = made(&other, "gpu");
    assert_eq!(pod["spec"]["nodeSelector"], json!({"a": "cluster", "gpu": "cluster"}));
    let refused = make(&other, "fast");
    assert!(!refused.ok && refused.stderr.contains("unknown class \"fast\""), "{}", refused.stderr);

    // A layer goes with its ConfigMap.
    plane.kubectl(&["delete", "configmap", "ours", "-n", &team]);
    wait_until(Duration::from_secs(30), "the layer to go", || {
        made(&team, "gpu")["spec"]["nodeSelector"] == json!({"a": "cluster", "gpu": "cluster"})
    });
    for namespace in [&team, &other] {
        Webhook::unregister(plane, namespace);
    }
}
