//! The whole way on a real API server: ConfigMaps and an annotation in, a patched pod out.
//!
//! One control plane serves all tests of this file; each has its own namespaces and its own webhook registration.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::expect_used,
    clippy::print_stderr,
    reason = "a test stops at the first surprise"
)]

#[path = "../support/controlplane.rs"]
mod controlplane;
#[path = "../support/podlayer.rs"]
mod podlayer;

mod api_server_away;
mod bad_steps;
mod client_certificates;
mod comutate;
mod default_container;
mod doctor;
mod examples_presets;
mod explain;
mod guard;
mod injectors;
mod last_good;
mod layers;
mod namespaces;
mod openapi;
mod presets;
mod server_defaults;
mod templates;
