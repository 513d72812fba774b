use std::{collections::BTreeMap, time::Duration};

use k8s_openapi::{
    ByteString,
    api::{
        core::v1::{Namespace, Secret},
        networking::v1::IngressClass,
    },
};
use kube::{
    Api, Client, ResourceExt,
    api::{DynamicObject, ListParams, ObjectMeta, Patch, PatchParams, PostParams},
    core::{ApiResource, GroupVersionKind},
};
use serde_json::Value;

use super::{
    options::{Certificate, Exposure, Options, PoolFile},
    plan::{Entrance, Plan},
};
use crate::{azure::SharedSecret, layers::complaint::Printable, names, pool::api::AgentPool};

/// How often something that is waited for is looked at.
const LOOK_AGAIN: Duration = Duration::from_millis(500);
/// The annotation of the IngressClass that an Ingress without one gets.
const DEFAULT_CLASS: &str = "ingressclass.kubernetes.io/is-default-class";

/// Why something in the cluster isn't as it should be.
#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    /// The API server said no, or nothing.
    #[error("failed to {act}")]
    Api {
        /// What was tried.
        act: String,
        /// Why.
        #[source]
        source: Box<kube::Error>,
    },
    /// Something that podlayer doesn't install isn't there.
    #[error("the cluster has no {what}: {hint}")]
    Missing {
        /// What.
        what: String,
        /// What to do.
        hint: &'static str,
    },
    /// Too old.
    #[error("the cluster is Kubernetes {0}, and 1.30 or later is needed")]
    Old(String),
    /// The Secret holds another secret.
    #[error(
        "the Secret {name} holds another shared secret in {key}: use that one, or --replace-secret, which breaks pools that \
         are registered with it"
    )]
    OtherSecret {
        /// `NAMESPACE/NAME`.
        name: String,
        /// Its key.
        key: &'static str,
    },
    /// It took too long.
    #[error("{what} didn't come within {waited:?}{said}; run this again, it goes on where it stopped")]
    Waited {
        /// What was waited for.
        what: String,
        /// How long.
        waited: Duration,
        /// What it says itself.
        said: String,
    },
}

/// The cluster that is set up.
pub(super) struct Cluster<'a> {
    pub(super) client: &'a Client,
    pub(super) plan: &'a Plan<'a>,
}

impl Cluster<'_> {
    fn options(&self) -> &Options {
        self.plan.options()
    }

    /// Looks whether it has what podlayer doesn't install.
    pub(super) async fn look(&self) -> Result<(), ClusterError> {
        let options = self.options();
        let failed = |act: &str| failed(act.to_owned());
        let version = self.client.apiserver_version().await.map_err(failed("ask for the version of the cluster"))?;
        let number = |text: &str| text.trim_end_matches(|c: char| !c.is_ascii_digit()).parse::<u32>().unwrap_or(0);
        if (number(&version.major), number(&version.minor)) < (1, 30) {
            return Err(ClusterError::Old(version.git_version));
        }
        let missing = |what: String, hint| Err(ClusterError::Missing { what, hint });
        match &options.exposure {
            Exposure::Ingress(wanted) => {
                let classes: Api<IngressClass> = Api::all(self.client.clone());
                let classes = classes.list(&ListParams::default()).await.map_err(failed("list the ingress classes"))?;
                let is_wanted = |class: &IngressClass| match wanted {
                    Some(wanted) => class.name_any() == *wanted,
                    None => class.annotations().get(DEFAULT_CLASS).is_some_and(|value| value == "true"),
                };
                if !classes.items.iter().any(is_wanted) {
                    let there: Vec<String> = classes.items.iter().map(ResourceExt::name_any).collect();
                    let what = match wanted {
                        Some(wanted) => format!("IngressClass {wanted}"),
                        None => "default IngressClass".to_owned(),
                    };
                    let there = if there.is_empty() { String::new() } else { format!(" (but {})", there.join(", ")) };
                    return missing(
                        what + &there,
                        "install an ingress controller, or name its class with --ingress-class",
                    );
                }
            }
            Exposure::Gateway(class) => {
                let what = format!("GatewayClass {class}");
                if !self.is_there("gateway.networking.k8s.io/v1", "GatewayClass", None, class).await? {
                    return missing(
                        what,
                        "install a controller of Gateway API, or name its class with --gateway-class",
                    );
                }
            }
            Exposure::Existing(gateway) => {
                let namespace = Some(gateway.namespace.as_str());
                if !self.is_there("gateway.networking.k8s.io/v1", "Gateway", namespace, &gateway.name).await? {
                    return missing(format!("Gateway {gateway}"), "name one that is there, or use --gateway-class");
                }
            }
        }
        match &options.certificate {
            Certificate::LetsEncrypt { .. } => {
                // Any name does: only whether the kind is known is asked.
                let there = self.is_known("cert-manager.io/v1", "ClusterIssuer").await?;
                if !there {
                    return missing("cert-manager".into(), "install it, with its CustomResourceDefinitions");
                }
            }
            Certificate::Secret(name) => {
                let secrets: Api<Secret> = Api::namespaced(self.client.clone(), &options.own_namespace);
                let secret = secrets.get_opt(name).await.map_err(failed("look for the certificate's Secret"))?;
                if secret.and_then(|secret| secret.type_).as_deref() != Some("kubernetes.io/tls") {
                    let what = format!("Secret {}/{name} of type kubernetes.io/tls", options.own_namespace);
                    return missing(what, "make it (kubectl create secret tls), or give files with -c and -k");
                }
            }
            Certificate::Files { .. } | Certificate::Gateway => {}
        }
        Ok(())
    }

    fn api(&self, api_version: &str, kind: &str, namespace: Option<&str>) -> Api<DynamicObject> {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
        match namespace {
            Some(namespace) => Api::namespaced_with(self.client.clone(), namespace, &resource),
            None => Api::all_with(self.client.clone(), &resource),
        }
    }

    async fn is_there(
        &self,
        api_version: &str,
        kind: &str,
        namespace: Option<&str>,
        name: &str,
    ) -> Result<bool, ClusterError> {
        let found = self.api(api_version, kind, namespace).get_opt(name).await;
        Ok(found.map_err(failed(format!("look for the {kind} {name}")))?.is_some())
    }

    async fn is_known(&self, api_version: &str, kind: &str) -> Result<bool, ClusterError> {
        match self.api(api_version, kind, None).list(&ListParams::default().limit(1)).await {
            Ok(_) => Ok(true),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(false),
            Err(error) => Err(failed(format!("look for {api_version}"))(error)),
        }
    }

    /// Makes the pool's namespace; says whether it wasn't there.
    pub(super) async fn namespace(&self) -> Result<bool, ClusterError> {
        let name = &self.options().pool.namespace;
        let api: Api<Namespace> = Api::all(self.client.clone());
        let new = Namespace {
            metadata: ObjectMeta { name: Some(name.clone()), ..ObjectMeta::default() },
            ..Namespace::default()
        };
        made(api.create(&PostParams::default(), &new).await, || format!("make the namespace {name}"))
    }

    /// Writes the shared secret; says whether there was something to write.
    pub(super) async fn secret(&self) -> Result<bool, ClusterError> {
        let options = self.options();
        let (namespace, name) = (&options.pool.namespace, &options.secret_name);
        let shown = format!("{namespace}/{name}");
        let api: Api<Secret> = Api::namespaced(self.client.clone(), namespace);
        let data =
            BTreeMap::from([(names::AZURE_SECRET_KEY.to_owned(), ByteString(options.shared_secret.bytes().to_vec()))]);
        let found = api.get_opt(name).await.map_err(failed(format!("read the Secret {shown}")))?;
        let Some(found) = found else {
            let metadata = ObjectMeta { name: Some(name.clone()), ..ObjectMeta::default() };
            let new = Secret { metadata, data: Some(data), ..Secret::default() };
            api.create(&PostParams::default(), &new).await.map_err(failed(format!("make the Secret {shown}")))?;
            return Ok(true);
        };
        let held = found.data.as_ref().and_then(|data| data.get(names::AZURE_SECRET_KEY));
        let held = held.map(|held| SharedSecret::new(&held.0));
        if matches!(&held, Some(Ok(held)) if *held == options.shared_secret) {
            return Ok(false);
        }
        if held.is_some() && !options.replace_secret {
            return Err(ClusterError::OtherSecret { name: shown, key: names::AZURE_SECRET_KEY });
        }
        // Other keys stay, such as the old secret while it is rotated.
        let patch = Secret { data: Some(data), ..Secret::default() };
        let patched = api.patch(name, &PatchParams::default(), &Patch::Merge(&patch)).await;
        patched.map(|_| true).map_err(failed(format!("write the Secret {shown}")))
    }

    /// Applies the AgentPool if there is a manifest, else says whether it is there.
    pub(super) async fn pool(&self) -> Result<bool, ClusterError> {
        let pool = &self.options().pool;
        let api: Api<AgentPool> = Api::namespaced(self.client.clone(), &pool.namespace);
        let Some(PoolFile { manifest, .. }) = &self.options().pool_file else {
            return match api.get_opt(&pool.name).await {
                Ok(found) => Ok(found.is_some()),
                Err(error) => Err(failed(format!("look for the AgentPool {pool}"))(error)),
            };
        };
        let params = PatchParams::apply(names::FIELD_MANAGER).force();
        let applied = api.patch(&pool.name, &params, &Patch::Apply(manifest)).await;
        applied.map(|_| true).map_err(failed(format!("apply the AgentPool {pool}")))
    }

    /// Waits for the address of Ingress or Gateway.
    pub(super) async fn address(&self) -> Result<String, ClusterError> {
        let Entrance { api_version, kind, namespace, name, addresses } = self.plan.entrance();
        let api = self.api(api_version, kind, Some(&namespace));
        let what = format!("an address of the {kind} {namespace}/{name}");
        self.wait(&what, async || {
            let object = api.get(&name).await.map_err(failed(format!("look for {what}")))?;
            let object = serde_json::to_value(object).unwrap_or_default();
            let first = object.pointer(addresses).and_then(|addresses| addresses.get(0));
            let word = |key: &str| first.and_then(|first| first.get(key)).and_then(Value::as_str).map(str::to_owned);
            Ok(word("ip").or_else(|| word("hostname")).or_else(|| word("value")).ok_or_else(String::new))
        })
        .await
    }

    /// Waits for the certificate.
    pub(super) async fn certificate(&self) -> Result<(), ClusterError> {
        let (namespace, name) = (&self.options().own_namespace, names::AZURE_INGRESS);
        let api = self.api("cert-manager.io/v1", "Certificate", Some(namespace));
        let what = format!("the Certificate {namespace}/{name}");
        self.wait(&what, async || {
            let object = api.get(name).await.map_err(failed(format!("look for {what}")))?;
            let object = serde_json::to_value(object).unwrap_or_default();
            let conditions =
                object.pointer("/status/conditions").and_then(Value::as_array).cloned().unwrap_or_default();
            let Some(ready) = conditions.iter().find(|condition| condition["type"] == "Ready") else {
                return Ok(Err("cert-manager hasn't looked at it".to_owned()));
            };
            let message = Printable(ready["message"].as_str().unwrap_or_default()).to_string();
            Ok(if ready["status"] == "True" { Ok(()) } else { Err(message) })
        })
        .await
    }

    /// Looks again and again; an inner error is what is said of it meanwhile.
    async fn wait<T>(
        &self,
        what: &str,
        mut look: impl AsyncFnMut() -> Result<Result<T, String>, ClusterError>,
    ) -> Result<T, ClusterError> {
        let waited = self.options().timeout;
        let until = tokio::time::Instant::now() + waited;
        loop {
            match look().await? {
                Ok(found) => return Ok(found),
                Err(said) if tokio::time::Instant::now() >= until => {
                    let said = if said.is_empty() { said } else { format!(" ({said})") };
                    return Err(ClusterError::Waited { what: what.to_owned(), waited, said });
                }
                Err(_) => tokio::time::sleep(LOOK_AGAIN).await,
            }
        }
    }
}

fn failed(act: String) -> impl FnOnce(kube::Error) -> ClusterError {
    move |error| ClusterError::Api { act, source: Box::new(error) }
}

/// Whether a creation made something that wasn't there.
fn made<T>(created: kube::Result<T>, act: impl FnOnce() -> String) -> Result<bool, ClusterError> {
    match created {
        Ok(_) => Ok(true),
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(false),
        Err(error) => Err(failed(act())(error)),
    }
}
