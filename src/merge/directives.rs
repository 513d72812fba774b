use std::{borrow::Cow, collections::HashSet};

use super::{Error, ErrorKind, can_leak};
use crate::value::{Map, Value, to_json};

/// Replaces or deletes the object, or the list item, that it stands in.
pub(super) const PATCH: &str = "$patch";
/// Names the fields of an object that stay.
pub(super) const RETAIN_KEYS: &str = "$retainKeys";
/// With a slash and the name of a list: the order of its items.
pub(super) const SET_ELEMENT_ORDER: &str = "$setElementOrder";
/// With a slash and the name of a list: scalars to take out of it.
pub(super) const DELETE_FROM_PRIMITIVE_LIST: &str = "$deleteFromPrimitiveList";

/// Whether a key is an instruction to the merge and no field.
pub(super) fn is_directive(key: &str) -> bool {
    key.starts_with('$')
        && (key == PATCH
            || key == RETAIN_KEYS
            || key.starts_with(SET_ELEMENT_ORDER)
            || key.starts_with(DELETE_FROM_PRIMITIVE_LIST))
}

/// What `$patch` says of an object.
pub(super) enum ObjectDirective {
    Delete,
    Replace,
}

/// What `$patch` says of a list item.
pub(super) enum ItemDirective {
    /// Items with this one's key go.
    Delete,
    /// The list is replaced by the patch's other items.
    Replace,
}

/// Takes `$patch` out of a patch object and reads it.
///
/// # Errors
/// Any other value than `replace` and `delete`.
pub(super) fn take_object_directive(patch: &mut Map<'_>) -> Result<Option<ObjectDirective>, Error> {
    let Some(found) = patch.remove(PATCH) else {
        return Ok(None);
    };
    match found.as_str() {
        Some("delete") => Ok(Some(ObjectDirective::Delete)),
        Some("replace") => Ok(Some(ObjectDirective::Replace)),
        _ => Err(Error::new(ErrorKind::Directive { found: to_json(&found) }).in_field(PATCH)),
    }
}

/// Reads `$patch` of a list item, where the item has it.
///
/// # Errors
/// Any other value than `replace` and `delete`.
pub(super) fn item_directive(item: &Value<'_>, key: &str) -> Result<Option<ItemDirective>, Error> {
    let Some(found) = item.get(PATCH) else {
        return Ok(None);
    };
    let kind = match found.as_str() {
        Some("delete") => return Ok(Some(ItemDirective::Delete)),
        Some("replace") => return Ok(Some(ItemDirective::Replace)),
        Some("merge") => ErrorKind::MergeDirective { key: key.to_owned() },
        _ => ErrorKind::ItemDirective { found: to_json(found) },
    };
    Err(Error::new(kind).in_field(PATCH))
}

/// Obeys `$retainKeys`, on any object: fields that it doesn't name go from `target`; all that the patch sets must be named.
///
/// # Errors
/// `$retainKeys` isn't a list of scalars, or the patch sets more than it names.
pub(super) fn retain_keys(target: &mut Map<'_>, patch: &mut Map<'_>) -> Result<(), Error> {
    let Some(retained) = patch.remove(RETAIN_KEYS) else {
        return Ok(());
    };
    let fault = |kind| Err(Error::new(kind).in_field(RETAIN_KEYS));
    let Value::List(retained) = &retained else {
        return fault(ErrorKind::RetainKeys { found: retained.kind() });
    };
    if let Some(found) = retained.iter().find(|key| matches!(key, Value::List(_) | Value::Object(_))) {
        return fault(ErrorKind::RetainedKey { found: found.kind() });
    }
    let names: HashSet<&str> = retained.iter().filter_map(Value::as_str).collect();
    let sets = |(key, value): &(&str, &Value<'_>)| {
        !value.is_null() && !key.starts_with(DELETE_FROM_PRIMITIVE_LIST) && !key.starts_with(SET_ELEMENT_ORDER)
    };
    if let Some((field, _)) = patch.iter().filter(sets).find(|(key, _)| !names.contains(key)) {
        return fault(ErrorKind::NotRetained { field: field.to_owned() });
    }
    target.retain(|key, _| names.contains(key));
    Ok(())
}

/// The directives of a patch object that stand for a list beside them, taken out of it, in the order they came.
pub(super) fn take_list_directives<'a>(patch: &mut Map<'a>, prefix: &str) -> Vec<(Cow<'a, str>, Value<'a>)> {
    if !patch.keys().any(|key| key.starts_with(prefix)) {
        return Vec::new();
    }
    let (taken, rest): (Vec<_>, Vec<_>) =
        std::mem::take(patch).into_iter().partition(|(key, _)| key.starts_with(prefix));
    *patch = rest.into_iter().collect();
    taken
}

/// The list that `$setElementOrder/F` or `$deleteFromPrimitiveList/F` is for.
///
/// # Errors
/// No slash, or more between the directive and the slash.
pub(super) fn listed_field<'k>(key: &'k str, directive: &'static str) -> Result<&'k str, Error> {
    match key.split_once('/') {
        Some((name, field)) if name == directive => Ok(field),
        _ => Err(Error::new(ErrorKind::Unnamed { directive }).in_field(key)),
    }
}

/// What is left of a patch's value where the pod has nothing to merge it with: without the objects that have a `$patch`
/// (`false` if the value itself is one) and, unless `keep_nulls`, without the keys that are null. Other directives stay,
/// as in Go.
pub(super) fn strip(value: &mut Value<'_>, keep_nulls: bool) -> bool {
    // Looked for first: what isn't changed stays shared with the layer.
    !can_leak(value) || strip_leaks(value, keep_nulls)
}

fn strip_leaks(value: &mut Value<'_>, keep_nulls: bool) -> bool {
    match value {
        Value::Object(map) => {
            // A `$patch: null` is a null key first.
            if map.get(PATCH).is_some_and(|directive| keep_nulls || !directive.is_null()) {
                return false;
            }
            map.retain(|_, value| (keep_nulls || !value.is_null()) && strip_leaks(value, keep_nulls));
        }
        Value::List(items) => items.retain_mut(|item| strip_leaks(item, keep_nulls)),
        _ => {}
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::{JsonLimits, from_json};

    fn stripped(text: &str, keep_nulls: bool) -> String {
        let mut value = from_json(text, JsonLimits::DEFAULT).unwrap();
        if strip(&mut value, keep_nulls) { to_json(&value) } else { "gone".into() }
    }

    #[test]
    fn stripping_takes_null_keys_and_objects_with_directives_but_not_null_items() {
        assert_eq!(stripped(r#"{"a":[null,{"b":null},{"$patch":"x"}],"c":{"$patch":1}}"#, false), r#"{"a":[null,{}]}"#);
        assert_eq!(stripped(r#"{"$patch":"replace"}"#, false), "gone");
        assert_eq!(stripped(r#"{"$patch":null,"a":1}"#, false), r#"{"a":1}"#);
        assert_eq!(stripped(r#"{"$patch":null,"a":1}"#, true), "gone");
        assert_eq!(stripped(r#"{"a":null,"$retainKeys":[]}"#, true), r#"{"a":null,"$retainKeys":[]}"#);
    }

    #[test]
    fn only_what_go_reads_is_a_directive() {
        for key in ["$patch", "$retainKeys", "$setElementOrder/a", "$deleteFromPrimitiveList/a"] {
            assert!(is_directive(key), "{key}");
        }
        for key in ["patch", "$patches", "$", "$retainKeys/a"] {
            assert!(!is_directive(key), "{key}");
        }
    }
}
