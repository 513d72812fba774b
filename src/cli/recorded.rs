//! Pods and Jobs out of files and recordings.

use std::{collections::HashSet, path::PathBuf};

use serde_json::Value as Json;

use super::{files, object::Object, report::CliError};
use crate::{layers::manifest, value::to_json, yaml};

/// Objects that make pods, with what to call them.
#[derive(Default)]
pub(super) struct Recorded {
    /// The objects.
    pub objects: Vec<(String, Object)>,
    /// How many others there were.
    pub others: usize,
    /// Recorded creations whose object wasn't written down.
    pub without_object: usize,
}

impl Recorded {
    /// Takes one in, whatever it is.
    pub(super) fn add(&mut self, json: Json, place: &str) {
        if let Some(items) = json.get("items").and_then(Json::as_array) {
            let kind = json["kind"].as_str().and_then(|kind| kind.strip_suffix("List")).unwrap_or_default();
            for item in items {
                let mut item = item.clone();
                if item.get("kind").is_none() && item.is_object() && !kind.is_empty() {
                    item["kind"] = Json::from(kind);
                }
                self.add(item, place);
            }
            return;
        }
        match json.get("kind").and_then(Json::as_str) {
            Some("AdmissionReview") => return self.request(&json["request"], place),
            Some("Event") if json.get("auditID").is_some() => return self.event(&json, place),
            _ => {}
        }
        let metadata = &json["metadata"];
        let name = metadata["name"].as_str().or_else(|| metadata["generateName"].as_str()).unwrap_or_default();
        let subject = match (json["kind"].as_str(), name) {
            (Some(kind), name) if !name.is_empty() => format!("{place} {}/{name}", kind.to_lowercase()),
            _ => place.to_owned(),
        };
        match Object::of_json(json, place) {
            Ok(object) => self.objects.push((subject, object)),
            Err(_) => self.others += 1,
        }
    }

    fn request(&mut self, request: &Json, place: &str) {
        if request["operation"] != "CREATE" || !request["subResource"].as_str().unwrap_or_default().is_empty() {
            self.others += 1;
            return;
        }
        let kind = request["kind"]["kind"].clone();
        self.created(request["object"].clone(), kind, &request["namespace"], place);
    }

    fn event(&mut self, event: &Json, place: &str) {
        let about = &event["objectRef"];
        let kind = match about["resource"].as_str() {
            Some("pods") => "Pod",
            Some("jobs") => "Job",
            _ => "",
        };
        let is_create = event["verb"] == "create" && about["subresource"].as_str().unwrap_or_default().is_empty();
        // Each request is written down at several stages; the last one has it all.
        if !is_create || kind.is_empty() || event["stage"].as_str().is_some_and(|stage| stage != "ResponseComplete") {
            self.others += 1;
            return;
        }
        self.created(event["requestObject"].clone(), Json::from(kind), &about["namespace"], place);
    }

    fn created(&mut self, mut object: Json, kind: Json, namespace: &Json, place: &str) {
        if !object.is_object() {
            self.without_object += 1;
            return;
        }
        if object.get("kind").is_none() {
            object["kind"] = kind;
        }
        if let (Some(namespace), Some(metadata)) = (namespace.as_str(), object["metadata"].as_object_mut()) {
            metadata.entry("namespace").or_insert_with(|| Json::from(namespace));
        }
        self.add(object, place);
    }

    /// Reads manifests out of files and folders.
    pub(super) fn read_files(&mut self, paths: &[PathBuf]) -> Result<(), CliError> {
        for (path, text) in files::texts(paths)? {
            let file = path.display().to_string();
            for (line, part) in manifest::documents(&text) {
                let parsed = yaml::parse(part, &yaml::Options::KUBECTL).map_err(|error| {
                    let at = error.at().within(crate::value::Position { line, column: 1 }, 0);
                    CliError::new(format!("{file}, {at}: {error}"))
                })?;
                let json = serde_json::from_str(&to_json(&parsed.document.value));
                self.add(json.map_err(|error| CliError::because(format!("failed to read {file}"), error))?, &file);
            }
        }
        Ok(())
    }

    /// Reads recordings: a JSON object a line, or one for the whole file.
    pub(super) fn read_log(&mut self, paths: &[PathBuf]) -> Result<(), CliError> {
        for path in paths {
            let (text, file) = files::text_of(path)?;
            let mut seen = HashSet::new();
            for (at, json) in serde_json::Deserializer::from_str(&text).into_iter::<Json>().enumerate() {
                let json = json
                    .map_err(|error| CliError::because(format!("{file}: failed to read record {}", at + 1), error))?;
                // A log may hold an event twice, where it was rotated while being written.
                let id = json["auditID"].as_str().map(|id| (id.to_owned(), json["stage"].to_string()));
                if id.is_none_or(|id| seen.insert(id)) {
                    self.add(json, &format!("{file} record {}", at + 1));
                }
            }
        }
        Ok(())
    }
}
