use crate::value::Position;

/// Why a text isn't read, and where.
///
/// It displays as the cause alone, with what to write instead where that is known; callers put [`Error::at`] beside it
/// in the terms of the outer text.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{kind}")]
pub struct Error {
    at: Position,
    kind: ErrorKind,
}

/// What is wrong with a text.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The text under `!!binary` isn't base64.
    #[error("the text under !!binary isn't base64")]
    BadBinary,
    /// A scalar doesn't have the type that its tag gives it.
    #[error("{text:?} can't be read as !!{tag}: leave the tag out, or write such a value")]
    BadTag {
        /// `int`
        tag: &'static str,
        /// The scalar, cut short.
        text: String,
    },
    /// Strict: an object has a key twice.
    #[error("key {key:?} is set twice, first at {first}: keep one")]
    DuplicateKey {
        /// The key, as kubectl reads it.
        key: String,
        /// Where it stands first.
        first: Position,
    },
    /// Something stands in brackets that can't.
    #[error("{problem}: it belongs to the bracket at {opened}")]
    Bracket {
        /// What the reader says.
        problem: &'static str,
        /// Where the bracket is opened.
        opened: Position,
    },
    /// Aliases stand for so much that the document is taken for an attack.
    #[error("excessive aliasing: the aliases stand for too much, write fewer of them")]
    ExcessiveAliasing,
    /// Strict: a key is set both in the object and through `<<`, or through `<<` twice.
    #[error("key {key:?} is set twice, once through \"<<\", first at {first}: keep one")]
    MergedKeyOverridden {
        /// The key, as kubectl reads it.
        key: String,
        /// Where it stands first; inside the anchored object where that one was merged.
        first: Position,
    },
    /// `<<` has a value that can't be merged.
    #[error("\"<<\" takes an object or a list of objects")]
    MergeValue,
    /// A number that JSON can't hold.
    #[error("a number must be finite: put it in quotes if it is meant as text")]
    NotFinite,
    /// Strict: the text goes on after its first document.
    #[error("a second document starts here: one patch is one document")]
    SecondDocument,
    /// An alias stands inside of what it stands for.
    #[error("the value of anchor {anchor:?} contains itself: write the inner value out")]
    SelfReference {
        /// The anchor's name.
        anchor: String,
    },
    /// The text isn't YAML.
    #[error("{problem}{}{}", if hint.is_some() { ": " } else { "" }, hint.as_deref().unwrap_or_default())]
    Syntax {
        /// What the reader says.
        problem: &'static str,
        /// What to write instead.
        hint: Option<String>,
    },
    /// Lists and objects stand too deep in each other.
    #[error("lists and objects stand more than {limit} deep in each other")]
    TooDeep {
        /// How deep they may stand.
        limit: usize,
    },
    /// The text is too long.
    #[error("the text is longer than {limit} bytes")]
    TooLarge {
        /// How long it may be.
        limit: usize,
    },
    /// There are too many values, counting those that aliases stand for.
    #[error("the text holds more than {limit} values, with what its aliases stand for")]
    TooManyNodes {
        /// How many it may hold.
        limit: usize,
    },
    /// An alias stands for nothing.
    #[error("no anchor {anchor:?} stands above: write \"&{anchor}\" before the value it names, or quote the text")]
    UnknownAnchor {
        /// The anchor's name.
        anchor: String,
    },
    /// A key that has no text.
    #[error("{what} can't be a key: put the text in quotes")]
    UnsupportedKey {
        /// `a list`
        what: &'static str,
    },
    /// A `%YAML` line for another version than 1.1.
    #[error("only YAML 1.1 is read: leave the %YAML line out")]
    Version,
}

impl Error {
    pub(super) fn new(at: Position, kind: ErrorKind) -> Self {
        Self { at, kind }
    }

    /// Where the text is wrong.
    pub fn at(&self) -> Position {
        self.at
    }

    /// The same error with all places that it names moved into the text around this one.
    pub fn moved(mut self, place: &dyn Fn(Position) -> Position) -> Self {
        self.at = place(self.at);
        match &mut self.kind {
            ErrorKind::Bracket { opened: other, .. }
            | ErrorKind::DuplicateKey { first: other, .. }
            | ErrorKind::MergedKeyOverridden { first: other, .. } => *other = place(*other),
            _ => {}
        }
        self
    }

    /// What is wrong there.
    pub fn kind(&self) -> &ErrorKind {
        &self.kind
    }
}

impl ErrorKind {
    pub(super) fn at(self, at: Position) -> Error {
        Error::new(at, self)
    }
}

/// The beginning of a text, for a message.
pub(super) fn short(text: &str) -> String {
    const LONGEST: usize = 40;
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
