//! Pools: the right number of agents, or of headroom, for the job pods of a namespace.
//!
//! ```text
//! AgentPools ─┐                                                       ┌─▶ pods: create, drain, delete
//! pods ───────┼─ world ─ observe ─▶ core: expectations, size ─▶ task ─┼─▶ status, events, metrics
//! nodes ──────┘            shape ◀─ layers, admission::decide         └─▶ children: budget, BuildKit
//! ```
//! [`size`] decides, and is pure; [`core`] adds what is under way to it; both know no API server. One task for each pool
//! does what they say, while this process is the leader.

pub mod api;
pub mod children;
mod controller;
pub mod core;
pub mod demand;
mod expectations;
mod follow;
mod lease;
pub mod observe;
pub mod report;
pub mod shape;
pub mod size;
mod task;
mod world;

pub use api::Key;
pub use controller::run;
pub use lease::{Leadership, LeaseError};
pub use shape::Placeholders;
pub use task::Shared;
pub use world::{Source, World};
