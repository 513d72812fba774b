//! Guard rails: a step patch, whatever it is, gives a pod no privilege under rules that give none, whatever else they say; and
//! under the built-in ones leaves alone what holds a container.

#![no_main]

use std::{collections::BTreeSet, sync::Arc};

use libfuzzer_sys::{fuzz_mutator, fuzz_target};
use podlayer::{
    admission::{OnStepError, Pod, Policy, Verdict, decide_pod},
    guard::privileges,
    layers::{LayerSource, Scope, Snapshot, parse},
    value::{JsonLimits, from_json},
};
use podlayer_fuzz::pods::{made, text};
use serde_json::{Value, json};

fuzz_mutator!(|data: &mut [u8], size: usize, most: usize, seed: u32| { podlayer_fuzz::mutate(data, size, most, seed) });

fuzz_target!(init: podlayer_fuzz::corpus::fill("rules"), |data: &[u8]| {
    let Ok(case) = serde_json::from_slice::<Value>(data) else { return };
    let (rules, step) = (text(&case["rules"]), text(&case["step"]));
    let source = LayerSource {
        namespace: "podlayer".into(),
        name: "rules".into(),
        labels: [("podlayer.dev/layer".to_owned(), "step-rules".to_owned())].into(),
        data: [("rules".to_owned(), rules)].into(),
        ..LayerSource::default()
    };
    let read = parse(&source, Scope { own_namespace: "podlayer" }).ok();
    if read.as_ref().is_some_and(|layer| layer.rules.as_ref().is_some_and(|rules| rules.privileged)) {
        return;
    }
    let own_context = read.is_none();
    let snapshot = Snapshot::build(read.into_iter().map(Arc::new)).expect("there is but one");
    let on_step_error = if case.get("ignore").is_some() { OnStepError::Ignore } else { OnStepError::Deny };
    let policy = Policy { on_step_error, ..Policy::default() };

    let plain = plain(&step, case.get("buildkite").is_some());
    let text = plain.to_string();
    let pod = Pod::parse(&text).expect("it is a pod");
    let decision = decide_pod(&pod, "ci", &snapshot, &policy);
    assert_eq!(decision.fault, None);
    if decision.verdict != Verdict::Allowed {
        return;
    }
    let made = made(&plain, &decision);
    let (had, has) = (held(&plain), held(&made));
    assert!(has.is_subset(&had), "gained {:?}", has.difference(&had).collect::<Vec<_>>());
    if own_context {
        assert_eq!(context(&plain), context(&made), "what holds the container is as it was");
    }
});

fn plain(step: &str, buildkite: bool) -> Value {
    let mut pod = json!({
        "metadata": {"labels": {"podlayer.dev/enabled": "true"}, "annotations": {"podlayer.dev/pod-spec-patch": step}},
        "spec": {"restartPolicy": "Never", "serviceAccountName": "default", "containers": [
            {"name": "a", "image": "b", "securityContext": {"runAsNonRoot": true, "capabilities": {"drop": ["ALL"]}},
                "resources": {"limits": {"cpu": "1"}}},
            {"name": "agent", "image": "c"}],
            "volumes": [{"name": "own", "emptyDir": {}}, {"name": "node", "hostPath": {"path": "/c"}}]},
    });
    if buildkite {
        // What the author's own containers mount, a step may mount as well; this one is the CI system's then.
        pod["spec"]["containers"][1]["volumeMounts"] = json!([{"name": "node", "mountPath": "/c"}]);
        pod["metadata"]["labels"]["buildkite.com/job-uuid"] = json!("u");
    }
    pod
}

fn held(pod: &Value) -> BTreeSet<String> {
    let text = pod["spec"].to_string();
    let spec = from_json(&text, JsonLimits::DEFAULT).expect("a pod's spec is JSON");
    privileges(&spec).iter().map(|found| found.path.to_string()).collect()
}

fn context(pod: &Value) -> Option<Value> {
    let all = pod["spec"]["containers"].as_array()?;
    all.iter().find(|container| container["name"] == "a").map(|container| container["securityContext"].clone())
}
