//! YAML, read as kubectl reads it.
//!
//! Patches are written for kubectl's reader: `defaultMode: 0644` is 420 and `hostNetwork: yes` is true, which no YAML
//! crate gives. That reader is sigs.k8s.io/yaml on go-yaml v2, a port of libyaml; here libyaml's events come from its
//! port to Rust, and the rules of go-yaml are applied to them. Every value comes with its place in the text.
//!
//! Where kubectl reads on, and here is an error:
//!  - at `,`, `[` or `]` in a tag, which becomes part of it;
//!  - at a colon right before one of `,[]{}?` in flow style (`{a:}` has the key `a:`);
//!  - at `\'` in double quotes;
//!  - at a byte order mark at the start of a line, which becomes part of a key;
//!  - at an invalid key or number that a later equal key replaces;
//!  - at more than 16 `%TAG` lines;
//!  - at text behind a first document that is `[]` or `{}`, on its line.
//!
//! Of `1: a` and `"1": b` the last wins here, and either at random in kubectl.

mod build;
mod error;
mod event;
mod explain;
mod guard;
mod json;
mod reader;
mod scalar;
mod stream;
#[cfg(test)]
mod tests;
mod timestamp;
mod write;

pub use error::{Error, ErrorKind};
pub use write::{scalar, to_yaml};

use build::Builder;
use json::JsonEvents;
use reader::YamlEvents;
use stream::{Source, Stream};

use crate::value::{Document, Position, Value};

/// How a text is read.
#[derive(Clone, Debug)]
pub struct Options {
    /// Refuse keys that are set twice, be it through `<<`, and a second document. Else the last key wins and only the
    /// first document is read.
    pub strict: bool,
    /// Read a text that starts with `{` and is JSON as JSON, as kubectl does with files.
    pub json: bool,
    /// How much a text may hold.
    pub limits: Limits,
}

/// How much a text may hold.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Its length, and as much again in copies of text that aliases make.
    pub bytes: usize,
    /// How many values, counting each time an alias or `<<` repeats one. Keys don't count.
    pub nodes: usize,
    /// How deep lists and objects may stand in each other, aliases followed.
    pub depth: usize,
}

/// What was read.
#[derive(Clone, Debug)]
pub struct Parsed {
    /// The value, and where each part of it stands.
    pub document: Document,
    /// What kubectl reads in another way than some people would.
    pub remarks: Vec<Remark>,
}

/// A scalar without quotes that isn't read as what stands there: `on` is true, `1.20` is 1.2, `0644` is 420.
#[derive(Clone, Debug, PartialEq)]
pub struct Remark {
    /// Where it stands.
    pub at: Position,
    /// Whether it is a key; then its text is what `read_as` prints.
    pub key: bool,
    /// How it is written.
    pub written: String,
    /// What kubectl reads.
    pub read_as: Value<'static>,
}

impl Options {
    /// For layers and step patches: strict, and bounded far above any patch for a pod, of which the largest that
    /// a ConfigMap can hold is 1 MiB long.
    pub const LAYER: Self =
        Self { strict: true, json: true, limits: Limits { bytes: 1 << 20, nodes: 20_000, depth: 64 } };

    /// As `kubectl` itself reads a document, with go-yaml's own limits: 10,000 lists and objects deep in block style
    /// and as many in flow style within, and not too much by aliases.
    ///
    /// Reading needs no stack for that depth, but a [`Value`] does to be dropped, copied or printed: 64 MiB are plenty.
    pub const KUBECTL: Self =
        Self { strict: false, json: false, limits: Limits { bytes: usize::MAX, nodes: usize::MAX, depth: 20_000 } };
}

/// Reads a text.
///
/// # Errors
/// [`Error`] with the place: for what kubectl refuses, for what passes a limit, and in strict mode for what kubectl's
/// strict mode refuses.
pub fn parse(text: &str, options: &Options) -> Result<Parsed, Error> {
    let limit = options.limits.bytes;
    if text.len() > limit {
        return Err(ErrorKind::TooLarge { limit }.at(Position::START));
    }
    let json = if options.json { JsonEvents::of(text) } else { None };
    let source = match json {
        Some(events) => Source::Json(events),
        None => Source::Yaml(Box::new(YamlEvents::of(text)?)),
    };
    Builder::new(Stream::new(source), options).build()
}
