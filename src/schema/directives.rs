use std::collections::HashSet;

use super::{
    Form, POD, Struct, Type, TypeId,
    check::Check,
    finding::{FieldFault, FindingKind},
    fix::missing_key,
    nearest::nearest,
    place::{Place, Step},
    text::{described, quoted, shown},
};
use crate::value::{Map, Marks, Value};

const DELETE: &str = "$deleteFromPrimitiveList";
const ORDER: &str = "$setElementOrder";

/// Whether a key is one that a merge takes for a directive wherever it stands; others that start with `$` are just keys
/// in a map whose keys are free.
pub(super) fn is_directive(name: &str) -> bool {
    matches!(name, "$patch" | "$retainKeys") || name.starts_with(DELETE) || name.starts_with(ORDER)
}

/// Whether a list holds the marker `- $patch: replace`: then it is written anew, and nothing of the pod's own stays.
pub fn is_written_anew(items: &[Value<'_>]) -> bool {
    items.iter().any(is_marker)
}

/// Whether an item has the marker in it.
pub(super) fn is_marker(item: &Value<'_>) -> bool {
    item.get("$patch").and_then(Value::as_str) == Some("replace")
}

impl Check<'_> {
    /// A key of `map` that starts with `$`. `ty` is what the map holds, or none where its keys are free.
    pub(super) fn directive(
        &mut self,
        place: &Place<'_>,
        ty: Option<&Struct>,
        map: &Map<'_>,
        name: &str,
        value: &Value<'_>,
        marks: &Marks,
    ) {
        let here = place.down(Step::Field(name));
        let kind = match name.split_once('/') {
            None if name == "$patch" => match value.as_str() {
                Some("replace" | "delete") => return,
                _ => wrong_value(place, name, "\"replace\" or \"delete\"", value),
            },
            None if name == "$retainKeys" => return self.retain_keys(place, ty, map, value, marks),
            Some((ORDER, field)) => match list_of(ty, field) {
                Ok((elem, key)) => return self.order(place, name, (elem, key), value, marks),
                Err(fault) => field_fault(place, name, field, fault),
            },
            Some((DELETE, field)) => match list_of(ty, field) {
                Ok((elem, _)) if is_object(elem) => field_fault(place, name, field, FieldFault::NoPrimitives),
                Ok(_) if matches!(value, Value::List(_) | Value::Null) => return,
                Ok(_) => wrong_value(place, name, "a list of values", value),
                Err(fault) => field_fault(place, name, field, fault),
            },
            _ => FindingKind::UnknownDirective { name: quoted(name), owner: place.name(), nearest: meant(name) },
        };
        self.find(&here, marks.shown(), kind);
    }

    fn retain_keys(&mut self, place: &Place<'_>, ty: Option<&Struct>, map: &Map<'_>, value: &Value<'_>, marks: &Marks) {
        const NAME: &str = "$retainKeys";
        let here = place.down(Step::Field(NAME));
        let Value::List(names) = value else {
            self.find(&here, marks.shown(), wrong_value(place, NAME, "a list of field names", value));
            return;
        };
        let mut retained = HashSet::new();
        for (at, name) in names.iter().enumerate() {
            let at = marks.children.get(at).unwrap_or(marks).at;
            match name {
                Value::String(name) => {
                    if let Some(fault) = ty.and_then(|ty| unknown(ty, name)) {
                        self.find(&here, at, field_fault(place, NAME, name, fault));
                    }
                    retained.insert(name.as_ref());
                }
                other => self.find(&here, at, wrong_value(place, NAME, "a list of field names", other)),
            }
        }
        // A `$patch` beside it decides alone, so that nothing reads the list.
        if map.contains_key("$patch") {
            return;
        }
        for (name, value) in map.iter() {
            if !value.is_null() && !name.starts_with('$') && !retained.contains(name) {
                let kind = FindingKind::RetainKeysLack { owner: place.name(), field: shown(name) };
                self.find(&here, marks.shown(), kind);
            }
        }
    }

    /// The value of `$setElementOrder/FIELD`: the items' keys as one-field objects, or plain values.
    fn order(
        &mut self,
        place: &Place<'_>,
        name: &str,
        (elem, key): (TypeId, Option<&str>),
        value: &Value<'_>,
        marks: &Marks,
    ) {
        let here = place.down(Step::Field(name));
        let Value::List(items) = value else {
            self.find(&here, marks.shown(), wrong_value(place, name, "a list", value));
            return;
        };
        for (at, item) in items.iter().enumerate() {
            let at = marks.children.get(at).unwrap_or(marks).at;
            match (key, item) {
                (Some(key), Value::Object(item)) if item.get(key).is_some_and(|name| !name.is_null()) => {}
                (Some(key), Value::Object(_)) => {
                    let item = format!("an item of {}", shown(name));
                    self.find(&here, at, missing_key(item, key));
                }
                (None, item) if !is_object(elem) && item.scalar_text().is_some() && !item.is_null() => {}
                (Some(_), other) => self.find(&here, at, wrong_value(place, name, "a list of merge keys", other)),
                (None, other) if !is_object(elem) => {
                    self.find(&here, at, wrong_value(place, name, "a list of values", other));
                }
                // A list of objects without a key has no order that could be named.
                (None, _) => {
                    let field = name.split_once('/').map_or(name, |(_, field)| field);
                    self.find(&here, at, field_fault(place, name, field, FieldFault::NoKey));
                    return;
                }
            }
        }
    }
}

fn wrong_value(place: &Place<'_>, name: &str, wanted: &'static str, value: &Value<'_>) -> FindingKind {
    FindingKind::DirectiveValue { directive: shown(name), owner: place.name(), wanted, got: described(value) }
}

fn field_fault(place: &Place<'_>, name: &str, field: &str, fault: FieldFault) -> FindingKind {
    FindingKind::DirectiveField { directive: shown(name), field: shown(field), owner: place.name(), fault }
}

/// The item type and merge key of a list field.
fn list_of<'t>(ty: Option<&'t Struct>, name: &str) -> Result<(TypeId, Option<&'t str>), FieldFault> {
    let Some(ty) = ty else { return Err(FieldFault::NoList) };
    let Some(field) = ty.field(name) else {
        return Err(unknown(ty, name).unwrap_or(FieldFault::NoList));
    };
    match POD.target(field.ty).1 {
        Type::Slice(elem) => Ok((*elem, field.list_key())),
        _ => Err(FieldFault::NoList),
    }
}

fn unknown(ty: &Struct, name: &str) -> Option<FieldFault> {
    let is_known = ty.field(name).is_some();
    (!is_known).then(|| FieldFault::Unknown { nearest: nearest(name, ty.names()).map(str::to_owned) })
}

fn is_object(ty: TypeId) -> bool {
    matches!(POD.target(ty).1, Type::Struct(Struct { form: Form::Object, .. }))
}

/// The directive that was meant by a key that is none.
fn meant(name: &str) -> Option<&'static str> {
    let stem = name.split_once('/').map_or(name, |(stem, _)| stem);
    nearest(stem, ["$patch", "$retainKeys", ORDER, DELETE]).map(|stem| match stem {
        ORDER => "$setElementOrder/FIELD",
        DELETE => "$deleteFromPrimitiveList/FIELD",
        "$patch" => "$patch",
        _ => "$retainKeys",
    })
}
