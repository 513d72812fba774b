//! Exact strategic merge patch, as `kubectl patch` and the API server do it.
//!
//! The one idea: everything is a [`Value`], end to end. A typed pod anywhere on the way would lose directives, nulls, zero
//! values and fields newer than its types. So a merge is a walk of two trees of JSON with the type graph beside it, which
//! is asked only where both trees have an object or both have a list; everything else needs no schema.
//!
//! What Go's `strategicpatch` does is the standard here, oddities included: new list items come first, a directive in an
//! item that is itself new stays in the result (it leaks), and `$setElementOrder` shows traces of how Go shares memory
//! between slices. Where Go panics there is an [`Error`]. [`finalise`] is the part that Go lacks: it takes out of the
//! result what leaked.
//!
//! | file | holds |
//! |---|---|
//! | `map` | objects: the order of steps |
//! | `list`, `scalars` | lists of objects by key, lists of scalars as sets |
//! | `plain` | the same for lists by key with nothing odd in them, without looking for it twice |
//! | `element_order` | `$setElementOrder` |
//! | `order`, `keys` | where each item of a merged list ends up, in linear time |
//! | `directives` | reading `$patch` and the others; what is left of a value that meets nothing |
//! | `fields` | what the schema says of a field |
//! | `finalise` | removing what leaked |

mod directives;
mod element_order;
mod error;
mod fields;
mod finalise;
mod keys;
mod list;
mod map;
mod order;
mod plain;
mod scalars;

pub use error::{Error, ErrorKind, Side};
pub use finalise::{Dropped, can_leak, finalise};

use std::cell::Cell;

use crate::{
    schema::{Graph, POD, TypeId},
    value::{Kind, Map, Value},
};
use fields::Schema;

/// What to do where the schema doesn't know how to merge what both documents have.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Mode {
    /// An error, as in Go.
    Strict,
    /// Objects are merged and lists replaced: for pods of a cluster that is newer than this build's schema.
    Lenient,
}

/// Merges `patch` into `target`, whose type is `root` ([`Graph::pod`] or [`Graph::pod_spec`] of [`POD`]).
///
/// The patch's values are moved, not copied. A target of null counts as `{}`, a patch of null changes nothing. Recursion
/// is as deep as the documents are.
///
/// # Errors
/// Where Go's `strategicpatch` fails or panics. The target may then be half changed; whoever wants it back keeps a copy.
pub fn apply<'a>(target: &mut Value<'a>, patch: Value<'a>, root: TypeId, mode: Mode) -> Result<Moved, Error> {
    let moved = Cell::new(false);
    merge(target, patch, root, mode, &moved)?;
    Ok(Moved(moved.get()))
}

/// Whether a merge put items that were there already into another order: two patches that each do so for one list can undo
/// each other's order when both are applied again.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Moved(pub bool);

fn merge<'a>(
    target: &mut Value<'a>,
    patch: Value<'a>,
    root: TypeId,
    mode: Mode,
    moved: &Cell<bool>,
) -> Result<(), Error> {
    let fail = |side, found: Kind| Err(Error::new(ErrorKind::Document { side, found }));
    if target.is_null() {
        *target = Value::Object(Map::new());
    }
    match (target, patch) {
        (Value::Object(target), Value::Object(patch)) => {
            Merge { graph: &POD, mode, moved: Some(moved) }.objects(target, patch, Schema::Known(root))
        }
        (Value::Object(_), Value::Null) => Ok(()),
        (Value::Object(_), patch) => fail(Side::Patch, patch.kind()),
        (target, _) => fail(Side::Pod, target.kind()),
    }
}

/// What a merge needs at every step.
#[derive(Clone, Copy, Debug)]
struct Merge<'g> {
    graph: &'g Graph,
    mode: Mode,
    /// Where it is told that items changed their order, if somebody asks.
    moved: Option<&'g Cell<bool>>,
}

/// Two keys that would have to be compared are both lists or both objects: Go panics.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Uncomparable(Kind);

impl Uncomparable {
    fn of_key(self, key: &str) -> Error {
        Error::new(ErrorKind::KeyType { key: key.to_owned(), found: self.0 })
    }
}

#[cfg(test)]
mod tests;
