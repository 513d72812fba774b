//! What is wrong with files before anything runs: layers, and whatever brings a step patch, from a Job to a pipeline.

pub mod codes;
mod embedded;
mod output;
mod patch;
mod secrets;
mod traps;
mod values;
mod walk;

use codes::Code;
use embedded::{Body, Embedded};
pub use output::{github, sarif, text};
use serde::Serialize;

use crate::{
    layers::{Complaint, Layer, ParseError, Place, Scope, complaint::Printable, manifest, parse_step},
    names,
    presets::Preset,
    schema::{self, CheckOptions, POD, nearest, quoted},
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
    /// Which kind it is; docs/lint.md says more.
    pub code: &'static str,
    /// What is wrong and what to write instead.
    pub message: String,
}

/// All that there is to say of one file.
#[derive(Debug, Default)]
pub struct Report {
    /// What to look at, in the order of the file.
    pub findings: Vec<Finding>,
    /// What was passed over though somebody named the file: where, and what to write if it was meant for a layer.
    pub passed_over: Vec<(Position, String)>,
}

/// How bad a finding is.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// It would be refused, or can't be meant.
    Error,
    /// It works, but maybe not as meant.
    Warning,
}

impl Severity {
    /// As it is printed.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
        }
    }
}

/// One file to look at.
#[derive(Clone, Copy, Debug)]
pub struct Source<'s> {
    /// Its text.
    pub text: &'s str,
    /// How findings call it.
    pub file: &'s str,
    /// The name of a bare patch in it.
    pub stem: &'s str,
    /// Whether somebody named this very file, and not a folder that holds anything: then what has no kind is a patch.
    pub named: bool,
}

/// As layers are read, but that a key which is set twice is for the reader of layers to complain about.
const LENIENT: yaml::Options = yaml::Options { strict: false, ..yaml::Options::LAYER };

/// Looks at one file. All findings at once, in the order of the file. `presets` are those whose traps to look for in
/// layers that don't say themselves which CI system they are for. What is neither a layer nor brings a step patch has
/// no findings.
pub fn lint(source: Source<'_>, scope: Scope<'_>, presets: &[&'static Preset]) -> Vec<Finding> {
    report(source, scope, presets).findings
}

/// The same, with what was passed over.
pub fn report(source: Source<'_>, scope: Scope<'_>, presets: &[&'static Preset]) -> Report {
    let mut lint = Lint { source, scope, presets, report: Report::default() };
    let documents = manifest::documents(source.text);
    let several = documents.len() > 1;
    if documents.is_empty() && source.named {
        lint.report.passed_over.push((Position::START, "nothing stands in it".to_owned()));
    }
    for (line, part) in documents {
        lint.document(Position { line, column: 1 }, part, several);
    }
    let mut report = lint.report;
    report.findings.sort_by_key(|finding| (finding.line, finding.column));
    report.findings.dedup();
    report
}

/// Reads the layers of an object, whose complaints have their places in the document that it stands in.
type Reader<'r> = &'r dyn Fn() -> Result<Vec<Layer>, ParseError>;

struct Lint<'s> {
    source: Source<'s>,
    scope: Scope<'s>,
    presets: &'s [&'static Preset],
    report: Report,
}

impl Lint<'_> {
    fn push(&mut self, at: Position, code: &'static Code, message: String) {
        let Position { line, column } = at;
        let file = self.source.file.to_owned();
        // A key of the file may stand in it, with whatever its author wrote.
        let message = Printable(&message).to_string();
        self.report.findings.push(Finding { file, line, column, severity: code.severity, code: code.name, message });
    }

    fn document(&mut self, start: Position, part: &str, several: bool) {
        let parsed = match yaml::parse(part, &LENIENT) {
            Ok(parsed) => parsed,
            // In a folder, what isn't YAML may be anything: a chart's template.
            Err(_) if !self.source.named && part.contains("{{") => return,
            Err(error) => return self.syntax(start, part, error),
        };
        let document = &parsed.document;
        let (Source { file, stem, .. }, scope) = (self.source, self.scope);
        let Some(items) = manifest::items(document) else {
            let read = || manifest::read(part, file, stem, scope);
            return self.object(start, part, document, several, &read);
        };
        // Found by the reader of layers in what is no list.
        if let Err(error) = yaml::parse(part, &yaml::Options::LAYER) {
            self.syntax(start, part, error);
        }
        for item in &items {
            let read = || manifest::read_object(item, part, Position::START, file, scope).map(|layer| vec![layer]);
            self.object(start, part, item, true, &read);
        }
    }

    fn syntax(&mut self, start: Position, part: &str, error: yaml::Error) {
        let error = error.moved(&|at| at.within(start, 0));
        self.push(error.at(), codes::SYNTAX, format!("{error}{}", template(part)));
    }

    /// One object, which stands by itself or in a list; `read` reads it as a layer.
    fn object(&mut self, start: Position, part: &str, document: &Document, several: bool, read: Reader<'_>) {
        let embedded = embedded::find(document);
        let kind = document.value.get("kind").and_then(Value::as_str);
        let is_layer = match kind {
            Some(kind) => kind == "ConfigMap" && manifest::is_layer(&document.value),
            None => embedded.is_empty() && self.is_bare_patch(&document.value, several),
        };
        if is_layer {
            let read = read();
            self.layer(start, part, document, read);
        } else if embedded.is_empty() && self.source.named {
            let at = document.marks.at.within(start, 0);
            self.report.passed_over.push((at, passed_over(&document.value)));
        }
        for found in &embedded {
            self.embedded(start, found);
        }
    }

    /// Whether a document without a kind is a bare patch.
    fn is_bare_patch(&self, value: &Value<'_>, several: bool) -> bool {
        if embedded::is_pipeline(value) {
            return false;
        }
        let Value::Object(map) = value else { return self.source.named && !several };
        if map.contains_key("apiVersion") {
            return false;
        }
        if self.source.named {
            return true;
        }
        let schema::Type::Struct(spec) = POD.target(POD.pod_spec()).1 else { return false };
        let known = |key: &&str| key.starts_with('$') || nearest(key, spec.names()).is_some();
        let count = map.keys().filter(known).count();
        !several && count * 2 > map.len()
    }

    /// A ConfigMap or a bare patch.
    fn layer(&mut self, start: Position, part: &str, document: &Document, read: Result<Vec<Layer>, ParseError>) {
        let text = self.source.text;
        let read = read.map_err(|ParseError(complaints)| {
            for complaint in complaints {
                let complaint = complaint.moved(&|at| at.within(start, 0));
                let code = codes::of(&complaint.cause);
                let template = if code.name == codes::SYNTAX.name { template(part) } else { "" };
                self.push(complaint.at.unwrap_or(start), code, cause(&complaint) + template);
            }
        });
        self.labels(start, document);
        let (patch, inside) = patch_of(document, part);
        let place = |at: Position| match inside {
            Some(scalar) => manifest::inside(text, scalar.within(start, 0), Some(at)),
            None => at.within(start, 0),
        };
        if let Some(parsed) = patch.and_then(|patch| yaml::parse(patch, &yaml::Options::LAYER).ok()) {
            for (at, code, message) in patch::find(&parsed, false) {
                // What can't be read at all is told by the error at this place.
                let at = place(at);
                if code.name != codes::AMBIGUOUS.name || !self.has_error_at(at) {
                    self.push(at, code, message);
                }
            }
        }
        for layer in read.iter().flatten() {
            self.traps(layer, &traps::presets_of(layer, self.presets), &place);
        }
    }

    /// Labels that aren't text: they count as if they were, but the API server takes no such ConfigMap.
    fn labels(&mut self, start: Position, document: &Document) {
        let path =
            |key: &str| Path::field("metadata").join(Segment::Field("labels".into())).join(Segment::Field(key.into()));
        let labels = document.value.get("metadata").and_then(|metadata| metadata.get("labels"));
        for (key, value) in labels.and_then(Value::as_object).into_iter().flat_map(|labels| labels.iter()) {
            let Some(text) = value.scalar_text().filter(|_| value.as_str().is_none() && !value.is_null()) else {
                continue;
            };
            let at = document.locate_value(&path(key)).within(start, 0);
            self.push(at, codes::LAYER, format!("label {} must be text: write {}", quoted(key), quoted(&text)));
        }
    }

    fn traps(&mut self, layer: &Layer, presets: &[&'static Preset], place: &dyn Fn(Position) -> Position) {
        for (at, message) in traps::find(layer, presets) {
            self.push(place(at), codes::TRAP, message);
        }
    }

    fn has_error_at(&self, at: Position) -> bool {
        // The error may stand at the key, on the same line.
        self.report.findings.iter().any(|finding| finding.line == at.line && finding.severity == Severity::Error)
    }

    fn unescaped(&mut self, at: Position, directive: &str, found: &Embedded) {
        let message = format!("{directive} is expanded to nothing by {}: write ${directive}", found.expands());
        self.push(at, codes::UNESCAPED, message);
    }

    /// A patch that is an object of the file, as Buildkite's plugin takes it.
    fn plugin(&mut self, start: Position, found: &Embedded, document: &Document, unescaped: &[(Position, String)]) {
        for (at, directive) in unescaped {
            self.unescaped(at.within(start, 0), directive, found);
        }
        let checked = schema::check(document, POD.pod_spec(), &Path::field("spec"), CheckOptions { step: true });
        for finding in checked {
            let finding = finding.moved(&|at| at.within(start, 0));
            self.push(finding.at, codes::of_kind(&finding.kind), finding.to_string());
        }
        let parsed = yaml::Parsed { document: document.clone(), remarks: Vec::new() };
        for (at, code, message) in patch::find(&parsed, true) {
            self.push(at.within(start, 0), code, message);
        }
    }

    /// A step patch in whatever brings it.
    fn embedded(&mut self, start: Position, found: &Embedded) {
        let scalar = found.at.within(start, 0);
        if found.misplaced {
            let message =
                format!("{} on the Job itself is not read: write it on spec.template.metadata", names::STEP_PATCH);
            self.push(found.key.within(start, 0), codes::MISPLACED, message);
        }
        let text = match &found.body {
            Body::Text(text) => text,
            Body::Object(document, unescaped) => return self.plugin(start, found, document, unescaped),
            Body::Wrong => {
                let message = format!("annotation {} must be text: write it as a block after |", names::STEP_PATCH);
                return self.push(scalar, codes::NOT_TEXT, message);
            }
        };
        let file = self.source.text;
        let place = |at: Position| manifest::inside(file, scalar, Some(text.position(at)));
        for (at, directive) in &text.unescaped {
            let at = manifest::inside(file, scalar, Some(*at));
            self.unescaped(at, directive, found);
        }
        let layer = parse_step(&text.patch);
        match layer {
            Err(ParseError(complaints)) => {
                for complaint in complaints.into_iter().filter(|complaint| !text.is_variable(complaint)) {
                    let complaint = complaint.moved(&place);
                    let at = complaint.at.unwrap_or_else(|| place(Position::START));
                    self.push(at, codes::of(&complaint.cause), cause(&complaint));
                }
            }
            Ok(layer) => self.traps(&layer, &[found.preset], &place),
        }
        if let Ok(parsed) = yaml::parse(&text.patch, &yaml::Options::LAYER) {
            for (at, code, message) in patch::find(&parsed, true) {
                let at = place(at);
                if code.name != codes::AMBIGUOUS.name || !self.has_error_at(at) {
                    self.push(at, code, message);
                }
            }
        }
    }
}

/// What to say besides of a text that can't be read and may be a template.
fn template(part: &str) -> &'static str {
    if part.contains("{{") {
        "; a template is read once it is filled in, as by helm template CHART | podlayer lint -"
    } else {
        ""
    }
}

/// Why a document was passed over.
fn passed_over(value: &Value<'_>) -> String {
    let step = names::STEP_PATCH;
    match value.get("kind").and_then(Value::as_str) {
        Some("ConfigMap") => format!("a ConfigMap without the label {} is no layer and is passed over", names::LAYER),
        Some(kind) if nearest(kind, ["ConfigMap"]).is_some() => {
            format!("unknown kind {} is passed over, did you mean \"ConfigMap\"?", quoted(kind))
        }
        Some(kind) => format!(
            "kind {}: without the annotation {step} it is passed over; a layer is a ConfigMap with the label {}, or a file \
             with what stands below a pod's spec",
            quoted(kind),
            names::LAYER
        ),
        None => format!("neither a layer nor anything with the annotation {step}: passed over"),
    }
}

/// The text of the patch of a ConfigMap or bare patch, and where it starts in a ConfigMap.
fn patch_of<'d>(document: &'d Document, part: &'d str) -> (Option<&'d str>, Option<Position>) {
    if document.value.get("kind").is_none() {
        return (Some(part), None);
    }
    let data = document.value.get("data").and_then(Value::as_object);
    let entry = data.into_iter().flat_map(|data| data.iter());
    let mut entry = entry.filter(|(key, _)| key.strip_suffix(".yaml").unwrap_or(key) == names::KEY_PATCH);
    let Some((key, text)) = entry.next() else { return (None, None) };
    let path = Path::field("data").join(Segment::Field(key.to_owned()));
    (text.as_str(), Some(document.locate_value(&path)))
}

/// The cause, and the place where that is more than the file.
fn cause(complaint: &Complaint) -> String {
    match &complaint.place {
        Place::Text(_) => complaint.cause.to_string(),
        _ => complaint.without_position(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_is_one_line_whatever_the_keys_of_the_file_are() {
        let text = "\"node(\\tel\\necto\\u202er\": {$patch: replace, c: '3'}\n";
        let source = Source { text, file: "f.yaml", stem: "f", named: true };
        let findings = lint(source, Scope { own_namespace: "podlayer" }, &[]);
        assert!(findings.iter().any(|finding| finding.message.contains(r"node(\tel\necto\u{202e}r")), "{findings:?}");
        assert!(findings.iter().all(|finding| !finding.message.contains(char::is_control)), "{findings:?}");
    }
}
