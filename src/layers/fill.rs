//! `apply: IfAbsent`: a layer that only fills in what a pod lacks.
//!
//! The layer's patch is cut down to what the pod lacks when the layer's turn comes, field by field, in merged lists item
//! by item; then it is merged like any other. What the API server or LimitRanger filled in counts as lacking.

use std::collections::{HashMap, HashSet};

use super::{Cause, Complaint, Layer, MetadataPatch, Place, UnionList, patterns::Pattern};
use crate::{
    names,
    presets::{ContainerList, Preset},
    schema::{
        POD, Quantity, Struct, Type, TypeId,
        defaults::{default_of, is_default_item},
    },
    value::{Document, Map, Marks, Path, Position, Segment, Value},
};

/// What must be known to cut a patch down.
#[derive(Debug)]
pub struct Filling<'f> {
    /// The layers that had their turn before, whose values stay.
    pub earlier: &'f [&'f Layer],
    /// The pod's preset.
    pub preset: &'static Preset,
    /// The lists that the layer unites with the pod's.
    pub unions: &'f [UnionList],
}

/// What can't stand in a layer that only fills in: whatever takes something away, or moves it.
pub(super) fn check(patch: &Document, place: &Place) -> Vec<Complaint> {
    let mut found = Vec::new();
    walk(&patch.value, &patch.marks, &mut |what, at| {
        let text = format!("{what} in a layer with apply: IfAbsent, which only fills in what is missing: leave it out");
        found.push(Complaint { cause: Cause::Config(text), place: place.clone(), at: Some(at) });
    });
    found
}

/// The same for labels and annotations.
pub(super) fn check_metadata(metadata: &MetadataPatch, place: &Place) -> Vec<Complaint> {
    let entries = metadata.kinds().into_iter().flat_map(|(_, entries)| entries);
    let complaint = |entry: &super::metadata::Entry| {
        let text = format!(
            "{:?}: null in a layer with apply: IfAbsent, which only fills in what is missing: leave it out",
            entry.key
        );
        Complaint { cause: Cause::Config(text), place: place.clone(), at: Some(entry.at) }
    };
    entries.filter(|entry| entry.value.is_none()).map(complaint).collect()
}

/// Calls `out` for each null and directive. Recursion is bounded by the depth that the YAML reader allows.
fn walk(value: &Value<'_>, marks: &Marks, out: &mut impl FnMut(&str, Position)) {
    match value {
        Value::Object(map) => {
            for ((key, value), marks) in map.iter().zip(&marks.children) {
                if key.starts_with('$') {
                    out(key, marks.shown());
                } else if value.is_null() {
                    out("null", marks.shown());
                } else {
                    walk(value, marks, out);
                }
            }
        }
        Value::List(items) => items.iter().zip(&marks.children).for_each(|(item, marks)| walk(item, marks, out)),
        _ => {}
    }
}

impl Filling<'_> {
    /// What of a patch of the spec a pod lacks.
    pub fn cut<'a>(&self, patch: Value<'a>, pod: &Value<'_>) -> Value<'a> {
        let Some(spec) = pod.get("spec").and_then(Value::as_object) else { return patch };
        let Value::Object(map) = patch else { return Value::Object(Map::new()) };
        let mut cut = Cut { filling: self, limits: LimitRanger::of(pod), spec, path: Path::root() };
        Value::Object(cut.fields(map, spec, POD.pod_spec()))
    }
}

/// One patch being cut down.
struct Cut<'c, 'p> {
    filling: &'c Filling<'c>,
    limits: LimitRanger<'p>,
    spec: &'p Map<'p>,
    /// Where in the spec.
    path: Path,
}

/// Types whose fields belong together: who set one set all. Their default is none or all.
const WHOLE: &[&str] = &["AppArmorProfile", "EnvVar", "SeccompProfile"];

/// Fields of which an object may have only one.
fn one_of(owner: &str, field: &str) -> bool {
    match owner {
        "LifecycleHandler" | "Probe" => matches!(field, "exec" | "grpc" | "httpGet" | "sleep" | "tcpSocket"),
        "Volume" => field != "name",
        _ => false,
    }
}

impl Cut<'_, '_> {
    fn fields<'a>(&mut self, patch: Map<'a>, pod: &Map<'_>, ty: TypeId) -> Map<'a> {
        let owner = match POD.target(ty).1 {
            Type::Struct(owner) => Some(owner),
            _ => None,
        };
        let name = owner.map_or("", |owner| owner.name.as_ref());
        if WHOLE.contains(&name) {
            return Map::new();
        }
        let taken = owner.and_then(|_| pod.keys().find(|key| one_of(name, key)).map(str::to_owned));
        let mut kept = Map::with_capacity(patch.len());
        for (key, value) in patch {
            let shut_out = taken.as_deref().is_some_and(|taken| one_of(name, &key) && taken != key);
            if shut_out {
                continue;
            }
            let value = match pod.get(&key) {
                None | Some(Value::Null) => Some(value),
                Some(found) => {
                    self.path.push(Segment::Field(key.to_string()));
                    let field = field_of(ty, &key);
                    let value = self.field(value, found, pod, owner, &key, field);
                    self.path.pop();
                    value
                }
            };
            if let Some(value) = value {
                kept.insert(key, value);
            }
        }
        if name == "ResourceRequirements" {
            fit_resources(&mut kept, pod);
        }
        kept
    }

    /// What is left of the patch for a field that the pod has.
    fn field<'a>(
        &mut self,
        patch: Value<'a>,
        found: &Value<'_>,
        around: &Map<'_>,
        owner: Option<&Struct>,
        name: &str,
        field: Option<(TypeId, Option<&'static str>)>,
    ) -> Option<Value<'a>> {
        let (ty, merge_key) = field?;
        match (patch, found) {
            (Value::Object(patch), Value::Object(found)) => {
                let left = self.fields(patch, found, ty);
                (!left.is_empty()).then_some(Value::Object(left))
            }
            (Value::List(patch), Value::List(found)) if merge_key.is_some() => {
                let left = self.items(patch, found, name, ty, merge_key.unwrap_or_default());
                (!left.is_empty()).then_some(Value::List(left))
            }
            (patch @ Value::List(_), Value::List(_)) if self.is_united() => Some(patch),
            (patch, found) => {
                let row = owner.and_then(|owner| default_of(&owner.name, name));
                let is_default = row.is_some_and(|row| row.fits(found, around)) || self.limits.filled(&self.path);
                (is_default && !self.is_of_earlier(found)).then_some(patch)
            }
        }
    }

    /// What is left of a list whose items have names. Items that are there stay in the pod's order; new ones keep their
    /// place behind the item that the patch names before them.
    fn items<'a>(
        &mut self,
        patch: Vec<Value<'a>>,
        found: &[Value<'_>],
        field: &str,
        list: TypeId,
        merge_key: &'static str,
    ) -> Vec<Value<'a>> {
        let Type::Slice(item_ty) = POD.target(list).1 else { return Vec::new() };
        let name_of = |item: &Value<'_>| item.get(merge_key).and_then(Value::scalar_text).map(|text| text.into_owned());
        let places: HashMap<String, usize> =
            found.iter().enumerate().rev().filter_map(|(at, item)| Some((name_of(item)?, at))).collect();
        let mut groups = vec![Group::default()];
        for item in patch {
            let name = name_of(&item);
            let place = name.as_ref().and_then(|name| places.get(name)).copied();
            let (Some(name), Some(place)) = (name, place) else {
                // INVARIANT: there is a first group.
                if let Some(last) = groups.last_mut() {
                    last.new.push(item);
                }
                continue;
            };
            let group = match (item, &found[place]) {
                (item, there) if is_default_item(field, there) => Group { head: Some(item), ..Group::default() },
                (Value::Object(map), Value::Object(there)) => {
                    let named = map.get(merge_key).cloned().unwrap_or_default();
                    self.path.push(Segment::Item { key: merge_key.to_owned(), value: name });
                    let left = self.fields(map, there, *item_ty);
                    self.path.pop();
                    let bare = left.is_empty();
                    let head = std::iter::once((merge_key.into(), named)).chain(left).collect::<Map<'a>>();
                    Group { head: Some(Value::Object(head)), bare, ..Group::default() }
                }
                _ => Group::default(),
            };
            groups.push(Group { place: Some(place), ..group });
        }
        groups.sort_by_key(|group| group.place);
        groups.into_iter().flat_map(Group::into_items).collect()
    }

    /// Whether a layer that had its turn before put a value where the walk is.
    fn is_of_earlier(&self, found: &Value<'_>) -> bool {
        let means = |said: &Value<'_>| {
            let amounts =
                || matches!((Quantity::of(said), Quantity::of(found)), (Ok(said), Ok(found)) if said == found);
            said == found || (said.as_list().is_some() && found.as_list().is_some()) || amounts()
        };
        let by_pattern = |pattern: &Pattern| {
            let [Segment::Field(list), Segment::Item { value: name, .. }, ..] = self.path.segments() else {
                return false;
            };
            let items = self.spec.get(list).and_then(Value::as_list).unwrap_or_default();
            let container = items.iter().find(|item| item.get("name").and_then(Value::as_str) == Some(name));
            pattern.list.as_str() == list
                && container.is_some_and(|item| pattern.target.fits(self.filling.preset, pattern.list, item))
                && self.path.without_first(2).find(&pattern.item.value).is_some_and(means)
        };
        self.filling
            .earlier
            .iter()
            .any(|layer| self.path.find(&layer.patch.value).is_some_and(means) || layer.patterns.iter().any(by_pattern))
    }

    /// Whether the list where the walk is gets the layer's items beside its own.
    fn is_united(&self) -> bool {
        self.filling.unions.iter().any(|list| list.covers(&self.path))
    }
}

/// An item of a list that is there, and the new ones that stand behind it; the first group has new ones only.
#[derive(Default)]
struct Group<'a> {
    /// Where it stands in the pod.
    place: Option<usize>,
    head: Option<Value<'a>>,
    /// Nothing is left of the item but its name.
    bare: bool,
    new: Vec<Value<'a>>,
}

impl<'a> Group<'a> {
    fn into_items(self) -> impl Iterator<Item = Value<'a>> {
        let head = self.head.filter(|_| !self.bare || !self.new.is_empty());
        head.into_iter().chain(self.new)
    }
}

/// The type of a field, and the merge key of the list that it is.
fn field_of(ty: TypeId, name: &str) -> Option<(TypeId, Option<&'static str>)> {
    match POD.target(ty).1 {
        Type::Struct(owner) => owner.field(name).map(|field| (field.ty, field.list_key())),
        Type::Map(values) => Some((*values, None)),
        _ => None,
    }
}

/// Takes out of what is filled in the limits that are less than what the pod requests, and the requests that are more
/// than its limits: the API server refuses such a pod.
fn fit_resources(kept: &mut Map<'_>, pod: &Map<'_>) {
    let own = |kind: &str| pod.get(kind).and_then(Value::as_object);
    for (kind, other) in [("limits", "requests"), ("requests", "limits")] {
        let stays = own(other);
        let replaced: HashSet<String> =
            kept.get(other).and_then(Value::as_object).into_iter().flat_map(Map::keys).map(str::to_owned).collect();
        let Some(map) = kept.get_mut(kind).and_then(Value::as_object_mut) else { continue };
        map.retain(|name, value| {
            let against = stays.and_then(|map| map.get(name)).filter(|_| !replaced.contains(name));
            let (Some(Ok(against)), Ok(value)) = (against.map(Quantity::of), Quantity::of(value)) else { return true };
            if kind == "limits" { against <= value } else { value <= against }
        });
        if map.is_empty() {
            kept.remove(kind);
        }
    }
}

/// What LimitRanger says that it filled in.
struct LimitRanger<'p>(HashSet<(ContainerList, &'p str, &'static str, &'p str)>);

impl<'p> LimitRanger<'p> {
    /// Reads its annotation: `LimitRanger plugin set: cpu, memory request for container a; cpu limit for init container b`.
    fn of(pod: &'p Value<'_>) -> Self {
        let annotations = pod.get("metadata").and_then(|metadata| metadata.get("annotations"));
        let text = annotations.and_then(|map| map.get(names::LIMIT_RANGER)).and_then(Value::as_str).unwrap_or_default();
        let parts = text.strip_prefix("LimitRanger plugin set: ").unwrap_or_default().split("; ");
        let read = |part: &'p str| {
            let (what, whose) = part.rsplit_once(" for ")?;
            let (list, name) = match whose.strip_prefix("init container ") {
                Some(name) => (ContainerList::InitContainers, name),
                None => (ContainerList::Containers, whose.strip_prefix("container ")?),
            };
            let (resources, kind) = match what.strip_suffix(" request") {
                Some(resources) => (resources, "requests"),
                None => (what.strip_suffix(" limit")?, "limits"),
            };
            Some(resources.split(", ").map(move |resource| (list, name, kind, resource)))
        };
        Self(parts.filter_map(read).flatten().collect())
    }

    fn filled(&self, path: &Path) -> bool {
        let [
            Segment::Field(list),
            Segment::Item { value: name, .. },
            Segment::Field(_),
            Segment::Field(kind),
            Segment::Field(resource),
        ] = path.segments()
        else {
            return false;
        };
        self.0.iter().any(|(in_list, container, of_kind, of_resource)| {
            in_list.as_str() == list && container == name && of_kind == kind && of_resource == resource
        })
    }
}

#[cfg(test)]
mod tests;
