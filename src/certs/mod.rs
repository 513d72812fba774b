//! Certificates: what the webhook serves and where it comes from.
//!
//! Either from two mounted files ([`files`]: cert-manager's or anybody's Secret), or made by podlayer itself
//! ([`managed`]), which has these parts:
//!
//! ```text
//! cluster::CaSecret ─────────── bundle      what the Secret holds: current, next, previous
//! cluster::WebhookConfiguration             whose caBundle is the union of these
//!          └── managed (the only I/O) ◀──── plan        what to do next: pure, knows no clock
//!                     └── authority, lifetimes          CA and leaves, and how long they last
//! ```

pub mod authority;
pub mod bundle;
pub mod clients;
pub mod dev;
pub mod expiry;
pub mod files;
pub mod lifetimes;
pub mod managed;
pub mod plan;
pub mod serving;
