//! The API server, as podlayer uses it: nothing here runs while a pod is being decided.

mod client;
mod lookup;
mod watch;

pub use client::{ClientError, client};
pub use lookup::{LookupError, job, layers, pod, recent, refusals};
pub use watch::{Watched, watch_layers};
