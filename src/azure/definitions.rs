//! A call for the agents that there can be: the images that a pipeline may choose among.

use serde_json::{Value, json};

use super::reply::Reply;
use crate::{
    names,
    pool::api::{AgentPool, PoolImage},
};

/// Answers a call for all, or for the one of this name.
pub(super) fn definitions(pool: &AgentPool, name: Option<&str>) -> Reply {
    let images = pool.spec.azure.as_ref().map(|azure| azure.images.as_slice()).unwrap_or_default();
    let (space, pool) = pool.key();
    let shown = |image: &PoolImage| {
        let url = format!("{}/{space}/{pool}{}/{}", names::PATH_POOLS, names::PATH_DEFINITIONS, image.name);
        json!({"identifier": image.name, "url": url, "data": {"image": image.name}})
    };
    match name {
        None => {
            let all: Vec<Value> = images.iter().map(shown).collect();
            Reply::told(json!({"count": all.len(), "value": all}))
        }
        Some(name) => {
            let found = images.iter().find(|image| image.name == name);
            found.map_or_else(Reply::unknown_definition, |image| Reply::told(shown(image)))
        }
    }
}
