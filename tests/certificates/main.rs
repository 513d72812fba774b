//! Self-managed certificates on a real API server: the library through rotations in seconds, and the program with the
//! rights that it needs and no others.

#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used, reason = "a test stops at the first surprise")]

#[path = "../support/controlplane.rs"]
mod controlplane;

mod installation;
mod manifests;
mod program;
mod rotation;
