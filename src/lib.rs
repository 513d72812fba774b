//! podlayer gives labelled CI job pods their layers at admission.
//!
//! ```text
//! AdmissionReview bytes
//!  → admission::review      uid first, so that every later failure can be answered; the object stays raw JSON
//!  → admission::object      labels, annotations, spec: all that is read of a pod
//!  → layers::Snapshot       the stack for this pod: defaults, namespace defaults, classes, step patch
//!  → admission::passes      for each layer: targets → merge → finalise, again until nothing changes
//!  → admission::decide      checks, stamp, trail
//!  → diff                   keyed minimal RFC 6902 patch, proved before it is sent
//!  → admission::response    the only place that knows allowed, denied, code, warnings
//! ```
//!
//! Everything above `admission::handler` is pure: no clock, no I/O, no API call. The modules depend on each other in
//! one direction only (`tests/arrows.rs` reads the `use` lines):
//!
//! value ← yaml ← schema ← merge ← diff ← presets ← layers ← admission; `server`, `certs`, `telemetry`, `cluster`
//! and `doctor` are the rim; `pool` sizes agents and headroom beside it; `azure` answers Azure
//! Pipelines; `cli` wires them.

pub mod admission;
pub mod azure;
pub mod certs;
pub mod cli;
pub mod cluster;
pub mod diff;
pub mod doctor;
pub mod explain;
pub mod guard;
pub mod import;
pub mod layers;
pub mod lint;
pub mod merge;
pub mod names;
pub mod pool;
pub mod presets;
pub mod schema;
pub mod server;
pub mod telemetry;
pub mod value;
pub mod yaml;
