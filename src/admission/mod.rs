//! From the bytes of an AdmissionReview to the answer.
//!
//! ```text
//! bytes ─review::parse─▶ Request ─decide─▶ Decision ─response─▶ bytes
//!                                   │
//!              object (metadata's few fields and the spec) → default container
//!              → passes over the stack until nothing changes → checks → stamp → diff
//! ```
//! [`decide`] is pure: no clock, no I/O, no API. Webhook, command line, tests and benches call the same function. Only
//! [`handler`] is asynchronous.

mod decide;
mod default_container;
pub mod handler;
mod job;
mod judge;
mod layer_check;
mod object;
mod passes;
mod policy;
mod protect;
mod provenance;
mod response;
pub mod review;
mod stamp;
mod system;

pub use decide::{Decision, Skip, Trace, Verdict, decide, decide_pod, trace};
pub use judge::Denial;
pub use layer_check::check_layer;
pub use object::{ObjectError, Pod, Template};
pub use policy::{Mutate, OnStepError, Policy, Provenance};
pub use response::{respond, unreadable};
pub use review::{Request, ReviewError};
