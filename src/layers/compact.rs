//! A layer is read once and kept for days: the room that reading it left spare is given back. It is a quarter of what a
//! layer takes, and a cluster may have a thousand.

use std::{borrow::Cow, mem};

use super::{Layer, trail::Assertion};
use crate::value::{Document, Map, Marks, Value};

/// Gives back what a layer has room for and doesn't hold. Not for the step's patch, which lives as long as its review.
pub(super) fn compact(layer: &mut Layer) {
    document(&mut layer.patch);
    assertions(&mut layer.assertions);
    layer.patterns.shrink_to_fit();
    for pattern in &mut layer.patterns {
        document(&mut pattern.item);
        assertions(&mut pattern.assertions);
    }
}

fn document(document: &mut Document) {
    document.value = value(mem::take(&mut document.value));
    marks(&mut document.marks);
}

/// Recursion is bounded by the depth that the YAML reader allows, here as below.
fn value(from: Value<'static>) -> Value<'static> {
    match from {
        Value::List(mut items) => {
            items.iter_mut().for_each(|item| *item = value(mem::take(item)));
            items.shrink_to_fit();
            Value::List(items)
        }
        Value::Object(map) if !map.is_empty() => {
            let mut exact = Map::with_capacity(map.len());
            for (key, entry) in map {
                exact.insert(text(key), value(entry));
            }
            Value::Object(exact)
        }
        Value::String(string) => Value::String(text(string)),
        other => other,
    }
}

fn text(text: Cow<'static, str>) -> Cow<'static, str> {
    match text {
        Cow::Owned(mut owned) => {
            owned.shrink_to_fit();
            Cow::Owned(owned)
        }
        borrowed => borrowed,
    }
}

fn marks(of: &mut Marks) {
    of.children.iter_mut().for_each(marks);
    of.children.shrink_to_fit();
}

fn assertions(of: &mut Vec<Assertion>) {
    of.iter_mut().for_each(|assertion| assertion.text.shrink_to_fit());
    of.shrink_to_fit();
}

#[cfg(test)]
mod tests {
    use super::{
        super::{Scope, manifest},
        *,
    };
    use crate::value::to_json;

    const TEXT: &str = "kind: ConfigMap\nmetadata: {name: base, labels: {podlayer.dev/layer: default}}\ndata:\n  \
                        podSpecPatch: |\n    nodeSelector: {}\n    containers:\n    - name: a\n      env:\n      - \
                        {name: A, value: b}\n    - name: \"*\"\n      env:\n      - {name: C, value: d}\n";

    fn spare(value: &Value<'_>, marks: &Marks) -> usize {
        let below: usize = match value {
            Value::List(items) => {
                let spare: usize = items.iter().zip(&marks.children).map(|(item, marks)| spare(item, marks)).sum();
                items.capacity() - items.len() + spare
            }
            Value::Object(map) => map.iter().zip(&marks.children).map(|((_, value), marks)| spare(value, marks)).sum(),
            _ => 0,
        };
        below + marks.children.capacity() - marks.children.len()
    }

    #[test]
    fn a_layer_that_is_read_has_no_room_to_spare_and_says_the_same() {
        let layer = manifest::read(TEXT, "f.yaml", "f", Scope { own_namespace: "podlayer" }).unwrap().remove(0);
        assert_eq!(
            to_json(&layer.patch.value),
            r#"{"nodeSelector":{},"containers":[{"name":"a","env":[{"name":"A","value":"b"}]}]}"#
        );
        assert_eq!(spare(&layer.patch.value, &layer.patch.marks), 0);
        let item = &layer.patterns[0].item;
        assert_eq!(spare(&item.value, &item.marks), 0);
        let assertions = layer.assertions.iter().chain(&layer.patterns[0].assertions);
        assert!(assertions.clone().count() > 2);
        assert!(assertions.into_iter().all(|assertion| assertion.text.capacity() == assertion.text.len()));
        // What a patch on its way through a pod is read with has some, or this would show nothing.
        let step = super::super::parse_step("containers: [{name: a, env: [{name: A, value: b}]}]").unwrap();
        assert!(spare(&step.patch.value, &step.patch.marks) > 0);
    }
}
