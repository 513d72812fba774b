//! The container of a pod that has none: a Job can be written as a label, a command and an image.

use crate::{
    layers::Facts,
    names,
    value::{Map, Value},
};

/// Whether a pod's spec has no container.
pub(super) fn is_wanted(spec: Option<&Value<'_>>) -> bool {
    let containers = spec.and_then(|spec| spec.get("containers"));
    containers.is_none_or(|list| list.is_null() || list.as_list().is_some_and(<[_]>::is_empty))
}

/// Gives a pod without containers its default one; what the annotations don't say is left to the layers.
pub(super) fn add<'a>(pod: &mut Value<'a>, facts: &Facts<'_>, default_image: Option<&str>) {
    let mut container = Map::with_capacity(3);
    container.insert("name", Value::from(names::DEFAULT_CONTAINER));
    if let Some(image) = facts.annotation(names::IMAGE).or(default_image) {
        container.insert("image", Value::from(image.trim().to_owned()));
    }
    if let Some(command) = facts.annotation(names::COMMAND) {
        let words = ["/bin/sh", "-c"].into_iter().map(Value::from).chain([Value::from(command.to_owned())]);
        container.insert("command", Value::List(words.collect()));
    }
    put(pod, Value::List(vec![Value::Object(container)]));
}

/// Sets the containers of a pod's spec.
pub(super) fn put<'a>(pod: &mut Value<'a>, containers: Value<'a>) {
    let Some(map) = pod.as_object_mut() else { return };
    if map.get("spec").and_then(Value::as_object).is_none() {
        map.insert("spec", Value::Object(Map::new()));
    }
    if let Some(spec) = map.get_mut("spec").and_then(Value::as_object_mut) {
        spec.insert("containers", containers);
    }
}

/// The image of the default container, where the pod has that container.
pub(super) fn image<'v>(spec: Option<&'v Value<'_>>) -> Option<&'v str> {
    let containers = spec?.get("containers")?.as_list()?;
    let named = |item: &&Value<'_>| item.get("name").and_then(Value::as_str) == Some(names::DEFAULT_CONTAINER);
    containers.iter().find(named)?.get("image")?.as_str().filter(|image| !image.is_empty())
}
