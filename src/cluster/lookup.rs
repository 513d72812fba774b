//! What a person's question needs from the API server, fetched once.

use k8s_openapi::api::{
    batch::v1::Job,
    core::v1::{ConfigMap, Event, Pod},
};
use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject, ListParams},
};
use serde_json::Value as Json;

use super::watch::source_of;
use crate::{
    layers::{Book, Snapshot, SnapshotError},
    names,
};

/// How many objects are asked for in one call: what kubectl asks for.
const PAGE: u32 = 500;

/// Why the cluster gave no answer.
#[derive(Debug, thiserror::Error)]
pub enum LookupError {
    /// An object can't be read from the API server.
    #[error("failed to get {what}")]
    Get {
        /// `pod ci/build-1`.
        what: String,
        /// Why.
        source: Box<kube::Error>,
    },
    /// The object came back in a form that isn't JSON.
    #[error("failed to read {what}")]
    Read {
        /// As above.
        what: String,
        /// Why.
        source: serde_json::Error,
    },
    /// The layers don't fit together.
    #[error("failed to put the layers together")]
    Layers(#[source] SnapshotError),
}

fn get(what: String) -> impl FnOnce(kube::Error) -> LookupError {
    move |source| LookupError::Get { what, source: Box::new(source) }
}

fn json(what: &str, object: &DynamicObject) -> Result<Json, LookupError> {
    serde_json::to_value(object).map_err(|source| LookupError::Read { what: what.to_owned(), source })
}

/// The layers of the cluster as they are now, and what is wrong with those that can't be read.
///
/// # Errors
/// [`LookupError`] where a namespace's ConfigMaps can't be listed.
pub async fn layers(
    client: &Client,
    own_namespace: &str,
    layer_namespaces: &[String],
) -> Result<(Snapshot, Vec<String>), LookupError> {
    let mut book = Book::new(own_namespace);
    let mut problems = Vec::new();
    let others = layer_namespaces.iter().map(String::as_str).filter(|namespace| *namespace != own_namespace);
    for namespace in [own_namespace].into_iter().chain(others) {
        let api: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
        let list = api.list(&ListParams::default().labels(names::LAYER)).await;
        for config_map in list.map_err(get(format!("the layers of namespace {namespace}")))? {
            if let Err(error) = book.put(source_of(config_map)) {
                problems.push(error.to_string());
            }
        }
    }
    Ok((book.snapshot().map_err(LookupError::Layers)?, problems))
}

/// A pod as the API server has it, with every field.
///
/// # Errors
/// [`LookupError`].
pub async fn pod(client: &Client, namespace: &str, name: &str) -> Result<Json, LookupError> {
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &ApiResource::erase::<Pod>(&()));
    let what = format!("pod {namespace}/{name}");
    let object = api.get(name).await.map_err(get(what.clone()))?;
    json(&what, &object)
}

/// A Job as the API server has it, with every field.
///
/// # Errors
/// [`LookupError`].
pub async fn job(client: &Client, namespace: &str, name: &str) -> Result<Json, LookupError> {
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &ApiResource::erase::<Job>(&()));
    let what = format!("job {namespace}/{name}");
    let object = api.get(name).await.map_err(get(what.clone()))?;
    json(&what, &object)
}

/// The newest Jobs, and pods that no Job made, of a namespace or of all.
///
/// # Errors
/// [`LookupError`].
pub async fn recent(client: &Client, namespace: Option<&str>, most: usize) -> Result<Vec<Json>, LookupError> {
    let (jobs, pods) = (ApiResource::erase::<Job>(&()), ApiResource::erase::<Pod>(&()));
    let mut found = Vec::new();
    for resource in [jobs, pods] {
        let api: Api<DynamicObject> = match namespace {
            Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
            None => Api::all_with(client.clone(), &resource),
        };
        let mut params = ListParams::default().limit(PAGE);
        loop {
            let list = api.list(&params).await.map_err(get(format!("the {}", resource.plural)))?;
            for mut object in list.items {
                let owners = object.metadata.owner_references.iter().flatten();
                let made = owners.into_iter().any(|owner| owner.controller == Some(true) && owner.kind == "Job");
                if made && resource.kind == "Pod" {
                    continue;
                }
                object.types = Some(kube::api::TypeMeta {
                    api_version: resource.api_version.clone(),
                    kind: resource.kind.clone(),
                });
                let at = object.metadata.creation_timestamp.as_ref().map(|time| time.0);
                found.push((at, json(&resource.kind, &object)?));
            }
            match list.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => params = params.continue_token(&token),
                None => break,
            }
        }
    }
    found.sort_by(|(a, _), (b, _)| b.cmp(a));
    Ok(found.into_iter().take(most).map(|(_, object)| object).collect())
}

/// What the cluster has on record of a Job's pods that were refused, newest first, each text once.
///
/// # Errors
/// [`LookupError`].
pub async fn refusals(client: &Client, namespace: &str, job: &str) -> Result<Vec<String>, LookupError> {
    let api: Api<Event> = Api::namespaced(client.clone(), namespace);
    let selector = format!("involvedObject.kind=Job,involvedObject.name={job},reason=FailedCreate");
    let list = api.list(&ListParams::default().fields(&selector)).await;
    let mut events = list.map_err(get(format!("the events of job {namespace}/{job}")))?.items;
    events.sort_by(|a, b| b.last_timestamp.cmp(&a.last_timestamp));
    let mut texts = Vec::new();
    for text in events.into_iter().filter_map(|event| event.message) {
        if !texts.contains(&text) {
            texts.push(text);
        }
    }
    Ok(texts)
}
