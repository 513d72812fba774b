//! podlayer: layers for CI job pods, at admission.

pub mod schema;
pub mod value;
