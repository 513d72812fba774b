//! Serves a [`Router`](axum::Router) that it is handed: over HTTPS to API servers, over plain HTTP to probes and scrapers.
//!
//! What a handler may rely on: its request has a whole body within the limit; its panic is answered and counted; it runs
//! beside a bounded number of others. What a caller may rely on: no call is lost while this process stops, and no other
//! caller's connections, bytes or calls can use up more than half of what there is.
//!
//! ```text
//! listener ── accepts, counts, drains ─┬─ connection ── handshake, HTTP/1.1, clock ── gate ── handler
//!   (one task)                         └─ (a task each, all in one set)                 │
//!                                                             body, content type, caps ─┘
//! ```

pub mod admin;
pub mod drain;
pub mod health;
pub mod limits;
pub mod listener;
pub mod tls;

mod budget;
mod clock;
mod connection;
mod deadline;
mod gate;
mod refusal;
mod wire;

pub use admin::serve_admin;
pub use drain::Drain;
pub use gate::{Arrived, with_fallbacks};
pub use health::{Condition, Readiness};
pub use limits::Limits;
pub use listener::{ServeError, bind, serve, serve_plain};
pub use tls::{server_config, server_config_for_known};
