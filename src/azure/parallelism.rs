//! A call for how many agents there can be.

use jiff::Timestamp;
use serde_json::json;

use super::{desk::max, reply::Reply};
use crate::pool::api::AgentPool;

/// Answers it. What is in the body (account and agent cloud) says nothing that the signature doesn't.
pub(super) fn parallelism(pool: &AgentPool) -> Reply {
    let parallelism = if pool.spec.is_paused() { 0 } else { max(pool, Timestamp::now()) };
    Reply::told(json!({"maxParallelism": parallelism}))
}
