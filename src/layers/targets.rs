//! Which containers of a pod a patch meets.
//!
//! `kubectl` adds a container that a patch names and the pod lacks, whether or not the pod can then be created. A
//! fleet's default names containers that only some pods have, so here that is a choice (`absentContainers`).

use ahash::AHashSet;

use super::{AbsentContainers, Cause, Kind};
use crate::{
    schema::{is_written_anew, nearest},
    value::Value,
};

/// What happened to the containers that a patch names and a pod lacks.
#[derive(Debug, Default, Eq, PartialEq)]
pub struct Absent {
    /// Names of those that the patch will add.
    pub added: Vec<String>,
    /// Names of those that were taken out of the patch.
    pub skipped: Vec<String>,
}

/// Takes out of a patch what is meant for containers that the pod lacks, as the layer's option says; a list emptied by
/// that goes too, since otherwise it would be created.
///
/// # Errors
/// [`Cause::AbsentContainer`] where a container must be there; always so for one without an image in a step patch.
pub fn select(
    patch: &mut Value<'_>,
    pod_spec: Option<&Value<'_>>,
    option: AbsentContainers,
    kind: Kind,
) -> Result<Absent, Cause> {
    let mut absent = Absent::default();
    let Some(map) = patch.as_object_mut() else { return Ok(absent) };
    for (list, init) in [("containers", false), ("initContainers", true)] {
        let Some(items) = map.get(list).and_then(Value::as_list) else { continue };
        if is_written_anew(items) {
            // Everything in it is there by definition.
            continue;
        }
        let there: AHashSet<&str> = names(pod_spec.and_then(|spec| spec.get(list))).collect();
        let absent_name = |item: &Value<'_>| {
            let name = item.get("name").and_then(Value::as_str);
            name.filter(|name| directive(item).is_none() && !there.contains(name)).map(str::to_owned)
        };
        // Looked for first: a patch that stays as it is stays the layer's.
        if items.iter().all(|item| absent_name(item).is_none()) {
            continue;
        }
        let Some(items) = map.get_mut(list).and_then(Value::as_list_mut) else { continue };
        let before = items.len();
        let mut fault = None;
        items.retain(|item| {
            let Some(name) = absent_name(item) else {
                return true;
            };
            let has_image = item.get("image").is_some_and(|image| !image.is_null());
            let refuse = match option {
                AbsentContainers::Error => true,
                _ => kind == Kind::Step && !has_image,
            };
            let add = match option {
                AbsentContainers::Add => true,
                AbsentContainers::Auto => has_image,
                AbsentContainers::Error | AbsentContainers::Skip => false,
            };
            if refuse && fault.is_none() {
                fault = Some(fault_of(&name, init, &there, kind));
            }
            if add {
                absent.added.push(name)
            } else {
                absent.skipped.push(name)
            }
            add
        });
        if let Some(fault) = fault {
            return Err(fault);
        }
        if items.is_empty() && before > 0 {
            map.remove(list);
        }
    }
    Ok(absent)
}

/// The names in a list of containers.
pub fn names<'v>(list: Option<&'v Value<'_>>) -> impl Iterator<Item = &'v str> {
    let items = list.and_then(Value::as_list).unwrap_or_default();
    items.iter().filter_map(|item| item.get("name").and_then(Value::as_str))
}

fn directive<'v>(item: &'v Value<'_>) -> Option<&'v str> {
    item.get("$patch").and_then(Value::as_str)
}

fn fault_of(name: &str, init: bool, there: &AHashSet<&str>, kind: Kind) -> Cause {
    let mut sorted: Vec<&str> = there.iter().copied().collect();
    sorted.sort_unstable();
    let add = if kind == Kind::Step { "; to add a container, give it an image" } else { "" };
    let hint = match nearest(name, sorted.iter().copied()) {
        Some(near) => format!(", did you mean {near:?}?"),
        None if sorted.is_empty() => format!("; the pod has none{add}"),
        None => format!("; the pod has {}{add}", sorted.join(", ")),
    };
    Cause::AbsentContainer { name: name.to_owned(), init, hint }
}
