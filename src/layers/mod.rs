//! Layers: what admins write in ConfigMaps and steps in an annotation, parsed once into something that can be applied
//! without surprises.
//!
//! ```text
//! LayerSource ─parse─▶ Layer ─┐
//! (ConfigMap, file)           ├─▶ Snapshot ─resolve(facts)─▶ the stack for one pod, in order
//! LayerSource ─parse─▶ Layer ─┘
//! annotation  ─parse_step─▶ Layer (the last of the stack)
//! ```
//! There is one parser. The watch, the validating webhook and the command line call it, so that what was accepted is
//! what works.

mod book;
mod compact;
pub mod complaint;
mod fields;
pub mod fill;
pub mod last_good;
mod layer;
pub mod manifest;
mod metadata;
mod options;
mod parse;
pub mod patterns;
pub mod rules;
mod selector;
mod snapshot;
mod source;
pub mod targets;
pub mod trail;
pub mod unite;

pub use book::{Book, Standing, State};
pub use complaint::{Cause, Complaint, Forbidden, Place};
pub use layer::{Kind, Layer, LayerId};
pub use metadata::MetadataPatch;
pub use options::{AbsentContainers, Apply, Mode, Options};
pub use parse::{ParseError, Scope, parse, parse_bare, parse_step};
pub use rules::Rules;
pub use selector::{Facts, Selector};
pub use snapshot::{Snapshot, SnapshotError, Unresolved};
pub use source::LayerSource;
pub use unite::UnionList;

#[cfg(test)]
mod tests;
