//! Step patches in whatever brings them: Pods and Jobs, workflows of Tekton and Argo, pipelines of Buildkite and GitLab.

use crate::{
    layers::Complaint,
    names,
    presets::{self, Preset},
    value::{Document, Map, Marks, Position, Value},
};

/// One step patch.
pub(super) struct Embedded {
    /// What was found.
    pub body: Body,
    /// Where it starts.
    pub at: Position,
    /// Where its key stands.
    pub key: Position,
    /// Which CI system's the pod will be.
    pub preset: &'static Preset,
    /// It stands on a Job, where nobody reads it.
    pub misplaced: bool,
    system: System,
}

/// What stands in the place of a step patch.
pub(super) enum Body {
    /// The patch.
    Text(Text),
    /// The patch as an object of the file itself, with the directives whose `$` will be taken for a variable's.
    Object(Box<Document>, Vec<(Position, String)>),
    /// Something that isn't text.
    Wrong,
}

/// A patch as the pod will have it.
pub(super) struct Text {
    /// The patch.
    pub patch: String,
    /// Directives whose `$` will be taken for a variable's, with their places in the text as it stands in the file.
    pub unescaped: Vec<(Position, String)>,
    /// Where a `$` was taken out: places in the patch.
    dollars: Vec<Position>,
    /// Lines on which variables stand, whose values nobody knows yet.
    variables: Vec<u32>,
    /// How much stands before the patch on its first line.
    before: u32,
}

#[derive(Clone, Copy, Eq, PartialEq)]
enum System {
    Buildkite,
    GitLab,
    Other,
}

const DIRECTIVES: &[&str] = &["$patch", "$retainKeys", "$setElementOrder", "$deleteFromPrimitiveList"];

/// What only a step of Buildkite has, and no item of any list of a pod.
const STEP: &[&str] = &["plugins", "commands", "trigger", "agents", "label", "block"];

/// The variables from which GitLab's runner makes annotations (`KUBERNETES_POD_ANNOTATIONS_1: key=value`).
const GITLAB_ANNOTATIONS: &str = "KUBERNETES_POD_ANNOTATIONS";

impl Embedded {
    /// Who takes `$` for a variable's.
    pub(super) fn expands(&self) -> &'static str {
        if self.system == System::GitLab { "GitLab's variables" } else { "Buildkite's pipeline upload" }
    }
}

impl Text {
    fn of(value: &str, system: System) -> Self {
        let prefix = format!("{}=", names::STEP_PATCH);
        let (before, value) = match value.strip_prefix(&prefix) {
            Some(rest) if system == System::GitLab => (u32::try_from(prefix.chars().count()).unwrap_or(0), rest),
            _ => (0, value),
        };
        let mut text = Self {
            patch: String::with_capacity(value.len()),
            unescaped: Vec::new(),
            dollars: Vec::new(),
            variables: Vec::new(),
            before,
        };
        if system == System::Other {
            text.patch.push_str(value);
            return text;
        }
        let mut rest = value;
        let mut at = Position::START;
        let mut out = Position::START;
        while let Some(c) = rest.chars().next() {
            let directive = DIRECTIVES.iter().find(|directive| rest.starts_with(**directive));
            let escaped = rest.starts_with("$$") || rest.starts_with("\\$");
            if escaped {
                text.dollars.push(out);
                text.patch.push('$');
                rest = &rest[2..];
                at.column += 2;
                out.column += 1;
                continue;
            }
            if let Some(directive) = directive {
                let shown = if at.line == 1 { Position { column: at.column + before, ..at } } else { at };
                text.unescaped.push((shown, (*directive).to_owned()));
            } else if c == '$' {
                text.variables.push(at.line);
            }
            text.patch.push(c);
            rest = &rest[c.len_utf8()..];
            for position in [&mut at, &mut out] {
                if c == '\n' {
                    *position = Position { line: position.line + 1, column: 1 };
                } else {
                    position.column += 1;
                }
            }
        }
        text
    }

    /// Where a place in the patch stands in the text of the file.
    pub(super) fn position(&self, at: Position) -> Position {
        let taken = self.dollars.iter().filter(|dollar| dollar.line == at.line && dollar.column < at.column).count();
        let before = if at.line == 1 { self.before } else { 0 };
        Position { column: at.column + before + u32::try_from(taken).unwrap_or(0), ..at }
    }

    /// Whether a complaint is about a line with a variable, whose value decides.
    pub(super) fn is_variable(&self, complaint: &Complaint) -> bool {
        complaint.at.is_some_and(|at| self.variables.contains(&at.line))
    }
}

/// Whether something without a kind is a pipeline and no patch.
pub(super) fn is_pipeline(value: &Value<'_>) -> bool {
    system_of(value) != System::Other || value.get("steps").is_some()
}

fn system_of(value: &Value<'_>) -> System {
    // A pipeline may be its steps alone.
    if let Value::List(items) = value {
        let is_step = |item: &Value<'_>| {
            STEP.iter().any(|key| item.get(key).is_some())
                || (item.get("command").is_some() && item.get("image").is_none())
                || item.as_str() == Some("wait")
        };
        return if items.iter().any(is_step) { System::Buildkite } else { System::Other };
    }
    let Value::Object(map) = value else { return System::Other };
    if map.contains_key("kind") || map.contains_key("apiVersion") {
        return System::Other;
    }
    if map.get("steps").is_some_and(|steps| matches!(steps, Value::List(_))) {
        return System::Buildkite;
    }
    let is_job = |value: &Value<'_>| value.get("script").is_some() || value.get("variables").is_some();
    let gitlab = ["stages", "variables", "include", "default", "workflow"].iter().any(|key| map.contains_key(key));
    if gitlab || map.iter().any(|(_, value)| is_job(value)) { System::GitLab } else { System::Other }
}

/// Every step patch of a document.
pub(super) fn find(document: &Document) -> Vec<Embedded> {
    let kind = document.value.get("kind").and_then(Value::as_str).unwrap_or_default();
    let group = document.value.get("apiVersion").and_then(Value::as_str).unwrap_or_default();
    let preset = match group.split('/').next() {
        Some("tekton.dev") => presets::named("tekton"),
        Some("argoproj.io") => presets::named("argo"),
        _ => None,
    };
    let system = system_of(&document.value);
    let preset = match system {
        System::Buildkite => presets::named("buildkite"),
        System::GitLab => presets::named("gitlab"),
        System::Other => preset,
    };
    // Made by hand, a ConfigMap's data holds texts, not annotations; a layer is looked at elsewhere.
    if kind == "ConfigMap" {
        return Vec::new();
    }
    let mut search = Search { system, preset, is_job: kind == "Job" || kind == "CronJob", found: Vec::new() };
    search.go(&document.value, &document.marks, None, &mut Vec::new());
    search.found
}

struct Search {
    system: System,
    preset: Option<&'static Preset>,
    is_job: bool,
    found: Vec<Embedded>,
}

impl Search {
    /// `around` is the object that holds this one: the metadata, where this is its annotations. Recursion is bounded by
    /// the depth that the YAML reader allows.
    fn go<'d>(
        &mut self,
        value: &'d Value<'static>,
        marks: &'d Marks,
        around: Option<&'d Value<'static>>,
        path: &mut Vec<&'d str>,
    ) {
        match value {
            Value::Object(map) => {
                for ((key, inner), marks) in map.iter().zip(&marks.children) {
                    if key == names::STEP_PATCH {
                        self.push(inner, marks, around, path);
                    } else if self.is_gitlab(key, inner) {
                        self.push(inner, marks, None, path);
                    } else if key == names::KEY_PATCH && self.system == System::Buildkite && is_plugin(path) {
                        self.plugin(inner, marks);
                    } else {
                        path.push(key);
                        self.go(inner, marks, Some(value), path);
                        path.pop();
                    }
                }
            }
            Value::List(items) => {
                for (item, marks) in items.iter().zip(&marks.children) {
                    self.go(item, marks, around, path);
                }
            }
            _ => {}
        }
    }

    fn is_gitlab(&self, key: &str, value: &Value<'_>) -> bool {
        let is_ours = || {
            value
                .as_str()
                .and_then(|text| text.strip_prefix(names::STEP_PATCH))
                .is_some_and(|rest| rest.starts_with('='))
        };
        self.system == System::GitLab && key.starts_with(GITLAB_ANNOTATIONS) && is_ours()
    }

    fn push(&mut self, value: &Value<'_>, marks: &Marks, metadata: Option<&Value<'_>>, path: &[&str]) {
        let labels = metadata.and_then(|metadata| metadata.get("labels"));
        let preset = self.preset.unwrap_or_else(|| presets::of(|key| labels?.get(key)?.as_str()));
        self.found.push(Embedded {
            body: value.as_str().map_or(Body::Wrong, |text| Body::Text(Text::of(text, self.system))),
            at: marks.at,
            key: marks.shown(),
            preset,
            misplaced: self.is_job && path == ["metadata", "annotations"],
            system: self.system,
        });
    }

    /// The plugin's own patch, which the controller applies by the same rules: an object, or its text.
    fn plugin(&mut self, value: &Value<'static>, marks: &Marks) {
        let Some(preset) = self.preset else { return };
        let body = match value.as_str() {
            Some(text) => Body::Text(Text::of(text, self.system)),
            None => {
                let mut unescaped = Vec::new();
                dollars(value, marks, &mut unescaped);
                Body::Object(Box::new(Document { value: without_doubles(value), marks: marks.clone() }), unescaped)
            }
        };
        let (at, key) = (marks.at, marks.shown());
        self.found.push(Embedded { body, at, key, preset, misplaced: false, system: self.system });
    }
}

/// Whether a path ends inside Buildkite's plugin for Kubernetes.
fn is_plugin(path: &[&str]) -> bool {
    path.last().is_some_and(|name| {
        let name = name.split('#').next().unwrap_or_default();
        name == "kubernetes" || name.ends_with("/kubernetes")
    })
}

/// Directives among the keys below a place whose `$` isn't doubled.
fn dollars(value: &Value<'_>, marks: &Marks, out: &mut Vec<(Position, String)>) {
    match value {
        Value::Object(map) => {
            for ((key, value), marks) in map.iter().zip(&marks.children) {
                if DIRECTIVES.iter().any(|directive| key.starts_with(directive)) {
                    out.push((marks.shown(), key.to_owned()));
                }
                dollars(value, marks, out);
            }
        }
        Value::List(items) => items.iter().zip(&marks.children).for_each(|(item, marks)| dollars(item, marks, out)),
        _ => {}
    }
}

/// What is left of an object when every `$$` is `$`.
fn without_doubles(value: &Value<'static>) -> Value<'static> {
    let single = |text: &str| text.replace("$$", "$");
    match value {
        Value::String(text) => Value::from(single(text)),
        Value::List(items) => Value::List(items.iter().map(without_doubles).collect()),
        Value::Object(map) => {
            let mut out = Map::with_capacity(map.len());
            for (key, value) in map.iter() {
                out.insert(single(key), without_doubles(value));
            }
            Value::Object(out)
        }
        other => other.clone(),
    }
}
