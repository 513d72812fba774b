use std::fmt;

use super::text::quoted;
use crate::value::{Path, Position};

/// Something in a patch that can't be right: where, and what.
///
/// Printed without its position, which the caller puts behind it together with the name of the source. The cause stands
/// within the first 50 characters, because that is as much as some build logs show.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Finding {
    /// The field or item that it is about.
    pub path: Path,
    /// Where that stands in the text.
    pub at: Position,
    /// What is wrong.
    pub kind: FindingKind,
}

/// What can be wrong in a patch. Texts in here are ready to be shown: escaped, and cut where they are long.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum FindingKind {
    /// A directive names a field that it can't be used for.
    DirectiveField {
        /// The directive's key.
        directive: String,
        /// The field that it names.
        field: String,
        /// The object that it stands in.
        owner: String,
        /// What is wrong with the field.
        fault: FieldFault,
    },
    /// A directive has a value that it doesn't take.
    DirectiveValue {
        /// The directive's key.
        directive: String,
        /// The object that it stands in.
        owner: String,
        /// What it takes.
        wanted: &'static str,
        /// What it has.
        got: String,
    },
    /// Two items of one list have the same merge key; a merge would fold them into one.
    DuplicateItem {
        /// The item.
        item: String,
        /// Its list.
        list: String,
        /// Where the first of the two stands.
        first: Position,
    },
    /// `ephemeralContainers`, which no pod may be created with.
    EphemeralContainers,
    /// A key that is left when something takes `$patch` for a variable.
    Expanded {
        /// What is left of it.
        key: String,
        /// The object that it stands in.
        owner: String,
    },
    /// The merge key of a list item is null.
    KeyNull {
        /// The item.
        item: String,
        /// The merge key.
        key: String,
    },
    /// A list item lacks its merge key.
    MissingKey {
        /// The item.
        item: String,
        /// The merge key.
        key: String,
        /// What to write, without a value of the item.
        fix: String,
    },
    /// `nodeName` in a step's patch.
    NodeName,
    /// The whole patch isn't a map.
    NotAMap {
        /// What it is.
        got: String,
        /// What to write instead.
        fix: &'static str,
    },
    /// The patch stands below the key that it has in a ConfigMap's data.
    PatchKey {
        /// The key.
        key: String,
    },
    /// `$retainKeys` doesn't list a field that the patch sets beside it, which no merge accepts.
    RetainKeysLack {
        /// The object that it stands in.
        owner: String,
        /// The field.
        field: String,
    },
    /// A key that starts with `$` and is no directive.
    UnknownDirective {
        /// The key.
        name: String,
        /// The object that it stands in.
        owner: String,
        /// The directive that was probably meant.
        nearest: Option<&'static str>,
    },
    /// A field that Pod doesn't have.
    UnknownField {
        /// The field.
        name: String,
        /// The object that it stands in.
        owner: String,
        /// What was probably meant.
        suggestion: Option<Suggestion>,
    },
    /// A whole pod, or something that makes pods, where only the pod's spec is wanted.
    WholePod {
        /// What it is.
        what: &'static str,
        /// What the spec stands below in it.
        below: &'static str,
    },
    /// A value of the wrong type.
    WrongType {
        /// The value's name.
        what: String,
        /// What it must be.
        wanted: Wanted,
        /// What it is.
        got: String,
        /// What to write instead.
        fix: String,
    },
}

/// What is wrong with a field that a directive names.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum FieldFault {
    /// It is a list of objects without a merge key, which has no order that could be named.
    NoKey,
    /// It is no list of plain values.
    NoPrimitives,
    /// It is no list.
    NoList,
    /// There is no such field.
    Unknown {
        /// The field that was probably meant.
        nearest: Option<String>,
    },
}

/// What somebody probably meant by a field that there isn't.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Suggestion {
    /// A field of an object around it.
    Outer {
        /// That object.
        owner: String,
    },
    /// Another name: of a field beside it, or one step further in (`resources.limits`).
    Name(String),
}

/// A type of value, as a user knows it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Wanted {
    /// `true` or `false`.
    Bool,
    /// A whole number of so many bits.
    Int(u8),
    /// A whole number of 32 bits, or a string.
    IntOrString,
    /// A list.
    List,
    /// A map.
    Map,
    /// A quantity.
    Quantity,
    /// A string.
    String,
    /// An RFC 3339 time.
    Time,
}

impl Finding {
    /// The same finding with all places that it names moved into the text around this one.
    pub fn moved(mut self, place: &dyn Fn(Position) -> Position) -> Self {
        self.at = place(self.at);
        if let FindingKind::DuplicateItem { first, .. } = &mut self.kind {
            *first = place(*first);
        }
        self
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.kind.fmt(f)
    }
}

impl fmt::Display for FindingKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::DirectiveField { directive, field, owner, fault } => match fault {
                FieldFault::NoKey => {
                    write!(f, "{directive} in {owner}: {field} has no merge key, write the whole list under {field}")
                }
                FieldFault::NoPrimitives => write!(
                    f,
                    "{directive} in {owner}: {field} is no list of plain values, \
                     write \"$patch: delete\" items under {field}"
                ),
                FieldFault::NoList => write!(f, "{directive} in {owner}: {field} is no list, take the directive out"),
                FieldFault::Unknown { nearest } => {
                    write!(f, "{directive} in {owner} names the unknown field {field}")?;
                    did_you_mean(f, nearest.as_deref())
                }
            },
            Self::DirectiveValue { directive, owner, wanted, got } => {
                write!(f, "{directive} in {owner} must be {wanted}, got {got}")
            }
            Self::DuplicateItem { item, list, first } => write!(
                f,
                "{item} stands twice in {list}, first at {first}: kubectl would fold them into one; \
                 write the list with a \"- $patch: replace\" marker if both are meant"
            ),
            Self::EphemeralContainers => f.write_str(
                "ephemeralContainers can't be set: they can only be added to running pods, \
                 write the container under containers",
            ),
            Self::Expanded { key, owner } => write!(
                f,
                "key {key} in {owner}: \"$patch\" was expanded to nothing, \
                 write \"$$patch\" (Buildkite's pipeline upload expands what starts with $)"
            ),
            Self::KeyNull { item, key } => {
                write!(f, "{key} of {item} is null, but says which item of the list is meant; write it out")
            }
            Self::MissingKey { item, key, fix } => {
                write!(f, "{item} has no {key}, which says which item of the list is meant; {fix}")
            }
            Self::NodeName => {
                f.write_str("nodeName can't be set by a step: the pod would bypass the scheduler, write a nodeSelector")
            }
            Self::NotAMap { got, fix } => write!(f, "the patch must be a map of pod spec fields, got {got}, {fix}"),
            Self::PatchKey { key } => {
                write!(f, "{key} is the patch's key in a ConfigMap: here write only what stands below it")
            }
            Self::RetainKeysLack { owner, field } => {
                write!(f, "$retainKeys in {owner} lacks {field}, which the patch sets there; add it to the list")
            }
            Self::UnknownDirective { name, owner, nearest } => {
                write!(f, "unknown directive {name} in {owner}, ")?;
                match nearest {
                    Some(nearest) => write!(f, "did you mean \"{nearest}\"?"),
                    None => f.write_str(
                        "there are $patch, $retainKeys, $setElementOrder/FIELD and $deleteFromPrimitiveList/FIELD",
                    ),
                }
            }
            Self::UnknownField { name, owner, suggestion } => {
                write!(f, "unknown field {name} in {owner}")?;
                match suggestion {
                    Some(Suggestion::Outer { owner }) => write!(f, ", it belongs in {owner}"),
                    Some(Suggestion::Name(name)) => did_you_mean(f, Some(name)),
                    None => Ok(()),
                }
            }
            Self::WholePod { what, below } => {
                write!(f, "the patch is a whole {what}, write only what stands below its \"{below}:\"")
            }
            Self::WrongType { what, wanted, got, fix } => write!(f, "{what}: {wanted} is wanted, got {got}, {fix}"),
        }
    }
}

fn did_you_mean(f: &mut fmt::Formatter<'_>, name: Option<&str>) -> fmt::Result {
    name.map_or(Ok(()), |name| write!(f, ", did you mean {}?", quoted(name)))
}

impl fmt::Display for Wanted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Bool => "true or false",
            Self::Int(_) => "a whole number",
            Self::IntOrString => "a whole number or a string",
            Self::List => "a list",
            Self::Map => "a map",
            Self::Quantity => "a quantity",
            Self::String => "a string",
            Self::Time => "a time",
        })
    }
}
