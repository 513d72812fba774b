//! The answer to the API server: what changed in a pod, as an RFC 6902 patch that is as small as it can be told simply.
//!
//! Lists are compared item by item by their merge key, so that a container put in front of the others is one `add`, and
//! only what differs is named: whatever nobody changed can't be hurt, not even a field that this build doesn't know.
//! Nothing but `add`, `remove` and `replace` is used, each on a path that is there, since those mean the same to every
//! API server. [`verify`] proves each patch on the pod before it is sent.

mod apply;
mod compare;
mod list;
mod operation;

pub use apply::{ApplyError, VerifyError, apply, verify};
pub use compare::diff;
pub use operation::{Op, Operation, to_json};

#[cfg(test)]
mod tests;
