//! What a Pod may hold: field names, types, quantities, and which list merges by which key.

mod check;
pub mod defaults;
mod directives;
mod finding;
mod fix;
pub mod graph;
mod json_schema;
mod nearest;
mod openapi;
mod place;
mod quantity;
mod scalar;
mod text;

pub use check::{CheckOptions, check};
pub use directives::is_written_anew;
pub use finding::{FieldFault, Finding, FindingKind, Suggestion, Wanted};
pub use graph::{Field, Form, Graph, POD, Struct, Type, TypeId, extend};
pub use json_schema::patch_definitions;
pub use nearest::nearest;
pub use openapi::OpenApiError;
pub use quantity::{Quantity, QuantityError};
pub(crate) use text::quoted;
