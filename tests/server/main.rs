//! The servers over real sockets, through the public API only.

// A test may stop at the first surprise, in its helpers too.
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

mod admin;
mod callers;
mod canary;
mod certificates;
mod deadlines;
mod drain;
mod files;
mod limits;
mod memory;
mod program;
mod requests;
mod reviews;
mod support;
mod tls;
