//! What is sent and read: the REST objects of agent clouds and pools, as far as they are needed.

use serde::{Deserialize, Serialize};

use super::Endpoints;

/// The version that the original set-up asked for; it is a preview.
const VERSION: &str = "api-version=5.0-preview";

/// Of the list of agent clouds, and where one is made.
pub(super) fn agent_clouds() -> String {
    format!("/_apis/distributedtask/agentclouds?{VERSION}")
}

/// Of one agent cloud.
pub(super) fn agent_cloud(id: i64) -> String {
    format!("/_apis/distributedtask/agentclouds/{id}?{VERSION}")
}

/// Of the list of pools, and where one is made.
pub(super) fn pools() -> String {
    format!("/_apis/distributedtask/pools?{VERSION}")
}

/// Of one pool.
pub(super) fn pool(id: i64) -> String {
    format!("/_apis/distributedtask/pools/{id}?{VERSION}")
}

/// A list, as the service wraps it.
#[derive(Debug, Deserialize)]
pub(super) struct List<T> {
    pub(super) value: Vec<T>,
}

/// An agent cloud that is there. Its secret is never told.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct AgentCloud {
    pub(super) agent_cloud_id: i64,
    #[serde(default)]
    pub(super) name: String,
    pub(super) acquire_agent_endpoint: Option<String>,
    pub(super) release_agent_endpoint: Option<String>,
    pub(super) get_agent_request_status_endpoint: Option<String>,
    pub(super) get_agent_definition_endpoint: Option<String>,
    pub(super) get_account_parallelism_endpoint: Option<String>,
}

/// An agent cloud to make. No `Debug`: it holds the secret.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct NewAgentCloud<'a> {
    pub(super) name: &'a str,
    #[serde(rename = "type")]
    pub(super) kind: &'static str,
    pub(super) acquire_agent_endpoint: &'a str,
    pub(super) release_agent_endpoint: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) get_agent_request_status_endpoint: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) get_agent_definition_endpoint: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) get_account_parallelism_endpoint: Option<&'a str>,
    pub(super) shared_secret: &'a str,
}

/// A pool that is there.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Pool {
    pub(super) id: i64,
    #[serde(default)]
    pub(super) name: String,
    /// None for a pool of agents that somebody installs.
    pub(super) agent_cloud_id: Option<i64>,
    pub(super) target_size: Option<i64>,
}

/// A pool to make.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct NewPool<'a> {
    pub(super) name: &'a str,
    pub(super) agent_cloud_id: i64,
    pub(super) target_size: u32,
}

/// Another size for a pool.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct NewSize {
    pub(super) target_size: u32,
}

impl AgentCloud {
    /// The first endpoint that isn't as wanted: its field, what is there, what is wanted. One that is there and that
    /// nobody asked for now is no difference.
    pub(super) fn difference<'a>(&'a self, wanted: &'a Endpoints) -> Option<(&'static str, &'a str, &'a str)> {
        let pairs = [
            ("acquireAgentEndpoint", &self.acquire_agent_endpoint, Some(&wanted.acquire)),
            ("releaseAgentEndpoint", &self.release_agent_endpoint, Some(&wanted.release)),
            ("getAgentRequestStatusEndpoint", &self.get_agent_request_status_endpoint, wanted.status.as_ref()),
            ("getAgentDefinitionEndpoint", &self.get_agent_definition_endpoint, wanted.definitions.as_ref()),
            ("getAccountParallelismEndpoint", &self.get_account_parallelism_endpoint, wanted.parallelism.as_ref()),
        ];
        pairs.into_iter().find_map(|(field, there, wanted)| {
            let (there, wanted) = (there.as_deref().unwrap_or("none"), wanted?.as_str());
            (there != wanted).then_some((field, there, wanted))
        })
    }
}

/// Names of agent clouds and pools are compared without regard to case, as the service does.
pub(super) fn is_named(name: &str, wanted: &str) -> bool {
    name.to_lowercase() == wanted.to_lowercase()
}
