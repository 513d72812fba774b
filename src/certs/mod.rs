//! Certificates: what the webhook serves and where it comes from.

pub mod clients;
pub mod dev;
pub mod expiry;
pub mod files;
pub mod serving;
