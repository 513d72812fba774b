//! Pools on a real API server and scheduler, with nodes that kwok plays: what is shown is what is decided, scheduled and
//! written, not how long nodes or images take.
//!
//! One control plane serves all tests of this file; each has its own namespaces and its own controllers.

#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used, reason = "a test stops at the first surprise")]

#[path = "../support/controlplane.rs"]
mod controlplane;
#[path = "../support/kwok.rs"]
mod kwok;
#[path = "../support/pools/mod.rs"]
mod pools;

mod agents;
mod definition;
mod demand;
mod events;
mod headroom;
mod hpa;
mod leaders;
mod metrics;
mod queue;
mod rights;
mod schedules;
mod soak;
mod support;
mod way;
