//! A webhook configuration, of which podlayer writes the `caBundle` of each entry and nothing else.

use base64::{Engine, engine::general_purpose::STANDARD};
use k8s_openapi::api::admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration};
use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject, Patch, PatchParams},
};
use serde_json::{Value, json};

use super::secret::{Written, is_conflict};
use crate::names;

/// A webhook configuration by its name.
#[derive(Clone, Debug)]
pub struct WebhookConfiguration {
    // Mutating and validating ones have the same entries, as far as this is concerned.
    api: Api<DynamicObject>,
    kind: ApiResource,
    name: String,
}

/// What a webhook configuration held when it was read.
#[derive(Clone, Debug)]
pub struct HeldConfiguration {
    version: Option<String>,
    /// For each entry its name and `caBundle`, decoded.
    entries: Vec<(String, Vec<u8>)>,
}

/// Why a webhook configuration can't be read or written.
#[derive(Debug, thiserror::Error)]
#[error("failed to {verb} the {kind} {name}")]
pub struct ConfigurationError {
    /// What was tried: `get` or `patch`.
    verb: &'static str,
    /// Its kind.
    kind: String,
    /// Its name.
    name: String,
    /// Why.
    #[source]
    source: kube::Error,
}

impl WebhookConfiguration {
    /// The mutating one of this name, which need not be there.
    pub fn mutating(client: &Client, name: &str) -> Self {
        Self::of(client, ApiResource::erase::<MutatingWebhookConfiguration>(&()), name)
    }

    /// The validating one of this name, which need not be there.
    pub fn validating(client: &Client, name: &str) -> Self {
        Self::of(client, ApiResource::erase::<ValidatingWebhookConfiguration>(&()), name)
    }

    fn of(client: &Client, kind: ApiResource, name: &str) -> Self {
        Self { api: Api::all_with(client.clone(), &kind), kind, name: name.to_owned() }
    }

    /// Its kind and name, for people.
    pub fn title(&self) -> String {
        format!("{} {}", self.kind.kind, self.name)
    }

    /// Reads it, from etcd and not from a cache of the API server's; `None` when there is none.
    ///
    /// # Errors
    /// [`ConfigurationError`].
    pub async fn read(&self) -> Result<Option<HeldConfiguration>, ConfigurationError> {
        let found = self.api.get_opt(&self.name).await.map_err(|source| self.failed("get", source))?;
        Ok(found.map(|object| HeldConfiguration {
            entries: object.data["webhooks"].as_array().into_iter().flatten().map(entry).collect(),
            version: object.metadata.resource_version,
        }))
    }

    /// Gives every entry this `caBundle` by a server-side apply that names nothing else, unless the configuration has been
    /// changed since it was read.
    ///
    /// # Errors
    /// [`ConfigurationError`].
    pub async fn publish(&self, held: &HeldConfiguration, bundle: &str) -> Result<Written, ConfigurationError> {
        let bundle = STANDARD.encode(bundle);
        let entries = held.entries.iter().map(|(name, _)| json!({"name": name, "clientConfig": {"caBundle": bundle}}));
        let patch = json!({
            "apiVersion": self.kind.api_version,
            "kind": self.kind.kind,
            // An apply that names a version is refused when there is a newer one.
            "metadata": {"name": self.name, "resourceVersion": held.version},
            "webhooks": entries.collect::<Vec<Value>>(),
        });
        let manager = PatchParams::apply(names::FIELD_MANAGER_CA_BUNDLE).force();
        match self.api.patch(&self.name, &manager, &Patch::Apply(&patch)).await {
            Ok(_) => Ok(Written::Done),
            Err(error) if is_conflict(&error) => Ok(Written::Outdated),
            Err(source) => Err(self.failed("patch", source)),
        }
    }

    fn failed(&self, verb: &'static str, source: kube::Error) -> ConfigurationError {
        ConfigurationError { verb, kind: self.kind.kind.clone(), name: self.name.clone(), source }
    }
}

impl HeldConfiguration {
    /// The `caBundle` of each entry; empty where there is none.
    pub fn bundles(&self) -> Vec<Vec<u8>> {
        self.entries.iter().map(|(_, bundle)| bundle.clone()).collect()
    }
}

fn entry(entry: &Value) -> (String, Vec<u8>) {
    let name = entry["name"].as_str().unwrap_or_default().to_owned();
    let bundle = entry["clientConfig"]["caBundle"].as_str().unwrap_or_default();
    // The API server takes no other text; if it did, the bundle would count as another than the right one.
    (name, STANDARD.decode(bundle).unwrap_or_default())
}
