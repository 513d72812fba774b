//! What a Pod may hold: field names, types, quantities, and which list merges by which key.

pub mod graph;

pub use graph::{Field, Form, Graph, POD, Struct, Type, TypeId};
