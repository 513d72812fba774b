//! What a layer really changed: the pod before and after it, leaf by leaf.
//!
//! Never the patch's text, so that directives, globs, aliases and order have nothing to hide in. A list with a merge key
//! is compared item by item; an item that came or went counts as all its leaves, its key is free, and another order of
//! the items is a change of the list. Any other list changes as a whole.

use std::collections::HashMap;

use crate::{
    schema::{POD, Type, TypeId},
    value::{Map, Path, Segment, Value},
};

/// One leaf that is another than it was.
#[derive(Clone, Debug)]
pub struct Change<'v, 'a> {
    /// Where in the pod.
    pub path: Path,
    /// What stood there.
    pub before: Option<&'v Value<'a>>,
    /// What stands there now.
    pub after: Option<&'v Value<'a>>,
    /// The items of this list stand in another order.
    pub moved: bool,
}

/// Compares two specs.
pub fn changes<'v, 'a>(before: Option<&'v Value<'a>>, after: Option<&'v Value<'a>>) -> Vec<Change<'v, 'a>> {
    let mut walk = Walk { path: Path::field("spec"), out: Vec::new() };
    walk.value(present(before), present(after), Some(POD.pod_spec()), None);
    walk.out
}

/// A null is nothing to the API server.
fn present<'v, 'a>(value: Option<&'v Value<'a>>) -> Option<&'v Value<'a>> {
    value.filter(|value| !value.is_null())
}

struct Walk<'v, 'a> {
    path: Path,
    out: Vec<Change<'v, 'a>>,
}

type Side<'v, 'a> = Option<&'v Value<'a>>;

impl<'v, 'a> Walk<'v, 'a> {
    fn leaf(&mut self, before: Side<'v, 'a>, after: Side<'v, 'a>) {
        self.out.push(Change { path: self.path.clone(), before, after, moved: false });
    }

    fn within(&mut self, segment: Segment, inner: impl FnOnce(&mut Self)) {
        self.path.push(segment);
        inner(self);
        self.path.pop();
    }

    /// Recursion is bounded by the depth that the readers of pods and patches allow.
    fn value(&mut self, before: Side<'v, 'a>, after: Side<'v, 'a>, ty: Option<TypeId>, key: Option<&str>) {
        if before.is_none() && after.is_none() || is_same(before, after) {
            return;
        }
        let objects = |side: Side<'v, 'a>| side.is_none_or(|value| value.as_object().is_some());
        if objects(before) && objects(after) {
            return self.object(before, after, ty, None);
        }
        if let Some(key) = key
            && let (Some(from), Some(to)) = (Items::of(before, key), Items::of(after, key))
        {
            return self.list(&from, &to, ty, key);
        }
        self.leaf(before, after);
    }

    fn object(&mut self, before: Side<'v, 'a>, after: Side<'v, 'a>, ty: Option<TypeId>, merge_key: Option<&str>) {
        let map = |side: Side<'v, 'a>| side.and_then(Value::as_object);
        let is_field = |key: &str, value: &Value<'_>| Some(key) != merge_key && !value.is_null();
        let fields = |map: Option<&'v Map<'a>>| map.into_iter().flat_map(Map::iter);
        let (from, to) = (map(before), map(after));
        let count = |map| fields(map).filter(|(key, value)| is_field(key, value)).count();
        if count(from) == 0 && count(to) == 0 {
            // Nothing in it that could be told: that it came or went is what there is to tell.
            if from.is_some() != to.is_some() {
                self.leaf(before, after);
            }
            return;
        }
        let old = fields(from).filter(|(key, value)| is_field(key, value));
        let new = fields(to)
            .filter(|(key, value)| is_field(key, value) && from.is_none_or(|from| present(from.get(key)).is_none()));
        let keys: Vec<&str> = old.chain(new).map(|(key, _)| key).collect();
        for key in keys {
            let field = ty.and_then(|ty| child(ty, key));
            let side = |map: Option<&'v Map<'a>>| present(map.and_then(|map| map.get(key)));
            let (inner, list_key) = field.map_or((None, None), |(ty, key)| (Some(ty), key));
            self.within(Segment::Field(key.to_owned()), |walk| walk.value(side(from), side(to), inner, list_key));
        }
    }

    fn list(&mut self, from: &Items<'v, 'a>, to: &Items<'v, 'a>, ty: Option<TypeId>, key: &str) {
        let item_ty = ty.and_then(|ty| match POD.target(ty).1 {
            Type::Slice(item) => Some(*item),
            _ => None,
        });
        if from.order.is_empty() && to.order.is_empty() {
            if from.list.is_some() != to.list.is_some() {
                self.leaf(from.list, to.list);
            }
            return;
        }
        let gone = from.order.iter().filter(|name| !to.by_key.contains_key(*name));
        for name in to.order.iter().chain(gone) {
            let (before, after) = (from.by_key.get(name).copied(), to.by_key.get(name).copied());
            if is_same(before, after) {
                continue;
            }
            let segment = Segment::Item { key: key.to_owned(), value: name.clone() };
            self.within(segment, |walk| walk.object(before, after, item_ty, Some(key)));
        }
        let stayed = |names: &'_ [String], other: &HashMap<String, &'v Value<'a>>| -> Vec<String> {
            names.iter().filter(|name| other.contains_key(*name)).cloned().collect()
        };
        if stayed(&from.order, &to.by_key) != stayed(&to.order, &from.by_key) {
            let path = self.path.clone();
            self.out.push(Change { path, before: from.list, after: to.list, moved: true });
        }
    }
}

/// Whether both sides are equal; parts that nobody changed are shared, which is told at a glance.
fn is_same(before: Side<'_, '_>, after: Side<'_, '_>) -> bool {
    match (before, after) {
        (Some(Value::Object(a)), Some(Value::Object(b))) => a.is_same(b) || a == b,
        (a, b) => a == b,
    }
}

/// The items of a list, each under its key.
struct Items<'v, 'a> {
    list: Side<'v, 'a>,
    order: Vec<String>,
    by_key: HashMap<String, &'v Value<'a>>,
}

impl<'v, 'a> Items<'v, 'a> {
    /// Nothing for what is no list, or a list in which an item has no key or another's.
    fn of(list: Side<'v, 'a>, key: &str) -> Option<Self> {
        let items = match list {
            None => &[],
            Some(value) => value.as_list()?,
        };
        let mut order = Vec::with_capacity(items.len());
        let mut by_key = HashMap::with_capacity(items.len());
        for item in items {
            let name = item.get(key).and_then(Value::scalar_text)?.into_owned();
            if by_key.insert(name.clone(), item).is_some() {
                return None;
            }
            order.push(name);
        }
        Some(Self { list, order, by_key })
    }
}

/// The type of a field, and the merge key of the list that it is.
fn child(ty: TypeId, field: &str) -> Option<(TypeId, Option<&'static str>)> {
    match POD.target(ty).1 {
        Type::Struct(fields) => {
            let field = fields.field(field)?;
            Some((field.ty, field.list_key()))
        }
        Type::Map(values) => Some((*values, None)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::{JsonLimits, from_json};

    fn changed(before: &str, after: &str) -> String {
        let parse = |text| from_json(text, JsonLimits::DEFAULT).unwrap();
        let (before, after) = (parse(before), parse(after));
        let mark = |change: &Change<'_, '_>| match (change.moved, change.before, change.after) {
            (true, ..) => '~',
            (_, None, _) => '+',
            (_, _, None) => '-',
            _ => '!',
        };
        let found = changes(Some(&before), Some(&after));
        let texts: Vec<String> = found.iter().map(|change| format!("{}{}", mark(change), change.path)).collect();
        texts.join(" ").replace("spec.", "").replace("containers[name=", "c[")
    }

    #[test]
    fn leaves_are_told_by_merge_key() {
        for (before, after, wanted) in [
            ("{}", "{}", ""),
            (r#"{"a": 1}"#, r#"{"a": 1}"#, ""),
            (r#"{"hostNetwork": true}"#, "{}", "-hostNetwork"),
            ("{}", r#"{"securityContext": {}}"#, "+securityContext"),
            ("{}", r#"{"nodeSelector": {"a": "b"}}"#, "+nodeSelector.a"),
            (r#"{"tolerations": [{"key": "a"}]}"#, r#"{"tolerations": [{"key": "b"}]}"#, "!tolerations"),
            (
                r#"{"containers": [{"name": "a", "image": "x"}, {"name": "b"}]}"#,
                r#"{"containers": [{"name": "b"}, {"name": "a", "image": "y", "env": [{"name": "E", "value": "1"}]}]}"#,
                "!c[a].image +c[a].env[name=E].value ~containers",
            ),
            (
                r#"{"containers": [{"name": "a", "image": "x", "tty": true}]}"#,
                r#"{"containers": [{"name": "b"}]}"#,
                "+c[b] -c[a].image -c[a].tty",
            ),
            // Two items of one key: the list as a whole.
            (
                r#"{"containers": [{"name": "a", "image": "x"}]}"#,
                r#"{"containers": [{"name": "a", "image": "x"}, {"name": "a"}]}"#,
                "!containers",
            ),
            (
                r#"{"volumes": [{"name": "v", "hostPath": {"path": "/"}}]}"#,
                r#"{"volumes": [{"name": "v", "emptyDir": {}}]}"#,
                "-volumes[name=v].hostPath.path +volumes[name=v].emptyDir",
            ),
            (r#"{"a": null}"#, "{}", ""),
            (r#"{"containers": []}"#, "{}", "-containers"),
            (r#"{"a": {"b": 1}}"#, r#"{"a": [1]}"#, "!a"),
        ] {
            assert_eq!(changed(before, after), wanted, "{before} {after}");
        }
    }
}
