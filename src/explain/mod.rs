//! Why a pod has what it has: for every field that a layer asserts, its value, the layer, where in the layer's text, and
//! what it replaced.

mod document;
pub mod effect;
mod html;
mod original;
mod text;

use std::{borrow::Cow, collections::BTreeMap};

use document::Row;
pub use original::{UNKNOWN_ORIGINAL, compare_stamps, job_of, of_template};
use serde::Serialize;

use crate::{
    admission::Trace,
    layers::{
        Apply, Layer,
        patterns::{self, Pattern},
    },
    names,
    value::{Path, Position, Segment, Value, to_json},
};

/// The whole answer for one pod.
#[derive(Clone, Debug, Serialize)]
pub struct Explanation {
    /// What is explained, as people name it: `job/build-1`, `pod.yaml`.
    pub subject: String,
    /// What to know about this answer: where it can't be exact, and why.
    pub notes: Vec<String>,
    /// One for each field that a layer asserts, sorted by path.
    pub lines: Vec<Line>,
    /// The layers that applied, in order.
    pub layers: Vec<String>,
    /// The layers that didn't, and why.
    pub skipped: Vec<(String, String)>,
    /// Containers that a layer names and the pod lacks.
    pub absent: Vec<(String, Vec<String>)>,
    /// Why the pod would be refused.
    pub denial: Option<String>,
    /// Refusals of its pods that the cluster has on record, newest first.
    pub refusals: Vec<String>,
    /// The pod, row by row.
    #[serde(skip)]
    rows: Vec<Row>,
}

/// One field.
#[derive(Clone, Debug, Serialize)]
pub struct Line {
    /// Where in the pod.
    pub path: String,
    /// Its value as JSON; nothing for a field that a layer took away.
    pub value: Option<String>,
    /// The last layer to assert it.
    pub layer: String,
    /// Where that layer comes from.
    pub source: String,
    /// Which key of that layer's ConfigMap: `podSpecPatch` or `podMetadata`.
    pub key: &'static str,
    /// Where in that layer's patch, or in its labels and annotations.
    pub line: u32,
    /// See `line`.
    pub column: u32,
    /// The target in the patch that met the container, where it isn't the container's name: `containers[name=@command]`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub via: Option<String>,
    /// What stood there before.
    pub replaced: Option<Replaced>,
}

/// What a layer replaced.
#[derive(Clone, Debug, Serialize)]
pub struct Replaced {
    /// Its value as JSON; nothing for a field that was taken away.
    pub value: Option<String>,
    /// Whose it was: a layer, or `pod` for the pod as it was created.
    pub by: String,
}

struct Asserted<'a> {
    layer: &'a Layer,
    at: Position,
    set: bool,
    path: Cow<'a, Path>,
    pattern: Option<&'a Pattern>,
}

/// What layers assert, by path, in the order of the layers.
type Fields<'a> = BTreeMap<Cow<'a, str>, Vec<Asserted<'a>>>;

fn push<'a>(fields: &mut Fields<'a>, text: Cow<'a, str>, asserted: Asserted<'a>) {
    let chain = fields.entry(text).or_default();
    // A layer that names a path twice (delete, then add; by a glob, then exactly) says one thing: the last.
    if chain.last().is_some_and(|last| last.layer.id == asserted.layer.id) {
        chain.pop();
    }
    chain.push(asserted);
}

impl Explanation {
    /// Reads the way of one decision.
    pub fn of(trace: &Trace<'_, '_>) -> Self {
        let mut fields = Fields::new();
        for layer in trace.stack {
            let fills = layer.options.apply == Apply::IfAbsent;
            for expanded in patterns::expanded(layer, trace.after.get("spec"), trace.preset) {
                if fills && !expanded.borne {
                    continue;
                }
                let text = expanded.path.to_string();
                let (assertion, pattern) = (expanded.assertion, Some(expanded.pattern));
                let path = Cow::Owned(expanded.path);
                push(&mut fields, text.into(), Asserted { layer, at: assertion.at, set: assertion.set, path, pattern });
            }
            // What the pod had already isn't the layer's.
            let borne = if fills { layer.borne_out(trace.after) } else { Vec::new() };
            for (at, assertion) in layer.assertions.iter().enumerate() {
                if fills && borne.get(at) != Some(&true) {
                    continue;
                }
                let (text, path) = (assertion.text.as_str(), Cow::Borrowed(&assertion.path));
                push(
                    &mut fields,
                    text.into(),
                    Asserted { layer, at: assertion.at, set: assertion.set, path, pattern: None },
                );
            }
        }
        let order: Vec<String> = trace.stack.iter().map(|layer| layer.id.to_string()).collect();
        let makers = document::makers(
            trace.stack.iter().map(|layer| &layer.id).collect::<Vec<_>>().as_slice(),
            fields
                .values()
                .flatten()
                .filter(|asserted| asserted.set)
                .map(|asserted| (&*asserted.path, &asserted.layer.id)),
        );
        let mut lines = Vec::new();
        let mut owners = BTreeMap::new();
        for (text, chain) in &fields {
            let Some(line) = line(trace, text, chain) else { continue };
            if let (Some(last), Some(_)) = (chain.last(), &line.value) {
                owners.insert(text.to_string(), document::Owner { line: lines.len(), list: own_items(last) });
            }
            lines.push(line);
        }
        let rows = document::rows(
            trace.before,
            trace.after,
            &document::Owners { owners, makers, lines: &lines, order: &order },
        );
        Self {
            subject: String::new(),
            notes: Vec::new(),
            lines,
            layers: order,
            skipped: trace.skipped.iter().map(|skip| (skip.layer.to_string(), skip.why.clone())).collect(),
            absent: trace.absent.iter().map(|(layer, names)| (layer.to_string(), names.clone())).collect(),
            denial: trace.denial.map(|denial| denial.message.clone()),
            refusals: Vec::new(),
            rows,
        }
    }

    /// The layer that has the last word on a path, or on what it stands in.
    pub fn layer_of(&self, path: &str) -> Option<&str> {
        let covers = |line: &&Line| {
            path.strip_prefix(&line.path).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
        };
        self.lines.iter().filter(covers).max_by_key(|line| line.path.len()).map(|line| line.layer.as_str())
    }

    /// The fields that layers took away.
    fn removed(&self) -> impl Iterator<Item = &Line> {
        self.lines.iter().filter(|line| line.value.is_none())
    }
}

/// The items that a layer puts in a list which is merged as a whole: the list may hold others' as well.
fn own_items(last: &Asserted<'_>) -> Vec<String> {
    match asserted(last) {
        Some(Value::List(items)) => items.iter().map(to_json).collect(),
        _ => Vec::new(),
    }
}

fn line(trace: &Trace<'_, '_>, text: &str, chain: &[Asserted<'_>]) -> Option<Line> {
    let last = chain.last()?;
    let now = last.path.find(trace.after);
    if last.set != now.is_some() {
        return None;
    }
    let earlier = chain.len().checked_sub(2).and_then(|at| chain.get(at));
    let value = now.map(to_json);
    let replaced = match earlier {
        Some(earlier) => {
            Some(Replaced { value: asserted(earlier).map(|value| to_json(&value)), by: earlier.layer.id.to_string() })
        }
        None => last.path.find(trace.before).map(|value| Replaced { value: Some(to_json(value)), by: "pod".into() }),
    };
    let replaced = replaced.filter(|replaced| replaced.value != value);
    Some(Line {
        path: text.to_owned(),
        value,
        layer: last.layer.id.to_string(),
        source: last.layer.title.clone(),
        key: if text.starts_with("metadata") { names::KEY_METADATA } else { names::KEY_PATCH },
        line: last.at.line,
        column: last.at.column,
        via: last.pattern.map(Pattern::title),
        replaced,
    })
}

/// The value that a layer asserts at a path; nothing for one that it takes away.
fn asserted<'a>(asserted: &Asserted<'a>) -> Option<Value<'a>> {
    if !asserted.set {
        return None;
    }
    if let Some(pattern) = asserted.pattern {
        return Pattern::inner(&asserted.path).find(&pattern.item.value).map(Value::borrowed);
    }
    let inner = asserted.path.without_first(1);
    let in_patch = inner.find(&asserted.layer.patch.value).map(Value::borrowed);
    in_patch.or_else(|| {
        let [_, Segment::Field(kind), Segment::Field(key)] = asserted.path.segments() else {
            return None;
        };
        let kinds = asserted.layer.metadata.kinds();
        let (_, entries) = kinds.iter().find(|(name, _)| name == kind)?;
        let entry = entries.iter().find(|entry| entry.key == *key)?;
        entry.value.as_deref().map(Value::from)
    })
}
