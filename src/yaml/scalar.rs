//! What a scalar means. The rules are those of go-yaml v2 (`resolve.go`), which kubectl reads with, and of Go's
//! `strconv` below it.

use std::borrow::Cow;

use base64::{
    Engine, alphabet,
    engine::{GeneralPurpose, GeneralPurposeConfig},
};

use super::{
    error::{ErrorKind, short},
    timestamp,
};
use crate::value::{Value, to_json};

/// A scalar of the text with its meaning.
#[derive(Clone, Debug)]
pub(super) struct Scalar {
    text: String,
    read: Read,
    /// Neither quoted nor tagged: its look alone gives it its type.
    plain: bool,
    merge: bool,
}

#[derive(Clone, Debug, PartialEq)]
enum Read {
    Bool(bool),
    /// From JSON, where numbers keep their type.
    Exact(Value<'static>),
    Float(f64),
    Int(i64),
    Null,
    Text,
    Uint(u64),
}

const CORE: &str = "tag:yaml.org,2002:";

impl Scalar {
    /// A scalar of YAML. `implicit` is libyaml's word for "the look decides".
    pub(super) fn yaml(text: String, tag: Option<&str>, implicit: bool) -> Result<Self, ErrorKind> {
        let merge = text == "<<" && (implicit || tag.and_then(|tag| tag.strip_prefix(CORE)) == Some("merge"));
        let Some(tag) = tag else {
            let read = if implicit { plain(&text) } else { Read::Text };
            return Ok(Self { text, read, plain: implicit, merge });
        };
        let bad = |tag| Err(ErrorKind::BadTag { tag, text: short(&text) });
        let read = match (tag.strip_prefix(CORE), plain(&text)) {
            (Some("binary"), _) => {
                return Ok(Self { text: binary(&text)?, read: Read::Text, plain: false, merge });
            }
            (Some("bool"), read @ Read::Bool(_)) => read,
            (Some("bool"), _) => return bad("bool"),
            (Some("float"), read @ Read::Float(_)) => read,
            (Some("float"), Read::Int(i)) => Read::Float(i as f64),
            (Some("float"), _) => return bad("float"),
            (Some("int"), read @ (Read::Int(_) | Read::Uint(_))) => read,
            (Some("int"), _) => return bad("int"),
            (Some("null"), Read::Null) => Read::Null,
            (Some("null"), _) => return bad("null"),
            (Some("timestamp"), _) if !timestamp::is_one(&text) => return bad("timestamp"),
            // Of other tags kubectl takes no notice.
            _ => Read::Text,
        };
        Ok(Self { text, read, plain: false, merge })
    }

    /// A scalar of JSON.
    pub(super) fn json(value: Value<'static>) -> Self {
        match value {
            Value::String(text) => Self { text: text.into_owned(), read: Read::Text, plain: false, merge: false },
            other => Self { text: String::new(), read: Read::Exact(other), plain: false, merge: false },
        }
    }

    /// Whether this, as a key, is the merge key `<<`.
    pub(super) fn is_merge(&self) -> bool {
        self.merge
    }

    /// How many bytes a copy takes.
    pub(super) fn len(&self) -> usize {
        self.text.len()
    }

    /// The scalar as a value.
    pub(super) fn into_value(self) -> Result<Value<'static>, ErrorKind> {
        match self.read {
            Read::Text => Ok(Value::from(self.text)),
            read => read.value(),
        }
    }

    /// The scalar as a key.
    pub(super) fn into_key(self) -> Result<String, ErrorKind> {
        match self.read {
            Read::Text => Ok(self.text),
            read => read.key(),
        }
    }

    /// What was written and what it was read as, where people could mean another thing by it. `True` isn't such a
    /// case, nor `null`, nor a number that kubectl prints as it is written.
    pub(super) fn surprise(&self, as_key: bool) -> Option<(String, Value<'static>)> {
        if !self.plain || matches!(self.read, Read::Null | Read::Text) {
            return None;
        }
        let plain_spoken = match &self.read {
            Read::Bool(b) => self.text.eq_ignore_ascii_case(if *b { "true" } else { "false" }),
            read if as_key => read.clone().key().is_ok_and(|key| key == self.text),
            read => read.clone().value().is_ok_and(|value| to_json(&value) == self.text),
        };
        // A key may be infinite, which no value is.
        let value = self.read.clone().value().unwrap_or_else(|_| Value::from(self.text.clone()));
        (!plain_spoken).then(|| (self.text.clone(), value))
    }
}

impl Read {
    fn value(self) -> Result<Value<'static>, ErrorKind> {
        match self {
            Self::Bool(b) => Ok(Value::Bool(b)),
            Self::Exact(value) => Ok(value),
            Self::Float(f) if !f.is_finite() => Err(ErrorKind::NotFinite),
            Self::Float(f) => Ok(whole(f).map_or(Value::Float(f), Value::Int)),
            Self::Int(i) => Ok(Value::Int(i)),
            Self::Null | Self::Text => Ok(Value::Null),
            Self::Uint(u) => Ok(Value::Uint(u)),
        }
    }

    fn key(self) -> Result<String, ErrorKind> {
        match self {
            Self::Bool(b) => Ok(b.to_string()),
            Self::Float(f) => Ok(float_key(f as f32)),
            Self::Int(i) => Ok(i.to_string()),
            Self::Exact(_) | Self::Null | Self::Text => Err(ErrorKind::UnsupportedKey { what: "null" }),
            Self::Uint(_) => Err(ErrorKind::UnsupportedKey { what: "a number above 9223372036854775807" }),
        }
    }
}

fn plain(text: &str) -> Read {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Read::Null,
        "y" | "Y" | "yes" | "Yes" | "YES" | "on" | "On" | "ON" | "true" | "True" | "TRUE" => return Read::Bool(true),
        "n" | "N" | "no" | "No" | "NO" | "off" | "Off" | "OFF" | "false" | "False" | "FALSE" => {
            return Read::Bool(false);
        }
        ".nan" | ".NaN" | ".NAN" => return Read::Float(f64::NAN),
        ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" => return Read::Float(f64::INFINITY),
        "-.inf" | "-.Inf" | "-.INF" => return Read::Float(f64::NEG_INFINITY),
        _ => {}
    }
    match text.as_bytes() {
        // Here Go's own parser decides, which wants a digit on both sides of each underscore.
        [b'.', ..] if underscores_separate_digits(text) => float(&without_underscores(text)).unwrap_or(Read::Text),
        [b'+' | b'-' | b'0'..=b'9', ..] => number(&without_underscores(text)).unwrap_or(Read::Text),
        _ => Read::Text,
    }
}

fn without_underscores(text: &str) -> Cow<'_, str> {
    if text.contains('_') { Cow::Owned(text.replace('_', "")) } else { Cow::Borrowed(text) }
}

fn underscores_separate_digits(text: &str) -> bool {
    let bytes = text.as_bytes();
    let digit = |at: Option<usize>| at.and_then(|at| bytes.get(at)).is_some_and(u8::is_ascii_digit);
    bytes.iter().enumerate().all(|(at, byte)| *byte != b'_' || (digit(at.checked_sub(1)) && digit(Some(at + 1))))
}

fn number(text: &str) -> Option<Read> {
    // Where all fails go-yaml tries a binary number once more, now with a sign after the prefix.
    let binary = || text.strip_prefix("0b").and_then(|rest| i64::from_str_radix(rest, 2).ok()).map(Read::Int);
    integer(text).or_else(|| float(text)).or_else(binary)
}

/// As `strconv.ParseInt` and then `ParseUint` with base 0 read it.
fn integer(text: &str) -> Option<Read> {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let (radix, digits) = match unsigned.as_bytes() {
        [] => return None,
        [b'0', b'x' | b'X', _, ..] => (16, &unsigned[2..]),
        [b'0', b'o' | b'O', _, ..] => (8, &unsigned[2..]),
        [b'0', b'b' | b'B', _, ..] => (2, &unsigned[2..]),
        [b'0', _, ..] => (8, &unsigned[1..]),
        _ => (10, unsigned),
    };
    if !digits.chars().all(|c| c.is_digit(radix)) {
        return None;
    }
    let magnitude = u64::from_str_radix(digits, radix).ok()?;
    if text.starts_with('-') {
        return 0i64.checked_sub_unsigned(magnitude).map(Read::Int);
    }
    match i64::try_from(magnitude) {
        Ok(i) => Some(Read::Int(i)),
        Err(_) if text.starts_with('+') => None,
        Err(_) => Some(Read::Uint(magnitude)),
    }
}

/// A decimal float; one that overflows is text (`12e45678` is a commit).
fn float(text: &str) -> Option<Read> {
    let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
    let rest = text.strip_prefix(['+', '-']).unwrap_or(text);
    let whole = digits(rest);
    let mut rest = &rest[whole..];
    if let Some(after) = rest.strip_prefix('.') {
        let fraction = digits(after);
        if whole + fraction == 0 {
            return None;
        }
        rest = &after[fraction..];
    } else if whole == 0 {
        return None;
    }
    if let Some(exponent) = rest.strip_prefix(['e', 'E']) {
        let exponent = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
        if digits(exponent) == 0 {
            return None;
        }
        rest = &exponent[digits(exponent)..];
    }
    if !rest.is_empty() {
        return None;
    }
    text.parse().ok().filter(|f: &f64| f.is_finite()).map(Read::Float)
}

/// The integer that a float is after Go wrote it as JSON and read it back: by its shortest digits, zeros behind them.
fn whole(f: f64) -> Option<i64> {
    if f.fract() == 0.0 && f.abs() < 1e19 { format!("{f}").parse().ok() } else { None }
}

/// `strconv.FormatFloat(f, 'g', -1, 32)`, which sigs.k8s.io/yaml makes keys of floats with.
fn float_key(f: f32) -> String {
    if !f.is_finite() {
        return if f.is_nan() {
            ".nan"
        } else if f > 0.0 {
            ".inf"
        } else {
            "-.inf"
        }
        .to_owned();
    }
    let scientific = format!("{f:e}");
    match scientific.split_once('e').and_then(|(digits, exponent)| Some((digits, exponent.parse::<i32>().ok()?))) {
        Some((digits, exponent)) if !(-4..6).contains(&exponent) => {
            let sign = if exponent < 0 { '-' } else { '+' };
            format!("{digits}e{sign}{:02}", exponent.unsigned_abs())
        }
        _ => format!("{f}"),
    }
}

/// Base64 as Go decodes it; bytes that aren't UTF-8 are replaced one by one, as Go's JSON does.
fn binary(text: &str) -> Result<String, ErrorKind> {
    const GO: GeneralPurpose =
        GeneralPurpose::new(&alphabet::STANDARD, GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true));
    let one_line: String = text.chars().filter(|c| !matches!(c, '\r' | '\n')).collect();
    let bytes = GO.decode(one_line).map_err(|_| ErrorKind::BadBinary)?;
    let mut out = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        out.push_str(chunk.valid());
        out.extend(chunk.invalid().iter().map(|_| char::REPLACEMENT_CHARACTER));
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(text: &str) -> Value<'static> {
        Scalar::yaml(text.to_owned(), None, true).unwrap().into_value().unwrap()
    }

    fn key(text: &str) -> String {
        Scalar::yaml(text.to_owned(), None, true).unwrap().into_key().unwrap()
    }

    #[test]
    fn numbers_at_the_edges_are_gos() {
        for (text, json) in [
            ("0b-101", "-5"),
            ("-0x8000000000000000", "-9223372036854775808"),
            ("0x8000000000000000", "9223372036854775808"),
            ("+0x8000000000000000", "\"+0x8000000000000000\""),
            ("4611686018427387904.0", "4611686018427388000"),
            ("-0.0", "0"),
            (".5_0", "0.5"),
            ("._5", "\"._5\""),
            (".5_", "\".5_\""),
            ("1_._5", "1.5"),
            ("1.e3", "1000"),
            (".e3", "\".e3\""),
            ("+-1", "\"+-1\""),
            ("+", "\"+\""),
            ("0x-5", "\"0x-5\""),
            ("٣", "\"٣\""),
        ] {
            assert_eq!(to_json(&value(text)), json, "{text}");
        }
    }

    #[test]
    fn float_keys_have_gos_short_text() {
        for (text, want) in [
            ("1234567.891", "1.2345679e+06"),
            ("100000.0", "100000"),
            ("1e6", "1e+06"),
            ("0.0001", "0.0001"),
            ("0.00001", "1e-05"),
            ("-0.0", "-0"),
            ("1e40", ".inf"),
            ("-.inf", "-.inf"),
            (".nan", ".nan"),
            ("0644", "420"),
            ("yes", "true"),
        ] {
            assert_eq!(key(text), want, "{text}");
        }
    }

    #[test]
    fn tags_convert_or_refuse() {
        let tagged = |tag: &str, text: &str| {
            Scalar::yaml(text.to_owned(), Some(&format!("{CORE}{tag}")), false).and_then(Scalar::into_value)
        };
        assert_eq!(tagged("int", "010"), Ok(Value::Int(8)));
        assert_eq!(tagged("float", "3"), Ok(Value::Int(3)));
        assert_eq!(tagged("binary", "/+I="), Ok(Value::from("\u{fffd}\u{fffd}")));
        assert_eq!(tagged("binary", "a\nG\nk="), Ok(Value::from("hi")));
        assert_eq!(tagged("binary", "%"), Err(ErrorKind::BadBinary));
        assert_eq!(tagged("set", "x"), Ok(Value::from("x")));
        assert_eq!(tagged("int", "1.0"), Err(ErrorKind::BadTag { tag: "int", text: "1.0".to_owned() }));
        assert!(tagged("float", "0x8000000000000000").is_err());
        assert!(tagged("null", "x").is_err());
        assert!(tagged("bool", "1").is_err());
        assert!(tagged("timestamp", "2001-99-99").is_err());
    }

    #[test]
    fn only_what_people_could_mean_otherwise_is_a_surprise() {
        let surprise = |text: &str| Scalar::yaml(text.to_owned(), None, true).unwrap().surprise(false);
        for text in ["on", "y", "NO", "1.20", "0123456", "1_000", "1e3", "80.0", "0x50", "+1", ".5"] {
            assert!(surprise(text).is_some(), "{text}");
        }
        for text in ["true", "False", "null", "~", "", "80", "-1", "1.5", "0", "18446744073709551615", "1:30", "abc"] {
            assert!(surprise(text).is_none(), "{text}");
        }
    }
}
