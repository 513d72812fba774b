use std::{
    collections::HashMap,
    io::Chain,
    panic::{AssertUnwindSafe, catch_unwind},
};

use libyaml_safer::{EventData, MappingStyle, Mark, Parser, ScalarStyle, SequenceStyle};

use super::{
    error::{Error, ErrorKind},
    event::{Event, Node},
    explain, guard,
    scalar::Scalar,
};
use crate::value::Position;

/// What ends a line to libyaml.
pub(super) const BREAKS: [char; 5] = ['\n', '\r', '\u{85}', '\u{2028}', '\u{2029}'];

/// The events of the first document of a YAML text, as libyaml sees them, less what kubectl's port of libyaml refuses.
pub(super) struct YamlEvents<'t> {
    text: &'t str,
    parser: Parser<Chain<&'t [u8], &'static [u8]>>,
    anchors: HashMap<String, usize>,
    next_anchor: usize,
    /// How many lists and objects in flow style (`[]`, `{}`) are open, and how many in block style.
    open: [usize; 2],
    /// Whether a scalar may hold the escape `\/`.
    may_escape_slash: bool,
    /// Put behind the text: see [`YamlEvents::END`].
    has_end: bool,
}

impl<'t> YamlEvents<'t> {
    /// A line break for a text that doesn't end in one: without it the parser panics over a block scalar or a
    /// backslash at the end. As the one break that libyaml keeps apart from the others it can be told, and taken off,
    /// where it gets into a block scalar, which by the rules has no break at its end then.
    const END: &'static str = "\u{2028}";

    /// How deep go-yaml lets either style nest (its `max_flow_level` and `max_indents`).
    const DEEPEST: usize = 10_000;

    pub(super) fn of(text: &'t str) -> Result<Self, Error> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        guard::check(text, Self::DEEPEST)?;
        let has_end = !text.ends_with(BREAKS);
        let end = if has_end { Self::END.as_bytes() } else { &[] };
        let mut parser = Parser::new();
        parser.set_encoding(libyaml_safer::Encoding::Utf8);
        parser.set_input(std::io::Read::chain(text.as_bytes(), end));
        Ok(Self {
            text,
            parser,
            anchors: HashMap::new(),
            next_anchor: 0,
            open: [0; 2],
            may_escape_slash: text.contains("\\/"),
            has_end,
        })
    }

    /// The next event of the document, or `None` where it ends.
    pub(super) fn next(&mut self) -> Result<Option<Event>, Error> {
        loop {
            let event = self.pull()?;
            let at = position(event.start_mark);
            let (node, anchor) = match event.data {
                EventData::StreamStart { .. } => continue,
                EventData::DocumentStart { version_directive, .. } => {
                    if version_directive.is_some_and(|version| (version.major, version.minor) != (1, 1)) {
                        return Err(ErrorKind::Version.at(at));
                    }
                    continue;
                }
                EventData::DocumentEnd { .. } | EventData::StreamEnd => return Ok(None),
                EventData::Alias { anchor: name } => match self.anchors.get(&name) {
                    Some(&anchor) => (Node::Alias { anchor, name }, None),
                    None => return Err(ErrorKind::UnknownAnchor { anchor: name }.at(at)),
                },
                EventData::Scalar { anchor, tag, mut value, plain_implicit, style, .. } => {
                    if style == ScalarStyle::DoubleQuoted && self.may_escape_slash {
                        self.refuse_slash(event.start_mark, event.end_mark)?;
                    }
                    if style == ScalarStyle::Plain && self.open[0] > 0 && value.contains('?') {
                        // To go-yaml a question mark there ends the text and starts a key, which then fails.
                        let hint = Some("in [] and {} text with a question mark must stand in quotes".to_owned());
                        return Err(ErrorKind::Syntax { problem: "found unexpected '?'", hint }.at(at));
                    }
                    // The break that was put behind the text counts only where the scalar reaches behind the text.
                    let at_end = self.has_end && event.end_mark.index > self.text.len() as u64;
                    if at_end && matches!(style, ScalarStyle::Literal | ScalarStyle::Folded) {
                        let end = value.strip_suffix(Self::END).map_or(value.len(), str::len);
                        value.truncate(end);
                    }
                    let scalar =
                        Scalar::yaml(value, tag.as_deref(), plain_implicit).map_err(|kind| Error::new(at, kind))?;
                    (Node::Scalar(scalar), anchor)
                }
                EventData::SequenceStart { anchor, style, .. } => {
                    self.enter(style == SequenceStyle::Flow, at)?;
                    (Node::List, anchor)
                }
                EventData::MappingStart { anchor, style, .. } => {
                    self.enter(style == MappingStyle::Flow, at)?;
                    (Node::Object, anchor)
                }
                EventData::SequenceEnd | EventData::MappingEnd => {
                    // What is open inside flow style is in flow style too.
                    let [flow, block] = &mut self.open;
                    let open = if *flow > 0 { flow } else { block };
                    *open = open.saturating_sub(1);
                    (Node::End, None)
                }
            };
            let anchor = anchor.map(|name| {
                let number = self.next_anchor;
                self.next_anchor += 1;
                self.anchors.insert(name, number);
                number
            });
            return Ok(Some(Event { at, node, anchor }));
        }
    }

    /// Reads on to where the document ends, and where `only` is set makes sure that none follows.
    pub(super) fn finish(&mut self, only: bool) -> Result<(), Error> {
        self.next()?;
        if only {
            let event = self.pull()?;
            if !matches!(event.data, EventData::StreamEnd) {
                return Err(ErrorKind::SecondDocument.at(position(event.start_mark)));
            }
        }
        Ok(())
    }

    fn pull(&mut self) -> Result<libyaml_safer::Event, Error> {
        // The panics that are known of are kept from happening above. Should there be one more, it is an error here.
        match catch_unwind(AssertUnwindSafe(|| self.parser.parse())) {
            Ok(Ok(event)) => Ok(event),
            Ok(Err(error)) => Err(explain::syntax(self.text, &error)),
            Err(_) => Err(ErrorKind::Syntax { problem: "found what can't be read", hint: None }.at(Position::START)),
        }
    }

    fn enter(&mut self, flow: bool, at: Position) -> Result<(), Error> {
        let open = &mut self.open[usize::from(!flow)];
        *open += 1;
        if *open > Self::DEEPEST {
            return Err(ErrorKind::TooDeep { limit: Self::DEEPEST }.at(at));
        }
        Ok(())
    }

    /// go-yaml doesn't know this escape, which libyaml learned for the sake of JSON.
    fn refuse_slash(&self, start: Mark, end: Mark) -> Result<(), Error> {
        let source = usize::try_from(start.index).ok().zip(usize::try_from(end.index).ok());
        let source = source.and_then(|(start, end)| self.text.get(start..end)).unwrap_or_default();
        let mut escaped = false;
        let slash = source.chars().any(|c| {
            let found = escaped && c == '/';
            escaped = c == '\\' && !escaped;
            found
        });
        if slash {
            let hint = Some("write \"/\" without a backslash".to_owned());
            return Err(ErrorKind::Syntax { problem: "found unknown escape character", hint }.at(position(start)));
        }
        Ok(())
    }
}

/// A mark, which counts from 0.
pub(super) fn position(mark: Mark) -> Position {
    let from_one = |n: u64| u32::try_from(n).unwrap_or(u32::MAX).saturating_add(1);
    Position { line: from_one(mark.line), column: from_one(mark.column) }
}
