//! What a Pod may hold: field names, types, quantities, and which list merges by which key.

mod check;
pub mod defaults;
mod directives;
mod finding;
pub mod graph;
mod nearest;
mod place;
mod quantity;
mod scalar;
mod text;

pub use check::{CheckOptions, check};
pub use finding::{FieldFault, Finding, FindingKind, Suggestion, Wanted};
pub use graph::{Field, Form, Graph, POD, Struct, Type, TypeId};
pub use nearest::nearest;
pub use quantity::{Quantity, QuantityError};
