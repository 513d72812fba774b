#![allow(unreachable_pub, reason = "the derive of the schema copies the structs into functions")]

use std::time::Duration;

use kube::KubeSchema;
use serde::{Deserialize, Serialize};

use super::PoolImage;
use crate::names;

/// Azure Pipelines asks for the pool's agents, one for each job, and says when each may go. `podlayer azure serve` answers
/// it; the controller makes no agents of its own in such a pool.
#[derive(Clone, Debug, Default, Deserialize, Eq, KubeSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("!has(self.defaultImage) || (has(self.images) && self.images.exists(i, i.name == self.defaultImage))").message("azure.defaultImage is the name of none of azure.images")
)]
pub struct Azure {
    /// The Secret, in the pool's namespace, that holds what Azure Pipelines signs its calls with. One of its own for each
    /// pool: a signature says nothing of where a call was meant for.
    #[schemars(length(min = 1, max = 253))]
    pub secret_name: String,
    /// Its keys that are accepted; two while the secret is being changed. Left out: VSTS_SECRET.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 2), inner(length(min = 1, max = 253)))]
    #[schemars(extend("x-kubernetes-list-type" = "set"))]
    pub secret_keys: Vec<String>,
    /// What a pipeline may choose among by name: `pool: {name: …, image: NAME}`. Left out: the template's image only.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub images: Vec<PoolImage>,
    /// The name of the image for pipelines that choose none. Left out: the first.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub default_image: Option<String>,
    /// The template's container that is the agent. Left out: the first.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub container: Option<String>,
    /// The only account (organisation) whose calls are taken, by its id. Left out: any that signs with the secret.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 256))]
    pub account_id: Option<String>,
    /// The only pool of Azure Pipelines whose calls are taken, by its name or id as Azure sends it. Left out: any.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 256))]
    pub agent_pool: Option<String>,
    /// How long an agent may live, so that one whose release never comes doesn't stay. Left out: 86400; 0: no bound.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 2592000))]
    pub lifetime_seconds: Option<i32>,
}

impl Azure {
    /// The largest pool that Azure Pipelines may fill: what is written of each agent fits into one object.
    pub const MAX: i32 = 2000;

    /// The keys of the Secret that are accepted.
    pub fn keys(&self) -> Vec<&str> {
        if self.secret_keys.is_empty() {
            return vec![names::AZURE_SECRET_KEY];
        }
        self.secret_keys.iter().map(String::as_str).collect()
    }

    /// The image for pipelines that choose none; `None` is the template's own.
    pub fn default_image(&self) -> Option<&PoolImage> {
        match &self.default_image {
            Some(name) => self.images.iter().find(|image| image.name == *name),
            None => self.images.first(),
        }
    }

    /// How long an agent may live, where that is bounded.
    pub fn lifetime(&self) -> Option<Duration> {
        let seconds = self.lifetime_seconds.map_or(86_400, |seconds| u64::try_from(seconds).unwrap_or(0));
        (seconds > 0).then(|| Duration::from_secs(seconds))
    }
}
