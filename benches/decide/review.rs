use std::{
    error::Error,
    fs,
    hint::black_box,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use podlayer::{
    admission::{Pod, Policy, decide_pod},
    layers::Snapshot,
};
use serde::Deserialize;
use serde_json::{Value, json, value::RawValue};

/// A pod as the API server sends it.
pub(crate) struct Review {
    /// What the table calls it.
    pub(crate) name: String,
    /// A file with the pod and nothing else, for the peer.
    pub(crate) file: PathBuf,
    /// The pod's text, byte for byte as it stands in the review.
    pub(crate) object: String,
    namespace: String,
}

#[derive(Deserialize)]
struct Recorded {
    request: Request,
}

#[derive(Deserialize)]
struct Request {
    namespace: String,
    object: Box<RawValue>,
}

impl Review {
    /// One of tests/data/reviews.
    pub(crate) fn recorded(name: &str, folder: &Path) -> Result<Self, Box<dyn Error>> {
        let Recorded { request } = read(&data().join(format!("review-{name}.json")))?;
        Self::new(name.to_owned(), request.object.get().to_owned(), request.namespace, folder)
    }

    /// The smallest recorded pod, with another environment for its step.
    pub(crate) fn with_variables(count: usize, folder: &Path) -> Result<Self, Box<dyn Error>> {
        let small = Self::recorded("4k", folder)?;
        let mut pod: Value = serde_json::from_str(&small.object)?;
        let variables: Vec<Value> = (0..count)
            .map(|at| json!({ "name": format!("CI_PARAMETER_{at:05}"), "value": format!("/workspace/parameters/{at}/value") }))
            .collect();
        let containers = pod.pointer_mut("/spec/containers").and_then(Value::as_array_mut);
        let step = containers.into_iter().flatten().find(|container| container["name"] == "container-0");
        step.ok_or("the recorded pod has no container-0")?["env"] = variables.into();
        Self::new(format!("variables-{count}"), pod.to_string(), small.namespace, folder)
    }

    fn new(name: String, object: String, namespace: String, folder: &Path) -> Result<Self, Box<dyn Error>> {
        let file = folder.join(format!("pod-{name}.json"));
        fs::write(&file, &object).map_err(|error| format!("can't write {}: {error}", file.display()))?;
        Ok(Self { name, file, object, namespace })
    }

    /// The pod on record, with its four layers.
    pub(crate) fn expected(&self) -> Result<Value, Box<dyn Error>> {
        read(&data().join(format!("expected/{}.pod.json", self.name)))
    }

    /// podlayer's patch for this pod. The measured work: what the webhook does between reading the envelope of a
    /// request and writing that of its answer.
    pub(crate) fn decide(&self, snapshot: &Snapshot) -> Result<String, Box<dyn Error>> {
        let pod = Pod::parse(&self.object)?;
        let decision = decide_pod(&pod, &self.namespace, snapshot, &Policy::default());
        decision.patch.ok_or_else(|| format!("podlayer changes nothing in {}", self.name).into())
    }

    /// What one of so many decisions took.
    pub(crate) fn time(&self, snapshot: &Snapshot, decisions: u32) -> Result<Duration, Box<dyn Error>> {
        let start = Instant::now();
        for _ in 0..decisions {
            black_box(black_box(self).decide(snapshot)?);
        }
        Ok(start.elapsed() / decisions)
    }
}

/// Where the recorded reviews are.
pub(crate) fn data() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/reviews")
}

fn read<T: serde::de::DeserializeOwned>(path: &Path) -> Result<T, Box<dyn Error>> {
    let text = fs::read(path).map_err(|error| format!("can't read {}: {error}", path.display()))?;
    serde_json::from_slice(&text).map_err(|error| format!("{} is no such JSON: {error}", path.display()).into())
}
