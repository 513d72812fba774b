use super::{
    list,
    operation::{Operation, Pointer},
};
use crate::{
    schema::{Form, POD, Type, TypeId},
    value::{Map, Value},
};

/// Appends what turns `before` into `after`.
///
/// Both stand at `pointer` in the document that the patch is for, and are of the type `root` (`POD.pod_spec()` at
/// `/spec`). Values are borrowed from `after`. Equal values give nothing. The work grows linearly with both (with
/// `n log n` where items of a list moved).
pub fn diff<'a>(before: &Value<'_>, after: &'a Value<'_>, root: TypeId, pointer: &str, out: &mut Vec<Operation<'a>>) {
    compare(before, after, Known { ty: Some(root), key: None }, Pointer::Start(pointer), out);
}

/// What the type graph says about a value; nothing about what is newer than the graph.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Known {
    ty: Option<TypeId>,
    /// The merge key, for a list that has one.
    key: Option<&'static str>,
}

impl Known {
    /// The field or map value under this name.
    fn under(self, name: &str) -> Self {
        let Some(ty) = self.ty else { return Self::default() };
        match POD.target(ty).1 {
            Type::Struct(ty) if ty.form == Form::Object => {
                ty.field(name).map_or_else(Self::default, |field| Self { ty: Some(field.ty), key: field.list_key() })
            }
            Type::Map(elem) => Self { ty: Some(*elem), key: None },
            _ => Self::default(),
        }
    }

    /// The items of this list.
    pub(super) fn item(self) -> Self {
        let elem = self.ty.and_then(|ty| match POD.target(ty).1 {
            Type::Slice(elem) => Some(*elem),
            _ => None,
        });
        Self { ty: elem, key: None }
    }
}

/// Appends what turns `before` into `after`; says whether anything of `before` stays. Goes as deep as both values go,
/// which the readers of both bound.
pub(super) fn compare<'a>(
    before: &Value<'_>,
    after: &'a Value<'_>,
    known: Known,
    pointer: Pointer<'_>,
    out: &mut Vec<Operation<'a>>,
) -> bool {
    let stays = match (before, after) {
        // What is shared wasn't changed.
        (Value::Object(before), Value::Object(map)) if before.is_same(map) => true,
        (Value::Object(before), Value::Object(map)) => {
            let start = out.len();
            let stays = fields(before, map, known, pointer, out);
            // Nothing of the object stays: then all that it holds now is in the operations, and one with the whole is
            // shorter.
            if stays || out.len() == start + 1 {
                return stays;
            }
            out.truncate(start);
            before.is_empty() && map.is_empty()
        }
        (Value::List(before), Value::List(items)) => {
            match known.key.and_then(|key| list::compare(before, items, key, known, pointer, out)) {
                Some(stays) => return stays,
                None => before == items,
            }
        }
        _ => before == after,
    };
    if !stays {
        out.push(Operation::replace(pointer, after.borrowed()));
    }
    stays
}

fn fields<'a>(
    before: &Map<'_>,
    after: &'a Map<'_>,
    known: Known,
    pointer: Pointer<'_>,
    out: &mut Vec<Operation<'a>>,
) -> bool {
    let (mut stays, mut found) = (false, 0);
    // Most objects have their keys in the same order before and after, which saves looking them up.
    let mut olds = before.iter();
    for (name, value) in after.iter() {
        let old = match olds.next() {
            Some((old, before)) if old == name => Some(before),
            _ => before.get(name),
        };
        let here = Pointer::Key(&pointer, name);
        let Some(old) = old else {
            out.push(Operation::add(here, value.borrowed()));
            continue;
        };
        found += 1;
        let known = if is_scalar(value) { Known::default() } else { known.under(name) };
        stays |= compare(old, value, known, here, out);
    }
    if found < before.len() {
        for name in before.keys().filter(|name| !after.contains_key(name)) {
            out.push(Operation::remove(Pointer::Key(&pointer, name)));
        }
    }
    stays
}

fn is_scalar(value: &Value<'_>) -> bool {
    !matches!(value, Value::List(_) | Value::Object(_))
}
