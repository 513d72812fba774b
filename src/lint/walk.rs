//! Goes through a patch with the types of its fields.

use crate::{
    schema::{POD, Struct, Type, TypeId},
    value::{Document, Marks, Value},
};

/// One value of a patch.
pub(super) struct Place<'d> {
    /// The value.
    pub value: &'d Value<'static>,
    /// Where it and its parts stand.
    pub marks: &'d Marks,
    /// The field that it is, or that its list is.
    pub field: &'d str,
    /// The type that it has, where that is known.
    pub id: Option<TypeId>,
    /// The object type that it has, where it has one.
    pub ty: Option<&'static Struct>,
    /// Whether it is an item of a list that is merged by a key.
    pub merged_item: bool,
    /// The list around it that is replaced as a whole.
    pub whole: Option<&'d str>,
}

#[derive(Clone, Copy)]
struct Within<'d> {
    field: &'d str,
    key: Option<&'static str>,
    merged_item: bool,
    whole: Option<&'d str>,
}

/// Calls `see` for every value of a patch of the pod's spec, from the outermost in, in the order of the text. Recursion is
/// bounded by the depth that the YAML reader allows.
pub(super) fn walk<'d>(document: &'d Document, see: &mut impl FnMut(&Place<'d>)) {
    let within = Within { field: "", key: None, merged_item: false, whole: None };
    go(&document.value, &document.marks, Some(POD.pod_spec()), within, see);
}

fn go<'d>(
    value: &'d Value<'static>,
    marks: &'d Marks,
    ty: Option<TypeId>,
    within: Within<'d>,
    see: &mut impl FnMut(&Place<'d>),
) {
    let (id, target) = ty.map(|ty| POD.target(ty)).unzip();
    let object = match target {
        Some(Type::Struct(fields)) => Some(fields),
        _ => None,
    };
    let Within { field, key, merged_item, whole } = within;
    see(&Place { value, marks, field, id, ty: object, merged_item, whole });
    match value {
        Value::Object(map) => {
            for ((name, value), marks) in map.iter().zip(&marks.children) {
                let (ty, key) = match target {
                    Some(Type::Struct(fields)) => match fields.field(name) {
                        Some(field) => (Some(field.ty), field.key.as_deref().filter(|_| field.merge)),
                        None => (None, None),
                    },
                    Some(Type::Map(values)) => (Some(*values), None),
                    _ => (None, None),
                };
                go(value, marks, ty, Within { field: name, key, merged_item: false, whole }, see);
            }
        }
        Value::List(items) => {
            let ty = match target {
                Some(Type::Slice(item)) => Some(*item),
                _ => None,
            };
            let whole = whole.or_else(|| Some(field).filter(|_| key.is_none() && !field.starts_with('$')));
            for (value, marks) in items.iter().zip(&marks.children) {
                let within = Within { field, key: None, merged_item: key.is_some(), whole };
                go(value, marks, ty, within, see);
            }
        }
        _ => {}
    }
}
