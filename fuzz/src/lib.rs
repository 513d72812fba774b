//! What the fuzz targets share: seeds from the recorded cases, mutations that keep JSON whole, right answers to compare with.

pub mod answers;
pub mod corpus;
mod mutate;
pub mod pods;

pub use mutate::mutate;
