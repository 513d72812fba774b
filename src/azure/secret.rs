//! An agent's Secret: what it starts with, file by file, as the older provider laid it. It belongs to the agent's pod, and
//! goes with it.

use std::collections::BTreeMap;

use k8s_openapi::{
    ByteString,
    api::core::v1::{Pod, Secret},
    apimachinery::pkg::apis::meta::v1::OwnerReference,
};
use kube::api::ObjectMeta;
use serde::{Deserialize, Serialize};

use super::{callback::Callbacks, wire::Acquire};
use crate::{cluster::is_owned_by, names, pool::api::AgentPool};

/// The key with what we keep for ourselves; the agent's container doesn't see it.
const CALLBACK: &str = "callback";

/// Whom to tell that an agent won't come.
#[derive(Clone, Default, Deserialize, Serialize)]
pub(super) struct Callback {
    pub(super) fail_url: Option<String>,
    pub(super) message_url: Option<String>,
    pub(super) token: Option<String>,
}

/// The Secret for an agent's pod.
pub(super) fn secret(pool: &AgentPool, acquire: &Acquire, pod: &Pod, callbacks: &Callbacks) -> Secret {
    let name = pod.metadata.name.clone().unwrap_or_default();
    let url = acquire.download_urls.get(platform(pool));
    let allowed = |url: &Option<String>| url.clone().filter(|url| callbacks.allows(url));
    let callback = Callback {
        fail_url: allowed(&acquire.fail_url),
        message_url: allowed(&acquire.message_url),
        token: acquire.token.clone(),
    };
    let files = [
        (".agent", acquire.settings.clone()),
        (".credentials", acquire.credentials.clone()),
        (".url", url.cloned().unwrap_or_default()),
        (".agentVersion", acquire.version.clone()),
        // INVARIANT: a struct of texts can be written as JSON.
        (CALLBACK, serde_json::to_string(&callback).unwrap_or_default()),
    ];
    Secret {
        metadata: ObjectMeta {
            name: Some(name.clone()),
            namespace: pool.metadata.namespace.clone(),
            labels: Some(BTreeMap::from([
                (names::POOL.into(), pool.metadata.name.clone().unwrap_or_default()),
                (names::AGENT_ID.into(), acquire.agent.agent_id.clone()),
            ])),
            owner_references: Some(vec![OwnerReference {
                api_version: "v1".into(),
                kind: "Pod".into(),
                name,
                uid: pod.metadata.uid.clone().unwrap_or_default(),
                controller: Some(true),
                block_owner_deletion: None,
            }]),
            ..ObjectMeta::default()
        },
        immutable: Some(true),
        type_: Some("Opaque".into()),
        data: Some(files.into_iter().map(|(key, text)| (key.to_owned(), ByteString(text.into_bytes()))).collect()),
        ..Secret::default()
    }
}

/// Whether a Secret is that of this pod, and not of one of the same name that is gone.
pub(super) fn is_of(secret: &Secret, pod: &Pod) -> bool {
    is_owned_by(&secret.metadata, pod.metadata.uid.as_deref())
}

/// Whom to tell that this agent won't come.
pub(super) fn callback(secret: &Secret) -> Callback {
    let data = secret.data.as_ref().and_then(|data| data.get(CALLBACK));
    data.and_then(|data| serde_json::from_slice(&data.0).ok()).unwrap_or_default()
}

/// The agent's build for the template's nodes, by Azure Pipelines' name.
fn platform(pool: &AgentPool) -> &'static str {
    let selector = pool.spec.template.as_ref().map(|template| &template.spec["nodeSelector"]);
    let of = |key: &str| selector.and_then(|selector| selector[key].as_str()).unwrap_or_default();
    match (of("kubernetes.io/os"), of("kubernetes.io/arch")) {
        ("windows", _) => "win-x64",
        (_, "arm64") => "linux-arm64",
        (_, "arm") => "linux-arm",
        _ => "linux-x64",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_agents_secret_has_the_files_of_the_older_provider_and_belongs_to_its_pod() {
        let pool: AgentPool = serde_json::from_value(json!({"apiVersion": "podlayer.dev/v1alpha1", "kind": "AgentPool",
            "metadata": {"name": "p", "namespace": "ci", "uid": "u"},
            "spec": {"mode": "Agents", "max": 1, "template": {"spec": {"nodeSelector": {"kubernetes.io/arch": "arm64"}}}}}))
        .unwrap();
        let pod: Pod = serde_json::from_value(json!({"metadata": {"name": "p-az-1", "uid": "pod-uid"}})).unwrap();
        let acquire = Acquire::parse(
            br#"{"AgentId":"a","AgentConfiguration":{"AgentSettings":{"a":1},"AgentCredentials":{"b":2},"AgentVersion":"3",
                "AgentDownloadUrls":{"linux-x64":"x","linux-arm64":"arm"}},"FailRequestUrl":"https://dev.azure.com/x",
                "AppendRequestMessageUrl":"https://169.254.169.254/","AuthenticationToken":"t"}"#,
        )
        .unwrap();
        let made = secret(&pool, &acquire, &pod, &Callbacks::new(Vec::new(), None).unwrap());
        let text = |key: &str| String::from_utf8(made.data.as_ref().unwrap()[key].0.clone()).unwrap();
        assert_eq!((text(".agent").as_str(), text(".credentials").as_str()), (r#"{"a":1}"#, r#"{"b":2}"#));
        assert_eq!((text(".url").as_str(), text(".agentVersion").as_str()), ("arm", "3"));
        let callback = callback(&made);
        assert_eq!(callback.fail_url.as_deref(), Some("https://dev.azure.com/x"));
        assert_eq!(callback.message_url, None, "a host that isn't Azure DevOps' is never called");
        assert!(is_of(&made, &pod));
    }
}
