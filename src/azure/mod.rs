//! Agents for Azure Pipelines: the calls by which it asks for one, and what they make; besides, how the endpoint is set up
//! ([`setup`]) and registered ([`registration`]).
//!
//! ```text
//! POST acquire ─ router ─ rate ─ signature ─ wire ─ bind ─▶ desk ── admitted ──▶ acquire: pod, look again, Secret
//! POST release ─────────────────────────────────────┘       │ ▲
//!                                                            ▼ │ one for each pool and replica
//!                                                   store ── ledger (pure): a Lease's annotation, changed only as it was read
//! ```
//! Replicas share no memory. All that one decides goes through the pool's ledger, and the API server lets one writer win;
//! so no two of them can together go over `max`, and what is released stays so. What a replica leaves half done when it
//! dies is finished by a retry of the call, or by the next look of any replica (`desk`).
//! The protocol is a private preview of its vendor's.

mod acquire;
mod bind;
mod callback;
mod definitions;
mod desk;
mod dns_name;
mod ledger;
mod object_names;
mod parallelism;
mod pod;
mod rate;
mod reap;
pub mod registration;
mod release;
mod reply;
mod router;
mod secret;
mod service;
pub mod setup;
mod shared_secret;
mod signature;
mod status;
mod store;
mod wire;

pub use callback::{CallbackError, Callbacks};
pub use dns_name::{DnsName, DnsNameError};
pub use ledger::{Admission, AgentKey, Ledger, Pods, Seen};
pub use router::{SERVES, router};
pub use service::{Service, Settings};
pub use shared_secret::{SharedSecret, SharedSecretError};
pub use signature::{SignatureError, sign, verify};
pub use wire::{Acquire, AgentRef, BadBody, Release};
