//! Guard rails: what a step patch, or a layer of a namespace that isn't trusted, may change; and who may give a pod
//! privileges.
//!
//! ```text
//! the pod before and after one layer ─changes─▶ changed leaves ─check (rules, cast)─▶ violations ─▶ denied, or put back
//! the pod with all its layers ─privileges─▶ what it has beyond any pod's ─▶ who gave it (LayersOnly, what a step gains)
//! ```

mod cast;
mod changes;
mod check;
mod privileges;
mod reach;
mod restore;

pub use changes::{Change, changes};
pub use check::{Scene, Violation, check};
pub use privileges::{Gained, Privilege, gained, is_privileged_annotation, privileges};
pub use restore::{clamp, put_back};

#[cfg(test)]
mod tests;
