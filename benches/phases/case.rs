use std::{
    error::Error,
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use podlayer::{
    layers::{Layer, Scope, Snapshot, manifest},
    names,
};
use serde_json::{Value, json};

use crate::{common::report::review, stack::Stack};

/// A pod and its layers, as the webhook meets them.
pub(crate) struct Case {
    pub(crate) name: String,
    /// The whole AdmissionReview.
    pub(crate) review: Vec<u8>,
    pub(crate) snapshot: Snapshot,
    /// The same work without guard rails: the pod without its step, which is one admin layer more.
    pub(crate) unguarded: Option<(Vec<u8>, Snapshot)>,
}

/// The pods of every preset that examples and tests hold, and where their layers are.
const PRESETS: [(&str, &str, &[&str]); 9] = [
    ("buildkite", "tests/data/jobs/buildkite/plain-step-pod.yaml", &BUILDKITE),
    ("buildkite, podSpec", "tests/data/jobs/buildkite/podspec-sidecar-pod.yaml", &BUILDKITE),
    ("arc-runner", "examples/arc-runner/pod.yaml", &["examples/arc-runner/layers.yaml"]),
    ("arc-workflow", "examples/arc-workflow/pod.yaml", &["examples/arc-workflow/layers.yaml"]),
    ("gitlab", "examples/gitlab/pod.yaml", &["examples/gitlab/layers.yaml"]),
    ("jenkins", "examples/jenkins/pod.yaml", &["examples/jenkins/layers.yaml"]),
    ("tekton", "examples/tekton/pod.yaml", &["examples/tekton/layers.yaml"]),
    ("argo", "examples/argo/pod.yaml", &["examples/argo/layers.yaml"]),
    ("job", "examples/job/job.yaml", &["examples/job/layers.yaml"]),
];
const BUILDKITE: [&str; 2] = ["examples/buildkite/controller-default.yaml", "examples/buildkite/by-role.yaml"];

impl Case {
    /// A recorded review with so many layers, of which the last is the step's where it may be one.
    pub(crate) fn recorded(name: &str, count: usize, folder: &Path) -> Result<Self, Box<dyn Error>> {
        let plain = review(name)?;
        let all = Stack::of(count, folder)?;
        // Only the fourth of the recorded layers keeps to what a step may do.
        if count == 0 || !count.is_multiple_of(4) {
            let snapshot = all.snapshot;
            return Ok(Self { name: format!("{name} | {count}"), review: plain, snapshot, unguarded: None });
        }
        let last = all.texts.last().ok_or("a stack without layers")?;
        let fewer = Stack::of(count - 1, folder)?;
        let mut with_step: Value = serde_json::from_slice(&plain)?;
        let annotations = &mut with_step["request"]["object"]["metadata"]["annotations"];
        annotations[names::STEP_PATCH] = json!(last);
        Ok(Self {
            name: format!("{name} | {count}"),
            review: with_step.to_string().into_bytes(),
            snapshot: fewer.snapshot,
            unguarded: Some((plain, all.snapshot)),
        })
    }

    /// One pod of each preset, with the layers of its example.
    pub(crate) fn of_presets() -> Result<Vec<Self>, Box<dyn Error>> {
        PRESETS.iter().map(|(name, pod, layers)| Self::example(name, pod, layers)).collect()
    }

    fn example(name: &str, pod: &str, files: &[&str]) -> Result<Self, Box<dyn Error>> {
        let mut object: Value = serde_yaml::from_str(&read(pod)?)?;
        if object["kind"] == "Job" {
            object = object["spec"]["template"].take();
        }
        let namespace = object["metadata"]["namespace"].as_str().unwrap_or("ci").to_owned();
        let review = json!({
            "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
            "request": {
                "uid": "705ab4f5-6393-11e8-b7cc-42010a800002", "kind": {"group": "", "version": "v1", "kind": "Pod"},
                "resource": {"group": "", "version": "v1", "resource": "pods"}, "operation": "CREATE",
                "namespace": namespace, "object": object, "dryRun": false}});
        let mut layers: Vec<Arc<Layer>> = Vec::new();
        for file in files {
            let scope = Scope { own_namespace: names::NAMESPACE };
            layers.extend(manifest::read(&read(file)?, file, file, scope)?.into_iter().map(Arc::new));
        }
        let count = layers.len();
        Ok(Self {
            name: format!("{name} | {count}"),
            review: review.to_string().into_bytes(),
            snapshot: Snapshot::build(layers)?,
            unguarded: None,
        })
    }
}

fn read(file: &str) -> Result<String, Box<dyn Error>> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(file);
    fs::read_to_string(&path).map_err(|error| format!("can't read {}: {error}", path.display()).into())
}
