//! What a change of the layers does: one pod with the old and with the new ones, and many pods summed up.

use std::{collections::BTreeMap, fmt::Write};

use serde::Serialize;

use crate::{
    admission::{Pod, Policy, Trace, trace},
    layers::{Snapshot, complaint::Printable},
    schema::{POD, Type, TypeId},
    value::{Path, Segment, Value, to_json},
};

use super::Explanation;

/// What becomes of one pod.
#[derive(Clone, Debug, Serialize)]
pub struct Effect {
    /// What it is, as people name it.
    pub subject: String,
    /// Why it would be refused now, where it wasn't before or for another reason.
    pub refused: Option<String>,
    /// It was refused before and isn't any more.
    pub allowed_again: bool,
    /// What is different, by path.
    pub changes: Vec<Change>,
    /// Layers that are left out now and weren't before, and why.
    pub skipped: Vec<(String, String)>,
}

/// One field that is different.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct Change {
    /// Where in the pod.
    pub path: String,
    /// With the old layers, as JSON.
    pub before: Option<String>,
    /// With the new layers, as JSON.
    pub after: Option<String>,
    /// The layer that makes it so: the new one's, or the old one's that no longer sets it.
    pub layer: String,
}

/// A pod with one set of layers.
struct Outcome {
    fields: BTreeMap<String, String>,
    explanation: Explanation,
}

impl Outcome {
    fn of(trace: &Trace<'_, '_>) -> Self {
        let mut fields = BTreeMap::new();
        leaves(trace.after, Some((POD.pod(), None)), &mut Path::root(), &mut fields);
        Self { fields, explanation: Explanation::of(trace) }
    }
}

/// What a change of the layers does to a pod; nothing where both sets leave it as it is, or alike.
pub fn effect(
    subject: &str,
    pod: &Pod<'_>,
    namespace: &str,
    (old, new): (&Snapshot, &Snapshot),
    policy: &Policy,
) -> Option<Effect> {
    let old = trace(pod, namespace, old, policy, Outcome::of)?;
    let new = trace(pod, namespace, new, policy, Outcome::of)?;
    let refused = new.explanation.denial.clone().filter(|denial| old.explanation.denial.as_ref() != Some(denial));
    let allowed_again = old.explanation.denial.is_some() && new.explanation.denial.is_none();
    let is_new = |skip: &&(String, String)| !old.explanation.skipped.contains(skip);
    let skipped: Vec<_> = new.explanation.skipped.iter().filter(is_new).cloned().collect();
    let mut changes = Vec::new();
    if new.explanation.denial.is_none() && old.explanation.denial.is_none() {
        let mut paths: Vec<&String> = old.fields.keys().chain(new.fields.keys()).collect();
        paths.sort_unstable();
        paths.dedup();
        for path in paths {
            let (before, after) = (old.fields.get(path), new.fields.get(path));
            if before == after {
                continue;
            }
            let layer =
                new.explanation.layer_of(path).or_else(|| old.explanation.layer_of(path)).unwrap_or("(the pod's own)");
            let (path, layer) = (path.clone(), layer.to_owned());
            changes.push(Change { path, before: before.cloned(), after: after.cloned(), layer });
        }
    }
    let something = refused.is_some() || allowed_again || !changes.is_empty() || !skipped.is_empty();
    something.then(|| Effect { subject: subject.to_owned(), refused, allowed_again, changes, skipped })
}

/// What is different between two specs of a pod, whoever made it so.
pub fn compare(before: &Value<'_>, after: &Value<'_>) -> Vec<Change> {
    let fields = |spec: &Value<'_>| {
        let mut fields = BTreeMap::new();
        leaves(spec, Some((POD.pod_spec(), None)), &mut Path::field("spec"), &mut fields);
        fields
    };
    let (before, after) = (fields(before), fields(after));
    let mut paths: Vec<&String> = before.keys().chain(after.keys()).collect();
    paths.sort_unstable();
    paths.dedup();
    let change = |path: &String| {
        let (before, after) = (before.get(path).cloned(), after.get(path).cloned());
        (before != after).then(|| Change { path: path.clone(), before, after, layer: String::new() })
    };
    paths.into_iter().filter_map(change).collect()
}

/// Every leaf of a pod by its path.
fn leaves(
    value: &Value<'_>,
    ty: Option<(TypeId, Option<&'static str>)>,
    path: &mut Path,
    out: &mut BTreeMap<String, String>,
) {
    match value {
        Value::Object(map) if !map.is_empty() => {
            for (key, value) in map.iter() {
                path.push(Segment::Field(key.to_owned()));
                leaves(value, ty.and_then(|(ty, _)| super::document::child(ty, key)), path, out);
                path.pop();
            }
        }
        Value::List(items) => {
            let key = ty.and_then(|(_, key)| key).filter(|key| items.iter().all(|item| item.get(key).is_some()));
            let Some(key) = key.filter(|_| !items.is_empty()) else {
                out.insert(path.to_string(), to_json(value));
                return;
            };
            let item_ty = ty.and_then(|(ty, _)| match POD.target(ty).1 {
                Type::Slice(item) => Some((*item, None)),
                _ => None,
            });
            for item in items {
                let name = item.get(key).and_then(Value::scalar_text).unwrap_or_default().into_owned();
                path.push(Segment::Item { key: key.to_owned(), value: name });
                item_leaves(item, key, item_ty, path, out);
                path.pop();
            }
        }
        _ => _ = out.insert(path.to_string(), to_json(value)),
    }
}

/// The leaves of an item, but for its merge key, which the path names already; the item itself if it has no others.
fn item_leaves(
    item: &Value<'_>,
    key: &str,
    ty: Option<(TypeId, Option<&'static str>)>,
    path: &mut Path,
    out: &mut BTreeMap<String, String>,
) {
    let Some(map) = item.as_object().filter(|map| map.len() > 1) else {
        out.insert(path.to_string(), to_json(item));
        return;
    };
    for (field, value) in map.iter().filter(|(field, _)| *field != key) {
        path.push(Segment::Field(field.to_owned()));
        leaves(value, ty.and_then(|(ty, _)| super::document::child(ty, field)), path, out);
        path.pop();
    }
}

/// The effects on many pods.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    /// How many pods were looked at.
    pub pods: usize,
    /// How many of them had nothing to do with podlayer.
    pub not_opted_in: usize,
    /// Those on which the new layers do something else; refused ones first.
    pub effects: Vec<Effect>,
}

impl Summary {
    /// Puts the refused ones first, else in the order in which they came.
    pub fn new(pods: usize, not_opted_in: usize, mut effects: Vec<Effect>) -> Self {
        effects.sort_by_key(|effect| effect.refused.is_none());
        Self { pods, not_opted_in, effects }
    }

    /// For people: refusals, then each field and layer with the number of pods.
    pub fn to_text(&self) -> String {
        let mut out = String::new();
        let refused: Vec<_> = self.effects.iter().filter_map(|e| Some((&e.subject, e.refused.as_ref()?))).collect();
        let _ = writeln!(
            out,
            "{} of {} pods would be different, {} refused ({} not opted in)",
            self.effects.len(),
            self.pods,
            refused.len(),
            self.not_opted_in
        );
        for (subject, why) in refused {
            for line in why.lines() {
                let _ = writeln!(out, "refused: {}: {}", Printable(subject), Printable(line));
            }
        }
        for effect in self.effects.iter().filter(|effect| effect.allowed_again) {
            let _ = writeln!(out, "allowed again: {}", Printable(&effect.subject));
        }
        let mut fields: BTreeMap<(&str, &str), Vec<(&Change, &str)>> = BTreeMap::new();
        let mut skips: BTreeMap<(&str, &str), usize> = BTreeMap::new();
        for effect in &self.effects {
            for change in &effect.changes {
                fields.entry((&change.path, &change.layer)).or_default().push((change, &effect.subject));
            }
            for (layer, why) in &effect.skipped {
                *skips.entry((layer, why)).or_default() += 1;
            }
        }
        for ((path, layer), changes) in fields {
            let _ = write!(out, "{path}  {layer}, {}: ", pods(changes.len()));
            let Some((first, subject)) = changes.first() else { continue };
            let shown = |value: &Option<String>| Printable(value.as_deref().unwrap_or("(nothing)")).to_string();
            let _ = write!(out, "{} → {}", shown(&first.before), shown(&first.after));
            let alike = changes.iter().all(|(other, _)| (&other.before, &other.after) == (&first.before, &first.after));
            let _ = if alike { writeln!(out) } else { writeln!(out, " in {}, others differ", Printable(subject)) };
        }
        for ((layer, why), count) in skips {
            let _ = writeln!(out, "{layer} left out, {}: {}", pods(count), Printable(why));
        }
        out
    }
}

fn pods(count: usize) -> String {
    if count == 1 { "1 pod".into() } else { format!("{count} pods") }
}
