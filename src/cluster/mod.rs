//! The API server, as podlayer uses it: nothing here runs while a pod is being decided.

mod client;
mod events;
mod last_good;
mod lookup;
mod objects;
mod openapi;
mod secret;
mod watch;
mod webhook_configuration;

pub use client::{ClientError, client};
pub use events::event_note;
pub use lookup::{LookupError, job, layers, pod, recent, refusals};
pub use objects::{if_still, ignore_gone, is_over_quota, is_owned_by};
pub use secret::{HeldSecret, NamedSecret, SecretError, Written};
pub use watch::{Layers, Watched, watch_layers};
pub use webhook_configuration::{ConfigurationError, HeldConfiguration, WebhookConfiguration};
