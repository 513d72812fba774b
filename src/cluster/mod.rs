//! The API server, as podlayer uses it: nothing here runs while a pod is being decided.

mod client;
mod events;
mod last_good;
mod openapi;
mod watch;

pub use client::{ClientError, client};
pub use watch::{Layers, Watched, watch_layers};
