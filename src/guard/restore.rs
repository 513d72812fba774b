//! `onViolation: Drop` and `Clamp`: what isn't allowed is put back as it was, or set to its most.

use crate::value::{Map, Path, Segment, Value};

/// Makes what stands at a path of the pod what it was before. Items of lists (volumes, variables, mounts) are put back as a
/// whole, for half of one is none; of containers only what is meant, unless the container came or went.
pub fn put_back<'a>(pod: &mut Value<'a>, before: &Value<'a>, path: &Path) {
    let segments = path.segments();
    let is_item = |at: usize| matches!(segments[at], Segment::Item { .. });
    let of_containers =
        matches!(segments.get(1), Some(Segment::Field(list)) if list == "containers" || list == "initContainers");
    let whole = (0..segments.len()).rev().find(|at| is_item(*at) && !(of_containers && *at == 2));
    let came_or_went = || {
        let container = prefix(path, 3);
        container.find(before).is_none() || container.find(pod).is_none()
    };
    let whole = if of_containers && segments.len() > 2 && came_or_went() { Some(2) } else { whole };
    let path = whole.map_or_else(|| path.clone(), |at| prefix(path, at + 1));
    match path.find(before).filter(|value| !value.is_null()) {
        Some(value) => put(pod, before, &path, value.clone()),
        None => take(pod, before, path.segments(), &mut Path::root()),
    }
}

/// Sets an amount.
pub fn clamp<'a>(pod: &mut Value<'a>, path: &Path, most: Value<'static>) {
    put(pod, &Value::Null, path, most);
}

fn prefix(path: &Path, length: usize) -> Path {
    let mut part = Path::root();
    path.segments()[..length].iter().for_each(|segment| part.push(segment.clone()));
    part
}

/// Puts a value at a path. What isn't there on the way is made; an item comes back where it stood.
fn put<'a>(pod: &mut Value<'a>, before: &Value<'a>, path: &Path, value: Value<'a>) {
    let mut here = pod;
    for (at, segment) in path.segments().iter().enumerate() {
        let was = prefix(path, at);
        here = match segment {
            Segment::Field(name) => {
                if here.as_object().is_none() {
                    *here = Value::Object(Map::new());
                }
                let Some(map) = here.as_object_mut() else { return };
                if map.get(name).is_none_or(Value::is_null) {
                    // What is made is what comes next: the list of an item, the object of a field.
                    let list = matches!(path.segments().get(at + 1), Some(Segment::Item { .. }));
                    map.insert(name.clone(), if list { Value::List(Vec::new()) } else { Value::Object(Map::new()) });
                }
                let Some(inner) = map.get_mut(name) else { return };
                inner
            }
            Segment::Item { key, value: name } => {
                let Some(items) = here.as_list_mut() else { return };
                let is_it = |item: &Value<'_>| item.get(key).and_then(Value::scalar_text).is_some_and(|t| t == *name);
                let found = items.iter().position(is_it).unwrap_or_else(|| {
                    let place = was.find(before).and_then(Value::as_list).and_then(|list| list.iter().position(is_it));
                    let mut map = Map::new();
                    map.insert(key.clone(), Value::from(name.clone()));
                    let place = place.unwrap_or(items.len()).min(items.len());
                    items.insert(place, Value::Object(map));
                    place
                });
                &mut items[found]
            }
            Segment::Index(index) => match here.as_list_mut().and_then(|items| items.get_mut(*index)) {
                Some(item) => item,
                None => return,
            },
        };
    }
    *here = value;
}

/// Takes away what stands at a path, and with it what was made only to hold it.
fn take(pod: &mut Value<'_>, before: &Value<'_>, rest: &[Segment], at: &mut Path) {
    let Some((segment, rest)) = rest.split_first() else { return };
    at.push(segment.clone());
    match (segment, pod) {
        (Segment::Field(name), Value::Object(map)) => {
            let emptied = match map.get_mut(name) {
                Some(_) if rest.is_empty() => true,
                Some(inner) => {
                    take(inner, before, rest, at);
                    at.find(before).is_none() && is_empty(inner)
                }
                None => false,
            };
            if emptied {
                map.remove(name);
            }
        }
        (Segment::Item { key, value: name }, Value::List(items)) => {
            let is_it = |item: &Value<'_>| item.get(key).and_then(Value::scalar_text).is_some_and(|text| text == *name);
            if let Some(place) = items.iter().position(is_it) {
                take(&mut items[place], before, rest, at);
                let only_key = items[place].as_object().is_some_and(|map| map.len() <= 1);
                if rest.is_empty() || (at.find(before).is_none() && only_key) {
                    items.remove(place);
                }
            }
        }
        _ => {}
    }
    at.pop();
}

fn is_empty(value: &Value<'_>) -> bool {
    match value {
        Value::Object(map) => map.is_empty(),
        Value::List(items) => items.is_empty(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::{JsonLimits, from_json, to_json};

    #[test]
    fn what_was_changed_added_or_taken_away_is_as_before() {
        let before = r#"{"spec":{"a":1,"containers":[{"name":"x","image":"i"},{"name":"y","image":"j"}]}}"#;
        for (after, path, wanted) in [
            (before, "spec.a", before),
            (&before.replace(":1", ":2"), "spec.a", before),
            (&before.replace("\"a\":1,", "\"a\":1,\"s\":{\"t\":{\"u\":1}},"), "spec.s.t.u", before),
            (r#"{"spec":{"a":1,"containers":[{"name":"y","image":"j"}]}}"#, "spec.containers[name=x].image", before),
            (
                &before.replace("[{", "[{\"name\":\"z\",\"image\":\"k\",\"tty\":true},{"),
                "spec.containers[name=z].tty",
                before,
            ),
            (
                &before.replace("\"j\"", "\"j\",\"env\":[{\"name\":\"E\",\"value\":\"1\"}]"),
                "spec.containers[name=y].env[name=E].value",
                before,
            ),
        ] {
            let parse = |text: &str| from_json(text, JsonLimits::DEFAULT).unwrap().into_owned();
            let (old, mut pod) = (parse(before), parse(after));
            put_back(&mut pod, &old, &Path::parse(path).unwrap());
            assert_eq!(pod, parse(wanted), "{path}: {}", to_json(&pod));
        }
    }
}
