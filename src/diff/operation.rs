use std::fmt::{self, Write};

use serde::{Serialize, Serializer, ser::SerializeStruct};

use crate::value::Value;

/// One step of an RFC 6902 patch; a list of them serialises as one.
#[derive(Clone, Debug, PartialEq)]
pub struct Operation<'a> {
    /// What to do.
    pub op: Op,
    /// Where, as a JSON pointer (RFC 6901).
    pub path: String,
    /// The value to put there; none for [`Op::Remove`].
    pub value: Option<Value<'a>>,
}

/// What an operation does.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Op {
    /// Puts in a key that isn't there, or an item in front of the one at this place.
    Add,
    /// Takes out what is there.
    Remove,
    /// Puts another value in its place.
    Replace,
}

impl<'a> Operation<'a> {
    pub(super) fn add(path: Pointer<'_>, value: Value<'a>) -> Self {
        Self { op: Op::Add, path: path.to_string(), value: Some(value) }
    }

    pub(super) fn remove(path: Pointer<'_>) -> Self {
        Self { op: Op::Remove, path: path.to_string(), value: None }
    }

    pub(super) fn replace(path: Pointer<'_>, value: Value<'a>) -> Self {
        Self { op: Op::Replace, path: path.to_string(), value: Some(value) }
    }
}

impl Op {
    /// Its name in a patch.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Add => "add",
            Self::Remove => "remove",
            Self::Replace => "replace",
        }
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for Operation<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let fields = 2 + usize::from(self.value.is_some());
        let mut out = serializer.serialize_struct("Operation", fields)?;
        out.serialize_field("op", self.op.as_str())?;
        out.serialize_field("path", &self.path)?;
        if let Some(value) = &self.value {
            out.serialize_field("value", value)?;
        }
        out.end()
    }
}

/// A JSON pointer during a walk: one step, and the pointer that it was made from. Written out only for an operation.
#[derive(Clone, Copy, Debug)]
pub(super) enum Pointer<'p> {
    /// A pointer that is written out already.
    Start(&'p str),
    /// A key of the object that the other one is at.
    Key(&'p Self, &'p str),
    /// An item of the list that the other one is at.
    Index(&'p Self, usize),
}

impl fmt::Display for Pointer<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Start(start) => f.write_str(start),
            Self::Key(up, key) => {
                write!(f, "{up}/")?;
                key.chars().try_for_each(|c| match c {
                    '~' => f.write_str("~0"),
                    '/' => f.write_str("~1"),
                    c => f.write_char(c),
                })
            }
            Self::Index(up, index) => write!(f, "{up}/{index}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_serialise_as_rfc_6902_says() {
        let operations = [
            Operation::add(Pointer::Start("/a"), Value::Null),
            Operation::remove(Pointer::Start("/b")),
            Operation::replace(Pointer::Start("/c"), Value::Int(1)),
        ];
        assert_eq!(
            serde_json::to_string(&operations).unwrap(),
            r#"[{"op":"add","path":"/a","value":null},{"op":"remove","path":"/b"},{"op":"replace","path":"/c","value":1}]"#
        );
    }

    #[test]
    fn pointers_escape_slash_and_tilde() {
        let start = Pointer::Start("/spec");
        let key = Pointer::Key(&start, "a/b~c");
        assert_eq!(Pointer::Index(&key, 3).to_string(), "/spec/a~1b~0c/3");
        assert_eq!(Pointer::Key(&start, "").to_string(), "/spec/");
    }
}
