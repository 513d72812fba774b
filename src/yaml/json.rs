use super::{
    error::{Error, ErrorKind},
    event::{Event, Node},
    scalar::Scalar,
};
use crate::value::{self, JsonLimits, Position};

/// The events of a JSON text.
///
/// kubectl hands a text that starts with `{` on as JSON, which knows escapes that YAML doesn't (`\ud83d\ude00`, `\/`)
/// and keeps `1.0` a float. serde_json says whether a text is JSON and reads its scalars, but gives no positions. So
/// this only walks over a text that is known to be JSON, from one token to the next, and has no grammar of its own.
pub(super) struct JsonEvents<'t> {
    rest: &'t str,
    at: Position,
}

impl<'t> JsonEvents<'t> {
    /// `None` where a text isn't JSON as kubectl sees it.
    pub(super) fn of(text: &'t str) -> Option<Self> {
        let json = text.trim_start().starts_with('{') && serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok();
        json.then_some(Self { rest: text, at: Position::START })
    }

    /// The next event, or `None` at the end.
    pub(super) fn next(&mut self) -> Result<Option<Event>, Error> {
        let is_between = |c: char| c.is_ascii_whitespace() || matches!(c, ',' | ':');
        self.skip(self.rest.find(|c| !is_between(c)).unwrap_or(self.rest.len()));
        let (length, node) = match self.rest.as_bytes().first() {
            None => return Ok(None),
            Some(b'{') => (1, Node::Object),
            Some(b'[') => (1, Node::List),
            Some(b'}' | b']') => (1, Node::End),
            Some(b'"') => {
                let length = string_length(self.rest);
                (length, self.scalar(length)?)
            }
            Some(_) => {
                let ends = |c: char| is_between(c) || matches!(c, '}' | ']');
                let length = self.rest.find(ends).unwrap_or(self.rest.len());
                (length, self.scalar(length)?)
            }
        };
        let at = self.at;
        self.skip(length);
        Ok(Some(Event { at, node, anchor: None }))
    }

    fn scalar(&self, length: usize) -> Result<Node, Error> {
        let text = &self.rest[..length];
        // What is JSON by its grammar and yet can't be read is a lone surrogate or a number beyond all floats.
        let value = value::from_json(text, JsonLimits::DEFAULT).map_err(|_| {
            let surrogate = ErrorKind::Syntax {
                problem: "found half of a surrogate pair in a string",
                hint: Some("write both halves, as in \"\\ud83d\\ude00\", or the character itself".to_owned()),
            };
            Error::new(self.at, if text.starts_with('"') { surrogate } else { ErrorKind::NotFinite })
        })?;
        Ok(Node::Scalar(Scalar::json(value.into_owned())))
    }

    fn skip(&mut self, length: usize) {
        let (skipped, rest) = self.rest.split_at(length);
        for c in skipped.chars() {
            if c == '\n' {
                self.at = Position { line: self.at.line.saturating_add(1), column: 1 };
            } else {
                self.at.column = self.at.column.saturating_add(1);
            }
        }
        self.rest = rest;
    }
}

/// How many bytes the string at the start of a JSON text takes, with both quotes.
fn string_length(text: &str) -> usize {
    let mut escaped = false;
    let closing = text.bytes().skip(1).position(|byte| {
        let closes = byte == b'"' && !escaped;
        escaped = byte == b'\\' && !escaped;
        closes
    });
    closing.map_or(text.len(), |at| at + 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_end_at_the_first_quote_that_is_not_escaped() {
        assert_eq!(string_length(r#""a\\" "b""#), 5);
        assert_eq!(string_length(r#""a\"b", 1"#), 6);
        assert_eq!(string_length(r#"""}"#), 2);
    }

    #[test]
    fn only_objects_that_are_json_are_json() {
        assert!(JsonEvents::of(" \n{\"a\": [1]}\n").is_some());
        assert!(JsonEvents::of("{a: 1}").is_none());
        assert!(JsonEvents::of("[1]").is_none());
        assert!(JsonEvents::of("{} x").is_none());
    }
}
