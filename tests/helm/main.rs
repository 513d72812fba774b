//! The chart and the manifests, with a real helm: what they render, and on a real API server what that does.
//!
//! What a chart makes is cluster-wide, so tests that install one take turns ([`helm::turn`]).

#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used, reason = "a test stops at the first surprise")]

#[path = "../support/controlplane.rs"]
mod controlplane;
#[path = "../support/crds.rs"]
mod crds;
mod helm;
#[path = "../support/helm.rs"]
mod helm_program;
#[path = "../support/kwok.rs"]
mod kwok;

mod azure;
mod conditions;
mod documents;
mod generated;
mod hooks;
mod ingress;
mod install;
mod manifests;
mod policies;
mod pools;
mod pools_render;
mod process;
mod render;
mod schema;
