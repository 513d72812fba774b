//! What holds for every pod and every stack of layers, tried on thousands of made-up ones.

#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used, reason = "a test stops at the first surprise")]

mod decide;
mod explain;
mod named;
mod parity;
mod stacks;
