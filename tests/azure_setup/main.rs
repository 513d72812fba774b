//! `podlayer azure setup`, `register` and `unregister` as their users run them: against an Azure DevOps written from the
//! description of its protocol, over real sockets, and against a real API server with the real helm.

#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used, reason = "a test stops at the first surprise")]

#[path = "../support/controlplane.rs"]
mod controlplane;
#[path = "../support/crds.rs"]
mod crds;
#[path = "../support/helm.rs"]
mod helm;
#[path = "../support/kwok.rs"]
mod kwok;

mod arguments;
mod devops;
mod failures;
mod installation;
mod page;
mod pat;
mod program;
mod register;
mod setup;
mod unregister;
