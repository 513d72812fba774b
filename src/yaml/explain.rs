//! libyaml's errors, with the place where people have to look and what to write there.

use super::{
    error::{Error, ErrorKind, short},
    reader::{BREAKS, position},
};
use crate::value::Position;

/// What libyaml says of a text, as an error that helps.
pub(super) fn syntax(text: &str, error: &libyaml_safer::Error) -> Error {
    let Some(mark) = error.problem_mark() else { return unreadable(text, error.problem()) };
    let lines: Vec<&str> = lines(text).collect();
    let place = Place::new(&lines, position(mark));
    let opened = error.context_mark().map(position);
    let (at, problem, hint) = match error.problem() {
        "mapping values are not allowed in this context" => {
            let (at, hint) = stray_colon(&place);
            (at, "mapping values are not allowed here", Some(hint))
        }
        problem @ ("did not find expected key" | "did not find expected '-' indicator") => {
            (place.at, problem, indentation(&place).or_else(|| after_quote(&place)))
        }
        problem @ "could not find expected ':'" => {
            let place = opened.map_or(place, |at| Place::new(&lines, at));
            let word = short(place.rest().trim_end());
            (
                place.at,
                problem,
                Some(format!("{word:?} is no key with a value, nor indented as a part of the text above")),
            )
        }
        problem @ "found character that cannot start any token" => match place.character() {
            Some('\t') => (place.at, "found a tab", Some("indent with spaces".to_owned())),
            character => (place.at, problem, character.map(quote_it)),
        },
        problem @ ("found a tab character that violates indentation"
        | "found a tab character where an indentation space is expected") => {
            (place.at, problem, Some("indent with spaces".to_owned()))
        }
        problem @ "did not find expected alphabetic or numeric character" => {
            let place = opened.map_or(place, |at| Place::new(&lines, at));
            (place.at, problem, place.character().map(quote_it))
        }
        problem @ "found unexpected end of stream" => {
            (opened.unwrap_or(place.at), problem, Some("the quote that opens here is never closed".to_owned()))
        }
        problem @ ("did not find expected ',' or ']'" | "did not find expected ',' or '}'") => {
            match opened {
                // At the end of the text there is nothing to see but the bracket.
                Some(opened) if place.is_past_end() => {
                    (opened, problem, Some("the bracket that opens here is never closed".to_owned()))
                }
                Some(_) if inside_quotes(&place) => {
                    let hint = "the quotes close in front of it: write a quote inside of them with a backslash, or the whole \
                                text in single quotes";
                    (place.at, problem, Some(hint.to_owned()))
                }
                Some(opened) if remains(place.line).is_none() => {
                    return ErrorKind::Bracket { problem, opened }.at(within(&lines, place.at));
                }
                _ => (place.at, problem, None),
            }
        }
        problem @ "did not find expected node content" => {
            (place.at, problem, place.character().filter(|c| !c.is_alphanumeric()).map(quote_it))
        }
        problem @ "block sequence entries are not allowed in this context" => {
            let hint = "start the list on a line of its own, or put the text in quotes";
            (place.at, problem, Some(hint.to_owned()))
        }
        problem @ "found unexpected ':'" => {
            (place.at, problem, Some("write a space behind the colon, or put the text in quotes".to_owned()))
        }
        problem @ "found unknown escape character" => {
            let hint = match place.rest().starts_with("\\'") {
                true => "in double quotes a single quote needs no backslash",
                false => "in double quotes a backslash starts an escape: use single quotes, or write two backslashes",
            };
            (place.at, problem, Some(hint.to_owned()))
        }
        problem @ "did not find expected <document start>" => {
            let hint =
                indentation(&place).unwrap_or_else(|| "one patch is one document, nothing may follow it".to_owned());
            (place.at, problem, Some(hint))
        }
        problem @ "found invalid Unicode character escape code" => {
            (place.at, problem, Some("write the character itself".to_owned()))
        }
        problem => (place.at, problem, None),
    };
    let at = within(&lines, at);
    let hint = remains(Place::new(&lines, at).line).or(hint);
    ErrorKind::Syntax { problem, hint }.at(at)
}

/// What is left of `$patch: delete` where something took `$patch` for a variable: a line that starts with a colon.
fn remains(line: &str) -> Option<String> {
    let key = line.trim_start().trim_start_matches("- ");
    let hint = "\"$patch\" was expanded to nothing, write \"$$patch\" (Buildkite's pipeline upload and GitLab's variables \
                expand what starts with $)";
    (key.starts_with(": ") || key.trim_end() == ":").then(|| hint.to_owned())
}

/// The errors of the lowest stage, which have no mark: a character that YAML forbids.
fn unreadable(text: &str, problem: &'static str) -> Error {
    let forbidden = |c: char| {
        matches!(c, '\0'..='\u{8}' | '\u{b}' | '\u{c}' | '\u{e}'..='\u{1f}' | '\u{7f}'..='\u{84}')
            || matches!(c, '\u{86}'..='\u{9f}' | '\u{fffe}' | '\u{ffff}')
    };
    match text.char_indices().find(|(_, c)| forbidden(*c)) {
        Some((index, c)) => {
            let hint = format!("write the character as \"\\u{:04x}\" in double quotes, or leave it out", u32::from(c));
            ErrorKind::Syntax { problem, hint: Some(hint) }.at(position_of(text, index))
        }
        None => ErrorKind::Syntax { problem, hint: None }.at(Position::START),
    }
}

/// The place of what starts at a byte of a text.
pub(super) fn position_of(text: &str, index: usize) -> Position {
    let (line, start) = lines(&text[..index]).enumerate().last().unwrap_or_default();
    from_zero(line, start.chars().count())
}

/// A line with the place in it that libyaml points to.
struct Place<'l> {
    lines: &'l [&'l str],
    at: Position,
    line: &'l str,
}

impl<'l> Place<'l> {
    fn new(lines: &'l [&'l str], at: Position) -> Self {
        Self { lines, at, line: lines.get(at.line as usize - 1).copied().unwrap_or_default() }
    }

    /// How the line splits at the place.
    fn split(&self) -> (&'l str, &'l str) {
        let split = self.line.char_indices().nth(self.at.column as usize - 1).map_or(self.line.len(), |(at, _)| at);
        self.line.split_at(split)
    }

    fn rest(&self) -> &'l str {
        self.split().1
    }

    fn character(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn is_past_end(&self) -> bool {
        self.lines.iter().skip(self.at.line as usize).all(|line| line.trim().is_empty())
            && self.rest().trim().is_empty()
    }

    /// The nearest line above that has content, but comments; with its number.
    fn above(&self) -> Option<(u32, &'l str)> {
        let above = self.lines.get(..self.at.line as usize - 1)?;
        let has_content = |line: &str| !matches!(line.trim_start().chars().next(), None | Some('#'));
        let at = above.iter().rposition(|line| has_content(line))?;
        Some((u32::try_from(at + 1).unwrap_or(u32::MAX), above[at]))
    }
}

/// A `: ` where no key can be: most often its line is indented too deep, and libyaml took it for more of the text.
fn stray_colon(place: &Place<'_>) -> (Position, String) {
    let (before, _) = place.split();
    let key = before.trim_start();
    let at = Position { column: indent(before) as u32 + 1, ..place.at };
    let key_text = key.trim_start_matches("- ");
    if key_text.contains(": ") || key_text.ends_with(':') || key.is_empty() {
        let quotes = "a value without quotes can't hold \": \", put it in quotes";
        let owner = key_text.split_once(": ").map(|(owner, _)| short(owner)).filter(|owner| !owner.is_empty());
        let hint = match owner {
            Some(owner) => format!("{quotes}; fields of {owner:?} start on a line of their own"),
            None => quotes.to_owned(),
        };
        return (place.at, hint);
    }
    let key = short(key);
    if let Some((at, hint)) = glued(place) {
        return (at, hint);
    }
    match place.above() {
        Some((_, above)) if indent(above) < indent(before) => (at, too_deep(&key)),
        _ => (at, format!("{key:?} is read as more of the text above it: indent it like its siblings")),
    }
}

/// `name:a` on the line above, which is one word without the blank behind its colon.
fn glued(place: &Place<'_>) -> Option<(Position, String)> {
    let (number, above) = place.above()?;
    let word = above.trim_start().trim_start_matches("- ").trim();
    let (key, value) = word.split_once(':')?;
    let is_key = !key.is_empty() && key.chars().all(|c| c.is_ascii_alphanumeric());
    let is_value = value.starts_with(|c: char| c.is_alphanumeric()) && !word.contains([' ', '"', '\'']);
    let column = above.chars().count() - above.trim_start().trim_start_matches("- ").chars().count() + 1;
    let at = Position { line: number, column: u32::try_from(column).unwrap_or(1) };
    let hint =
        format!("{:?} lacks the blank behind its colon: write {:?}", short(word), short(&format!("{key}: {value}")));
    (is_key && is_value).then_some((at, hint))
}

/// A line that starts where nothing can.
fn indentation(place: &Place<'_>) -> Option<String> {
    let (before, rest) = place.split();
    if !before.trim().is_empty() {
        return None;
    }
    let word = short(rest.split_once(": ").map_or(rest, |(key, _)| key).trim_end().trim_end_matches(':'));
    match indent(place.above()?.1).cmp(&indent(before)) {
        std::cmp::Ordering::Less => Some(too_deep(&word)),
        std::cmp::Ordering::Greater => {
            Some(format!("{word:?} is indented like no line above it: indent it like its siblings"))
        }
        std::cmp::Ordering::Equal => {
            let (_, above) = place.above()?;
            let first = above.trim_start().strip_prefix("- ")?.split_once(':')?.0;
            Some(format!(
                "{word:?} stands below the dash of the item above: indent it like {:?}, whose item it belongs to",
                short(first)
            ))
        }
    }
}

fn too_deep(word: &str) -> String {
    format!("{word:?} is indented deeper than the line above, which already has a value; indent it like its siblings")
}

fn after_quote(place: &Place<'_>) -> Option<String> {
    let closed = place.split().0.trim_end().ends_with(['"', '\'']);
    closed.then(|| "nothing may follow the closing quote: put all of the text in one pair of quotes".to_owned())
}

/// Whether text goes on right behind double quotes that it closed itself.
fn inside_quotes(place: &Place<'_>) -> bool {
    let (before, rest) = place.split();
    before.ends_with('"') && rest.starts_with(|c: char| c.is_alphanumeric())
}

fn quote_it(character: char) -> String {
    format!("text that starts with {character:?} must stand in quotes").replace('\'', "\"")
}

fn indent(line: &str) -> usize {
    line.chars().take_while(|c| *c == ' ').count()
}

/// A place that exists: the end of the text where libyaml points past it.
fn within(lines: &[&str], at: Position) -> Position {
    if at.line as usize <= lines.len() {
        return at;
    }
    let last = lines.iter().rposition(|line| !line.trim().is_empty()).unwrap_or_default();
    from_zero(last, lines.get(last).map_or(0, |line| line.trim_end().chars().count()))
}

fn from_zero(line: usize, column: usize) -> Position {
    let from_one = |n: usize| u32::try_from(n).unwrap_or(u32::MAX).saturating_add(1);
    Position { line: from_one(line), column: from_one(column) }
}

/// Lines as libyaml counts them.
fn lines(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = Some(text);
    std::iter::from_fn(move || {
        let text = rest?;
        let Some(end) = text.find(BREAKS) else {
            rest = None;
            return Some(text);
        };
        let (line, tail) = text.split_at(end);
        rest = tail.strip_prefix("\r\n").or_else(|| {
            let mut characters = tail.chars();
            characters.next();
            Some(characters.as_str())
        });
        Some(line)
    })
}
