//! Self-managed certificates on a real API server: the library through rotations in seconds, and the program with the
//! rights that it needs and no others. And cert-manager's in their place.

#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used, reason = "a test stops at the first surprise")]

#[path = "../support/controlplane.rs"]
mod controlplane;
#[path = "../support/load.rs"]
mod load;

mod cert_manager;
mod injector;
mod installation;
mod manifests;
mod process;
mod program;
mod rotation;
