//! The API server, as podlayer uses it: nothing here runs while a pod is being decided.

mod client;
mod watch;

pub use client::{ClientError, client};
pub use watch::{Watched, watch_layers};
