use std::fmt;

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
        Self { op: Op::Add, path: path.text(), value: Some(value) }
    }

    pub(super) fn remove(path: Pointer<'_>) -> Self {
        Self { op: Op::Remove, path: path.text(), value: None }
    }

    pub(super) fn replace(path: Pointer<'_>, value: Value<'a>) -> Self {
        Self { op: Op::Replace, path: path.text(), value: Some(value) }
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

impl Pointer<'_> {
    /// Written out, as RFC 6901 says.
    fn text(&self) -> String {
        let mut text = String::with_capacity(Self::USUAL);
        self.write(&mut text);
        text
    }

    /// How long pointers into a pod are at most, mostly.
    const USUAL: usize = 64;

    fn write(&self, text: &mut String) {
        match self {
            Self::Start(start) => text.push_str(start),
            Self::Key(up, key) => {
                up.write(text);
                text.push('/');
                for c in key.chars() {
                    match c {
                        '~' => text.push_str("~0"),
                        '/' => text.push_str("~1"),
                        c => text.push(c),
                    }
                }
            }
            Self::Index(up, index) => {
                up.write(text);
                text.push('/');
                text.push_str(&index.to_string());
            }
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
        assert_eq!(Pointer::Index(&key, 3).text(), "/spec/a~1b~0c/3");
        assert_eq!(Pointer::Key(&start, "").text(), "/spec/");
    }
}
