use serde::Serialize;

use super::{
    CallError, Client, Endpoints,
    api::{self, AgentCloud, List, NewAgentCloud, NewPool, NewSize, Pool},
};
use crate::azure::SharedSecret;

/// What is to be registered.
pub struct Registration {
    /// The pool's name in Azure DevOps, and the agent cloud's.
    pub name: String,
    /// Where it is called.
    pub endpoints: Endpoints,
    /// What its calls are signed with.
    pub shared_secret: SharedSecret,
    /// How many agents Azure DevOps asks for at once, at most.
    pub target_size: u32,
}

/// What there is now.
#[derive(Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Registered {
    /// The agent cloud.
    pub agent_cloud: Entry,
    /// The pool.
    pub pool: Entry,
    /// The pool's size.
    pub target_size: u32,
    /// The size that it had before, if that was another.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_size_before: Option<i64>,
}

/// An object in Azure DevOps.
#[derive(Debug, Eq, PartialEq, Serialize)]
pub struct Entry {
    /// Its number.
    pub id: i64,
    /// Its name.
    pub name: String,
    /// Whether it was made now; else it was found.
    pub made: bool,
}

/// Why it isn't registered.
#[derive(Debug, thiserror::Error)]
pub enum RegisterError {
    /// A call failed.
    #[error(transparent)]
    Call(#[from] CallError),
    /// There is an agent cloud of this name that is called elsewhere.
    #[error(
        "the agent cloud {name} is there with {field} {there}, not {wanted}: unregister it first, or register under another \
         name"
    )]
    OtherEndpoint {
        /// Its name.
        name: String,
        /// Which endpoint.
        field: &'static str,
        /// Where it is called.
        there: String,
        /// Where it should be.
        wanted: String,
    },
    /// There is a pool of this name that gets its agents elsewhere.
    #[error("there is a pool {name} (id {id}) that is no pool of this agent cloud: register under another name")]
    OtherPool {
        /// Its name.
        name: String,
        /// Its number.
        id: i64,
    },
}

/// Makes agent cloud and pool, as far as they aren't there. Run again, it finds what it made.
///
/// # Errors
/// [`RegisterError`]; what was made before it stays, and is found the next time.
pub async fn register(client: &Client, wanted: &Registration) -> Result<Registered, RegisterError> {
    let agent_cloud = agent_cloud(client, wanted).await?;
    let (pool, target_size_before) = pool(client, wanted, agent_cloud.id).await?;
    Ok(Registered { agent_cloud, pool, target_size: wanted.target_size, target_size_before })
}

async fn agent_cloud(client: &Client, wanted: &Registration) -> Result<Entry, RegisterError> {
    if let Some(found) = find_agent_cloud(client, wanted).await? {
        return Ok(found);
    }
    let endpoints = &wanted.endpoints;
    let new = NewAgentCloud {
        name: &wanted.name,
        kind: "Ignore",
        acquire_agent_endpoint: &endpoints.acquire,
        release_agent_endpoint: &endpoints.release,
        get_agent_request_status_endpoint: endpoints.status.as_deref(),
        get_agent_definition_endpoint: endpoints.definitions.as_deref(),
        get_account_parallelism_endpoint: endpoints.parallelism.as_deref(),
        shared_secret: wanted.shared_secret.text(),
    };
    match client
        .post::<AgentCloud>("register the agent cloud", &api::agent_clouds(), &new, Some(&wanted.shared_secret))
        .await
    {
        Ok(made) => Ok(Entry { id: made.agent_cloud_id, name: wanted.name.clone(), made: true }),
        // Somebody did the same at the same time.
        Err(error) if error.is_conflict() => Ok(find_agent_cloud(client, wanted).await?.ok_or(error)?),
        Err(error) => Err(error.into()),
    }
}

async fn find_agent_cloud(client: &Client, wanted: &Registration) -> Result<Option<Entry>, RegisterError> {
    let all: List<AgentCloud> = client.get("list the agent clouds", &api::agent_clouds()).await?;
    let Some(found) = all.value.into_iter().find(|cloud| api::is_named(&cloud.name, &wanted.name)) else {
        return Ok(None);
    };
    if let Some((field, there, wanted)) = found.difference(&wanted.endpoints) {
        let (name, there, wanted) = (found.name.clone(), there.to_owned(), wanted.to_owned());
        return Err(RegisterError::OtherEndpoint { name, field, there, wanted });
    }
    Ok(Some(Entry { id: found.agent_cloud_id, name: found.name, made: false }))
}

async fn pool(client: &Client, wanted: &Registration, cloud: i64) -> Result<(Entry, Option<i64>), RegisterError> {
    if let Some(found) = find_pool(client, wanted, cloud).await? {
        return Ok(found);
    }
    let new = NewPool { name: &wanted.name, agent_cloud_id: cloud, target_size: wanted.target_size };
    match client.post::<Pool>("make the pool", &api::pools(), &new, None).await {
        Ok(made) => Ok((Entry { id: made.id, name: wanted.name.clone(), made: true }, None)),
        Err(error) if error.is_conflict() => Ok(find_pool(client, wanted, cloud).await?.ok_or(error)?),
        Err(error) => Err(error.into()),
    }
}

async fn find_pool(
    client: &Client,
    wanted: &Registration,
    cloud: i64,
) -> Result<Option<(Entry, Option<i64>)>, RegisterError> {
    let all: List<Pool> = client.get("list the pools", &api::pools()).await?;
    let Some(found) = all.value.into_iter().find(|pool| api::is_named(&pool.name, &wanted.name)) else {
        return Ok(None);
    };
    if found.agent_cloud_id != Some(cloud) {
        return Err(RegisterError::OtherPool { name: found.name, id: found.id });
    }
    let before = found.target_size.filter(|&there| there != i64::from(wanted.target_size));
    if found.target_size != Some(wanted.target_size.into()) {
        let size = NewSize { target_size: wanted.target_size };
        client.patch("change the pool's target size", &api::pool(found.id), &size).await?;
    }
    Ok(Some((Entry { id: found.id, name: found.name, made: false }, before)))
}
