//! One Secret, read and written as a whole: it is asked for by name and never listed, so that podlayer needs no right on
//! any other.

use std::collections::BTreeMap;

use k8s_openapi::{ByteString, api::core::v1::Secret};
use kube::{Api, Client, api::PostParams};

/// A Secret by its name.
#[derive(Clone, Debug)]
pub struct NamedSecret {
    api: Api<Secret>,
    namespace: String,
    name: String,
}

/// What a Secret held when it was read.
#[derive(Clone, Debug)]
pub struct HeldSecret(Secret);

/// Why a Secret can't be read or written.
#[derive(Debug, thiserror::Error)]
pub enum SecretError {
    /// It isn't there. podlayer doesn't make it: the right to create Secrets can't be limited to one name.
    #[error(
        "there is no Secret {namespace}/{name}; make an empty one: kubectl -n {namespace} create secret generic {name}"
    )]
    Missing {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
    },
    /// The API server refused or wasn't reached.
    #[error("failed to {verb} the Secret {namespace}/{name}")]
    Api {
        /// What was tried: `get` or `update`.
        verb: &'static str,
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
        /// Why.
        #[source]
        source: kube::Error,
    },
}

/// How a write ended that the API server has looked at.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Written {
    /// It is done.
    Done,
    /// Somebody else has changed the object since it was read; nothing was written.
    Outdated,
}

impl NamedSecret {
    /// The Secret of this name, which need not be there.
    pub fn new(client: &Client, namespace: &str, name: &str) -> Self {
        let api = Api::namespaced(client.clone(), namespace);
        Self { api, namespace: namespace.to_owned(), name: name.to_owned() }
    }

    /// Reads it, from etcd and not from a cache of the API server's.
    ///
    /// # Errors
    /// [`SecretError`], also when it isn't there.
    pub async fn read(&self) -> Result<HeldSecret, SecretError> {
        match self.api.get_opt(&self.name).await {
            Ok(Some(secret)) => Ok(HeldSecret(secret)),
            Ok(None) => Err(SecretError::Missing { namespace: self.namespace.clone(), name: self.name.clone() }),
            Err(source) => Err(self.failed("get", source)),
        }
    }

    /// Sets some keys, or removes those that have `None`, unless it has been changed since it was read.
    ///
    /// # Errors
    /// [`SecretError::Api`].
    pub async fn write<'a>(
        &self,
        held: &HeldSecret,
        changes: impl IntoIterator<Item = (&'a str, Option<Vec<u8>>)>,
    ) -> Result<Written, SecretError> {
        let mut secret = held.0.clone();
        let data = secret.data.get_or_insert_default();
        for (key, value) in changes {
            match value {
                Some(value) => _ = data.insert(key.to_owned(), ByteString(value)),
                None => _ = data.remove(key),
            }
        }
        // The version that was read is in it: the API server refuses it if there is a newer one.
        match self.api.replace(&self.name, &PostParams::default(), &secret).await {
            Ok(_) => Ok(Written::Done),
            Err(error) if is_conflict(&error) => Ok(Written::Outdated),
            Err(source) => Err(self.failed("update", source)),
        }
    }

    fn failed(&self, verb: &'static str, source: kube::Error) -> SecretError {
        SecretError::Api { verb, namespace: self.namespace.clone(), name: self.name.clone(), source }
    }
}

impl HeldSecret {
    /// Its data.
    pub fn data(&self) -> BTreeMap<String, Vec<u8>> {
        let data = self.0.data.iter().flatten();
        data.map(|(key, value)| (key.clone(), value.0.clone())).collect()
    }

    /// What changes with every change of it.
    pub fn version(&self) -> String {
        let metadata = &self.0.metadata;
        format!(
            "{} {}",
            metadata.uid.as_deref().unwrap_or_default(),
            metadata.resource_version.as_deref().unwrap_or_default()
        )
    }
}

/// Whether the object was changed, or made anew, since it was read.
pub(super) fn is_conflict(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 409)
}
