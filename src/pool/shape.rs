//! What the pods of a pool look like.

use std::collections::BTreeMap;

use kube::Resource;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use super::{
    api::{AgentPool, BusySource, Mode, ShapeFrom},
    core::hex,
    observe::Sample,
};
use crate::{
    admission::{self, Policy, Verdict},
    layers::Snapshot,
    names,
};

/// What of a job pod's spec decides where it can run, and so what its placeholder has too.
const PLACING: &[&str] = &[
    "affinity",
    "imagePullSecrets",
    "nodeSelector",
    "os",
    "resources",
    "runtimeClassName",
    "schedulerName",
    "tolerations",
    "topologySpreadConstraints",
];

/// What all placeholders have, whatever their pool.
#[derive(Clone, Debug)]
pub struct Placeholders {
    /// Their PriorityClass.
    pub priority_class: String,
    /// Their image: it waits and needs nothing.
    pub image: String,
}

/// A pod without a name, and the version of the template that it comes from.
#[derive(Clone, Debug)]
pub struct Shape {
    /// The pod.
    pub pod: Value,
    /// A hash of it.
    pub version: String,
    /// Whether pods of another version are to be replaced. Not those shaped like whatever job pod came last: two kinds
    /// of jobs would have them replaced for ever.
    pub rotates: bool,
}

/// Why a pool's pods can't be made.
#[derive(Debug, thiserror::Error)]
pub enum ShapeError {
    /// `decide` refuses the template as a job pod.
    #[error("the template would be refused as a job pod: {0}")]
    Denied(String),
    /// Headroom from a sample, and there is none.
    #[error("no job pod was seen yet")]
    NoSample,
    /// The template isn't the object that it should be.
    #[error("the template is no pod: {0}")]
    Template(String),
}

/// The shape of a pool's pods.
///
/// # Errors
/// [`ShapeError`].
pub fn shape(
    pool: &AgentPool,
    newest: Option<&Sample>,
    snapshot: &Snapshot,
    policy: &Policy,
    placeholders: &Placeholders,
) -> Result<Shape, ShapeError> {
    let spec = &pool.spec;
    if spec.mode == Mode::Agents {
        return agent(pool);
    }
    let from_template = match spec.shape_from {
        Some(from) => from == ShapeFrom::Template,
        None => spec.template.is_some(),
    };
    let job_pod = match (&spec.template, newest) {
        (Some(template), _) if from_template => {
            let labels = &template.metadata.labels;
            let metadata = json!({"labels": labels, "annotations": template.metadata.annotations});
            json!({"metadata": metadata, "spec": template.spec}).to_string()
        }
        (_, Some(sample)) => sample.text().map_err(|error| ShapeError::Template(error.to_string()))?,
        _ => return Err(ShapeError::NoSample),
    };
    let namespace = pool.metadata.namespace.as_deref().unwrap_or_default();
    let decided = decided(&job_pod, namespace, snapshot, policy)?;
    let mut shape = placeholder(pool, &decided, placeholders);
    shape.rotates = from_template;
    Ok(shape)
}

/// A job pod as the webhook would make it: the same function decides.
fn decided(text: &str, namespace: &str, snapshot: &Snapshot, policy: &Policy) -> Result<Value, ShapeError> {
    let parsed = admission::Pod::parse(text).map_err(|error| ShapeError::Template(error.to_string()))?;
    let decision = admission::decide_pod(&parsed, namespace, snapshot, policy);
    if let Verdict::Denied(denial) = decision.verdict {
        return Err(ShapeError::Denied(denial.message));
    }
    let bad = |error: &dyn std::error::Error| ShapeError::Template(error.to_string());
    let mut pod = serde_json::from_str(text).map_err(|error| bad(&error))?;
    if let Some(patch) = decision.patch {
        let patch: json_patch::Patch = serde_json::from_str(&patch).map_err(|error| bad(&error))?;
        json_patch::patch(&mut pod, &patch).map_err(|error| bad(&error))?;
    }
    Ok(pod)
}

/// An agent of a pool, from its template.
///
/// # Errors
/// [`ShapeError::Template`].
pub fn agent(pool: &AgentPool) -> Result<Shape, ShapeError> {
    let Some(template) = &pool.spec.template else { return Err(ShapeError::Template("there is none".into())) };
    let mut spec = template.spec.clone();
    let Some(containers) = spec.get_mut("containers").and_then(Value::as_array_mut) else {
        return Err(ShapeError::Template("its spec has no containers".into()));
    };
    for image in &pool.spec.images {
        let named = containers.iter_mut().find(|container| container["name"] == image.name.as_str());
        let Some(container) = named else {
            return Err(ShapeError::Template(format!("images names the container {:?}, which it lacks", image.name)));
        };
        container["image"] = json!(image.image);
    }
    let mut annotations = template.metadata.annotations.clone();
    // One that takes a single job is at work from its start: no window in which an autoscaler may take its node.
    if pool.spec.annotates() && pool.spec.busy_source() == BusySource::PodPhase {
        annotations.insert(names::SAFE_TO_EVICT.into(), "false".into());
        annotations.insert(names::DO_NOT_DISRUPT.into(), "true".into());
    }
    let mut labels = template.metadata.labels.clone();
    labels.insert(names::ENABLED.into(), names::ENABLED_VALUE.into());
    labels.remove(names::POOL_BUSY);
    labels.remove(names::POOL_DRAINING);
    Ok(finish(pool, names::POOL_KIND_AGENT, labels, &annotations, spec))
}

fn placeholder(pool: &AgentPool, job_pod: &Value, all: &Placeholders) -> Shape {
    let of = |key: &str| job_pod["spec"][key].as_array().cloned().unwrap_or_default();
    let sidecars = of("initContainers").into_iter().filter(|container| container["restartPolicy"] == "Always");
    let hold = |(number, container): (usize, Value)| {
        let resources = container.get("resources").cloned().unwrap_or_else(|| json!({}));
        json!({
            "name": format!("hold-{number}"), "image": all.image, "resources": resources,
            "securityContext": {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]},
                                "readOnlyRootFilesystem": true},
        })
    };
    let containers: Vec<Value> = of("containers").into_iter().chain(sidecars).enumerate().map(hold).collect();
    let mut spec = Map::new();
    for key in PLACING {
        if let Some(value) = job_pod["spec"].get(*key) {
            spec.insert((*key).to_owned(), value.clone());
        }
    }
    // An image as a volume is pulled, and nothing of it is run.
    let image = |(number, image): (usize, &super::api::PoolImage)| json!({"name": format!("image-{number}"), "image": {"reference": image.image, "pullPolicy": "IfNotPresent"}});
    let volumes: Vec<Value> = pool.spec.images.iter().enumerate().map(image).collect();
    let mut fixed = json!({
        "containers": containers, "priorityClassName": all.priority_class, "terminationGracePeriodSeconds": 0,
        "automountServiceAccountToken": false, "enableServiceLinks": false,
        "securityContext": {"runAsNonRoot": true, "runAsUser": 65535, "seccompProfile": {"type": "RuntimeDefault"}},
    });
    if !volumes.is_empty() {
        fixed["volumes"] = json!(volumes);
    }
    if let Value::Object(fixed) = fixed {
        spec.extend(fixed);
    }
    finish(pool, names::POOL_KIND_HEADROOM, BTreeMap::new(), &BTreeMap::new(), Value::Object(spec))
}

/// Labels, owner and version.
fn finish(
    pool: &AgentPool,
    kind: &str,
    mut labels: BTreeMap<String, String>,
    annotations: &BTreeMap<String, String>,
    spec: Value,
) -> Shape {
    let basis = json!([kind, labels, annotations, spec]).to_string();
    let version = hex(&Sha256::digest(basis.as_bytes()), 12);
    labels.insert(names::POOL.into(), pool.metadata.name.clone().unwrap_or_default());
    labels.insert(names::POOL_KIND.into(), kind.into());
    labels.insert(names::POOL_TEMPLATE.into(), version.clone());
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"labels": labels, "annotations": annotations, "namespace": pool.metadata.namespace,
                     "ownerReferences": [pool.controller_owner_ref(&())]},
        "spec": spec,
    });
    Shape { pod, version, rotates: true }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool::observe::Watched;

    fn pool(spec: &Value) -> AgentPool {
        let metadata = json!({"name": "p", "namespace": "ci", "uid": "u"});
        serde_json::from_value(json!({"apiVersion": "podlayer.dev/v1alpha1", "kind": "AgentPool",
                                      "metadata": metadata, "spec": spec}))
        .unwrap()
    }

    fn layers() -> Snapshot {
        let source = crate::layers::LayerSource {
            namespace: "podlayer".into(),
            name: "base".into(),
            labels: [(names::LAYER.into(), "default".into())].into(),
            data: [(
                names::KEY_PATCH.into(),
                "nodeSelector: {pool: ci}\ncontainers:\n- name: main\n  resources: {requests: {cpu: 3}}\n".into(),
            )]
            .into(),
            ..crate::layers::LayerSource::default()
        };
        let mut book = crate::layers::Book::new("podlayer");
        book.put(source).unwrap();
        book.snapshot().unwrap()
    }

    fn low() -> Placeholders {
        Placeholders { priority_class: "low".into(), image: "mirror.example.com/pause:3".into() }
    }

    #[test]
    fn a_placeholder_has_what_the_layers_give_the_job_pod_and_runs_nothing_of_it() {
        let pool = pool(&json!({"mode": "Headroom", "jobSelector": {"matchLabels": {"a": "b"}}, "max": 3,
            "images": [{"name": "tools", "image": "tools:1"}]}));
        let job = json!({
            "metadata": {"name": "j", "labels": {"a": "b", "podlayer.dev/enabled": "true"}},
            "spec": {"nodeName": "n1", "tolerations": [{"key": "gpu", "operator": "Exists"}],
                     "initContainers": [{"name": "s", "image": "i", "restartPolicy": "Always", "resources": {"requests": {"cpu": "1"}}},
                                        {"name": "i", "image": "i"}],
                     "containers": [{"name": "main", "image": "secret/image", "command": ["x"], "env": [{"name": "T", "value": "v"}]}]}});
        let job = Watched::from(serde_json::from_value::<k8s_openapi::api::core::v1::Pod>(job).unwrap());
        let shape = shape(&pool, job.sample(), &layers(), &Policy::default(), &low()).unwrap();
        let (spec, labels) = (&shape.pod["spec"], &shape.pod["metadata"]["labels"]);
        assert_eq!(spec["nodeSelector"], json!({"pool": "ci"}));
        assert_eq!(spec["tolerations"][0]["key"], "gpu");
        assert_eq!(spec["containers"][0]["resources"]["requests"]["cpu"].to_string().trim_matches('"'), "3");
        assert_eq!(spec["containers"][1]["resources"]["requests"]["cpu"], "1");
        assert_eq!(spec["containers"].as_array().unwrap().len(), 2);
        assert_eq!((&spec["priorityClassName"], &spec["nodeName"]), (&json!("low"), &Value::Null));
        assert_eq!(spec["volumes"][0]["image"]["reference"], "tools:1");
        assert_eq!(spec["containers"][0]["image"], "mirror.example.com/pause:3");
        assert!(labels.get(names::ENABLED).is_none() && labels.get("a").is_none());
        assert!(!shape.pod.to_string().contains("secret/image") && !shape.rotates);
    }

    #[test]
    fn an_agent_is_opted_in_owned_by_its_pool_and_has_the_pools_images() {
        let template = json!({"metadata": {"labels": {"app": "agent", "podlayer.dev/busy": "true"}},
                              "spec": {"containers": [{"name": "agent", "image": "old"}]}});
        let mut spec = json!({"mode": "Agents", "jobSelector": {"matchLabels": {"a": "b"}}, "max": 3, "template": template,
                              "images": [{"name": "agent", "image": "new"}], "busy": {"source": "PodPhase"}});
        let make = |spec: &Value| shape(&pool(spec), None, &Snapshot::default(), &Policy::default(), &low());
        let first = make(&spec).unwrap();
        let metadata = &first.pod["metadata"];
        assert_eq!(metadata["labels"]["podlayer.dev/enabled"], "true");
        assert!(metadata["labels"].get("podlayer.dev/busy").is_none());
        assert_eq!(metadata["ownerReferences"][0]["controller"], true);
        assert_eq!(first.pod["spec"]["containers"][0]["image"], "new");
        spec["images"][0]["image"] = json!("newer");
        assert_ne!(make(&spec).unwrap().version, first.version);
        spec["images"][0]["name"] = json!("main");
        assert_eq!(
            make(&spec).unwrap_err().to_string(),
            "the template is no pod: images names the container \"main\", which it lacks"
        );
    }

    #[test]
    fn scenario_25_an_agent_of_one_job_keeps_autoscalers_away_from_its_first_moment_and_a_warm_one_does_not() {
        let annotations = |busy: Value, protection: Value| {
            let template = json!({"spec": {"containers": [{"name": "agent", "image": "a"}]}});
            let spec = json!({"mode": "Agents", "jobSelector": {"matchLabels": {"a": "b"}}, "max": 3,
                              "template": template, "busy": busy, "protection": protection});
            let shape = shape(&pool(&spec), None, &Snapshot::default(), &Policy::default(), &low()).unwrap();
            shape.pod["metadata"]["annotations"].clone()
        };
        let kept = json!({names::SAFE_TO_EVICT: "false", names::DO_NOT_DISRUPT: "true"});
        assert_eq!(annotations(json!({"source": "PodPhase"}), json!({})), kept);
        assert_eq!(annotations(json!({"source": "PodPhase"}), json!({"annotations": false})), json!({}));
        assert_eq!(annotations(json!({"source": "Label", "key": "busy"}), json!({})), json!({}));
    }

    #[test]
    fn scenario_24_grace_period_and_pre_stop_of_the_template_reach_the_agent() {
        let spec = json!({"terminationGracePeriodSeconds": 600, "containers": [
            {"name": "agent", "image": "a", "lifecycle": {"preStop": {"exec": {"command": ["drain"]}}}}]});
        let pool = pool(&json!({"mode": "Agents", "jobSelector": {"matchLabels": {"a": "b"}}, "max": 3,
                                "template": {"spec": spec}}));
        let shape = shape(&pool, None, &Snapshot::default(), &Policy::default(), &low()).unwrap();
        assert_eq!(shape.pod["spec"], spec);
    }
}
