//! Other systems' files → layers and pools, with what doesn't carry over.

mod agent_stack;
mod azure_pool;
mod convert;
mod kyverno;
mod parity;

use std::fmt::Write;

pub use agent_stack::agent_stack;
pub use azure_pool::{ImportedPools, azure_pool};
pub use convert::convert;
pub use kyverno::kyverno;
pub use parity::{Parity, parity};

use crate::{
    names,
    value::{Document, Map, Position, Value},
    yaml,
};

/// What became of a file.
#[derive(Debug, Default)]
pub struct Imported {
    /// The layers.
    pub layers: Vec<NewLayer>,
    /// What doesn't carry over, or works in another way, with its place in the file.
    pub remarks: Vec<(Position, String)>,
}

/// A layer to write down.
#[derive(Debug)]
pub struct NewLayer {
    /// The name of its ConfigMap.
    pub name: String,
    /// `default` or `class`.
    pub kind: &'static str,
    /// Its place.
    pub order: i64,
    /// `podSpecPatch`, `podMetadata`, `match` and `options`; those that are there.
    pub data: Vec<(&'static str, Value<'static>)>,
}

/// Why a file can't be taken over at all.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// It isn't YAML.
    #[error("{0}, {at}", at = .0.at())]
    Yaml(#[source] Box<yaml::Error>),
    /// It is something else.
    #[error("{text}{} {at}", if text.ends_with('?') { "" } else { "," })]
    Shape {
        /// What is wrong with it.
        text: String,
        /// Where.
        at: Position,
    },
}

impl Imported {
    fn remark(&mut self, at: Position, text: impl Into<String>) {
        self.remarks.push((at, text.into()));
    }

    /// The layers as manifests.
    pub fn to_yaml(&self, namespace: &str) -> String {
        let mut out = String::new();
        for layer in &self.layers {
            let _ = write!(
                out,
                "---\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {}\n  namespace: {namespace}\n  labels:\n    \
                 {}: {}\n    {}: \"{}\"\ndata:\n",
                layer.name,
                names::LAYER,
                layer.kind,
                names::ORDER,
                layer.order
            );
            for (key, value) in &layer.data {
                let _ = writeln!(out, "  {key}: |");
                yaml::to_yaml(value).lines().for_each(|line| _ = writeln!(out, "    {line}"));
            }
        }
        out
    }
}

fn read(text: &str) -> Result<Document, ImportError> {
    let options = yaml::Options { strict: false, ..yaml::Options::LAYER };
    yaml::parse(text, &options).map(|parsed| parsed.document).map_err(|error| ImportError::Yaml(Box::new(error)))
}

/// An object of some entries.
fn object<const N: usize>(entries: [(&str, Value<'static>); N]) -> Value<'static> {
    let mut map = Map::with_capacity(N);
    for (key, value) in entries {
        map.insert(key.to_owned(), value);
    }
    Value::Object(map)
}

/// The entries of an object, each with its place.
fn entries<'d>(
    value: &'d Value<'static>,
    marks: &'d crate::value::Marks,
) -> impl Iterator<Item = (&'d str, &'d Value<'static>, &'d crate::value::Marks)> {
    let map = value.as_object();
    map.into_iter()
        .flat_map(move |map| map.iter().zip(&marks.children).map(|((key, value), marks)| (key, value, marks)))
}

/// The name of a ConfigMap made out of any text.
fn config_map_name(text: &str) -> String {
    let lower = text.to_ascii_lowercase();
    let name: String = lower.chars().map(|c| if c.is_ascii_alphanumeric() || c == '.' { c } else { '-' }).collect();
    let name = name.trim_matches(['-', '.']).to_owned();
    if name.is_empty() { "layer".into() } else { name }
}
