//! Guard rails: what a step may change, every way around them that is known, and that no made-up step gains privileges.

#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used, reason = "a test stops at the first surprise")]

mod bypasses;
mod gains;
mod layers_only;
mod put_back;
mod rules;
mod support;
