//! A call that an agent may go. It is first written down that it went, so that none that is still on its way comes; then
//! its pod and Secret go, in any order, and whatever an older provider made for it. Nothing of that being there is fine.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Pod, Secret};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, ListParams},
};
use tokio::time::timeout;

use super::{
    acquire::{PATIENCE, namespace},
    bind::{self, Misdirected},
    desk::{Answer, Ask, Unsure},
    ledger::{self, AgentKey},
    object_names,
    reply::Reply,
    service::Service,
    wire::{BadBody, Release},
};
use crate::{
    cluster::{if_still, ignore_gone},
    names,
    pool::api::AgentPool,
    telemetry::log::with_causes,
};

/// Answers a call that an agent may go.
pub(super) async fn release(service: &Arc<Service>, pool: &AgentPool, body: &[u8]) -> Reply {
    let call = match Release::parse(body) {
        Ok(call) => call,
        // A captured call for an agent that is sent here.
        Err(error @ BadBody::Acquire) => return Reply::forbidden(&error),
        Err(error) => return Reply::bad_request(&error),
    };
    let agent = AgentKey::new(pool.metadata.uid.as_deref().unwrap_or_default(), &call.agent.agent_id);
    // Given up between two writes it is as if this replica had died there: the caller comes again.
    let reply = timeout(PATIENCE, reply(service, pool, &call, agent, body)).await;
    reply.unwrap_or_else(|_| Reply::unavailable(&Unsure::Away.to_string())).about(agent)
}

async fn reply(service: &Arc<Service>, pool: &AgentPool, call: &Release, agent: AgentKey, body: &[u8]) -> Reply {
    if let Err(error) = bind::check(pool, &call.agent) {
        return Reply::forbidden(&error);
    }
    let (space, name) = pool.key();
    if call.pool.as_ref().is_some_and(|theirs| *theirs != format!("{space}/{name}")) {
        return Reply::forbidden(&Misdirected::Pool);
    }
    let pods: Api<Pod> = Api::namespaced(service.client.clone(), &space);
    let away = |error: kube::Error| {
        tracing::warn!(pool = name, agent = %agent, error = %with_causes(&error), "an agent can't be released now");
        Reply::unavailable(&Unsure::Away.to_string())
    };
    let found = match pods.get_metadata_opt(&object_names::agent(pool, agent)).await {
        Ok(found) => found,
        Err(error) => return away(error),
    };
    let mark = found.as_ref().and_then(|pod| pod.annotations().get(names::AZURE_BINDING));
    if let Err(error) = bind::check_mark(mark.map(String::as_str), &call.agent) {
        return Reply::forbidden(&error);
    }
    let digest = ledger::digest(body);
    match service.desk(pool).ask(|answer| Ask::Release { key: agent, digest, answer }).await {
        Ok(Answer::Replayed) => return Reply::forbidden(&BadBody::Acquire),
        Ok(_) => {}
        Err(unsure) => return Reply::unavailable(&unsure.to_string()),
    }
    match delete(service, pool, agent, &call.agent.agent_id).await {
        Ok(()) => Reply::released(),
        Err(error) => away(error),
    }
}

async fn delete(service: &Service, pool: &AgentPool, agent: AgentKey, id: &str) -> Result<(), kube::Error> {
    let name = object_names::agent(pool, agent);
    let pods: Api<Pod> = Api::namespaced(service.client.clone(), &namespace(pool));
    let secrets: Api<Secret> = Api::namespaced(service.client.clone(), &namespace(pool));
    // The id was checked to be a label's value, so it means itself in a selector.
    let older = ListParams::default().labels(&format!("{}={id},!{}", names::AGENT_ID, names::POOL));
    let params = DeleteParams::background();
    // All are tried, whatever becomes of one of them.
    let results = tokio::join!(
        async { ignore_gone(pods.delete(&name, &params).await) },
        async { ignore_gone(secrets.delete(&name, &params).await) },
        async { ignore_gone(pods.delete_collection(&params, &older).await) },
        async { ignore_gone(secrets.delete_collection(&params, &older).await) },
    );
    results.0.and(results.1).and(results.2).and(results.3)
}

/// Deletes what was made for an agent, the pod only if it is still this one.
pub(super) async fn take_away(service: &Service, pool: &AgentPool, pod: &str, uid: &str) -> Result<(), kube::Error> {
    let pods: Api<Pod> = Api::namespaced(service.client.clone(), &namespace(pool));
    let secrets: Api<Secret> = Api::namespaced(service.client.clone(), &namespace(pool));
    let background = DeleteParams::background();
    let params = DeleteParams { preconditions: if_still(Some(uid.to_owned())).preconditions, ..background.clone() };
    ignore_gone(pods.delete(pod, &params).await)?;
    ignore_gone(secrets.delete(pod, &background).await)
}
