//! What libyaml's port must not be given, for it would panic, take very long or read what kubectl doesn't.

use libyaml_safer::{Scanner, TokenData};

use super::{
    error::{Error, ErrorKind},
    explain,
    reader::BREAKS,
};

/// Refuses a text that is too much for the parser, which would go no deeper than `deepest` into lists in lists.
pub(super) fn check(text: &str, deepest: usize) -> Result<(), Error> {
    opening_brackets(text, deepest)?;
    byte_order_mark(text)?;
    tag_lines(text)?;
    tag_before_comma(text)
}

/// At each bracket libyaml looks at all that are open, so that the classic text which opens nothing but lists, be it
/// under a key, takes it long before it is found to be too deep.
fn opening_brackets(text: &str, deepest: usize) -> Result<(), Error> {
    let word = text.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(text.len());
    let start = if word > 0 && text[word..].starts_with(": ") { word + 2 } else { 0 };
    if text[start..].bytes().take_while(|byte| *byte == b'[').nth(deepest).is_none() {
        return Ok(());
    }
    Err(ErrorKind::TooDeep { limit: deepest }.at(explain::position_of(text, start + deepest)))
}

/// libyaml skips a byte order mark at the start of a line, go-yaml makes it part of a key. It comes from joining files.
fn byte_order_mark(text: &str) -> Result<(), Error> {
    let Some((index, _)) = text.match_indices('\u{feff}').find(|(index, _)| text[..*index].ends_with(BREAKS)) else {
        return Ok(());
    };
    let hint = Some("take the byte order mark U+FEFF out".to_owned());
    let problem = "found an invisible character";
    Err(ErrorKind::Syntax { problem, hint }.at(explain::position_of(text, index)))
}

/// Each tag is looked up in all `%TAG` lines, and each of these in all others.
fn tag_lines(text: &str) -> Result<(), Error> {
    const MOST: usize = 16;
    let mut directives = text.match_indices("%TAG").filter(|(index, _)| text[..*index].ends_with(BREAKS));
    match directives.nth(MOST) {
        Some((index, _)) => Err(ErrorKind::Syntax { problem: "found too many %TAG lines", hint: None }
            .at(explain::position_of(text, index))),
        None => Ok(()),
    }
}

/// Over a tag that ends in a comma (`[!a,b]`) the parser panics. kubectl's makes the comma part of the tag and so loses
/// it, which nobody means.
///
/// Only a scanner knows what is a tag. So one is run over the text with a space before each comma that could follow a
/// tag; few texts have any.
fn tag_before_comma(text: &str) -> Result<(), Error> {
    let mut spaced = String::new();
    let mut spaces = Vec::new();
    let mut copied = 0;
    let (mut in_tag, mut verbatim) = (false, false);
    let mut before = b' ';
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            // Between `!<` and `>` a tag may hold commas.
            b'!' => (in_tag, verbatim) = (true, text[at..].starts_with("!<")),
            b'>' => verbatim = false,
            // After a colon a space would have a meaning.
            b',' if in_tag && !verbatim && before != b':' => {
                spaced.push_str(&text[copied..at]);
                spaces.push(spaced.len());
                spaced.push(' ');
                copied = at;
                in_tag = false;
            }
            b' ' | b'\t' | b'\r' | b'\n' => in_tag = false,
            _ => {}
        }
        before = byte;
    }
    if spaces.is_empty() {
        return Ok(());
    }
    spaced.push_str(&text[copied..]);
    spaced.push('\n');
    let mut scanner = Scanner::new();
    scanner.set_encoding(libyaml_safer::Encoding::Utf8);
    scanner.set_input(spaced.as_bytes());
    for token in scanner {
        // What the scanner can't read the parser can't either. The column may be off by the spaces put into the line.
        let token = token.map_err(|error| explain::syntax(text, &error))?;
        let ends = usize::try_from(token.end_mark.index).is_ok_and(|end| spaces.binary_search(&end).is_ok());
        if ends && matches!(token.data, TokenData::Tag { .. }) {
            let start = usize::try_from(token.start_mark.index).unwrap_or_default();
            let moved = spaces.partition_point(|space| *space < start);
            let hint = Some("put a space between the tag and the comma".to_owned());
            let problem = "found a tag that ends in a comma";
            return Err(ErrorKind::Syntax { problem, hint }.at(explain::position_of(text, start - moved)));
        }
    }
    Ok(())
}
