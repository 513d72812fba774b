//! What is wrong with files before anything runs: layers, and pods or Jobs that bring a step patch.

mod traps;

use serde::Serialize;

use crate::{
    layers::{Complaint, Layer, ParseError, Place, Scope, manifest, parse_step},
    names,
    presets::{self, Preset},
    value::{Document, Path, Position, Segment, Value},
    yaml,
};

/// One thing to look at.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct Finding {
    /// The file.
    pub file: String,
    /// Line in the file, from 1.
    pub line: u32,
    /// Column in the file, from 1.
    pub column: u32,
    /// How bad it is.
    pub severity: Severity,
    /// What is wrong and what to write instead.
    pub message: String,
}

/// How bad a finding is.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// It would be refused.
    Error,
    /// It works, but maybe not as meant.
    Warning,
}

/// Where the annotations of a pod stand in the kinds of object that make pods.
const TEMPLATES: &[(&str, &str)] = &[
    ("Pod", "metadata.annotations"),
    ("Job", "spec.template.metadata.annotations"),
    ("CronJob", "spec.jobTemplate.spec.template.metadata.annotations"),
    ("PodTemplate", "template.metadata.annotations"),
];

/// Looks at one file. All findings at once, in the order of the file. `presets` are those whose traps to look for in
/// layers that don't say themselves which CI system they are for.
pub fn lint(text: &str, file: &str, stem: &str, scope: Scope<'_>, presets: &[&'static Preset]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (line, part) in manifest::documents(text) {
        let start = Position { line, column: 1 };
        let parsed = match yaml::parse(part, &yaml::Options::LAYER) {
            Ok(parsed) => parsed,
            Err(error) => {
                findings.push(finding(file, error.at().within(start, 0), Severity::Error, error.to_string()));
                continue;
            }
        };
        let kind = parsed.document.value.get("kind").and_then(Value::as_str).unwrap_or_default();
        if let Some((_, path)) = TEMPLATES.iter().find(|(known, _)| *known == kind) {
            findings.extend(step(text, &parsed.document, path, file, start));
            continue;
        }
        match manifest::read(part, file, stem, scope) {
            Err(ParseError(complaints)) => {
                findings.extend(complaints.iter().map(|complaint| of_complaint(complaint, file, start)));
            }
            Ok(layers) => {
                let at = |at: Position| in_patch(text, &parsed.document, start, at);
                findings.extend(layers.iter().flat_map(|layer| {
                    warnings(layer, &traps::presets_of(layer, presets), file).into_iter().map(|finding| {
                        let Position { line, column } = at(Position { line: finding.line, column: finding.column });
                        Finding { line, column, ..finding }
                    })
                }));
            }
        }
    }
    findings.sort_by_key(|finding| (finding.line, finding.column));
    findings
}

/// Looks at the step patch in an object's annotations.
fn step(text: &str, object: &Document, annotations: &str, file: &str, start: Position) -> Vec<Finding> {
    let Ok(mut path) = Path::parse(annotations) else { return Vec::new() };
    path.push(Segment::Field(names::STEP_PATCH.to_owned()));
    let Some(value) = path.find(&object.value) else { return Vec::new() };
    let scalar = object.locate_value(&path).within(start, 0);
    let Some(patch) = value.as_str() else {
        let message = format!("annotation {} must be text: write it as a block after |", names::STEP_PATCH);
        return vec![finding(file, scalar, Severity::Error, message)];
    };
    match parse_step(patch) {
        Err(ParseError(complaints)) => {
            let of = |complaint: &Complaint| {
                finding(file, manifest::inside(text, scalar, complaint.at), Severity::Error, cause(complaint))
            };
            complaints.iter().map(of).collect()
        }
        Ok(layer) => {
            let labels = Path::parse(&annotations.replace("annotations", "labels")).ok();
            let labels = labels.and_then(|path| path.find(&object.value));
            let preset = presets::of(|key| labels?.get(key)?.as_str());
            let inside = |finding: Finding| {
                let at = Some(Position { line: finding.line, column: finding.column });
                let Position { line, column } = manifest::inside(text, scalar, at);
                Finding { line, column, ..finding }
            };
            warnings(&layer, &[preset], file).into_iter().map(inside).collect()
        }
    }
}

/// What a layer does that its CI system takes badly, with the places in the layer's own text.
fn warnings(layer: &Layer, presets: &[&'static Preset], file: &str) -> Vec<Finding> {
    let found = traps::find(layer, presets);
    found.into_iter().map(|(at, text)| finding(file, at, Severity::Warning, text)).collect()
}

/// Where a place in a layer's patch stands in the file: within the ConfigMap's text, or in the bare patch.
fn in_patch(text: &str, document: &Document, start: Position, at: Position) -> Position {
    let data = document.value.get("data").filter(|_| document.value.get("kind").is_some());
    let key = data.and_then(Value::as_object).into_iter().flat_map(|map| map.keys());
    let mut keys = key.filter(|key| key.strip_suffix(".yaml").unwrap_or(key) == names::KEY_PATCH);
    let Some(key) = keys.next() else { return at.within(start, 0) };
    let mut path = Path::field("data");
    path.push(Segment::Field(key.to_owned()));
    manifest::inside(text, document.locate_value(&path).within(start, 0), Some(at))
}

fn of_complaint(complaint: &Complaint, file: &str, start: Position) -> Finding {
    let at = complaint.at.unwrap_or(Position::START).within(start, 0);
    finding(file, at, Severity::Error, cause(complaint))
}

/// The cause, and the place where that is more than the file.
fn cause(complaint: &Complaint) -> String {
    match &complaint.place {
        Place::Text(_) => complaint.cause.to_string(),
        _ => complaint.without_position(),
    }
}

fn finding(file: &str, at: Position, severity: Severity, message: String) -> Finding {
    Finding { file: file.to_owned(), line: at.line, column: at.column, severity, message }
}
