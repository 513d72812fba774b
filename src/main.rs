//! The podlayer program.
fn main() {}
