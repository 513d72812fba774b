use std::{borrow::Cow, fmt};

use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{DeserializeSeed, Error as _, MapAccess, SeqAccess, Visitor},
    ser::{Error as _, SerializeMap, SerializeSeq},
};

use super::{Map, Value};

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
    // INVARIANT: keys are strings and floats finite, so serde_json has nothing to refuse, and a String takes all bytes.
    #[allow(clippy::expect_used)]
    serde_json::to_string(value).expect("a value is JSON")
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
