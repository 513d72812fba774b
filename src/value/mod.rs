//! The one place that knows how JSON is held in memory.
//!
//! A [`Value`] borrows its strings where it can: a pod's from the bytes of the review, a layer's from the layer. So a
//! copy of a whole pod allocates its lists and objects but no text, and putting a layer's value into a pod is as cheap.
//!
//! Numbers are Go's: a JSON number without `.` and `e` that fits 64 bits signed is an integer, any other a float, and
//! the two are different types to a strategic merge (`spec.ports` with key `80` doesn't meet `80.0`).

mod glob;
mod json;
mod map;
mod path;
mod position;
mod read;
mod skip;

use std::borrow::Cow;

pub use glob::glob_matches;
pub use json::{Limits as JsonLimits, from_json, to_json, write_json, write_json_text};
pub use map::{IntoIter, Map};
pub use path::{Path, PathError, Segment};
pub use position::{Document, Marks, Position};
pub(crate) use read::Reader;

/// A JSON value.
#[derive(Clone, Debug, Default)]
pub enum Value<'a> {
    /// `null`
    #[default]
    Null,
    /// `true` or `false`
    Bool(bool),
    /// A number that Go reads as `int64`.
    Int(i64),
    /// A whole number above `i64::MAX` that YAML gave: printed in full, a float to the merge.
    Uint(u64),
    /// A number that Go reads as `float64`; never NaN or infinite.
    Float(f64),
    /// Text.
    String(Cow<'a, str>),
    /// A list.
    List(Vec<Self>),
    /// An object.
    Object(Map<'a>),
}

/// The type of a value as Go's reflection tells types apart.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Kind {
    /// `bool`
    Bool,
    /// `float64`
    Float,
    /// `int64`
    Int,
    /// `[]interface{}`
    List,
    /// `nil`
    Null,
    /// `map[string]interface{}`
    Object,
    /// `string`
    String,
}

impl<'a> Value<'a> {
    /// Which type Go would see.
    pub fn kind(&self) -> Kind {
        match self {
            Self::Null => Kind::Null,
            Self::Bool(_) => Kind::Bool,
            Self::Int(_) => Kind::Int,
            Self::Uint(_) | Self::Float(_) => Kind::Float,
            Self::String(_) => Kind::String,
            Self::List(_) => Kind::List,
            Self::Object(_) => Kind::Object,
        }
    }

    /// A copy that borrows what it has from `self`; of objects it takes no time.
    pub fn borrowed<'b>(&'b self) -> Value<'b> {
        match self {
            Self::Null => Value::Null,
            Self::Bool(b) => Value::Bool(*b),
            Self::Int(i) => Value::Int(*i),
            Self::Uint(u) => Value::Uint(*u),
            Self::Float(f) => Value::Float(*f),
            Self::String(s) => Value::String(Cow::Borrowed(s)),
            Self::List(items) => Value::List(items.iter().map(Value::borrowed).collect()),
            Self::Object(map) => Value::Object(map.borrowed()),
        }
    }

    /// A copy that owns every string.
    pub fn into_owned(self) -> Value<'static> {
        match self {
            Self::Null => Value::Null,
            Self::Bool(b) => Value::Bool(b),
            Self::Int(i) => Value::Int(i),
            Self::Uint(u) => Value::Uint(u),
            Self::Float(f) => Value::Float(f),
            Self::String(s) => Value::String(Cow::Owned(s.into_owned())),
            Self::List(items) => Value::List(items.into_iter().map(Value::into_owned).collect()),
            Self::Object(map) => Value::Object(map.into_owned()),
        }
    }

    /// Whether this is `null`.
    pub fn is_null(&self) -> bool {
        matches!(self, Self::Null)
    }

    /// The text, where this is text.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::String(s) => Some(s),
            _ => None,
        }
    }

    /// The object, where this is one.
    pub fn as_object(&self) -> Option<&Map<'a>> {
        match self {
            Self::Object(map) => Some(map),
            _ => None,
        }
    }

    /// The object to change, where this is one.
    pub fn as_object_mut(&mut self) -> Option<&mut Map<'a>> {
        match self {
            Self::Object(map) => Some(map),
            _ => None,
        }
    }

    /// The items, where this is a list.
    pub fn as_list(&self) -> Option<&[Self]> {
        match self {
            Self::List(items) => Some(items),
            _ => None,
        }
    }

    /// The items to change, where this is a list.
    pub fn as_list_mut(&mut self) -> Option<&mut Vec<Self>> {
        match self {
            Self::List(items) => Some(items),
            _ => None,
        }
    }

    /// The value under a key, where this is an object that has it.
    pub fn get(&self, key: &str) -> Option<&Self> {
        self.as_object()?.get(key)
    }

    /// A scalar as people write it: text as it stands, other scalars as JSON; `None` for lists and objects.
    pub fn scalar_text(&self) -> Option<Cow<'_, str>> {
        match self {
            Self::String(s) => Some(Cow::Borrowed(s)),
            Self::List(_) | Self::Object(_) => None,
            other => Some(Cow::Owned(to_json(other))),
        }
    }
}

/// Equal as JSON: objects in any order of keys, `int64` and `float64` never equal.
impl PartialEq for Value<'_> {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Null, Self::Null) => true,
            (Self::Bool(a), Self::Bool(b)) => a == b,
            (Self::Int(a), Self::Int(b)) => a == b,
            (Self::Uint(a), Self::Uint(b)) => a == b,
            (Self::Float(a), Self::Float(b)) => a == b,
            // A float to the merge, whatever holds it.
            (Self::Uint(u), Self::Float(f)) | (Self::Float(f), Self::Uint(u)) => *u as f64 == *f,
            (Self::String(a), Self::String(b)) => a == b,
            (Self::List(a), Self::List(b)) => a == b,
            (Self::Object(a), Self::Object(b)) => a == b,
            _ => false,
        }
    }
}

impl From<bool> for Value<'_> {
    fn from(b: bool) -> Self {
        Self::Bool(b)
    }
}

impl From<i64> for Value<'_> {
    fn from(i: i64) -> Self {
        Self::Int(i)
    }
}

impl<'a> From<&'a str> for Value<'a> {
    fn from(s: &'a str) -> Self {
        Self::String(Cow::Borrowed(s))
    }
}

impl From<String> for Value<'_> {
    fn from(s: String) -> Self {
        Self::String(Cow::Owned(s))
    }
}

impl<'a> From<Map<'a>> for Value<'a> {
    fn from(map: Map<'a>) -> Self {
        Self::Object(map)
    }
}

impl<'a> From<Vec<Self>> for Value<'a> {
    fn from(items: Vec<Self>) -> Self {
        Self::List(items)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_gos() {
        let parse = |text| from_json(text, JsonLimits::DEFAULT).unwrap();
        assert_eq!(parse("1").kind(), Kind::Int);
        assert_eq!(parse("1.0").kind(), Kind::Float);
        assert_eq!(parse("1e3").kind(), Kind::Float);
        assert_eq!(parse("9223372036854775808").kind(), Kind::Float);
        assert_ne!(parse("1"), parse("1.0"));
        assert_eq!(to_json(&parse("[1.0, 1e21, 1.5, -0.25, 1e20]")), "[1,1e+21,1.5,-0.25,100000000000000000000]");
        // No more digits than it takes: as Go's strconv.FormatFloat(f, 'f', -1, 64).
        assert_eq!(
            to_json(&parse("[18446744073709551616, 184467440737095516150, 9007199254740993, -9223372036854775809]")),
            "[18446744073709552000,184467440737095500000,9007199254740993,-9223372036854776000]"
        );
        assert_eq!(to_json(&Value::Uint(u64::MAX)), "18446744073709551615");
    }

    #[test]
    fn a_borrowed_copy_is_equal_and_keeps_the_order_of_keys() {
        let value = from_json(r#"{"b": [1, {"c": null}], "a": "x\n"}"#, JsonLimits::DEFAULT).unwrap();
        assert_eq!(value.borrowed(), value);
        assert_eq!(to_json(&value.borrowed()), r#"{"b":[1,{"c":null}],"a":"x\n"}"#);
        assert_eq!(to_json(&value.clone().into_owned()), to_json(&value));
    }

    #[test]
    fn scalars_have_text() {
        assert_eq!(Value::from("a").scalar_text().unwrap(), "a");
        assert_eq!(Value::Int(80).scalar_text().unwrap(), "80");
        assert_eq!(Value::List(vec![]).scalar_text(), None);
    }
}
