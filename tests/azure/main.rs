//! Agents for Azure Pipelines on a real API server and scheduler, with nodes that kwok plays: a caller written from the
//! protocol's description signs, retries, replays and comes too late; the real `podlayer azure serve` answers.
//!
//! One control plane serves all tests of this file; each has its own namespaces and its own replicas.

#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used, reason = "a test stops at the first surprise")]

#[path = "../support/controlplane.rs"]
mod controlplane;
#[path = "../support/kwok.rs"]
mod kwok;
#[path = "../support/podlayer.rs"]
mod podlayer;

mod calls;
mod crowd;
mod definition;
mod layers;
mod mend;
mod older;
mod properties;
mod replay;
mod rights;
mod rotation;
mod sized;
mod support;
