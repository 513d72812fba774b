use std::fmt;

use super::{Path, Segment, Value};

/// A place in a text, counted from 1.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Position {
    /// Line, from 1.
    pub line: u32,
    /// Column in characters, from 1.
    pub column: u32,
}

impl Position {
    /// The start of a text.
    pub const START: Self = Self { line: 1, column: 1 };

    /// This place, found in a text that itself starts at `start` of an outer one and is indented by `indent` there
    /// (a block scalar in a file).
    pub fn within(self, start: Self, indent: u32) -> Self {
        Self { line: start.line + self.line - 1, column: self.column + indent }
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {} column {}", self.line, self.column)
    }
}

/// Where a value and all that it holds stand in the text they were read from: a tree of the value's own shape.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Marks {
    /// Where the value starts.
    pub at: Position,
    /// Where its key starts, for a value of an object.
    pub key: Option<Position>,
    /// One for each item of a list, or each entry of an object, in the order of `Map::iter`.
    pub children: Vec<Self>,
}

impl Marks {
    /// A mark without children.
    pub fn leaf(at: Position) -> Self {
        Self { at, key: None, children: Vec::new() }
    }

    /// Where to point somebody who asks for this value: its key where it has one.
    pub fn shown(&self) -> Position {
        self.key.unwrap_or(self.at)
    }
}

/// A value with the place of each of its parts.
#[derive(Clone, Debug)]
pub struct Document {
    /// What was read.
    pub value: Value<'static>,
    /// Where each part of it stands.
    pub marks: Marks,
}

impl Document {
    /// An empty object at the start of a text.
    pub fn empty() -> Self {
        Self { value: Value::Object(super::Map::new()), marks: Marks::leaf(Position::START) }
    }

    /// Where to point somebody who asks for a path: the key (or item) there, or the nearest thing around it that the
    /// text has.
    pub fn locate(&self, path: &Path) -> Position {
        self.marks_at(path).shown()
    }

    /// Where the value at a path starts, not its key.
    pub fn locate_value(&self, path: &Path) -> Position {
        self.marks_at(path).at
    }

    fn marks_at(&self, path: &Path) -> &Marks {
        let (mut value, mut marks) = (&self.value, &self.marks);
        for segment in path.segments() {
            let next = match (segment, value) {
                (Segment::Field(name), Value::Object(map)) => map.position(name),
                (Segment::Item { key, value: wanted }, Value::List(items)) => items
                    .iter()
                    .position(|item| item.get(key).and_then(Value::scalar_text).is_some_and(|text| text == *wanted)),
                (Segment::Index(index), Value::List(_)) => Some(*index),
                _ => None,
            };
            let child = next.and_then(|at| {
                let value = match value {
                    Value::Object(map) => map.iter().nth(at).map(|(_, value)| value),
                    Value::List(items) => items.get(at),
                    _ => None,
                };
                Some((value?, marks.children.get(at)?))
            });
            match child {
                Some(child) => (value, marks) = child,
                None => break,
            }
        }
        marks
    }
}
