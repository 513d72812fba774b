//! A call for how an agent is.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use serde_json::json;
use tokio::time::timeout;

use super::{
    AgentKey,
    acquire::namespace,
    bind,
    desk::Unsure,
    object_names,
    reply::Reply,
    service::{PATIENCE, Service},
    wire::{BadBody, Release},
};
use crate::{
    pool::{
        api::AgentPool,
        observe::state,
        size::{State, Stuck},
    },
    telemetry::log::with_causes,
};

/// Answers a call for how an agent is.
pub(super) async fn status(service: &Service, pool: &AgentPool, body: &[u8]) -> Reply {
    let call = match Release::parse(body) {
        Ok(call) => call,
        Err(error @ BadBody::Acquire) => return Reply::forbidden(&error),
        Err(error) => return Reply::bad_request(&error),
    };
    if let Err(error) = bind::check(pool, &call.agent) {
        return Reply::forbidden(&error);
    }
    let agent = AgentKey::new(pool.metadata.uid.as_deref().unwrap_or_default(), &call.agent.agent_id);
    let api: Api<Pod> = Api::namespaced(service.client.clone(), &namespace(pool));
    let reply = match timeout(PATIENCE, api.get_opt(&object_names::agent(pool, agent))).await {
        Ok(Ok(Some(pod))) => {
            Reply::told(json!({"statusMessage": message(state(&pod.into(), &pool.spec, Timestamp::now()).0)}))
        }
        Ok(Ok(None)) => Reply::unknown_agent(),
        Ok(Err(error)) => {
            tracing::warn!(agent = %agent, error = %with_causes(&error), "an agent can't be looked at now");
            Reply::unavailable(&Unsure::Away.to_string())
        }
        Err(_) => Reply::unavailable(&Unsure::Away.to_string()),
    };
    reply.about(agent)
}

fn message(state: State) -> &'static str {
    match state {
        State::Busy | State::Idle => "the agent's pod runs",
        State::Failed => "the agent failed",
        State::Overdue | State::Terminating => "the agent's pod is going",
        State::Starting => "the agent's pod is starting",
        State::Stuck(Stuck::CrashLoop) => "the agent's container ends again and again",
        State::Stuck(Stuck::Image) => "an image of the agent's pod can't be pulled",
        State::Stuck(Stuck::Timeout) => "the agent's pod takes too long to start",
        State::Succeeded => "the agent ended",
        State::Unknown => "the node of the agent's pod doesn't answer",
        State::Unschedulable => "no node has room for the agent's pod",
    }
}
