use std::collections::BTreeMap;

use serde::Deserialize;

use super::{Decision, Denial, Policy, Request, Verdict, decide::unreadable, job, judge::Fault, object::ObjectError};
use crate::{
    layers::{self, LayerSource, Scope, Snapshot},
    names,
};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawConfigMap {
    #[serde(default)]
    metadata: RawMetadata,
    #[serde(default)]
    data: Option<BTreeMap<String, String>>,
    #[serde(default)]
    binary_data: Option<BTreeMap<String, serde::de::IgnoredAny>>,
}

#[derive(Default, Deserialize)]
struct RawMetadata {
    #[serde(default)]
    name: String,
    #[serde(default)]
    labels: Option<BTreeMap<String, String>>,
}

/// Decides what the validating webhook is asked about: Jobs whose template is opted in, and ConfigMaps that are layers.
pub fn check_layer(request: &Request<'_>, snapshot: &Snapshot, policy: &Policy) -> Decision {
    match (request.group.as_ref(), request.kind.as_ref(), request.operation.as_ref(), request.object) {
        ("batch", "Job", "CREATE", Some(text)) => job::check(text, &request.namespace, snapshot, policy),
        ("", "ConfigMap", "CREATE" | "UPDATE", Some(text)) => config_map(text, &request.namespace, policy),
        _ => Decision::untouched(),
    }
}

fn config_map(text: &str, namespace: &str, policy: &Policy) -> Decision {
    let raw: RawConfigMap = match serde_json::from_str(text) {
        Ok(raw) => raw,
        Err(source) => return unreadable(&ObjectError::Read { kind: "ConfigMap", source }),
    };
    let labels = raw.metadata.labels.unwrap_or_default();
    if !labels.contains_key(names::LAYER) {
        return Decision::untouched();
    }
    let source = LayerSource {
        namespace: namespace.to_owned(),
        name: raw.metadata.name,
        labels,
        data: raw.data.unwrap_or_default(),
        binary_keys: raw.binary_data.unwrap_or_default().into_keys().collect(),
    };
    match layers::parse(&source, Scope { own_namespace: &policy.own_namespace }) {
        Ok(_) => Decision { verdict: Verdict::Allowed, ..Decision::untouched() },
        Err(error) => {
            let faults: Vec<Fault> = error.0.iter().map(Fault::from).collect();
            Decision::denied(Denial::invalid(&faults))
        }
    }
}
