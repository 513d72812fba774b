//! What agent-stack-k8s' own patch does to a Job, and what the layers made of it do: the same, but for what is told why.

use podlayer::{
    admission::{Pod, Policy},
    import::{agent_stack, parity},
    layers::{Scope, Snapshot, manifest},
};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::{
    decide::cases,
    stacks::{case, patch, without_directives},
};

/// A patch as people write it for the controller: exact names, no directives.
fn plain(patch: Value) -> Value {
    let mut patch = without_directives(patch);
    for list in ["containers", "initContainers"] {
        if let Some(items) = patch[list].as_array_mut() {
            items.retain(|item| item["name"].as_str().is_some_and(|name| !name.contains(['*', '@'])));
        }
        if patch.get(list).is_some_and(Value::is_null) || patch.get(list) == Some(&json!([])) {
            patch.as_object_mut().unwrap().remove(list);
        }
    }
    patch
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases() / 3, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_imported_patch_does_what_the_old_controllers_did(case in case(), patch in patch().prop_map(plain)) {
        let mut pod = case.pod.clone();
        pod["metadata"]["labels"]["buildkite.com/job-uuid"] = json!("0190");
        let annotations = pod["metadata"]["annotations"].as_object_mut().unwrap();
        annotations.retain(|key, _| !key.starts_with("podlayer.dev/"));
        let configuration = json!({"config": {"pod-spec-patch": patch}}).to_string();
        let imported = agent_stack(&configuration).unwrap();
        let layers = manifest::read(&imported.to_yaml("podlayer"), "f", "f", Scope { own_namespace: "podlayer" });
        let layers = layers.map_err(|error| TestCaseError::fail(format!("{error}: {configuration}")))?;
        let snapshot = Snapshot::build(layers.into_iter().map(std::sync::Arc::new)).unwrap();
        let text = pod.to_string();
        let parity = parity("pod", &Pod::parse(&text).unwrap(), "ci", &configuration, &snapshot, &Policy::default()).unwrap();
        // What the old controller refuses has nothing to compare.
        if parity.failure.as_ref().is_some_and(|failure| failure.starts_with("the old controller refuses")) {
            return Ok(());
        }
        prop_assert_eq!(&parity.failure, &None);
        for (change, why) in &parity.differences {
            prop_assert!(why.is_some(), "{change:?} with {patch}");
        }
    }
}
