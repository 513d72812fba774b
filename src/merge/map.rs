use std::mem;

use super::{
    Error, Merge,
    directives::{self, DELETE_FROM_PRIMITIVE_LIST, ObjectDirective, SET_ELEMENT_ORDER},
    fields::Schema,
};
use crate::value::{Map, Value};

impl Merge<'_> {
    /// Merges a patch object into the pod's. The order of steps is Go's, but that a `$deleteFromPrimitiveList` always
    /// comes last, where Go leaves it to chance.
    pub(super) fn objects<'a>(&self, target: &mut Map<'a>, mut patch: Map<'a>, ty: Schema) -> Result<(), Error> {
        if !patch.keys().any(|key| key.starts_with('$')) {
            return self.entries(target, patch, ty);
        }
        match directives::take_object_directive(&mut patch)? {
            // As it stands, with all nulls and directives in it.
            Some(ObjectDirective::Replace) => *target = patch,
            Some(ObjectDirective::Delete) => *target = Map::new(),
            None => {
                directives::retain_keys(target, &mut patch)?;
                for (name, order) in directives::take_list_directives(&mut patch, SET_ELEMENT_ORDER) {
                    self.set_element_order(target, &mut patch, &name, order, ty)?;
                }
                let deletions = directives::take_list_directives(&mut patch, DELETE_FROM_PRIMITIVE_LIST);
                self.entries(target, patch, ty)?;
                for (name, deletion) in deletions {
                    self.deletion(target, &name, deletion, ty)?;
                }
            }
        }
        Ok(())
    }

    fn entries<'a>(&self, target: &mut Map<'a>, patch: Map<'a>, ty: Schema) -> Result<(), Error> {
        for (key, mut value) in patch {
            if value.is_null() {
                target.remove(&key);
                continue;
            }
            match (target.get_mut(&key), &mut value) {
                (Some(Value::Object(old)), Value::Object(new)) => {
                    let ty = self.object_field(ty, &key)?;
                    self.objects(old, mem::take(new), ty).map_err(|error| error.in_field(&key))?;
                }
                (Some(Value::List(old)), Value::List(new)) => {
                    let rule = self.list_field(ty, &key)?;
                    let (live, patch) = (mem::take(old), mem::take(new));
                    *old = if rule.merge {
                        self.lists(live, patch, rule).map_err(|error| error.in_field(&key))?
                    } else {
                        patch
                    };
                }
                // What the pod doesn't have, or has with another type, is taken over.
                (old, _) => match (directives::strip(&mut value, false), old) {
                    (true, Some(old)) => *old = value,
                    (true, None) => _ = target.insert(key, value),
                    (false, _) => _ = target.remove(&key),
                },
            }
        }
        Ok(())
    }

    /// Obeys one `$deleteFromPrimitiveList/F`. Go treats it as an entry `F` that only acts where the pod has the same
    /// type: so null removes the list, objects are merged, and a list of objects merges its items.
    fn deletion<'a>(&self, target: &mut Map<'a>, name: &str, value: Value<'a>, ty: Schema) -> Result<(), Error> {
        let field = match directives::listed_field(name, DELETE_FROM_PRIMITIVE_LIST)? {
            "" => name,
            field => field,
        };
        match (target.get_mut(field), value) {
            (_, Value::Null) => _ = target.remove(field),
            (Some(Value::Object(old)), Value::Object(new)) => {
                let ty = self.object_field(ty, field)?;
                self.objects(old, new, ty).map_err(|error| error.in_field(field))?;
            }
            (Some(Value::List(old)), Value::List(new)) => {
                let rule = self.list_field(ty, field)?;
                *old = self.without(mem::take(old), new, rule).map_err(|error| error.in_field(field))?;
            }
            (Some(old), new) if old.kind() == new.kind() => *old = new,
            _ => {}
        }
        Ok(())
    }
}
