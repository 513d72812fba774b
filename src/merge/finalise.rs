use std::{
    collections::HashMap,
    hash::{BuildHasher, Hash, Hasher},
};

use ahash::RandomState;

use super::{
    Merge, Mode,
    directives::{self, PATCH},
    fields::{ListRule, Schema},
    list,
};
use crate::{
    schema::{POD, TypeId},
    value::{Map, Path, Segment, Value},
};

/// What [`finalise`] took out of a merged pod.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Dropped {
    /// List items and fields that went whole, because a `$patch` in them said so or because they held nothing else.
    pub values: usize,
    /// Directives that went alone.
    pub directives: usize,
    /// Nulls, as fields or as list items.
    pub nulls: usize,
    /// Where these were, the first [`Dropped::PATHS`] of them.
    pub paths: Vec<Path>,
}

impl Dropped {
    /// How many paths are kept: enough to find the patch at fault.
    pub const PATHS: usize = 16;

    /// How many things were taken out.
    pub fn total(&self) -> usize {
        self.values + self.directives + self.nulls
    }
}

/// Whether merging this patch can leave anything for [`finalise`] to do: it holds a null or a directive somewhere.
pub fn can_leak(patch: &Value<'_>) -> bool {
    match patch {
        Value::Null => true,
        Value::List(items) => items.iter().any(can_leak),
        Value::Object(map) => map.iter().any(|(key, value)| directives::is_directive(key) || can_leak(value)),
        _ => false,
    }
}

/// Takes out of a merged pod what leaked into it, as whoever wrote the patch must have meant it.
///
/// A strategic merge obeys directives and nulls only where it merges. In what the pod didn't have, and in lists that are
/// replaced, they stay as they are, and a pod with them isn't valid. So, wherever `result` differs from `original`, the pod
/// before any patch:
/// - a list item or field with `$patch: delete` goes whole;
/// - a list item with nothing but directives in it (`- $patch: replace`) goes whole;
/// - any other directive goes alone;
/// - fields that are null go, and so do list items that are null: no list of a pod may hold one, so they can't be meant.
///
/// What `original` has at the same place stays, even a null or a key that looks like a directive: it is the pod's own.
/// Items of lists that merge by key are at the same place if their keys are equal, items of other lists if they are equal
/// as a whole. `root` is the type of both documents. Time is linear in their size.
pub fn finalise(result: &mut Value<'_>, original: &Value<'_>, root: TypeId) -> Dropped {
    let merge = Merge { graph: &POD, mode: Mode::Lenient, moved: None };
    let mut finaliser = Finaliser { merge, hasher: RandomState::new(), dropped: Dropped::default() };
    finaliser.value(result, Some(original), Schema::Known(root));
    finaliser.dropped
}

struct Finaliser {
    merge: Merge<'static>,
    hasher: RandomState,
    dropped: Dropped,
}

/// Why something goes.
#[derive(Clone, Copy)]
enum Reason {
    Directive,
    Null,
    Value,
}

impl Finaliser {
    fn value(&mut self, value: &mut Value<'_>, own: Option<&Value<'_>>, ty: Schema) {
        // Only lists that stand in a list come here as such; those in fields have a rule.
        const REPLACED: ListRule<'_> = ListRule { item: Schema::Unknown, merge: false, key: None };
        match value {
            Value::Object(map) => self.object(map, own.and_then(Value::as_object), ty),
            Value::List(items) => self.list(items, own.and_then(Value::as_list), REPLACED),
            _ => {}
        }
    }

    fn object(&mut self, map: &mut Map<'_>, own: Option<&Map<'_>>, ty: Schema) {
        // What nobody changed stays as it is, and stays shared.
        if own.is_some_and(|own| own.is_same(map)) {
            return;
        }
        // Nor is what a layer brought copied to be looked at.
        let is_clean = |(key, value)| !directives::is_directive(key) && !can_leak(value);
        if own.is_none() && map.iter().all(is_clean) {
            return;
        }
        map.retain(|key, value| {
            let own = own.and_then(|own| own.get(key));
            let reason = match own {
                Some(own) if directives::is_directive(key) && *own == *value => return true,
                Some(own) if own.is_null() && value.is_null() => return true,
                _ if directives::is_directive(key) => Some(Reason::Directive),
                _ if value.is_null() => Some(Reason::Null),
                _ if leaks_delete(value, own) => Some(Reason::Value),
                _ => None,
            };
            if let Some(reason) = reason {
                self.drop(reason, || Segment::Field(key.to_owned()));
                return false;
            }
            let before = self.dropped.paths.len();
            // INVARIANT: lenient mode knows no error.
            match value {
                Value::List(items) => {
                    if let Ok(rule) = self.merge.list_field(ty, key) {
                        self.list(items, own.and_then(Value::as_list), rule);
                    }
                }
                Value::Object(map) => {
                    if let Ok(ty) = self.merge.object_field(ty, key) {
                        self.object(map, own.and_then(Value::as_object), ty);
                    }
                }
                _ => {}
            }
            self.within(before, || Segment::Field(key.to_owned()));
            true
        });
    }

    fn list(&mut self, items: &mut Vec<Value<'_>>, own: Option<&[Value<'_>]>, rule: ListRule<'_>) {
        let key = rule.key.filter(|_| rule.merge);
        // Most lists hold nothing that could go, and then there is nothing to match their items for.
        let mut own = match own {
            Some(own) if !own.is_empty() && changed(items, own).any(can_leak) => Some(Own::of(own, key, &self.hasher)),
            Some(own) if !own.is_empty() => return,
            _ => None,
        };
        let mut place = 0;
        items.retain_mut(|item| {
            let at = place;
            place += 1;
            let own = own.as_mut().and_then(|own| own.take(item, &self.hasher));
            let segment = |item: &Value<'_>| match key {
                Some(key) => list::segment(item, key, at),
                None => Segment::Index(at),
            };
            let reason = match own {
                Some(_) if Name::of(item, key).is_whole => return true,
                _ if item.is_null() => Some(Reason::Null),
                _ if leaks_delete(item, own) || holds_directives_only(item, own) => Some(Reason::Value),
                _ => None,
            };
            if let Some(reason) = reason {
                self.drop(reason, || segment(item));
                return false;
            }
            let before = self.dropped.paths.len();
            self.value(item, own, rule.item);
            self.within(before, || segment(item));
            true
        });
    }

    fn drop(&mut self, reason: Reason, segment: impl Fn() -> Segment) {
        *match reason {
            Reason::Directive => &mut self.dropped.directives,
            Reason::Null => &mut self.dropped.nulls,
            Reason::Value => &mut self.dropped.values,
        } += 1;
        if self.dropped.paths.len() < Dropped::PATHS {
            let mut path = Path::root();
            path.push(segment());
            self.dropped.paths.push(path);
        }
    }

    /// Paths are made from the inside out, and only if there are any.
    fn within(&mut self, from: usize, segment: impl Fn() -> Segment) {
        for path in &mut self.dropped.paths[from..] {
            path.prepend(segment());
        }
    }
}

/// The items of a list that aren't plainly the pod's own: those that nobody changed are shared, and mostly stand in their
/// old order.
fn changed<'v, 'a>(items: &'v [Value<'a>], own: &'v [Value<'_>]) -> impl Iterator<Item = &'v Value<'a>> {
    let mut own = own.iter().peekable();
    items.iter().filter(move |item| match (item, own.peek()) {
        (Value::Object(item), Some(Value::Object(known))) if item.is_same(known) => {
            own.next();
            false
        }
        _ => true,
    })
}

/// Whether the directive is one that the pod didn't bring along.
fn leaked<'v, 'a>(map: &'v Map<'a>, own: Option<&Value<'_>>, key: &str) -> Option<&'v Value<'a>> {
    map.get(key).filter(|value| own.and_then(|own| own.get(key)) != Some(value))
}

fn leaks_delete(value: &Value<'_>, own: Option<&Value<'_>>) -> bool {
    let patch = value.as_object().and_then(|map| leaked(map, own, PATCH));
    patch.and_then(Value::as_str) == Some("delete")
}

fn holds_directives_only(value: &Value<'_>, own: Option<&Value<'_>>) -> bool {
    let leaks = |map: &Map<'_>| {
        !map.is_empty() && map.keys().all(|key| directives::is_directive(key) && leaked(map, own, key).is_some())
    };
    value.as_object().is_some_and(leaks)
}

/// The pod's own items of a list, to be found by merge key or by equality, each once.
struct Own<'v, 'a, 'k> {
    key: Option<&'k str>,
    items: HashMap<u64, Vec<&'v Value<'a>>>,
}

impl<'v, 'a, 'k> Own<'v, 'a, 'k> {
    fn of(items: &'v [Value<'a>], key: Option<&'k str>, hasher: &RandomState) -> Self {
        let mut own: HashMap<u64, Vec<_>> = HashMap::new();
        // From behind, so that the first of equal ones is the first to be taken.
        for item in items.iter().rev() {
            let name = Name::of(item, key);
            // Only those that the pod brought along with something odd in them can equal one that has such.
            if !name.is_whole || can_leak(item) {
                own.entry(digest(name.value, hasher)).or_default().push(item);
            }
        }
        Self { key, items: own }
    }

    fn take(&mut self, item: &Value<'_>, hasher: &RandomState) -> Option<&'v Value<'a>> {
        let name = Name::of(item, self.key);
        if name.is_whole && !can_leak(item) {
            return None;
        }
        let same = self.items.get_mut(&digest(name.value, hasher))?;
        let at = same.iter().rposition(|own| Name::of(own, self.key) == name)?;
        Some(same.remove(at))
    }
}

/// What tells whether two items are the same one.
#[derive(PartialEq)]
struct Name<'v, 'a> {
    value: &'v Value<'a>,
    /// The item has no merge key, so that all of it is its name.
    is_whole: bool,
}

impl<'v, 'a> Name<'v, 'a> {
    fn of(item: &'v Value<'a>, key: Option<&str>) -> Self {
        match key.and_then(|key| item.get(key)) {
            Some(value) => Self { value, is_whole: false },
            None => Self { value: item, is_whole: true },
        }
    }
}

/// The same for equal values.
fn digest(value: &Value<'_>, hasher: &RandomState) -> u64 {
    let mut state = hasher.build_hasher();
    match value {
        Value::Null => 0.hash(&mut state),
        Value::Bool(b) => b.hash(&mut state),
        Value::Int(i) => i.hash(&mut state),
        Value::Uint(u) => hash_float(*u as f64, &mut state),
        Value::Float(f) => hash_float(*f, &mut state),
        Value::String(s) => s.hash(&mut state),
        Value::List(items) => items.iter().for_each(|item| digest(item, hasher).hash(&mut state)),
        // In any order of keys.
        Value::Object(map) => {
            let entry = |(key, value)| hasher.hash_one((key, digest(value, hasher)));
            map.iter().map(entry).fold(1u64, u64::wrapping_add).hash(&mut state);
        }
    }
    state.finish()
}

fn hash_float(f: f64, state: &mut impl Hasher) {
    // Zero is equal with either sign.
    (if f == 0.0 { 0 } else { f.to_bits() }).hash(state);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::{JsonLimits, from_json, to_json};

    fn finalised(original: &str, result: &str) -> (String, Dropped) {
        let parse = |text| from_json(text, JsonLimits::DEFAULT).unwrap();
        let (original, mut result) = (parse(original), parse(result));
        let dropped = finalise(&mut result, &original, POD.pod_spec());
        assert_eq!(finalise(&mut result, &original, POD.pod_spec()), Dropped::default(), "once is enough");
        (to_json(&result), dropped)
    }

    fn paths(dropped: &Dropped) -> Vec<String> {
        dropped.paths.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn each_kind_of_leak_goes_with_what_it_was_meant_for() {
        let (result, dropped) = finalised(
            "{}",
            r#"{"containers": [{"name": "c", "image": null, "$retainKeys": ["name"],
                "resources": {"$patch": "delete", "limits": {"cpu": "1"}},
                "securityContext": {"$patch": "replace", "privileged": false},
                "env": [{"name": "A", "$patch": "delete"}, {"name": "B", "value": null}, null],
                "$setElementOrder/env": [{"name": "B"}]}],
              "$deleteFromPrimitiveList/x": ["y"],
              "tolerations": [{"$patch": "replace"}, {"key": "a", "$patch": "replace"}, {"key": "b"}]}"#,
        );
        assert_eq!(
            result,
            r#"{"containers":[{"name":"c","securityContext":{"privileged":false},"env":[{"name":"B"}]}],"tolerations":[{"key":"a"},{"key":"b"}]}"#
        );
        assert_eq!((dropped.values, dropped.directives, dropped.nulls), (3, 5, 3));
        assert_eq!(dropped.total(), 11);
        let expected = [
            "containers[name=c].image",
            "containers[name=c].$retainKeys",
            "containers[name=c].resources",
            "containers[name=c].securityContext.$patch",
            "containers[name=c].env[name=A]",
            "containers[name=c].env[name=B].value",
            "containers[name=c].env[2]",
            "containers[name=c][$setElementOrder/env]",
            "[$deleteFromPrimitiveList/x]",
            "tolerations[0]",
            "tolerations[1].$patch",
        ];
        assert_eq!(paths(&dropped), expected);
    }

    #[test]
    fn nulls_and_odd_keys_of_the_pods_own_stay() {
        let original = r#"{"priority":null,"containers":[{"name":"a","image":null,"$patch":"delete"},{"name":"b","env":[null]}],"tolerations":[{"key":null},null],"$retainKeys":["x"]}"#;
        assert_eq!(finalised(original, original), (original.into(), Dropped::default()));
    }

    #[test]
    fn only_what_differs_is_touched_even_in_items_that_moved() {
        let (result, dropped) = finalised(
            r#"{"containers":[{"name":"a","image":null}],"tolerations":[{"key":null},{"key":"x"}]}"#,
            r#"{"containers":[{"name":"n","image":null},{"name":"a","image":null,"command":null}],"tolerations":[{"key":null,"$patch":"replace"},{"key":null},{"key":null}]}"#,
        );
        assert_eq!(
            result,
            r#"{"containers":[{"name":"n"},{"name":"a","image":null}],"tolerations":[{},{"key":null},{}]}"#
        );
        let expected = [
            "containers[name=n].image",
            "containers[name=a].command",
            "tolerations[0].key",
            "tolerations[0].$patch",
            "tolerations[2].key",
        ];
        assert_eq!(paths(&dropped), expected);
    }

    #[test]
    fn items_of_one_key_are_matched_in_their_order() {
        let original = r#"{"containers":[{"name":"a"},{"name":"a","image":null}]}"#;
        assert_eq!(finalised(original, original), (original.into(), Dropped::default()));
    }

    #[test]
    fn counts_go_on_where_paths_end() {
        let nulls = vec!["null"; 50].join(",");
        let (result, dropped) = finalised("{}", &format!(r#"{{"tolerations":[{nulls}]}}"#));
        assert_eq!(result, r#"{"tolerations":[]}"#);
        assert_eq!((dropped.nulls, dropped.paths.len()), (50, Dropped::PATHS));
    }

    #[test]
    fn what_can_leak_is_seen_at_any_depth() {
        let can = |text| can_leak(&from_json(text, JsonLimits::DEFAULT).unwrap());
        assert!(can(r#"{"a":[{"b":[null]}]}"#));
        assert!(can(r#"{"a":{"$setElementOrder/b":[]}}"#));
        assert!(!can(r#"{"a":[{"b":1,"$c":""}]}"#));
    }
}
