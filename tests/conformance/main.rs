//! Equal to kubectl: every case with a known right answer, and made-up ones against the live Go libraries.

#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used, reason = "a test stops at the first surprise")]

use std::path::{Path, PathBuf};

mod generate;
mod live;
mod smp;
mod yaml;

#[path = "../support/controlplane.rs"]
mod controlplane;

/// A file or folder of the cases.
pub(crate) fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}
