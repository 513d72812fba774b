//! What to write instead of something of the wrong shape, in the words of somebody who wrote it.

use super::{Struct, finding::FindingKind, text::quoted};
use crate::value::{Map, Value};

/// The one field that is meant where somebody writes a plain value in the place of one of these types.
const PRINCIPAL: &[(&str, &str)] = &[
    ("ConfigMapEnvSource", "name"),
    ("ConfigMapVolumeSource", "name"),
    ("HostPathVolumeSource", "path"),
    ("LocalObjectReference", "name"),
    ("ObjectFieldSelector", "fieldPath"),
    ("PersistentVolumeClaimVolumeSource", "claimName"),
    ("SeccompProfile", "type"),
    ("SecretEnvSource", "name"),
    ("SecretVolumeSource", "secretName"),
];

/// How many fields a type may have for all of them to be named.
const FEW: usize = 4;

/// How to write a whole patch that isn't a map.
pub(super) fn as_patch(value: &Value<'_>) -> &'static str {
    match value {
        Value::List(items) if items.first().is_some_and(|item| item.get("op").is_some()) => {
            "a JSON patch is not read: write the fields as they should be, such as \"hostNetwork: true\""
        }
        Value::List(_) => "write the field that the list is for above it, such as \"containers:\"",
        _ => "write fields, such as \"hostNetwork: true\"",
    }
}

/// How to write as an object of this type what somebody wrote as something else.
pub(super) fn as_map(ty: &Struct, value: &Value<'_>) -> String {
    let fields = match ty.names().count() {
        1..=FEW => format!("its fields ({})", ty.names().collect::<Vec<_>>().join(", ")),
        _ => "its fields".to_owned(),
    };
    if matches!(value, Value::List(_)) {
        return format!("write {fields} without \"- \"");
    }
    match (PRINCIPAL.iter().find(|(name, _)| *name == &*ty.name), value) {
        (Some((_, field)), Value::String(text)) => {
            format!("write {} on a line below it", quoted(&format!("{field}: {text}")))
        }
        _ => format!("write {fields} on lines below it"),
    }
}

/// How to write as a list what somebody wrote as something else.
pub(super) fn as_list(key: Option<&str>, value: &Value<'_>) -> String {
    match (key, value) {
        (Some(key), Value::Object(map)) if map.contains_key(key) => {
            "write \"- \" in front of its first field".to_owned()
        }
        (Some(key), Value::Object(map)) => match map.keys().next() {
            Some(name) if !name.starts_with('$') => {
                format!("write items such as {}", quoted(&format!("- {key}: {name}")))
            }
            _ => format!("write items such as \"- {key}: …\""),
        },
        (None, Value::Object(_)) => "start each item with \"- \"".to_owned(),
        (_, scalar) => {
            let text = scalar.scalar_text().unwrap_or_default();
            let item = key.map_or_else(|| format!("- {text}"), |key| format!("- {key}: {text}"));
            format!("write {} on a line below", quoted(&item))
        }
    }
}

/// How to write as an item of a list that merges by `key` what somebody wrote as a plain value: `A=b` is a variable.
pub(super) fn as_item(key: &str, ty: Option<&Struct>, item: &Value<'_>) -> String {
    let Some(text) = item.scalar_text().filter(|_| !item.is_null()) else { return format!("write \"- {key}: …\"") };
    match text.split_once('=') {
        Some((name, value)) if is_variable(ty) => {
            format!("write {}", quoted(&format!("- {{name: {name}, value: '{value}'}}")))
        }
        _ => format!("write {}", quoted(&format!("- {key}: {text}"))),
    }
}

/// Of an item that lacks its merge key.
pub(super) fn missing_key(item: String, key: &str) -> FindingKind {
    FindingKind::MissingKey { item, key: key.to_owned(), fix: format!("add \"{key}: …\"") }
}

/// The same where somebody wrote a variable as `- NAME: value`; then nothing else need be said of the item.
pub(super) fn variable(item: &str, ty: Option<&Struct>, map: &Map<'_>) -> Option<FindingKind> {
    let ty = ty.filter(|ty| is_variable(Some(ty)))?;
    let (name, value) = map.iter().next().filter(|(name, _)| map.len() == 1 && !name.starts_with('$'))?;
    if ty.field(name).is_some() || matches!(value, Value::List(_) | Value::Object(_)) {
        return None;
    }
    let fix = format!("write {} and below it \"value: …\"", quoted(&format!("- name: {name}")));
    Some(FindingKind::MissingKey { item: item.to_owned(), key: "name".to_owned(), fix })
}

fn is_variable(ty: Option<&Struct>) -> bool {
    ty.is_some_and(|ty| &*ty.name == "EnvVar")
}
