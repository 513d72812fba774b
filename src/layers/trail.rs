//! Which layer set which field.
//!
//! A layer asserts each leaf of its patch: that a value is there, or (by null or `$patch: delete`) that it isn't. What
//! it asserts is known when it is parsed. For a pod, an assertion counts if the result bears it out, and of several
//! layers that assert one path the last one counts. So the trail depends on the stack and the result alone, and a
//! second look at the same pod finds the same.

use std::{borrow::Cow, collections::HashMap};

use super::{Apply, Layer, MetadataPatch, Options, patterns::Pattern};
use crate::{
    schema::{
        POD, Type, TypeId,
        defaults::{is_default_item, same},
        is_written_anew,
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
    /// How many of the path's first steps are those of the assertion before: whoever looks for one after the other needn't
    /// start anew.
    shared: usize,
}

/// All that a layer asserts: its patch leaf by leaf in document order, then its labels and annotations.
pub(super) fn assertions(patch: &Document, root: TypeId, metadata: &MetadataPatch) -> Vec<Assertion> {
    let mut out: Vec<Assertion> = Vec::new();
    let mut say = |path: Path, at, set| {
        let before = out.last().map_or(&[][..], |before| before.path.segments());
        let shared = before.iter().zip(path.segments()).take_while(|(a, b)| a == b).count();
        out.push(Assertion { text: path.to_string(), path, at, set, shared });
    };
    let mut path = Path::field("spec");
    let node = Node { value: &patch.value, marks: Some(&patch.marks), ty: Some(root), result: None, field: "" };
    walk_root(node, &mut Some(&mut path), &mut |leaf| {
        if let (Some(path), Some(at)) = (leaf.path, leaf.at) {
            say(path.clone(), at, leaf.set);
        }
    });
    for (kind, entries) in metadata.kinds() {
        entries.iter().for_each(|entry| say(MetadataPatch::path(kind, &entry.key), entry.at, entry.value.is_some()));
    }
    out
}

/// For each assertion of a layer, in their order, whether a pod bears it out: a value that is asserted is there, one
/// that is asserted away isn't. What a layer that only fills in asserts must be there with the layer's own value.
pub(super) fn borne_out(layer: &Layer, pod: &Value<'_>) -> Vec<bool> {
    let Layer { patch, metadata, options, assertions, .. } = layer;
    let of_spec = assertions.len() - metadata.kinds().iter().map(|(_, entries)| entries.len()).sum::<usize>();
    let mut out = if options.apply == Apply::IfAbsent {
        let ty = Some(POD.pod_spec());
        let node = Node { value: &patch.value, marks: None, ty, result: pod.get("spec"), field: "" };
        own(|out| walk_root(node, &mut None, out), options)
    } else {
        present(&assertions[..of_spec], 0, Some(pod))
    };
    for (kind, entries) in metadata.kinds() {
        let map = pod.get("metadata").and_then(|metadata| metadata.get(kind));
        out.extend(entries.iter().map(|entry| {
            let value = map.and_then(|map| map.get(&entry.key)).and_then(Value::as_str);
            value == entry.value.as_deref()
        }));
    }
    out
}

/// The same for what a pattern asserts of one container.
pub(super) fn borne_out_of_container(pattern: &Pattern, options: &Options, container: &Value<'_>) -> Vec<bool> {
    if options.apply != Apply::IfAbsent {
        return present(&pattern.assertions, Pattern::OUTSIDE, Some(container));
    }
    let list = pattern.list.as_str();
    let item_ty = child(POD.pod_spec(), list).and_then(|(list, _)| match POD.target(list).1 {
        Type::Slice(item) => Some(*item),
        _ => None,
    });
    let node = Node { value: &pattern.item.value, marks: None, ty: item_ty, result: Some(container), field: list };
    own(|out| walk_item(node, "name", &mut None, out), options)
}

/// For each assertion whether it is right about a value being there; `root` stands at the paths' step `outside`.
fn present(assertions: &[Assertion], outside: usize, root: Option<&Value<'_>>) -> Vec<bool> {
    // What the steps of the path lead to.
    let mut open: Vec<Place<'_, '_>> = Vec::new();
    let mut out = Vec::with_capacity(assertions.len());
    for assertion in assertions {
        let steps = assertion.path.segments().get(outside..).unwrap_or_default();
        open.truncate(assertion.shared.saturating_sub(outside));
        for step in &steps[open.len()..] {
            let value = match open.last_mut() {
                Some(place) => place.find(step),
                None => Place::at(root).find(step),
            };
            open.push(Place::at(value));
        }
        out.push(assertion.set == open.last().map_or(root, |place| place.value).is_some());
    }
    out
}

/// A place in the pod, where it has it.
struct Place<'n, 'a> {
    value: Option<&'n Value<'a>>,
    /// Of a list in which something was looked for.
    items: Option<Items<'n, 'a>>,
}

impl<'n, 'a> Place<'n, 'a> {
    fn at(value: Option<&'n Value<'a>>) -> Self {
        Self { value, items: None }
    }

    fn find(&mut self, step: &'n Segment) -> Option<&'n Value<'a>> {
        match step {
            Segment::Field(key) => self.value?.get(key),
            Segment::Item { key, value } => self.items.get_or_insert_with(|| Items::of(self.value, key)).get(value),
            Segment::Index(at) => self.value?.as_list()?.get(*at),
        }
    }
}

/// For each leaf of a walk whether the pod has there what the patch has.
fn own(walk: impl FnOnce(&mut dyn FnMut(Leaf<'_, '_>)), options: &Options) -> Vec<bool> {
    let mut out = Vec::new();
    let unites = !options.union_lists.is_empty();
    walk(&mut |Leaf { node, .. }| out.push(node.result.is_some_and(|result| is_own(&node, result, unites))));
    out
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
fn walk_root(node: Node<'_>, path: &mut Trace<'_>, out: &mut dyn FnMut(Leaf<'_, '_>)) {
    if node.value.as_object().is_some_and(|map| !map.is_empty()) {
        walk(node, path, out);
    }
}

/// Calls `out` for each leaf below a place, always in the same order. Recursion is bounded by the depth of a patch.
fn walk(node: Node<'_>, path: &mut Trace<'_>, out: &mut dyn FnMut(Leaf<'_, '_>)) {
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
fn walk_field(node: Node<'_>, merge_key: Option<&str>, path: &mut Trace<'_>, out: &mut dyn FnMut(Leaf<'_, '_>)) {
    let (Some(key), Value::List(items)) = (merge_key, node.value) else {
        return walk(node, path, out);
    };
    if is_written_anew(items) {
        out(node.leaf(path, true));
    }
    let item_ty = node.ty.and_then(|ty| match POD.target(ty).1 {
        Type::Slice(item) => Some(*item),
        _ => None,
    });
    let mut found = Items::of(node.result, key);
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
fn walk_item(node: Node<'_>, merge_key: &str, path: &mut Trace<'_>, out: &mut dyn FnMut(Leaf<'_, '_>)) {
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
    out: &mut dyn FnMut(Leaf<'_, '_>),
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
struct Items<'n, 'a> {
    list: &'n [Value<'a>],
    key: &'n str,
    /// How many items were looked at.
    seen: usize,
    index: Option<HashMap<Cow<'n, str>, &'n Value<'a>>>,
}

impl<'n, 'a> Items<'n, 'a> {
    /// After how many looks at items an index is worth building.
    const MANY: usize = 256;

    fn of(list: Option<&'n Value<'a>>, key: &'n str) -> Self {
        Self { list: list.and_then(Value::as_list).unwrap_or_default(), key, seen: 0, index: None }
    }

    /// The first item of this name.
    fn get(&mut self, name: &str) -> Option<&'n Value<'a>> {
        let (list, key) = (self.list, self.key);
        if self.seen + list.len() > Self::MANY && self.seen > 0 {
            let named = |item: &'n Value<'a>| Some((item.get(key)?.scalar_text()?, item));
            // From behind, so that of equal ones the first counts.
            let index = || list.iter().rev().filter_map(named).collect::<HashMap<_, _>>();
            return self.index.get_or_insert_with(index).get(name).copied();
        }
        self.seen += list.len();
        let is_it = |item: &&Value<'_>| match item.get(key) {
            Some(Value::String(text)) => text == name,
            other => other.and_then(Value::scalar_text).is_some_and(|text| text == name),
        };
        list.iter().find(is_it)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::{JsonLimits, from_json};

    #[test]
    fn items_are_found_with_and_without_an_index_and_the_first_of_equal_ones_counts() {
        let items: Vec<String> = (0..300).map(|at| format!(r#"{{"port":{},"at":{at}}}"#, at % 200)).collect();
        let text = format!("[{}]", items.join(","));
        let list = from_json(&text, JsonLimits::DEFAULT).unwrap();
        for count in [3, 300] {
            let list = Value::List(list.as_list().unwrap()[..count].to_vec());
            let mut items = Items::of(Some(&list), "port");
            for name in ["1", "1", "0", "2", "1"] {
                let at = items.get(name).and_then(|item| item.get("at")).and_then(Value::scalar_text);
                assert_eq!(at.as_deref(), Some(name), "{count}");
            }
            assert_eq!(items.get("200"), None);
            assert_eq!(items.index.is_some(), count == 300);
        }
    }
}
