//! Asks the API server, one thing after another, and changes nothing.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::{
    api::{
        admissionregistration::v1::{
            MutatingWebhookConfiguration, RuleWithOperations, ValidatingWebhookConfiguration, WebhookClientConfig,
        },
        batch::v1::Job,
        core::v1::{ConfigMap, Namespace, Pod},
        events::v1::Event,
    },
    apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta},
};
use kube::{Api, Client, api::ListParams};
use time::OffsetDateTime;

use super::{
    facts::{Configuration, Facts, Hook, Labels, LostSecrets, Pods, RefusedJob, Seen},
    probe, replicas,
};
use crate::{
    layers::{self, LayerSource, Scope},
    names,
};

/// What to look at.
#[derive(Clone, Debug)]
pub struct Ask {
    /// podlayer's namespace.
    pub namespace: String,
    /// The name of its webhook configurations.
    pub configuration: String,
    /// Where a pod is tried in a dry run.
    pub probe_namespace: String,
}

/// The API server can't be reached.
#[derive(Debug, thiserror::Error)]
#[error("failed to reach the API server")]
pub struct Away(#[source] kube::Error);

/// How many objects come with one answer.
const PAGE: u32 = 500;

/// How many answers of one list are read: 10,000 opted-in pods are enough to find those that lack something.
const PAGES: usize = 20;

/// How many pods of one fault are asked for.
const TRIED: usize = 5;

pub(super) async fn observe(client: &Client, ask: &Ask) -> Result<Facts, Away> {
    // What can't be answered here can't be answered anywhere.
    client.apiserver_version().await.map_err(Away)?;
    let mutating = mutating(client, &ask.configuration).await;
    let validating = validating(client, &ask.configuration).await;
    let mut namespaces = BTreeMap::new();
    for name in [ask.namespace.as_str(), "kube-system", &ask.probe_namespace] {
        let seen = Api::<Namespace>::all(client.clone()).get(name).await;
        let labels = seen.map(|namespace| namespace.metadata.labels.unwrap_or_default()).map_err(why);
        namespaces.insert(name.to_owned(), labels);
    }
    let hooks = || [&mutating, &validating].into_iter().flatten().flatten().flat_map(|found| &found.hooks);
    let names: BTreeSet<(String, String)> = hooks().filter_map(|hook| hook.service.clone()).collect();
    let mut services = Vec::new();
    for (namespace, name) in names {
        services.push(replicas::service(client, namespace, name).await);
    }
    let hook_names: BTreeSet<String> = hooks().map(|hook| hook.name.clone()).collect();
    let probe = match &mutating {
        Ok(Some(_)) => Some(probe::run(client, &ask.probe_namespace).await),
        _ => None,
    };
    Ok(Facts {
        now: OffsetDateTime::now_utc().unix_timestamp(),
        namespace: ask.namespace.clone(),
        configuration: ask.configuration.clone(),
        namespaces,
        probe_namespace: ask.probe_namespace.clone(),
        probe,
        services,
        layers: bad_layers(client, &ask.namespace).await,
        pods: pods(client, &ask.namespace).await,
        jobs: refused_jobs(client, &hook_names).await,
        lost_secrets: lost_secrets(client).await.unwrap_or_default(),
        mutating,
        validating,
    })
}

/// Why something couldn't be read, in words.
pub(super) fn why(error: kube::Error) -> String {
    match error {
        kube::Error::Api(status) if status.code == 403 => format!("the right is missing: {}", status.message),
        kube::Error::Api(status) => status.message.clone(),
        error => error.to_string(),
    }
}

/// What is there; `None` for what isn't.
pub(super) fn there<T>(seen: Result<T, kube::Error>) -> Seen<Option<T>> {
    match seen {
        Ok(found) => Ok(Some(found)),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
        Err(error) => Err(why(error)),
    }
}

async fn mutating(client: &Client, name: &str) -> Seen<Option<Configuration>> {
    let found = there(Api::<MutatingWebhookConfiguration>::all(client.clone()).get(name).await)?;
    Ok(found.map(|found| Configuration {
        since: made(&found.metadata),
        hooks: found
            .webhooks
            .unwrap_or_default()
            .into_iter()
            .map(|hook| Hook {
                resources: resources(hook.rules),
                fails_open: hook.failure_policy.as_deref() == Some("Ignore"),
                has_condition: is_set(hook.object_selector.as_ref())
                    || hook.match_conditions.is_some_and(|all| !all.is_empty()),
                namespaces: hook.namespace_selector,
                name: hook.name,
                ..client_config(hook.client_config)
            })
            .collect(),
    }))
}

async fn validating(client: &Client, name: &str) -> Seen<Option<Configuration>> {
    let found = there(Api::<ValidatingWebhookConfiguration>::all(client.clone()).get(name).await)?;
    Ok(found.map(|found| Configuration {
        since: made(&found.metadata),
        hooks: found
            .webhooks
            .unwrap_or_default()
            .into_iter()
            .map(|hook| Hook {
                resources: resources(hook.rules),
                fails_open: hook.failure_policy.as_deref() == Some("Ignore"),
                has_condition: is_set(hook.object_selector.as_ref())
                    || hook.match_conditions.is_some_and(|all| !all.is_empty()),
                namespaces: hook.namespace_selector,
                name: hook.name,
                ..client_config(hook.client_config)
            })
            .collect(),
    }))
}

fn client_config(config: WebhookClientConfig) -> Hook {
    Hook {
        service: config.service.map(|service| (service.namespace, service.name)),
        ca_bundle: config.ca_bundle.map(|bundle| bundle.0).unwrap_or_default(),
        ..Hook::default()
    }
}

fn resources(rules: Option<Vec<RuleWithOperations>>) -> Vec<String> {
    rules.unwrap_or_default().into_iter().flat_map(|rule| rule.resources.unwrap_or_default()).collect()
}

fn is_set(selector: Option<&LabelSelector>) -> bool {
    selector.is_some_and(|selector| *selector != LabelSelector::default())
}

/// When an object was made, in seconds since 1970.
fn made(metadata: &ObjectMeta) -> i64 {
    metadata.creation_timestamp.as_ref().map_or(0, |time| time.0.as_second())
}

/// The layers of podlayer's namespace that can't be read, with the first line of what is wrong.
async fn bad_layers(client: &Client, namespace: &str) -> Seen<Vec<(String, String)>> {
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
    let found = api.list(&ListParams::default().labels(names::LAYER)).await.map_err(why)?;
    let mut bad = Vec::new();
    for map in found.items {
        let source = LayerSource {
            namespace: namespace.to_owned(),
            name: map.metadata.name.unwrap_or_default(),
            labels: map.metadata.labels.unwrap_or_default(),
            data: map.data.unwrap_or_default(),
            binary_keys: map.binary_data.unwrap_or_default().into_keys().collect(),
        };
        if let Err(error) = layers::parse(&source, Scope { own_namespace: namespace }) {
            bad.push((source.name, error.to_string().lines().next().unwrap_or_default().to_owned()));
        }
    }
    Ok(bad)
}

/// The opted-in pods that lack something.
async fn pods(client: &Client, own: &str) -> Seen<Pods> {
    /// What the kubelet sets on the mirrors of its own pods, which no webhook can change.
    const MIRROR: &str = "kubernetes.io/config.mirror";
    let api: Api<Pod> = Api::all(client.clone());
    let mut params = ListParams::default().labels(&format!("{}={}", names::ENABLED, names::ENABLED_VALUE)).limit(PAGE);
    let mut pods = Pods::default();
    for _ in 0..PAGES {
        let found = api.list_metadata(&params).await.map_err(why)?;
        for pod in found.items {
            let labels: Labels = pod.metadata.annotations.clone().unwrap_or_default();
            let (namespace, name) =
                (pod.metadata.namespace.clone().unwrap_or_default(), pod.metadata.name.clone().unwrap_or_default());
            if namespace == own {
                pods.own.push(name);
            } else if !labels.contains_key(names::APPLIED) && !labels.contains_key(MIRROR) {
                pods.unstamped.push((namespace, name, made(&pod.metadata)));
            }
        }
        match found.metadata.continue_.filter(|next| !next.is_empty()) {
            Some(next) => params = params.continue_token(&next),
            None => break,
        }
    }
    Ok(pods)
}

/// The Secrets that pods name which podlayer decided, and that their kubelets lately didn't find; once for each namespace.
/// The kubelet says so in an Event, and goes on without; so nobody need be allowed to read Secrets for it.
async fn lost_secrets(client: &Client) -> Seen<Vec<LostSecrets>> {
    let api: Api<Event> = Api::all(client.clone());
    let params = ListParams::default().fields("reason=FailedToRetrieveImagePullSecret,regarding.kind=Pod").limit(PAGE);
    let mut by_secrets: BTreeMap<(String, String), Vec<String>> = BTreeMap::new();
    for event in api.list(&params).await.map_err(why)?.items {
        let note = event.note.unwrap_or_default();
        // `Unable to retrieve some image pull secrets (a, b); attempting to …`
        let secrets = note.split_once('(').and_then(|(_, rest)| rest.split_once(')')).map(|(secrets, _)| secrets);
        let (Some(secrets), Some(pod)) = (secrets, event.regarding) else { continue };
        let place = (pod.namespace.unwrap_or_default(), secrets.to_owned());
        by_secrets.entry(place).or_default().push(pod.name.unwrap_or_default());
    }
    let mut lost = Vec::new();
    for ((namespace, secrets), pods) in by_secrets {
        let api = Api::<Pod>::namespaced(client.clone(), &namespace);
        // Events come in no order and outlive their pods: a few are tried.
        for pod in pods.into_iter().rev().take(TRIED) {
            let Ok(Some(found)) = there(api.get_metadata(&pod).await) else { continue };
            if found.metadata.annotations.is_some_and(|all| all.contains_key(names::APPLIED)) {
                lost.push(LostSecrets { namespace, pod, secrets });
                break;
            }
        }
    }
    Ok(lost)
}

/// The Jobs that have no pods because a webhook of podlayer's refuses them.
async fn refused_jobs(client: &Client, hooks: &BTreeSet<String>) -> Seen<Vec<RefusedJob>> {
    let api: Api<Event> = Api::all(client.clone());
    let params = ListParams::default().fields("reason=FailedCreate,regarding.kind=Job").limit(PAGE);
    let events = api.list(&params).await.map_err(why)?;
    let mut refused: BTreeMap<(String, String), String> = BTreeMap::new();
    for event in events.items {
        let note = event.note.unwrap_or_default();
        let by_hook = hooks.iter().any(|hook| note.contains(&format!("admission webhook {hook:?} denied the request")));
        // The policy that wants the stamp.
        let by_policy = note.contains("ValidatingAdmissionPolicy 'podlayer");
        let Some(job) = event.regarding.filter(|_| by_hook || by_policy) else { continue };
        let message = note.split_once("denied the request: ").map_or(note.as_str(), |(_, message)| message);
        let message = message.lines().next().unwrap_or_default().to_owned();
        refused.insert((job.namespace.unwrap_or_default(), job.name.unwrap_or_default()), message);
    }
    let mut jobs = Vec::new();
    for ((namespace, name), message) in refused {
        let job = Api::<Job>::namespaced(client.clone(), &namespace).get(&name).await;
        // An Event outlives what it was about.
        let Ok(Some(job)) = there(job) else { continue };
        let status = job.status.unwrap_or_default();
        if status.completion_time.is_none() && status.active.unwrap_or_default() == 0 {
            jobs.push(RefusedJob { namespace, name, message });
        }
    }
    Ok(jobs)
}
