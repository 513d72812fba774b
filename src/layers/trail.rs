//! Which layer set which field.
//!
//! A layer asserts each leaf of its patch: that a value is there, or (by null or `$patch: delete`) that it isn't. What
//! it asserts is known when it is parsed. For a pod, an assertion counts if the result bears it out, and of several
//! layers that assert one path the last one counts. So the trail depends on the stack and the result alone, and a
//! second look at the same pod finds the same.

use std::collections::HashMap;

use super::{Apply, MetadataPatch, Options};
use crate::{
    presets::ContainerList,
    schema::{
        POD, Type, TypeId,
        defaults::{is_default_item, same},
    },
    value::{Document, Map, Marks, Path, Position, Segment, Value},
};

/// One leaf of a layer's patch.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Assertion {
    /// Where in the pod.
    pub path: Path,
    /// The same, printed.
    pub text: String,
    /// Where in the layer's text.
    pub at: Position,
    /// Whether it says that something is there, not that nothing is.
    pub set: bool,
}

/// All that a layer asserts: its patch leaf by leaf in document order, then its labels and annotations.
pub(super) fn assertions(patch: &Document, root: TypeId, metadata: &MetadataPatch) -> Vec<Assertion> {
    let mut out = Vec::new();
    let mut path = Path::field("spec");
    let node = Node { value: &patch.value, marks: Some(&patch.marks), ty: Some(root), result: None, field: "" };
    walk_root(node, &mut Some(&mut path), &mut |leaf| {
        if let (Some(path), Some(at)) = (leaf.path, leaf.at) {
            out.push(Assertion { text: path.to_string(), path: path.clone(), at, set: leaf.set });
        }
    });
    for (kind, entries) in metadata.kinds() {
        for entry in entries {
            let path = MetadataPatch::path(kind, &entry.key);
            out.push(Assertion { text: path.to_string(), path, at: entry.at, set: entry.value.is_some() });
        }
    }
    out
}

/// For each assertion of a layer, in their order, whether a pod bears it out: a value that is asserted is there, one
/// that is asserted away isn't. What a layer that only fills in asserts must be there with the layer's own value.
pub fn borne_out(
    patch: &Value<'_>,
    root: TypeId,
    metadata: &MetadataPatch,
    options: &Options,
    pod_spec: Option<&Value<'_>>,
    pod_metadata: Option<&Value<'_>>,
) -> Vec<bool> {
    let mut out = Vec::new();
    let node = Node { value: patch, marks: None, ty: Some(root), result: pod_spec, field: "" };
    let judge = Judge::of(options);
    walk_root(node, &mut None, &mut |leaf| out.push(judge.borne(&leaf)));
    for (kind, entries) in metadata.kinds() {
        let map = pod_metadata.and_then(|metadata| metadata.get(kind));
        out.extend(entries.iter().map(|entry| {
            let value = map.and_then(|map| map.get(&entry.key)).and_then(Value::as_str);
            value == entry.value.as_deref()
        }));
    }
    out
}

/// The same for what an item of a list of containers asserts of one of them.
pub(super) fn borne_out_of_container(
    item: &Value<'_>,
    list: ContainerList,
    options: &Options,
    container: &Value<'_>,
) -> Vec<bool> {
    let mut out = Vec::new();
    let item_ty = child(POD.pod_spec(), list.as_str()).and_then(|(list, _)| match POD.target(list).1 {
        Type::Slice(item) => Some(*item),
        _ => None,
    });
    let node = Node { value: item, marks: None, ty: item_ty, result: Some(container), field: list.as_str() };
    let judge = Judge::of(options);
    walk_item(node, "name", &mut None, &mut |leaf| out.push(judge.borne(&leaf)));
    out
}

/// What it takes for a leaf to be borne out.
#[derive(Clone, Copy)]
struct Judge {
    /// The layer only fills in.
    fills: bool,
    /// It adds to some lists.
    unites: bool,
}

impl Judge {
    fn of(options: &Options) -> Self {
        Self { fills: options.apply == Apply::IfAbsent, unites: !options.union_lists.is_empty() }
    }

    fn borne(self, leaf: &Leaf<'_, '_>) -> bool {
        let node = &leaf.node;
        match self.fills {
            true => node.result.is_some_and(|result| is_own(node, result, self.unites)),
            false => leaf.set == node.result.is_some(),
        }
    }
}

/// One place in the patch, and in the pod if it has it.
#[derive(Clone, Copy)]
struct Node<'n> {
    value: &'n Value<'n>,
    marks: Option<&'n Marks>,
    ty: Option<TypeId>,
    result: Option<&'n Value<'n>>,
    /// The field that it is, or that its list is.
    field: &'n str,
}

impl<'n> Node<'n> {
    fn leaf<'l>(self, path: &'l Trace<'_>, set: bool) -> Leaf<'l, 'n> {
        Leaf { path: path.as_deref(), at: self.marks.map(Marks::shown), set, node: self }
    }
}

/// Whether a pod has at some place what the patch has there; a list may also hold items of the API server's, and the
/// pod's own where the layer adds to it.
fn is_own(node: &Node<'_>, result: &Value<'_>, unites: bool) -> bool {
    match (node.value, result) {
        (Value::List(own), Value::List(found)) if own != found => {
            let mut rest = found.iter().filter(|item| !is_default_item(node.field, item));
            (unites && own.iter().all(|item| found.contains(item))) || (!own.is_empty() && rest.by_ref().eq(own.iter()))
        }
        (own, found) => same(node.ty, own, found),
    }
}

struct Leaf<'l, 'n> {
    path: Option<&'l Path>,
    at: Option<Position>,
    set: bool,
    node: Node<'n>,
}

/// Where the walk is; not kept where nobody asks for paths.
type Trace<'t> = Option<&'t mut Path>;

/// [`walk`] from the whole patch, which asserts nothing itself: an empty patch leaves the spec as it is.
fn walk_root(node: Node<'_>, path: &mut Trace<'_>, out: &mut impl FnMut(Leaf<'_, '_>)) {
    if node.value.as_object().is_some_and(|map| !map.is_empty()) {
        walk(node, path, out);
    }
}

/// Calls `out` for each leaf below a place, always in the same order. Recursion is bounded by the depth of a patch.
fn walk(node: Node<'_>, path: &mut Trace<'_>, out: &mut impl FnMut(Leaf<'_, '_>)) {
    match node.value {
        Value::Null => out(node.leaf(path, false)),
        Value::Object(map) if map.is_empty() => out(node.leaf(path, true)),
        Value::Object(map) => {
            if map.get("$patch").is_some() {
                // Replaced or emptied as a whole: what was there is gone, whatever of it the patch names.
                out(node.leaf(path, true));
            }
            walk_fields(node, map, None, path, out);
        }
        _ => out(node.leaf(path, true)),
    }
}

/// A field's value: a list with a merge key item by item, anything else as it is.
fn walk_field(node: Node<'_>, merge_key: Option<&str>, path: &mut Trace<'_>, out: &mut impl FnMut(Leaf<'_, '_>)) {
    let (Some(key), Value::List(items)) = (merge_key, node.value) else {
        return walk(node, path, out);
    };
    let replaced = items.iter().any(|item| item.get("$patch").and_then(Value::as_str) == Some("replace"));
    if replaced {
        out(node.leaf(path, true));
    }
    let item_ty = node.ty.and_then(|ty| match POD.target(ty).1 {
        Type::Slice(item) => Some(*item),
        _ => None,
    });
    let found = Items::of(node.result, key, items.len());
    for (at, item) in items.iter().enumerate() {
        let Some(name) = item.get(key).and_then(Value::scalar_text) else { continue };
        let result = found.get(&name);
        let marks = node.marks.and_then(|marks| marks.children.get(at));
        let segment = || Segment::Item { key: key.to_owned(), value: name.to_string() };
        step(path, segment, |path| {
            walk_item(Node { value: item, marks, ty: item_ty, result, ..node }, key, path, out);
        });
    }
}

/// An item: its leaves but for the merge key, which the path names already; the item itself if it has no others.
fn walk_item(node: Node<'_>, merge_key: &str, path: &mut Trace<'_>, out: &mut impl FnMut(Leaf<'_, '_>)) {
    let Value::Object(map) = node.value else { return };
    let delete = map.get("$patch").and_then(Value::as_str) == Some("delete");
    // A list that is merged item by item and has none says nothing by itself.
    let says_nothing = |key: &str, value: &Value<'_>| {
        let is_merged = || node.ty.and_then(|ty| child(ty, key)).is_some_and(|(_, merge_key)| merge_key.is_some());
        value.as_list().is_some_and(<[_]>::is_empty) && is_merged()
    };
    let bare = map.iter().all(|(key, value)| key == merge_key || key.starts_with('$') || says_nothing(key, value));
    if delete || bare {
        return out(node.leaf(path, !delete));
    }
    walk_fields(node, map, Some(merge_key), path, out);
}

/// The fields of an object that aren't directives, and aren't the merge key that the path names already.
fn walk_fields(
    node: Node<'_>,
    map: &Map<'_>,
    merge_key: Option<&str>,
    path: &mut Trace<'_>,
    out: &mut impl FnMut(Leaf<'_, '_>),
) {
    for (at, (key, value)) in map.iter().enumerate() {
        if key.starts_with('$') || Some(key) == merge_key {
            continue;
        }
        let field = node.ty.and_then(|ty| child(ty, key));
        let result = node.result.and_then(|result| result.get(key));
        let marks = node.marks.and_then(|marks| marks.children.get(at));
        let inner = Node { value, marks, ty: field.map(|(ty, _)| ty), result, field: key };
        let merge_key = field.and_then(|(_, merge_key)| merge_key);
        step(path, || Segment::Field(key.to_owned()), |path| walk_field(inner, merge_key, path, out));
    }
}

fn step(path: &mut Trace<'_>, segment: impl FnOnce() -> Segment, inner: impl FnOnce(&mut Trace<'_>)) {
    if let Some(path) = path {
        path.push(segment());
    }
    inner(path);
    if let Some(path) = path {
        path.pop();
    }
}

/// The type of a field, and the merge key of the list that it is.
fn child(ty: TypeId, field: &str) -> Option<(TypeId, Option<&'static str>)> {
    match POD.target(ty).1 {
        Type::Struct(fields) => {
            let field = fields.field(field)?;
            Some((field.ty, field.key.as_deref().filter(|_| field.merge)))
        }
        Type::Map(values) => Some((*values, None)),
        _ => None,
    }
}

/// The items of a list in the pod, to find by key.
enum Items<'n> {
    Few(&'n [Value<'n>], &'n str),
    Many(HashMap<String, &'n Value<'n>>),
}

impl<'n> Items<'n> {
    /// From how many comparisons on an index is worth building.
    const MANY: usize = 256;

    fn of(list: Option<&'n Value<'n>>, key: &'n str, lookups: usize) -> Self {
        let items = list.and_then(Value::as_list).unwrap_or_default();
        if items.len() * lookups <= Self::MANY {
            return Self::Few(items, key);
        }
        let mut found = HashMap::with_capacity(items.len());
        for item in items {
            if let Some(name) = item.get(key).and_then(Value::scalar_text) {
                found.entry(name.into_owned()).or_insert(item);
            }
        }
        Self::Many(found)
    }

    fn get(&self, name: &str) -> Option<&'n Value<'n>> {
        match self {
            Self::Few(items, key) => {
                let is_it = |item: &&Value<'_>| match item.get(key) {
                    Some(Value::String(text)) => text == name,
                    other => other.and_then(Value::scalar_text).is_some_and(|text| text == name),
                };
                items.iter().find(is_it)
            }
            Self::Many(found) => found.get(name).copied(),
        }
    }
}
