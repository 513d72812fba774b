//! A call for an agent. In this order, each step one that can be repeated:
//!
//! 1. its place, in the ledger (`desk`);
//! 2. its pod. Without the Secret no container of it starts;
//! 3. another look at the ledger: whoever released it meanwhile found no pod, so it goes again;
//! 4. its Secret, which belongs to the pod and goes with it.
//!
//! If this replica dies between any two, nothing is left that could leak: an agent without a pod gives its place back, one
//! without a Secret can't start, and a repeated call finishes it.

use std::{sync::Arc, time::Duration};

use k8s_openapi::api::core::v1::{Pod, Secret};
use kube::{
    Api, ResourceExt,
    api::{ApiResource, DynamicObject, PostParams},
};
use tokio::time::timeout;

use super::{
    bind,
    desk::{Answer, Ask, Desk, Unsure},
    ledger::{self, Admission, AgentKey},
    object_names,
    pod::pod,
    reply::{Declined, Reply},
    secret,
    service::Service,
    store,
    wire::Acquire,
};
use crate::{
    cluster::{if_still, ignore_gone, is_over_quota, is_owned_by},
    names,
    pool::api::{AgentPool, PoolImage},
    telemetry::log::with_causes,
};

/// How long the writes for one agent may take together. Callers wait 30 s.
pub(super) const PATIENCE: Duration = Duration::from_secs(20);

/// Why an agent can't be made now.
enum Trouble {
    /// The API server can't be reached or is overloaded: the caller should come again.
    Away(kube::Error),
    /// A quota is used up.
    Quota,
    /// It will never be made as it is; why.
    Refused(String),
}

/// Answers a call for an agent.
pub(super) async fn acquire(service: &Arc<Service>, pool: &AgentPool, body: &[u8]) -> Reply {
    let call = match Acquire::parse(body) {
        Ok(call) => call,
        Err(error) => return Reply::bad_request(&error),
    };
    if let Err(error) = bind::check(pool, &call.agent) {
        return Reply::forbidden(&error);
    }
    let agent = AgentKey::new(pool.metadata.uid.as_deref().unwrap_or_default(), &call.agent.agent_id);
    reply(service, pool, &call, agent, body).await.about(agent)
}

async fn reply(service: &Arc<Service>, pool: &AgentPool, call: &Acquire, agent: AgentKey, body: &[u8]) -> Reply {
    let desk = service.desk(pool);
    let (digest, image) = (ledger::digest(body), call.image.clone());
    let answer = desk.ask(|answer| Ask::Admit { key: agent, digest, image, answer }).await;
    let (pool, image) = match answer {
        Ok(Answer::Admitted(pool, image)) => (pool, image),
        Ok(Answer::NoImage(text)) => return Reply::bad_request(&text),
        Ok(Answer::Not(Admission::Full)) => {
            let note = "Azure Pipelines asked for an agent, and the pool is at its max".to_owned();
            service.tell(pool, false, "AzureDeclined", note).await;
            return Reply::declined(Declined::Max);
        }
        Ok(Answer::Not(Admission::Ended)) => return Reply::declined(Declined::Ended),
        Ok(Answer::Not(_)) => return Reply::declined(Declined::Released),
        Ok(Answer::Paused | Answer::Released | Answer::Replayed) => return Reply::declined(Declined::Paused),
        Err(unsure @ (Unsure::Busy | Unsure::Away | Unsure::Gone)) => return Reply::unavailable(&unsure.to_string()),
    };
    // A closed semaphore would be a bug; then there is no bound.
    let _turn = service.making.acquire().await;
    // Given up between two writes it is as if this replica had died there.
    match timeout(PATIENCE, make(service, &pool, call, agent, image.as_ref())).await {
        Ok(Ok(reply)) => reply,
        Ok(Err(trouble)) => troubled(service, &pool, &desk, agent, trouble).await,
        Err(_) => {
            tracing::warn!(pool = pool.name_any(), agent = %agent, "an agent can't be made now: no answer");
            Reply::unavailable(&Unsure::Away.to_string())
        }
    }
}

async fn make(
    service: &Service,
    pool: &AgentPool,
    call: &Acquire,
    agent: AgentKey,
    image: Option<&PoolImage>,
) -> Result<Reply, Trouble> {
    let Some(pod) = make_pod(service, pool, call, agent, image).await? else {
        return Ok(Reply::declined(Declined::Going));
    };
    let held = store::read(&service.client, pool).await.map_err(|error| match error {
        store::StoreError::Api { source, .. } => Trouble::Away(source),
        error => Trouble::Refused(with_causes(&error)),
    })?;
    if !held.ledger.is_live(agent) {
        delete_pod(service, pool, &pod).await?;
        return Ok(Reply::declined(Declined::Released));
    }
    if let Err(trouble) = make_secret(service, pool, call, &pod).await {
        if !matches!(trouble, Trouble::Away(_)) {
            delete_pod(service, pool, &pod).await?;
        }
        return Err(trouble);
    }
    let (namespace, name) = pool.key();
    Ok(Reply::accepted(&format!("{namespace}/{name}"), &pod.name_any()))
}

/// The agent's pod, made or found; `None` if it is going.
async fn make_pod(
    service: &Service,
    pool: &AgentPool,
    call: &Acquire,
    agent: AgentKey,
    image: Option<&PoolImage>,
) -> Result<Option<Pod>, Trouble> {
    let Some(azure) = &pool.spec.azure else { return Ok(None) };
    let wanted = pod(pool, azure, &call.agent, agent, image).map_err(|error| Trouble::Refused(error.to_string()))?;
    // As JSON, not as the types: a field that they don't know yet must not be lost.
    let wanted: DynamicObject = serde_json::from_value(wanted).map_err(|error| Trouble::Refused(error.to_string()))?;
    let resource = ApiResource::erase::<Pod>(&());
    let api: Api<DynamicObject> = Api::namespaced_with(service.client.clone(), &namespace(pool), &resource);
    let params = PostParams { field_manager: Some(names::FIELD_MANAGER_AZURE.into()), ..PostParams::default() };
    let found = match api.create(&params, &wanted).await {
        Ok(made) => Pod { metadata: made.metadata, ..Pod::default() },
        Err(kube::Error::Api(status)) if status.reason == "AlreadyExists" => {
            let api: Api<Pod> = Api::namespaced(service.client.clone(), &namespace(pool));
            match api.get_opt(&object_names::agent(pool, agent)).await.map_err(trouble)? {
                Some(found) => found,
                None => return Ok(None),
            }
        }
        Err(error) => return Err(trouble(error)),
    };
    let ours = is_owned_by(&found.metadata, pool.metadata.uid.as_deref());
    if !ours {
        return Err(Trouble::Refused(format!("there is a pod {} that isn't the pool's", found.name_any())));
    }
    Ok(Some(found).filter(|pod| pod.metadata.deletion_timestamp.is_none()))
}

/// The agent's Secret, made or found.
async fn make_secret(service: &Service, pool: &AgentPool, call: &Acquire, pod: &Pod) -> Result<(), Trouble> {
    let api: Api<Secret> = Api::namespaced(service.client.clone(), &namespace(pool));
    let wanted = secret::secret(pool, call, pod, &service.settings.callbacks);
    let params = PostParams { field_manager: Some(names::FIELD_MANAGER_AZURE.into()), ..PostParams::default() };
    // Twice: one of an earlier pod of that name, which the garbage collector hasn't got to yet, is in the way once.
    for _ in 0..2 {
        match api.create(&params, &wanted).await {
            Ok(_) => return Ok(()),
            Err(kube::Error::Api(status)) if status.reason == "AlreadyExists" => {}
            Err(error) => return Err(trouble(error)),
        }
        let Some(found) = api.get_opt(&wanted.name_any()).await.map_err(trouble)? else { continue };
        if secret::is_of(&found, pod) {
            return Ok(());
        }
        ignore_gone(api.delete(&wanted.name_any(), &if_still(found.metadata.uid)).await).map_err(trouble)?;
    }
    Err(Trouble::Refused(format!("there is a Secret {} that isn't the agent's", wanted.name_any())))
}

async fn delete_pod(service: &Service, pool: &AgentPool, pod: &Pod) -> Result<(), Trouble> {
    let api: Api<Pod> = Api::namespaced(service.client.clone(), &namespace(pool));
    ignore_gone(api.delete(&pod.name_any(), &if_still(pod.metadata.uid.clone())).await).map_err(trouble)
}

async fn troubled(service: &Arc<Service>, pool: &AgentPool, desk: &Desk, agent: AgentKey, trouble: Trouble) -> Reply {
    match trouble {
        // It keeps its place: nobody knows what was done, and the caller comes again.
        Trouble::Away(error) => {
            tracing::warn!(pool = pool.name_any(), agent = %agent, error = %with_causes(&error), "an agent can't be made now");
            Reply::unavailable(&Unsure::Away.to_string())
        }
        Trouble::Quota => {
            desk.forget(agent).await;
            let note = "a ResourceQuota of the namespace refused an agent of Azure Pipelines".to_owned();
            service.tell(pool, true, "AzureQuota", note).await;
            Reply::declined(Declined::Quota)
        }
        Trouble::Refused(why) => {
            desk.forget(agent).await;
            tracing::warn!(pool = pool.name_any(), agent = %agent, why, "an agent was refused");
            service.tell(pool, true, "AzureAgentRefused", format!("an agent can't be made: {why}")).await;
            Reply::declined(Declined::Refused)
        }
    }
}

/// What an error of the API server means for an agent.
fn trouble(error: kube::Error) -> Trouble {
    match error {
        kube::Error::Api(status) if is_over_quota(&status) => Trouble::Quota,
        kube::Error::Api(status) if (400..500).contains(&status.code) && !matches!(status.code, 408 | 429) => {
            Trouble::Refused(status.message.clone())
        }
        error => Trouble::Away(error),
    }
}

/// The namespace of a pool.
pub(super) fn namespace(pool: &AgentPool) -> String {
    pool.metadata.namespace.clone().unwrap_or_default()
}
