//! What is made for an agent is called by a name that follows from the pool and the agent, so that a repeated call finds
//! it, and two replicas that make it make one.

use kube::Resource;

use super::AgentKey;
use crate::pool::api::AgentPool;

/// The pod and the Secret of an agent: at most 60 characters, for pools have names of 40.
pub(super) fn agent(pool: &AgentPool, key: AgentKey) -> String {
    format!("{}-az-{key}", name(pool))
}

/// The agent that a pod or Secret of this pool is named for.
pub(super) fn key_of(pool: &AgentPool, object: &str) -> Option<AgentKey> {
    object.strip_prefix(name(pool))?.strip_prefix("-az-")?.parse().ok()
}

/// The Lease that holds the ledger.
pub(super) fn ledger(pool: &AgentPool) -> String {
    format!("{}-azure", name(pool))
}

fn name(pool: &AgentPool) -> &str {
    pool.meta().name.as_deref().unwrap_or_default()
}
