//! A Pod, or something that makes pods, as it stands in a file.

use serde_json::Value as Json;

use super::report::CliError;
use crate::{
    admission::{Decision, Pod, Policy, Verdict, decide_pod},
    layers::{Snapshot, manifest},
    names,
    value::{JsonLimits, Position, from_json, to_json},
    yaml,
};

/// Where the pod template stands in each kind that has one.
const TEMPLATES: &[(&str, &str)] = &[
    ("Pod", ""),
    ("Job", "/spec/template"),
    ("CronJob", "/spec/jobTemplate/spec/template"),
    ("PodTemplate", "/template"),
];

/// An object that was read from a file.
pub(super) struct Object {
    /// The whole of it.
    pub json: Json,
    pointer: &'static str,
    /// The namespace it names, if any.
    pub namespace: Option<String>,
    of_job: bool,
}

/// The first of podlayer's annotations that isn't text, as when somebody forgot the `|`: the API server takes no such object.
fn not_text(json: &Json, pointer: &str) -> Option<&'static str> {
    let annotations = json.pointer(pointer)?.get("metadata")?.get("annotations")?;
    let wrong = |key: &&str| annotations.get(key).is_some_and(|value| !value.is_string() && !value.is_null());
    [names::STEP_PATCH, names::CLASSES, names::COMMAND, names::IMAGE].into_iter().find(wrong)
}

impl Object {
    /// Reads YAML or JSON.
    ///
    /// # Errors
    /// Text that can't be read, or a kind without pods.
    pub(super) fn read(text: &str, file: &str) -> Result<Self, CliError> {
        let documents = manifest::documents(text);
        let [(line, part)] = documents[..] else {
            return Err(CliError::new(format!("{file}: one object is wanted, got {}", documents.len())));
        };
        let parsed = yaml::parse(part, &yaml::Options::KUBECTL).map_err(|error| {
            let at = error.at().within(Position { line, column: 1 }, 0);
            CliError::new(format!("{file}, {at}: {error}"))
        })?;
        let json = to_json(&parsed.document.value);
        // Printed above, so nothing but its depth can be wrong with it.
        let json: Json = serde_json::from_str(&json).map_err(|_| {
            let most = JsonLimits::DEFAULT.depth;
            CliError::new(format!("{file}: lists and objects stand more than {most} deep in each other"))
        })?;
        Self::of_json(json, file)
    }

    /// Takes what was read already; `file` is how to call it.
    ///
    /// # Errors
    /// A kind without pods.
    pub(super) fn of_json(json: Json, file: &str) -> Result<Self, CliError> {
        let kind = json.get("kind").and_then(Json::as_str).unwrap_or_default();
        let bare = kind.is_empty() && json.get("spec").is_some();
        let pointer = match TEMPLATES.iter().find(|(known, _)| *known == kind) {
            Some((_, pointer)) => pointer,
            // A pod template by itself: metadata and spec.
            None if bare => "",
            None => {
                let kinds: Vec<&str> = TEMPLATES.iter().map(|(kind, _)| *kind).collect();
                let got = if kind.is_empty() { "none" } else { kind };
                return Err(CliError::new(format!("{file}: kind {got}, one of {} is wanted", kinds.join(", "))));
            }
        };
        if let Some(key) = not_text(&json, pointer) {
            return Err(CliError::new(format!("{file}: annotation {key} must be text: write it as a block after |")));
        }
        let namespace = json.pointer("/metadata/namespace").and_then(Json::as_str).map(str::to_owned);
        let of_job = kind == "Job" || kind == "CronJob";
        Ok(Self { json, pointer, namespace, of_job })
    }

    /// The namespace that was asked for, else the object's own, else `default`.
    pub(super) fn namespace_or(&self, asked: Option<&str>) -> String {
        asked.or(self.namespace.as_deref()).unwrap_or("default").to_owned()
    }

    /// The stamp that the pod or template carries.
    pub(super) fn stamp(&self) -> Option<&str> {
        let annotations = self.json.pointer(self.pointer)?.get("metadata")?.get("annotations")?;
        annotations.get(names::APPLIED)?.as_str()
    }

    /// Puts a step patch in the place of the annotation.
    pub(super) fn set_step(&mut self, patch: &str) -> Result<(), CliError> {
        let template = self.json.pointer_mut(self.pointer).and_then(Json::as_object_mut);
        let template = template.ok_or_else(|| CliError::new("the object has no pod template"))?;
        let object = |json: &mut Json| {
            if !json.is_object() {
                *json = Json::Object(serde_json::Map::new())
            }
        };
        let metadata = template.entry("metadata").or_insert(Json::Null);
        object(metadata);
        if let Some(metadata) = metadata.as_object_mut() {
            let annotations = metadata.entry("annotations").or_insert(Json::Null);
            object(annotations);
            annotations[names::STEP_PATCH] = Json::from(patch);
        }
        Ok(())
    }

    /// The JSON text of the pod, or of the template.
    pub(super) fn pod_text(&self) -> Result<String, CliError> {
        let template = self.json.pointer(self.pointer);
        template.map(Json::to_string).ok_or_else(|| CliError::new("the object has no pod template"))
    }

    /// Reads the pod out of [`Object::pod_text`].
    pub(super) fn pod<'a>(&self, text: &'a str) -> Result<Pod<'a>, CliError> {
        let mut pod = Pod::parse(text).map_err(|error| CliError::because("failed to read the pod", error))?;
        pod.pointer = self.pointer;
        pod.of_job |= self.of_job;
        Ok(pod)
    }

    /// The whole of it as YAML that kubectl reads back as it is.
    ///
    /// # Errors
    /// An object deeper than any that was read.
    pub(super) fn to_yaml(&self) -> Result<String, CliError> {
        let text = self.json.to_string();
        let value = from_json(&text, JsonLimits { depth: yaml::Options::KUBECTL.limits.depth });
        value.map(|value| yaml::to_yaml(&value)).map_err(|error| CliError::because("failed to print the object", error))
    }

    /// Decides the object as the webhook would decide its pod.
    pub(super) fn decide(&self, namespace: &str, snapshot: &Snapshot, policy: &Policy) -> Result<Decision, CliError> {
        let text = self.pod_text()?;
        Ok(decide_pod(&self.pod(&text)?, namespace, snapshot, policy))
    }

    /// Applies a decision's patch, as the API server does.
    pub(super) fn apply(&mut self, decision: &Decision) -> Result<(), CliError> {
        let (Some(patch), false) = (&decision.patch, matches!(decision.verdict, Verdict::Denied(_))) else {
            return Ok(());
        };
        let fail = |what: &str, error: String| CliError::new(format!("failed to {what} podlayer's own patch: {error}"));
        let patch: json_patch::Patch = serde_json::from_str(patch).map_err(|error| fail("read", error.to_string()))?;
        json_patch::patch(&mut self.json, &patch).map_err(|error| fail("apply", error.to_string()))
    }
}
