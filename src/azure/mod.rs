//! Agents for Azure Pipelines: their endpoint's secret, its registration, its set-up.
//!
//! The protocol is a private preview of its vendor: registration may not be available to everyone.

mod dns_name;
pub mod registration;
pub mod setup;
mod shared_secret;

pub use dns_name::{DnsName, DnsNameError};
pub use shared_secret::{SharedSecret, SharedSecretError};
