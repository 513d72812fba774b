//! Where a pool's ledger is kept: an annotation of a Lease of the pool's. A Lease, for the right to change Leases of a
//! namespace gives nobody anything; the right to change its ConfigMaps may give layers.

use std::collections::BTreeMap;

use k8s_openapi::api::coordination::v1::Lease;
use kube::{
    Api, Client, Resource,
    api::{ObjectMeta, PostParams},
};

use super::{
    ledger::{Ledger, Unreadable},
    object_names,
};
use crate::{
    cluster::{if_still, ignore_gone, is_owned_by},
    names,
    pool::api::AgentPool,
};

/// A ledger as it was read.
#[derive(Clone, Debug, Default)]
pub(super) struct Held {
    pub(super) ledger: Ledger,
    /// Of the Lease; `None` if there is none yet.
    version: Option<String>,
}

/// Why a ledger can't be read or written.
#[derive(Debug, thiserror::Error)]
pub(super) enum StoreError {
    /// The API server refused or wasn't reached.
    #[error("failed to {verb} the Lease {name}")]
    Api {
        verb: &'static str,
        name: String,
        #[source]
        source: kube::Error,
    },
    /// Somebody else has changed it since it was read.
    #[error("the Lease {0} was changed meanwhile")]
    Outdated(String),
    /// Its text isn't ours.
    #[error("the annotation {annotation} of the Lease {name} can't be read; delete the Lease, it is made anew from the pods", annotation = names::AZURE_AGENTS)]
    Unreadable {
        name: String,
        #[source]
        source: Unreadable,
    },
}

/// Reads a pool's ledger, from etcd and not from a cache of the API server's.
pub(super) async fn read(client: &Client, pool: &AgentPool) -> Result<Held, StoreError> {
    let (api, name) = lease(client, pool);
    let failed = |verb| move |source| StoreError::Api { verb, name: object_names::ledger(pool), source };
    let Some(found) = api.get_opt(&name).await.map_err(failed("get"))? else { return Ok(Held::default()) };
    if !is_owned_by(&found.metadata, pool.meta().uid.as_deref()) {
        // Of a pool of that name that is gone; the garbage collector would take it away under us.
        ignore_gone(api.delete(&name, &if_still(found.metadata.uid)).await).map_err(failed("delete"))?;
        return Ok(Held::default());
    }
    let text = found.metadata.annotations.as_ref().and_then(|all| all.get(names::AZURE_AGENTS));
    let ledger = text.map(|text| text.parse()).transpose();
    let ledger = ledger.map_err(|source| StoreError::Unreadable { name, source })?.unwrap_or_default();
    Ok(Held { ledger, version: found.metadata.resource_version })
}

/// Writes a ledger, if the one that it was made from is still there.
pub(super) async fn write(client: &Client, pool: &AgentPool, held: &Held, ledger: &Ledger) -> Result<(), StoreError> {
    let (api, name) = lease(client, pool);
    let object = Lease {
        metadata: ObjectMeta {
            name: Some(name.clone()),
            annotations: Some(BTreeMap::from([(names::AZURE_AGENTS.to_owned(), ledger.to_string())])),
            labels: Some(BTreeMap::from([(names::POOL.to_owned(), pool.meta().name.clone().unwrap_or_default())])),
            owner_references: Some(pool.controller_owner_ref(&()).into_iter().collect()),
            resource_version: held.version.clone(),
            ..ObjectMeta::default()
        },
        ..Lease::default()
    };
    let params = PostParams { field_manager: Some(names::FIELD_MANAGER_AZURE.into()), ..PostParams::default() };
    let (verb, written) = match held.version {
        None => ("create", api.create(&params, &object).await),
        Some(_) => ("update", api.replace(&name, &params, &object).await),
    };
    match written {
        Ok(_) => Ok(()),
        // 404: it was deleted since.
        Err(kube::Error::Api(status)) if status.code == 409 || (status.code == 404 && held.version.is_some()) => {
            Err(StoreError::Outdated(name))
        }
        Err(source) => Err(StoreError::Api { verb, name, source }),
    }
}

fn lease(client: &Client, pool: &AgentPool) -> (Api<Lease>, String) {
    let namespace = pool.meta().namespace.as_deref().unwrap_or_default();
    (Api::namespaced(client.clone(), namespace), object_names::ledger(pool))
}
