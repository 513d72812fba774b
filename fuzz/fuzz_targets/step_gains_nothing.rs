//! A step patch, whatever it is, gives a pod no privilege under the built-in rules.

#![no_main]

use std::collections::BTreeSet;

use libfuzzer_sys::fuzz_target;
use podlayer::{
    admission::{Pod, Policy, Verdict, decide_pod},
    guard::privileges,
    layers::Snapshot,
    value::{JsonLimits, from_json},
};
use serde_json::{Value, json};

fn held(pod: &Value) -> BTreeSet<String> {
    let text = pod["spec"].to_string();
    let spec = from_json(&text, JsonLimits::DEFAULT).expect("a pod's spec is JSON");
    privileges(&spec).iter().map(|found| found.path.to_string()).collect()
}

fuzz_target!(|step: &str| {
    let plain = json!({
        "metadata": {"labels": {"podlayer.dev/enabled": "true"}, "annotations": {"podlayer.dev/pod-spec-patch": step}},
        "spec": {"restartPolicy": "Never", "containers": [
            {"name": "a", "image": "b", "securityContext": {"runAsNonRoot": true, "capabilities": {"drop": ["ALL"]}}}],
            "volumes": [{"name": "own", "emptyDir": {}}, {"name": "node", "hostPath": {"path": "/c"}}]},
    });
    let text = plain.to_string();
    let pod = Pod::parse(&text).expect("it is a pod");
    let decision = decide_pod(&pod, "ci", &Snapshot::default(), &Policy::default());
    if decision.verdict != Verdict::Allowed {
        return;
    }
    let mut made = plain.clone();
    if let Some(patch) = &decision.patch {
        let patch: json_patch::Patch = serde_json::from_str(patch).expect("the answer is a patch");
        json_patch::patch(&mut made, &patch).expect("the patch applies");
    }
    let (had, has) = (held(&plain), held(&made));
    assert!(has.is_subset(&had), "gained {:?}", has.difference(&had).collect::<Vec<_>>());
    let context = |pod: &Value| pod["spec"]["containers"].as_array().map(|all| {
        all.iter().find(|container| container["name"] == "a").map(|container| container["securityContext"].clone())
    });
    assert_eq!(context(&plain), context(&made), "what holds the container is as it was");
});
