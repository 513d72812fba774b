//! Reads JSON as API servers write it, several times as fast as serde_json, which reads all other.
//!
//! The one idea: this knows only what is right. Whatever it doesn't expect, be it a fault or only rare, makes it give up,
//! and serde_json reads the text from its start. So both take the same texts for the same values, and what is wrong with
//! one, and where, is serde_json's to say. Only what is passed over, because nobody wants it, isn't judged at all.

use std::borrow::Cow;

use wide::u8x16;

use super::{Map, Value, map::Entry, skip::value_end};

/// How deep lists and objects may stand in each other here: above any pod, below what serde_json allows.
const DEEPEST: usize = 64;

/// A place in a JSON text. What reads on from there gives nothing where it gives up; then this reader is of no use any more.
#[derive(Debug)]
pub(crate) struct Reader<'a> {
    text: &'a str,
    at: usize,
    /// How much deeper it may get.
    depth: usize,
    /// What the open objects and lists have so far, so that each gets its memory in one piece when it closes.
    entries: Vec<Entry<'a>>,
    items: Vec<Value<'a>>,
}

impl<'a> Reader<'a> {
    /// At the start of a text.
    pub(crate) fn new(text: &'a str) -> Self {
        Self { text, at: 0, depth: DEEPEST, entries: Vec::new(), items: Vec::new() }
    }

    /// Whether nothing but blanks is left.
    pub(crate) fn is_at_end(&mut self) -> bool {
        self.token().is_none()
    }

    /// Reads a value.
    pub(crate) fn value(&mut self) -> Option<Value<'a>> {
        match self.token()? {
            b'"' => self.text().map(Value::String),
            b'{' => self.deeper(Self::object),
            b'[' => self.deeper(Self::list),
            b't' => self.word("true").map(|()| Value::Bool(true)),
            b'f' => self.word("false").map(|()| Value::Bool(false)),
            b'n' => self.word("null").map(|()| Value::Null),
            _ => self.number(),
        }
    }

    /// Reads an object of which only some fields are wanted: `field` is called for each key, and reads its value or skips it.
    pub(crate) fn fields(&mut self, mut field: impl FnMut(&mut Self, &str) -> Option<()>) -> Option<()> {
        let mut more = self.opens(b'{', b'}')?;
        while more {
            let key = self.key()?;
            field(self, &key)?;
            more = self.more(b'}')?;
        }
        Some(())
    }

    /// Reads a text.
    pub(crate) fn text(&mut self) -> Option<Cow<'a, str>> {
        if self.token()? != b'"' {
            return None;
        }
        Some(match self.plain() {
            Some(text) => Cow::Borrowed(text),
            None => self.escaped()?,
        })
    }

    /// Reads `true` or `false`.
    pub(crate) fn bool(&mut self) -> Option<bool> {
        match self.value()? {
            Value::Bool(b) => Some(b),
            _ => None,
        }
    }

    /// Reads a value and leaves it as it stands; nothing for null.
    pub(crate) fn raw(&mut self) -> Option<&'a str> {
        if self.token()? == b'n' {
            return None;
        }
        let start = self.at;
        self.skip()?;
        self.text.get(start..self.at)
    }

    /// Reads something by `read`, and gives its text with it.
    pub(crate) fn with_text<T>(&mut self, read: impl FnOnce(&mut Self) -> Option<T>) -> Option<(&'a str, T)> {
        self.token()?;
        let start = self.at;
        let read = read(self)?;
        Some((self.text.get(start..self.at)?, read))
    }

    /// Passes over a value that nobody wants. Nobody looks whether it is right either, but for what tells where it ends.
    pub(crate) fn skip(&mut self) -> Option<()> {
        let first = self.token()?;
        if !matches!(first, b'"' | b'{' | b'[') {
            // A number, or a word such as null.
            let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.');
            let length = self.text.as_bytes().get(self.at..)?.iter().take_while(|byte| is_part(byte)).count();
            self.at += length;
            return (length > 0).then_some(());
        }
        let bytes = self.text.as_bytes();
        self.at = match first {
            b'"' => string_end(bytes, self.at)? + 1,
            _ => value_end(bytes, self.at)?,
        };
        Some(())
    }

    fn deeper<T>(&mut self, read: impl FnOnce(&mut Self) -> Option<T>) -> Option<T> {
        self.depth = self.depth.checked_sub(1)?;
        let read = read(self)?;
        self.depth += 1;
        Some(read)
    }

    fn object(&mut self) -> Option<Value<'a>> {
        let (start, mut keys) = (self.entries.len(), Keys::default());
        let mut more = self.opens(b'{', b'}')?;
        while more {
            if self.token()? != b'"' {
                return None;
            }
            match self.plain() {
                Some(key) => self.entry(Cow::Borrowed(key), start, &mut keys)?,
                None => {
                    let key = self.escaped()?;
                    self.entry(key, start, &mut keys)?;
                }
            }
            if self.entries.len() - start > Map::INDEXED {
                let mut map = Map::of(self.entries.split_off(start));
                while self.more(b'}')? {
                    let key = self.key()?;
                    map.insert(key, self.value()?);
                }
                return Some(Value::Object(map));
            }
            more = self.more(b'}')?;
        }
        Some(Value::Object(Map::of(self.entries.split_off(start))))
    }

    /// Reads what stands under a key of the object whose entries begin at `start`. Key and text go straight to their place:
    /// most values are texts, and handing them on by value costs as much as reading them.
    #[inline(always)]
    fn entry(&mut self, key: Cow<'a, str>, start: usize, keys: &mut Keys) -> Option<()> {
        self.expect(b':')?;
        if keys.insert(&key)
            && let Some(at) = self.entries[start..].iter().position(|(known, _)| *known == key)
        {
            self.entries[start + at].1 = self.value()?;
        } else if self.token()? == b'"'
            && let Some(text) = self.plain()
        {
            self.entries.push((key, Value::String(Cow::Borrowed(text))));
        } else {
            let value = self.value()?;
            self.entries.push((key, value));
        }
        Some(())
    }

    fn list(&mut self) -> Option<Value<'a>> {
        let start = self.items.len();
        let mut more = self.opens(b'[', b']')?;
        while more {
            let item = self.value()?;
            self.items.push(item);
            more = self.more(b']')?;
        }
        Some(Value::List(self.items.split_off(start)))
    }

    /// The next byte that is no blank; it isn't taken.
    fn token(&mut self) -> Option<u8> {
        loop {
            let byte = *self.text.as_bytes().get(self.at)?;
            if !matches!(byte, b' ' | b'\n' | b'\r' | b'\t') {
                return Some(byte);
            }
            self.at += 1;
        }
    }

    fn expect(&mut self, wanted: u8) -> Option<()> {
        if self.token()? != wanted {
            return None;
        }
        self.at += 1;
        Some(())
    }

    /// Takes the bracket that opens an object or list; whether there is anything in it.
    fn opens(&mut self, open: u8, close: u8) -> Option<bool> {
        self.expect(open)?;
        let is_empty = self.token()? == close;
        self.at += usize::from(is_empty);
        Some(!is_empty)
    }

    /// Takes what follows on one thing in an object or list; whether another one does.
    fn more(&mut self, close: u8) -> Option<bool> {
        let found = self.token()?;
        self.at += 1;
        if found == b',' {
            return Some(true);
        }
        if found == close { Some(false) } else { None }
    }

    fn key(&mut self) -> Option<Cow<'a, str>> {
        let key = self.text()?;
        self.expect(b':')?;
        Some(key)
    }

    /// Reads the string that starts here, if it stands there as it is.
    fn plain(&mut self) -> Option<&'a str> {
        let start = self.at + 1;
        let end = plain_end(self.text.as_bytes(), start);
        if self.text.as_bytes().get(end) != Some(&b'"') {
            return None;
        }
        self.at = end + 1;
        self.text.get(start..end)
    }

    /// Reads the string that starts here, which has an escape in it or is wrong.
    fn escaped(&mut self) -> Option<Cow<'a, str>> {
        let start = self.at;
        self.at = string_end(self.text.as_bytes(), start)? + 1;
        serde_json::from_str(self.text.get(start..self.at)?).ok().map(Cow::Owned)
    }

    fn word(&mut self, word: &str) -> Option<()> {
        let end = self.at + word.len();
        if self.text.as_bytes().get(self.at..end) != Some(word.as_bytes()) {
            return None;
        }
        self.at = end;
        Some(())
    }

    fn number(&mut self) -> Option<Value<'a>> {
        /// So many digits fit an `i64` whatever they are.
        const SHORT: usize = 18;
        let rest = self.text.get(self.at..)?;
        let is_part = |byte: &u8| matches!(byte, b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E');
        let text = &rest[..rest.bytes().take_while(is_part).count()];
        self.at += text.len();
        let is_plain = text.len() <= SHORT && text.bytes().all(|byte| byte.is_ascii_digit());
        match text.as_bytes() {
            [b'0'] => Some(Value::Int(0)),
            [b'1'..=b'9', ..] if is_plain => text.parse().ok().map(Value::Int),
            _ => serde_json::from_str(text).ok(),
        }
    }
}

/// The keys of an object, roughly: one bit for all that are alike in length and last byte.
#[derive(Default)]
struct Keys(u64);

impl Keys {
    /// Puts a key in; says whether it may be there already.
    fn insert(&mut self, key: &str) -> bool {
        let last = key.as_bytes().last().copied().unwrap_or_default();
        let bit = 1 << ((key.len() * 7 + usize::from(last)) % 64);
        let was_there = self.0 & bit != 0;
        self.0 |= bit;
        was_there
    }
}

/// Where the quote stands that closes the string which opens at `at`.
fn string_end(bytes: &[u8], at: usize) -> Option<usize> {
    let mut at = at + 1;
    loop {
        at = plain_end(bytes, at);
        match bytes.get(at)? {
            b'"' => return Some(at),
            b'\\' => at += 2,
            // A control character, which is no matter of where the string ends.
            _ => at += 1,
        }
    }
}

/// Where the next byte stands that can't stand in a JSON string as it is: a quote, a backslash, a control character; the
/// end where there is none.
pub(super) fn plain_end(bytes: &[u8], mut at: usize) -> usize {
    const ONES: u64 = u64::MAX / 255;
    const HIGH: u64 = ONES << 7;
    while let Some(sixteen) = bytes.get(at..).and_then(<[u8]>::first_chunk) {
        let sixteen = u8x16::from(*sixteen);
        let is = |byte| sixteen.simd_eq(u8x16::splat(byte));
        let control = sixteen.min(u8x16::splat(b' ' - 1)).simd_eq(sixteen);
        let found = (is(b'"') | is(b'\\') | control).to_bitmask();
        if found != 0 {
            return at + found.trailing_zeros() as usize;
        }
        at += 16;
    }
    // Eight at a time: in each byte that is below `n` the highest bit gets set. A byte above one that is found may be
    // wrong, the lowest one never is.
    let below = |word: u64, n: u8| word.wrapping_sub(ONES * u64::from(n)) & !word & HIGH;
    if let Some(eight) = bytes.get(at..).and_then(<[u8]>::first_chunk) {
        let word = u64::from_le_bytes(*eight);
        let quote = below(word ^ (ONES * u64::from(b'"')), 1);
        let backslash = below(word ^ (ONES * u64::from(b'\\')), 1);
        let found = quote | backslash | below(word, b' ');
        if found != 0 {
            return at + (found.trailing_zeros() / 8) as usize;
        }
        at += 8;
    }
    let is_special = |byte: &u8| matches!(byte, b'"' | b'\\' | 0..b' ');
    bytes.get(at..).and_then(|rest| rest.iter().position(is_special)).map_or(bytes.len(), |more| at + more)
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*, sample::select};

    use super::*;
    use crate::value::{JsonLimits, json::from_serde, to_json};

    fn read(text: &str) -> Option<Value<'_>> {
        let mut reader = Reader::new(text);
        let value = reader.value()?;
        reader.is_at_end().then_some(value)
    }

    fn skips(text: &str) -> bool {
        let mut reader = Reader::new(text);
        reader.skip().is_some() && reader.is_at_end()
    }

    /// Whether what is read is what serde_json reads; where nothing is, there is nothing to compare.
    #[track_caller]
    fn agrees(text: &str) {
        let serde = from_serde(text, JsonLimits::DEFAULT);
        if let Some(value) = read(text) {
            let wanted = serde.unwrap_or_else(|error| panic!("serde_json refuses {text}: {error}"));
            assert_eq!(value, wanted, "{text}");
            assert_eq!(to_json(&value), to_json(&wanted), "{text}");
            assert!(skips(text), "{text}");
        }
        if serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok() {
            assert!(skips(text), "{text}");
        }
    }

    #[test]
    fn what_is_plain_is_read() {
        for text in [
            r#"{"a":[1,-2,0,true,false,null,"x"],"b":{},"c":[]}"#,
            " { \"a\" :\r\n[ \"\\u00e9\\n\" , 1.5e3 ]\t} ",
            r#"{"a":1,"b":2,"a":{"\u0061":3}}"#,
            "\"\"",
            "123456789012345678",
            "12345678901234567890",
        ] {
            assert!(read(text).is_some() && skips(text), "{text}");
            agrees(text);
        }
    }

    #[test]
    fn what_is_no_json_is_left_to_serde_json() {
        for text in [
            "",
            "{",
            "[1,]",
            "{\"a\":1,}",
            "{\"a\"}",
            "{a:1}",
            "01",
            "-",
            "1.",
            "+1",
            "nul",
            "truex",
            "\"\u{1}\"",
            "\"\\x\"",
            "\"\\ud800\"",
            "\"a",
            "{} x",
            "[1 2]",
            "1e999",
            "\"\\u12g4\"",
        ] {
            assert!(read(text).is_none(), "{text}");
            agrees(text);
        }
        let deep = format!("{}{}", "[".repeat(DEEPEST + 1), "]".repeat(DEEPEST + 1));
        assert!(read(&deep).is_none() && skips(&deep) && read(&deep[1..deep.len() - 1]).is_some());
    }

    #[test]
    fn what_is_passed_over_ends_where_it_ends() {
        for value in ["1", "-1.5e+3", "true", r#""a\\""#, r#""\"]""#, "[]", r#"{"a":["}",{"b":"\\\""}],"c":1}"#, "{ }"]
        {
            for after in ["", ",", "]", "}", " ,1"] {
                let text = format!("{value}{after}");
                let mut reader = Reader::new(&text);
                assert_eq!(reader.raw(), Some(value), "{text}");
            }
        }
        for cut in ["", "[", "{\"a\":", "\"a", "\"a\\\"", "]", ",", ":"] {
            assert!(!skips(cut), "{cut}");
        }
    }

    #[test]
    fn of_many_equal_keys_the_last_counts_in_the_first_ones_place() {
        let keys: Vec<String> = (0..100).map(|at| format!("\"k{}\":{at}", at % 70)).collect();
        agrees(&format!("{{{}}}", keys.join(",")));
        assert_eq!(read(&format!("{{{}}}", keys.join(","))).unwrap().as_object().unwrap().len(), 70);
    }

    #[test]
    fn the_end_of_what_is_plain_is_found_wherever_it_is() {
        for special in ['"', '\\', '\n', '\0', '\u{1f}'] {
            for at in 0..40 {
                let text = format!("{}{special}\"é\u{7f}", "é ~!".repeat(12).chars().take(at).collect::<String>());
                assert_eq!(plain_end(text.as_bytes(), 0), text.find(special).unwrap(), "{text:?}");
            }
        }
        assert_eq!(plain_end("é".repeat(20).as_bytes(), 3), 40);
        assert_eq!(plain_end(b"a", 7), 1);
    }

    proptest! {
        #[test]
        fn it_agrees_with_serde_json(parts in vec(select(PARTS), 0..24)) {
            agrees(&parts.concat());
        }
    }

    const PARTS: &[&str] = &[
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        "\"a\"",
        "\"b\":",
        "\"a\":",
        "1",
        "-0",
        "2.5",
        "1e2",
        "0",
        "true",
        "null",
        " ",
        "\n",
        "\"\\n\"",
        "\"\\u00e9\"",
        "\"\\ud83d\\ude00\"",
        "\"\\ud83d\"",
        "\"é\"",
        "{\"a\":1}",
        "[1,2]",
        "\"",
        "\\",
        "\u{1}",
        "x",
        "{}",
        "[]",
    ];
}
