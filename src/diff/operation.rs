use std::fmt;

use crate::value::{Value, write_json, write_json_text};

/// One step of an RFC 6902 patch.
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

/// Operations as an RFC 6902 patch: a list in JSON.
pub fn to_json(operations: &[Operation<'_>]) -> String {
    let mut out = String::with_capacity(64 + 128 * operations.len());
    out.push('[');
    for (at, operation) in operations.iter().enumerate() {
        out.push_str(if at > 0 { ",{\"op\":\"" } else { "{\"op\":\"" });
        out.push_str(operation.op.as_str());
        out.push_str("\",\"path\":");
        write_json_text(&operation.path, &mut out);
        if let Some(value) = &operation.value {
            out.push_str(",\"value\":");
            write_json(value, &mut out);
        }
        out.push('}');
    }
    out.push(']');
    out
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
                let start = text.len();
                text.push_str(key);
                if key.bytes().any(|byte| matches!(byte, b'~' | b'/')) {
                    text.truncate(start);
                    text.push_str(&key.replace('~', "~0").replace('/', "~1"));
                }
            }
            Self::Index(up, index) => {
                up.write(text);
                text.push('/');
                text.push_str(itoa::Buffer::new().format(*index));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_are_written_as_rfc_6902_says() {
        let operations = [
            Operation::add(Pointer::Start("/a"), Value::Null),
            Operation::remove(Pointer::Start("/b")),
            Operation::replace(Pointer::Start("/c"), Value::Int(1)),
        ];
        assert_eq!(
            to_json(&operations),
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
