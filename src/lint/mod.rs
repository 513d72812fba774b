//! What is wrong with files before anything runs: layers, and pods or Jobs that bring a step patch.

use serde::Serialize;

use crate::{
    layers::{Complaint, ParseError, Place, Scope, manifest, parse_step},
    names,
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

/// Looks at one file. All findings at once, in the order of the file.
pub fn lint(text: &str, file: &str, stem: &str, scope: Scope<'_>) -> Vec<Finding> {
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
        if let Err(ParseError(complaints)) = manifest::read(part, file, stem, scope) {
            findings.extend(complaints.iter().map(|complaint| of_complaint(complaint, file, start)));
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
    let Err(ParseError(complaints)) = parse_step(patch) else { return Vec::new() };
    complaints
        .iter()
        .map(|complaint| finding(file, manifest::inside(text, scalar, complaint.at), Severity::Error, cause(complaint)))
        .collect()
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
