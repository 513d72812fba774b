use serde::Serialize;

use super::{
    CallError, Client,
    api::{self, AgentCloud, List, Pool},
};

/// What was taken out.
#[derive(Debug, Default, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Unregistered {
    /// The pool, if there was one.
    pub pool: Option<i64>,
    /// The agent cloud, if there was one and no other pool is on it.
    pub agent_cloud: Option<i64>,
    /// Other pools on the agent cloud, which is therefore kept.
    pub kept_for: Vec<String>,
}

/// Why it is still there.
#[derive(Debug, thiserror::Error)]
pub enum UnregisterError {
    /// A call failed.
    #[error(transparent)]
    Call(#[from] CallError),
    /// The pool has agents that somebody installed.
    #[error("the pool {name} (id {id}) is on no agent cloud, so it isn't podlayer's to delete")]
    OtherPool {
        /// Its name.
        name: String,
        /// Its number.
        id: i64,
    },
}

/// Deletes the pool of this name and the agent cloud that it is on, or one of this name that has no pool.
///
/// # Errors
/// [`UnregisterError`]; what was deleted before it stays deleted.
pub async fn unregister(client: &Client, name: &str) -> Result<Unregistered, UnregisterError> {
    let pools: List<Pool> = client.get("list the pools", &api::pools()).await?;
    let clouds: List<AgentCloud> = client.get("list the agent clouds", &api::agent_clouds()).await?;
    let pool = pools.value.iter().find(|pool| api::is_named(&pool.name, name));
    let cloud = match pool {
        Some(Pool { agent_cloud_id: None, id, name, .. }) => {
            return Err(UnregisterError::OtherPool { name: name.clone(), id: *id });
        }
        Some(Pool { agent_cloud_id, .. }) => *agent_cloud_id,
        None => clouds.value.iter().find(|cloud| api::is_named(&cloud.name, name)).map(|cloud| cloud.agent_cloud_id),
    };
    let mut done = Unregistered::default();
    // The pool first: an agent cloud with a pool on it can't go.
    if let Some(pool) = pool {
        client.delete("delete the pool", &api::pool(pool.id)).await?;
        done.pool = Some(pool.id);
    }
    let is_other = |other: &&Pool| other.agent_cloud_id == cloud && Some(other.id) != done.pool;
    if let Some(cloud) = cloud {
        done.kept_for = pools.value.iter().filter(is_other).map(|pool| pool.name.clone()).collect();
        if done.kept_for.is_empty() {
            client.delete("delete the agent cloud", &api::agent_cloud(cloud)).await?;
            done.agent_cloud = Some(cloud);
        }
    }
    Ok(done)
}
