//! How what a user wrote is shown in a finding: short, and without a character that a terminal or a log would obey.

use crate::value::Value;

/// How many characters of a user's text a finding shows: a name of Kubernetes' longest kind.
const SHOWN: usize = 63;

/// A text as it stands; in quotes where that would mislead.
pub(super) fn shown(text: &str) -> String {
    let plain = !text.is_empty()
        && text.len() <= SHOWN
        && text.chars().all(|c| c.is_alphanumeric() || (c.is_ascii_graphic() && !matches!(c, '"' | '\\')));
    if plain { text.to_owned() } else { quoted(text) }
}

/// A text in quotes, what isn't printable escaped, a long one cut.
pub(crate) fn quoted(text: &str) -> String {
    match text.char_indices().nth(SHOWN) {
        Some((cut, _)) => format!("{:?}…", &text[..cut]),
        None => format!("{text:?}"),
    }
}

/// What a value is, in the words of somebody who wrote it.
pub(super) fn described(value: &Value<'_>) -> String {
    match value {
        Value::Null => "nothing (null)".to_owned(),
        Value::Bool(b) => b.to_string(),
        Value::Int(_) | Value::Uint(_) | Value::Float(_) => {
            format!("the number {}", value.scalar_text().unwrap_or_default())
        }
        Value::String(text) => format!("the string {}", quoted(text)),
        Value::List(_) => "a list".to_owned(),
        Value::Object(_) => "a map".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_would_obey_is_escaped_and_long_texts_are_cut() {
        assert_eq!(shown("container-0"), "container-0");
        assert_eq!(shown("imagecheck-*"), "imagecheck-*");
        assert_eq!(shown("a\u{1b}[31m"), r#""a\u{1b}[31m""#);
        assert_eq!(shown("a\u{202e}b"), r#""a\u{202e}b""#);
        assert_eq!(shown(""), r#""""#);
        assert_eq!(quoted(&"é".repeat(100)), format!("\"{}\"…", "é".repeat(63)));
    }

    #[test]
    fn values_are_described() {
        for (value, wanted) in [
            (Value::Bool(true), "true"),
            (Value::Int(8080), "the number 8080"),
            (Value::Float(30.5), "the number 30.5"),
            (Value::from("30"), r#"the string "30""#),
            (Value::List(vec![]), "a list"),
            (Value::Null, "nothing (null)"),
        ] {
            assert_eq!(described(&value), wanted);
        }
    }
}
