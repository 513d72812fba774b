use std::fmt;

use crate::value::{Kind, Path, Segment};

/// Why a patch can't be merged: what is wrong, and where.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{}{kind}", Place(path))]
pub struct Error {
    /// Where it is, from the root type: `spec.containers[name=agent].env[name=A]` for a Pod.
    pub path: Path,
    /// What is wrong there.
    pub kind: ErrorKind,
}

/// Which of the two documents is at fault.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Side {
    /// What the patch was merged into.
    Pod,
    /// The patch.
    Patch,
}

/// What can be wrong: each error of Go's `strategicpatch`, and each way in which it panics.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum ErrorKind {
    /// A whole document is a list or a scalar (Go: `invalid JSON document`).
    #[error("{side} must be an object, not {}", Noun(*found))]
    Document {
        /// Which document.
        side: Side,
        /// What it is instead.
        found: Kind,
    },
    /// `$patch` of an object (Go: `unknown patch type`).
    #[error("`$patch` must be `replace` or `delete` in an object, not {found}; to merge, leave `$patch` out")]
    Directive {
        /// What `$patch` says, as JSON.
        found: String,
    },
    /// `$patch` of a list item (Go: `unknown patch type`).
    #[error(
        "`$patch` must be `delete` in a list item, or `replace` in an item of its own to replace the list, not {found}; \
         to merge, leave `$patch` out"
    )]
    ItemDirective {
        /// What `$patch` says, as JSON.
        found: String,
    },
    /// `$patch: merge` in a list item (Go: `merging lists cannot yet be specified in the patch`).
    #[error("`$patch: merge` can't stand in a list item; leave it out, since items merge by `{key}` anyway")]
    MergeDirective {
        /// The merge key of the list.
        key: String,
    },
    /// An item of a list that merges by key has no key (Go: `does not contain declared merge key`).
    #[error("this item of {side} lacks `{key}`, by which the items of this list are merged; {}", key_fix(*side, key))]
    KeyMissing {
        /// Which document the item stands in.
        side: Side,
        /// The merge key.
        key: String,
    },
    /// A merge key holds a list or an object and would have to be compared (Go panics).
    #[error("`{key}` names the items of this list, so it must be text or a number, not {}", Noun(*found))]
    KeyType {
        /// The merge key.
        key: String,
        /// What it holds.
        found: Kind,
    },
    /// The patch takes the merge key off the item it merges into (Go: `does not contain declared merge key`).
    #[error(
        "the patch removes `{key}`, by which the items of this list are merged; to remove the item, write \
             `$patch: delete` beside its `{key}`"
    )]
    KeyRemoved {
        /// The merge key.
        key: String,
    },
    /// Go: `invalid patch format of retainKeys`.
    #[error("`$retainKeys` must be a list of field names, not {}", Noun(*found))]
    RetainKeys {
        /// What it is instead.
        found: Kind,
    },
    /// A list or object in `$retainKeys` (Go panics).
    #[error("`$retainKeys` must hold field names only, and this is {}", Noun(*found))]
    RetainedKey {
        /// What it is.
        found: Kind,
    },
    /// The patch sets a field that its own `$retainKeys` doesn't name (Go: `invalid patch format of retainKeys`).
    #[error("the patch sets `{field}`, which the `$retainKeys` beside it doesn't name; add it there")]
    NotRetained {
        /// The field.
        field: String,
    },
    /// Go: `expected a []interface {}, but received a …`.
    #[error("this must be a list of the items in the order they shall have, not {}", Noun(*found))]
    Order {
        /// What it is instead.
        found: Kind,
    },
    /// A directive for a field that names no field (Go: `invalid patch format of setElementOrder list` or `of primitive
    /// list`).
    #[error("a list must be named after a slash: `{directive}/finalizers`")]
    Unnamed {
        /// `$setElementOrder` or `$deleteFromPrimitiveList`.
        directive: &'static str,
    },
    /// The field that a `$setElementOrder` orders isn't a list (Go: `expected a []interface {}, but received a …`).
    #[error("`$setElementOrder/{field}` orders lists, but {side} has {} here; leave one of the two out", Noun(*found))]
    Ordered {
        /// Which document has something else.
        side: Side,
        /// The field.
        field: String,
        /// What it has.
        found: Kind,
    },
    /// Go: `The order in patch list … doesn't match $setElementOrder list`.
    #[error(
        "the patch's items of `{field}` must stand in the order of `$setElementOrder/{field}`, each of them named there \
         once"
    )]
    OrderMismatch {
        /// The field.
        field: String,
    },
    /// An item of a `$setElementOrder` has no key (Go: `does not contain declared merge key`).
    #[error("each item of `$setElementOrder/{field}` must be an object with `{key}`: `- {key}: …`")]
    OrderItem {
        /// The field.
        field: String,
        /// The merge key.
        key: String,
    },
    /// A `$setElementOrder` of objects without merge key (Go panics).
    #[error("`$setElementOrder/{field}` can't order objects that no key names; write the whole list, it is replaced")]
    OrderOfObjects {
        /// The field.
        field: String,
    },
    /// A `$setElementOrder` of an empty list (Go: `no elements in any of the given slices`).
    #[error("there is nothing for `$setElementOrder/{field}` to order; leave it out")]
    OrderOfNothing {
        /// The field.
        field: String,
    },
    /// Go: `list element types are not identical`.
    #[error("this item of {side} is {}, but the first of the list is {}; all must be of one type", Noun(*found), Noun(*first))]
    MixedItems {
        /// Which document the item stands in.
        side: Side,
        /// What the list's first item is.
        first: Kind,
        /// What this one is.
        found: Kind,
    },
    /// A list in a list that merges (Go: `lists of lists are not supported`).
    #[error("this item of {side} is a list, and this list can't hold lists")]
    ListOfLists {
        /// Which document the item stands in.
        side: Side,
    },
    /// A null in a list that merges (Go panics, or says that types aren't identical).
    #[error("this item of {side} is null; take it out (`$patch: delete` removes an item, null doesn't)")]
    NullItem {
        /// Which document the item stands in.
        side: Side,
    },
    /// Scalars in a list that merges by key (Go: `value for key … is not a map`).
    #[error("the items of this list must be objects with `{key}`, not {}", Noun(*found))]
    ItemType {
        /// The merge key.
        key: String,
        /// What they are.
        found: Kind,
    },
    /// Objects in a list that merges as a set of scalars, or a `$deleteFromPrimitiveList` of such a list (Go: `cannot
    /// merge lists without merge key`).
    #[error(
        "objects can't be merged into or taken out of this list, whose items no key names; write plain values, or the whole \
         list without a directive"
    )]
    KeylessObjects,
    /// A field that this build's schema lacks, an object or a list in both documents (Go: `unable to find api field`).
    #[error(
        "{owner} has no field `{field}`, so there is no telling how to merge the pod's with the patch's; leave it out of the patch"
    )]
    UnknownField {
        /// The Go type that lacks it.
        owner: String,
        /// The field.
        field: String,
    },
    /// Objects or lists below something that has no fields (Go: `merging an object in json but data type is not struct`).
    #[error("there can be no objects or lists to merge inside {owner}; leave them out of the patch")]
    NoFields {
        /// What the schema says stands there.
        owner: &'static str,
    },
    /// Lists in both documents where the schema has none (Go: `expected slice or array type`).
    #[error("this must be {wanted}, not a list")]
    NoList {
        /// What the schema says.
        wanted: &'static str,
    },
}

impl Error {
    pub(super) fn new(kind: ErrorKind) -> Self {
        Self { path: Path::root(), kind }
    }

    /// The same error, seen from one field further out.
    pub(super) fn in_field(self, name: &str) -> Self {
        self.within(Segment::Field(name.to_owned()))
    }

    /// The same error, seen from the list whose item it is in.
    pub(super) fn within(mut self, segment: Segment) -> Self {
        self.path.prepend(segment);
        self
    }

    /// The same error, seen from further out: the patch was merged at `prefix`.
    pub fn under(mut self, prefix: &Path) -> Self {
        self.path = self.path.under(prefix);
        self
    }
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Pod => "the pod",
            Self::Patch => "the patch",
        })
    }
}

/// The path with what separates it from the text; nothing for the whole document.
struct Place<'a>(&'a Path);

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_root() { Ok(()) } else { write!(f, "{}: ", self.0) }
    }
}

/// A type as people call it.
struct Noun(Kind);

impl fmt::Display for Noun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            Kind::Bool => "true or false",
            Kind::Float => "a number with a fraction",
            Kind::Int => "a whole number",
            Kind::List => "a list",
            Kind::Null => "null",
            Kind::Object => "an object",
            Kind::String => "text",
        })
    }
}

fn key_fix(side: Side, key: &str) -> String {
    match side {
        Side::Patch => format!("add `{key}`"),
        Side::Pod => format!("no patch can touch the list while such an item is in it: give the item its `{key}`"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_names_its_place_and_the_fix() {
        let error = Error::new(ErrorKind::KeyMissing { side: Side::Patch, key: "name".into() })
            .within(Segment::Index(2))
            .in_field("env")
            .within(Segment::Item { key: "name".into(), value: "agent".into() })
            .in_field("containers");
        let text = "containers[name=agent].env[2]: this item of the patch lacks `name`, by which the items of this list \
                    are merged; add `name`";
        assert_eq!(error.to_string(), text);
        assert_eq!(error.under(&Path::field("spec")).to_string(), format!("spec.{text}"));
    }

    #[test]
    fn an_error_about_the_whole_document_names_no_place() {
        let error = Error::new(ErrorKind::Document { side: Side::Patch, found: Kind::List });
        assert_eq!(error.to_string(), "the patch must be an object, not a list");
    }

    #[test]
    fn errors_are_small_enough_to_return_by_value() {
        assert!(size_of::<Error>() <= 96, "{}", size_of::<Error>());
    }
}
