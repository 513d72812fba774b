use std::{borrow::Cow, fmt};

use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{DeserializeSeed, Error as _, MapAccess, SeqAccess, Visitor},
    ser::{Error as _, SerializeMap, SerializeSeq},
};

use super::{
    Map, Value,
    read::{Reader, plain_end},
};

/// How much a JSON text may hold before it is refused.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// How deep lists and objects may stand in each other. Above 128 the caller must have the stack for it.
    pub depth: usize,
}

impl Limits {
    /// serde_json's own limit: well above any pod, and safe on any thread's stack.
    pub const DEFAULT: Self = Self { depth: 128 };
}

/// Reads JSON text, borrowing every string that has no escape in it. The last of equal keys wins, as in Go.
///
/// # Errors
/// serde_json's, with line and column, for text that isn't one JSON value or is deeper than the limit.
pub fn from_json(text: &str, limits: Limits) -> serde_json::Result<Value<'_>> {
    let mut reader = Reader::new(text);
    match reader.value() {
        Some(value) if reader.is_at_end() && limits.depth >= Limits::DEFAULT.depth => Ok(value),
        _ => from_serde(text, limits),
    }
}

/// What serde_json reads: all that [`Reader`] gives up on, and the faults.
pub(super) fn from_serde(text: &str, limits: Limits) -> serde_json::Result<Value<'_>> {
    let mut json = serde_json::Deserializer::from_str(text);
    if limits.depth > Limits::DEFAULT.depth {
        json.disable_recursion_limit();
    }
    let value = Seed { depth: limits.depth }.deserialize(&mut json)?;
    json.end()?;
    Ok(value)
}

/// Below this each whole float has digits of its own: 2⁵³.
const EXACT: f64 = 9_007_199_254_740_992.0;

/// Writes compact JSON, numbers as Go prints them (`1.0` is `1`).
pub fn to_json(value: &Value<'_>) -> String {
    let mut out = String::new();
    write_json(value, &mut out);
    out
}

/// [`to_json`], behind what `out` holds already.
pub fn write_json(value: &Value<'_>, out: &mut String) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(true) => out.push_str("true"),
        Value::Bool(false) => out.push_str("false"),
        Value::String(text) => write_json_text(text, out),
        Value::List(items) => {
            out.push('[');
            for (at, item) in items.iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                write_json(item, out);
            }
            out.push(']');
        }
        Value::Object(map) => {
            out.push('{');
            for (at, (key, value)) in map.iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                write_json_text(key, out);
                out.push(':');
                write_json(value, out);
            }
            out.push('}');
        }
        Value::Int(_) | Value::Uint(_) | Value::Float(_) => {
            // INVARIANT: floats are finite, so serde_json has nothing to refuse.
            #[allow(clippy::expect_used)]
            out.push_str(&serde_json::to_string(value).expect("a number is JSON"));
        }
    }
}

/// A text as a JSON string, with no more escapes than it needs.
pub fn write_json_text(text: &str, out: &mut String) {
    const HEX: [char; 16] = ['0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e', 'f'];
    out.push('"');
    let mut rest = text;
    loop {
        let end = plain_end(rest.as_bytes(), 0);
        out.push_str(&rest[..end]);
        let Some(special) = rest.as_bytes().get(end) else { break };
        out.push('\\');
        match special {
            0x08 => out.push('b'),
            0x0c => out.push('f'),
            b'\n' => out.push('n'),
            b'\r' => out.push('r'),
            b'\t' => out.push('t'),
            b'"' | b'\\' => out.push(char::from(*special)),
            control => out.extend(['u', '0', '0', HEX[usize::from(control >> 4)], HEX[usize::from(control & 15)]]),
        }
        rest = &rest[end + 1..];
    }
    out.push('"');
}

impl<'de: 'a, 'a> Deserialize<'de> for Value<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Seed { depth: Limits::DEFAULT.depth }.deserialize(deserializer)
    }
}

#[derive(Clone, Copy)]
struct Seed {
    depth: usize,
}

impl Seed {
    fn deeper<E: serde::de::Error>(self) -> Result<Self, E> {
        match self.depth.checked_sub(1) {
            Some(depth) => Ok(Self { depth }),
            None => Err(E::custom("lists and objects stand too deep in each other")),
        }
    }
}

impl<'de> DeserializeSeed<'de> for Seed {
    type Value = Value<'de>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value<'de>, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Seed {
    type Value = Value<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_bool<E>(self, b: bool) -> Result<Value<'de>, E> {
        Ok(Value::Bool(b))
    }

    fn visit_i64<E>(self, i: i64) -> Result<Value<'de>, E> {
        Ok(Value::Int(i))
    }

    fn visit_u64<E>(self, u: u64) -> Result<Value<'de>, E> {
        // Go reads what doesn't fit 64 bits signed as a float.
        Ok(i64::try_from(u).map_or(Value::Float(u as f64), Value::Int))
    }

    fn visit_f64<E: serde::de::Error>(self, f: f64) -> Result<Value<'de>, E> {
        if f.is_finite() { Ok(Value::Float(f)) } else { Err(E::custom("number out of range")) }
    }

    fn visit_str<E>(self, s: &str) -> Result<Value<'de>, E> {
        Ok(Value::String(Cow::Owned(s.to_owned())))
    }

    fn visit_borrowed_str<E>(self, s: &'de str) -> Result<Value<'de>, E> {
        Ok(Value::String(Cow::Borrowed(s)))
    }

    fn visit_string<E>(self, s: String) -> Result<Value<'de>, E> {
        Ok(Value::String(Cow::Owned(s)))
    }

    fn visit_unit<E>(self) -> Result<Value<'de>, E> {
        Ok(Value::Null)
    }

    fn visit_none<E>(self) -> Result<Value<'de>, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value<'de>, A::Error> {
        let inner = self.deeper::<A::Error>()?;
        let mut items = Vec::new();
        while let Some(item) = seq.next_element_seed(inner)? {
            items.push(item);
        }
        Ok(Value::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Value<'de>, A::Error> {
        let inner = self.deeper::<A::Error>()?;
        let mut map = Map::new();
        while let Some(Key(key)) = access.next_key()? {
            map.insert(key, access.next_value_seed(inner)?);
        }
        Ok(Value::Object(map))
    }
}

/// A key that borrows where it can; serde's own `Cow` never does inside a generic type.
struct Key<'a>(Cow<'a, str>);

impl<'de> Deserialize<'de> for Key<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let seed = Seed { depth: 0 };
        match seed.deserialize(deserializer)? {
            Value::String(key) => Ok(Self(key)),
            _ => Err(D::Error::custom("a key must be a string")),
        }
    }
}

impl Serialize for Value<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Null => serializer.serialize_unit(),
            Self::Bool(b) => serializer.serialize_bool(*b),
            Self::Int(i) => serializer.serialize_i64(*i),
            Self::Uint(u) => serializer.serialize_u64(*u),
            // Go prints a float without fraction as a whole number below 1e21.
            Self::Float(f) if f.fract() == 0.0 && f.abs() < EXACT => serializer.serialize_i128(*f as i128),
            // Of the digits no more than tell it from its neighbours, and zeros: as Rust prints it, too.
            Self::Float(f) if f.fract() == 0.0 && f.abs() < 1e21 => {
                serializer.serialize_i128(f.to_string().parse().map_err(S::Error::custom)?)
            }
            Self::Float(f) => serializer.serialize_f64(*f),
            Self::String(s) => serializer.serialize_str(s),
            Self::List(items) => {
                let mut seq = serializer.serialize_seq(Some(items.len()))?;
                for item in items {
                    seq.serialize_element(item)?;
                }
                seq.end()
            }
            Self::Object(map) => map.serialize(serializer),
        }
    }
}

impl Serialize for Map<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut out = serializer.serialize_map(Some(self.len()))?;
        for (key, value) in self.iter() {
            out.serialize_entry(key, value)?;
        }
        out.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_without_escapes_are_borrowed() {
        let text = r#"{"a":"plain","b":"with\nescape"}"#;
        let value = from_json(text, Limits::DEFAULT).unwrap();
        assert!(matches!(value.get("a"), Some(Value::String(Cow::Borrowed("plain")))));
        assert!(matches!(value.get("b"), Some(Value::String(Cow::Owned(_)))));
    }

    #[test]
    fn texts_are_escaped_as_serde_json_does() {
        let all: String = (0..=0x250).filter_map(char::from_u32).collect();
        for text in [all.as_str(), "", "\"", "a\\\"b", "plain and rather long, with an é"] {
            let mut out = String::new();
            write_json_text(text, &mut out);
            assert_eq!(out, serde_json::to_string(text).unwrap());
        }
    }

    #[test]
    fn depth_is_bounded_and_said() {
        let deep = |n: usize| format!("{}{}", "[".repeat(n), "]".repeat(n));
        assert!(from_json(&deep(100), Limits::DEFAULT).is_ok());
        assert!(from_json(&deep(200), Limits::DEFAULT).is_err());
        assert!(from_json(&deep(200), Limits { depth: 300 }).is_ok());
        let error = from_json(&deep(400), Limits { depth: 300 }).unwrap_err();
        assert!(error.to_string().contains("too deep"), "{error}");
    }

    #[test]
    fn the_last_of_equal_keys_wins_and_trailing_text_is_refused() {
        assert_eq!(to_json(&from_json(r#"{"a":1,"a":2}"#, Limits::DEFAULT).unwrap()), r#"{"a":2}"#);
        assert!(from_json("{} x", Limits::DEFAULT).is_err());
    }
}
