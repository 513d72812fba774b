//! Pods and stacks out of an input, and what must hold for every decision.

use std::sync::Arc;

use podlayer::{
    admission::{Decision, Mutate, OnStepError, Pod, Policy, Provenance, decide_pod},
    layers::{LayerSource, Mode, Scope, Snapshot, parse, rules::PrivilegedFrom},
    presets,
};
use serde_json::{Map, Value};

/// A pod with its stack.
pub struct Case {
    /// The pod, opted in, with its step patch.
    pub pod: Value,
    /// The ConfigMaps that can be read.
    pub layers: Vec<LayerSource>,
    /// The flags.
    pub policy: Policy,
}

impl Case {
    /// Reads `{"pod": …, "step": PATCH, "layers": [{"kind", "order", "namespace", "patch", "metadata", "match", "options",
    /// "rules"}], "policy": {…}}`, where all but the pod may be left out, and each text may be a text or what it would say.
    /// Nothing for what isn't that.
    pub fn read(data: &[u8]) -> Option<Self> {
        let input: Value = serde_json::from_slice(data).ok()?;
        let mut pod = input.get("pod")?.clone();
        let spec = pod.as_object_mut()?;
        let metadata = spec.entry("metadata").or_insert_with(object);
        let labels = metadata.as_object_mut()?.entry("labels").or_insert_with(object);
        labels.as_object_mut()?.insert("podlayer.dev/enabled".into(), "true".into());
        if let Some(step) = input.get("step") {
            let annotations = metadata.as_object_mut()?.entry("annotations").or_insert_with(object);
            annotations.as_object_mut()?.insert("podlayer.dev/pod-spec-patch".into(), text(step).into());
        }
        let layers = input.get("layers").and_then(Value::as_array).cloned().unwrap_or_default();
        let layers = layers.iter().take(8).enumerate().map(|(at, layer)| source(at, layer));
        let layers = layers.filter(|source| parse(source, SCOPE).is_ok()).collect();
        Some(Self { pod, layers, policy: policy(input.get("policy").unwrap_or(&Value::Null)) })
    }

    /// Decides the pod, or another one in its place.
    pub fn decide(&self, pod: &Value) -> Option<Decision> {
        let layers = self.layers.iter().filter_map(|source| parse(source, SCOPE).ok()).map(Arc::new);
        let snapshot = Snapshot::build(layers).expect("each layer has its own name");
        let text = pod.to_string();
        Some(decide_pod(&Pod::parse(&text).ok()?, "ci", &snapshot, &self.policy))
    }
}

const SCOPE: Scope<'_> = Scope { own_namespace: "podlayer" };

fn object() -> Value {
    Value::Object(Map::new())
}

/// What a text field holds.
pub fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn source(at: usize, layer: &Value) -> LayerSource {
    let kind = layer.get("kind").and_then(Value::as_str).unwrap_or("default");
    let keys = [
        ("patch", "podSpecPatch"),
        ("metadata", "podMetadata"),
        ("match", "match"),
        ("options", "options"),
        ("rules", "rules"),
    ];
    let mut data: std::collections::BTreeMap<String, String> =
        keys.iter().filter_map(|(key, name)| Some(((*name).to_owned(), text(layer.get(key)?)))).collect();
    if kind == "class" {
        data.entry("match".into()).or_insert_with(|| "{}".into());
    }
    let order = layer.get("order").and_then(Value::as_i64).unwrap_or_default();
    LayerSource {
        namespace: layer.get("namespace").and_then(Value::as_str).unwrap_or("podlayer").into(),
        name: format!("l{at}"),
        labels: [
            ("podlayer.dev/layer".to_owned(), kind.to_owned()),
            ("podlayer.dev/order".to_owned(), order.to_string()),
        ]
        .into(),
        data,
        ..LayerSource::default()
    }
}

fn policy(flags: &Value) -> Policy {
    let is = |key: &str| flags.get(key).is_some_and(|value| *value != Value::Bool(false));
    Policy {
        default_image: is("defaultImage").then(|| "default:1".into()),
        on_step_error: if is("ignore") { OnStepError::Ignore } else { OnStepError::Deny },
        mode: if is("audit") { Mode::Audit } else { Mode::Enforce },
        provenance: if is("full") { Provenance::Full } else { Provenance::Compact },
        mutate: Mutate::JobsAndPods,
        presets: if is("presets") {
            presets::all().iter().map(|preset| preset.name.clone()).collect()
        } else {
            Vec::new()
        },
        trusted_layer_namespaces: if is("trusted") { vec!["ci".into()] } else { Vec::new() },
        privileged: if is("layersOnly") { PrivilegedFrom::LayersOnly } else { PrivilegedFrom::Anyone },
        ..Policy::default()
    }
}

/// The pod as the API server makes it, by another implementation of JSON Patch than podlayer's own.
///
/// # Panics
/// Where the patch isn't one, or doesn't apply.
pub fn made(pod: &Value, decision: &Decision) -> Value {
    let mut made = pod.clone();
    if let Some(patch) = &decision.patch {
        let patch: json_patch::Patch = serde_json::from_str(patch).expect("the answer is a patch");
        json_patch::patch(&mut made, &patch).expect("the patch applies");
    }
    made
}
