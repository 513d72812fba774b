//! Agents that shouldn't be, or won't come, although nobody calls.
//!
//! Every replica looks for them by itself, not only a leader: what is found is the same for all, each change goes through
//! the ledger or is tied to the pod that was seen, so that two that do the same do it once; and there is one that does it
//! whenever there is one that answers calls.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, ResourceExt};

use super::{
    acquire::namespace,
    desk,
    ledger::{AgentKey, Ledger},
    object_names,
    release::take_away,
    secret::{self, Callback},
    service::Service,
    store::{self, StoreError},
};
use crate::{
    pool::{
        Key,
        api::AgentPool,
        size::{Agent, Id, State, Stuck},
    },
    telemetry::{AzureReaped, log::with_causes},
};

/// How many seconds whoever releases an agent has to take its pod away, before a pod that is there counts as left behind.
const HEAD_START: i64 = 5;

/// What a look finds.
#[derive(Debug, Default, Eq, PartialEq)]
struct Found {
    /// Released, and there: made by a call that was overtaken by the release.
    late: Vec<Id>,
    /// They won't start.
    failed: Vec<(AgentKey, Id, AzureReaped)>,
}

/// Looks once. What an agent needs to be told of is read before anything is written.
pub(super) async fn look_around(service: &Arc<Service>, key: &Key, uid: &str) -> Result<(), StoreError> {
    let client = &service.client;
    let Some(pool) = desk::fresh(client, key, uid).await? else { return Ok(()) };
    let held = store::read(client, &pool).await?;
    let now = Timestamp::now();
    let agents = desk::agents(client, &pool, now).await?;
    let mut ledger = held.ledger.clone();
    ledger.look(&desk::facts(&pool, &agents), now.as_second());
    let found = find(&pool, &ledger, &agents, now);
    let secrets: Api<Secret> = Api::namespaced(client.clone(), &namespace(&pool));
    let mut failed = Vec::new();
    for (key, id, why) in found.failed {
        let kept = secrets.get_opt(&id.name).await;
        let failure =
            |source| StoreError::Api { verb: "read the Secret of an agent beside", name: id.name.clone(), source };
        let callback = kept.map_err(failure)?.as_ref().map(secret::callback).unwrap_or_default();
        ledger.release(key, now.as_second());
        failed.push((key, id, why, callback));
    }
    if ledger != held.ledger {
        match store::write(client, &pool, &held, &ledger).await {
            Ok(()) => {}
            // Who came before has done it, or the next look will.
            Err(StoreError::Outdated(_)) => {
                service.metrics.conflict();
                return Ok(());
            }
            Err(error) => return Err(error),
        }
    }
    for id in found.late {
        service.metrics.reaped(AzureReaped::Late);
        tracing::info!(pool = pool.name_any(), pod = id.name, "an agent was made after its release: it goes");
        remove(service, &pool, &id).await;
    }
    for (key, id, why, callback) in failed {
        // Beside everything else: Azure DevOps may take its time.
        let (service, pool) = (Arc::clone(service), Arc::clone(&pool));
        tokio::spawn(async move { give_up(&service, &pool, key, &id, why, &callback).await });
    }
    Ok(())
}

fn find(pool: &AgentPool, ledger: &Ledger, agents: &[Agent], now: Timestamp) -> Found {
    let mut found = Found::default();
    let timeout = SignedDuration::try_from(pool.spec.start_timeout()).unwrap_or(SignedDuration::MAX);
    for agent in agents {
        let Some(key) = object_names::key_of(pool, &agent.id.name) else { continue };
        let going = matches!(agent.state, State::Terminating | State::Overdue);
        if let Some(since) = ledger.over_since(key).filter(|_| !going) {
            if now.as_second() - since >= HEAD_START {
                found.late.push(agent.id.clone());
            }
            continue;
        }
        let overdue = now.duration_since(agent.created) >= timeout;
        let why = match agent.state {
            State::Stuck(Stuck::Image) => AzureReaped::Image,
            State::Stuck(Stuck::CrashLoop) => AzureReaped::Ended,
            State::Failed if agent.early => AzureReaped::Ended,
            State::Unschedulable if overdue => AzureReaped::Unschedulable,
            State::Stuck(Stuck::Timeout) => AzureReaped::Timeout,
            State::Starting if overdue => AzureReaped::Timeout,
            _ => continue,
        };
        if ledger.is_live(key) && !pool.spec.is_paused() {
            found.failed.push((key, agent.id.clone(), why));
        }
    }
    found
}

/// Tells Azure Pipelines and the pool that an agent won't come, and takes it away.
async fn give_up(service: &Service, pool: &AgentPool, key: AgentKey, id: &Id, why: AzureReaped, callback: &Callback) {
    service.metrics.reaped(why);
    let text = match why {
        AzureReaped::Ended => "its container ended at once",
        AzureReaped::Image => "an image of its pod can't be pulled",
        AzureReaped::Late => "it was released",
        AzureReaped::Timeout => "its pod didn't start in time",
        AzureReaped::Unschedulable => "no node has room for its pod",
    };
    tracing::warn!(pool = pool.name_any(), pod = id.name, agent = %key, why = text, "an agent won't come");
    service.tell(pool, true, "AzureAgentFailed", format!("pod {}: {text}", id.name)).await;
    let message = format!("podlayer: the agent won't come: {text}");
    for url in [&callback.message_url, &callback.fail_url].into_iter().flatten() {
        let sent = service.settings.callbacks.post(url, callback.token.as_deref(), &message).await;
        service.metrics.called_back(sent.is_ok());
        if let Err(error) = sent {
            tracing::warn!(agent = %key, error = %with_causes(&error), "Azure DevOps can't be told");
        }
    }
    remove(service, pool, id).await;
}

async fn remove(service: &Service, pool: &AgentPool, id: &Id) {
    if let Err(error) = take_away(service, pool, &id.name, &id.uid).await {
        tracing::warn!(pod = id.name, error = %with_causes(&error), "an agent can't be taken away now; the next look tries again");
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::azure::Pods;

    #[test]
    fn p8_what_comes_too_late_or_does_not_start_is_found_and_nothing_at_work_is() {
        let mut pool: AgentPool =
            serde_json::from_value(json!({"apiVersion": "podlayer.dev/v1alpha1", "kind": "AgentPool",
            "metadata": {"name": "p", "namespace": "ci", "uid": "u"},
            "spec": {"mode": "Agents", "max": 9, "azure": {"secretName": "s"}, "startTimeoutSeconds": 60}}))
            .unwrap();
        let now = Timestamp::from_second(1_000_000).unwrap();
        let agent = |id: u8, state: State, age: i64| {
            let name = object_names::agent(&pool, AgentKey::new("u", &id.to_string()));
            let created = now - SignedDuration::from_secs(age);
            Agent {
                id: Id { name, uid: id.to_string(), version: "1".into() },
                state,
                created,
                since: created,
                outdated: false,
                cordoned: false,
                draining: false,
                marked_busy: false,
                early: true,
            }
        };
        let agents = vec![
            agent(0, State::Starting, 59),
            agent(1, State::Starting, 60),
            agent(2, State::Unschedulable, 10),
            agent(3, State::Unschedulable, 100),
            agent(4, State::Stuck(Stuck::Image), 5),
            agent(5, State::Busy, 100_000),
            agent(6, State::Failed, 5),
            Agent { early: false, ..agent(7, State::Failed, 500) },
            agent(8, State::Starting, 1),
            agent(9, State::Terminating, 100),
            agent(10, State::Unknown, 100_000),
            agent(11, State::Succeeded, 100_000),
            agent(12, State::Starting, 1),
        ];
        let mut ledger = Ledger::default();
        for id in 0..13 {
            ledger.admit(AgentKey::new("u", &id.to_string()), 1, 100, &Pods::default(), now.as_second());
        }
        for (released, ago) in [(8, 5), (9, 5), (12, 4)] {
            ledger.release(AgentKey::new("u", &released.to_string()), now.as_second() - ago);
        }
        let uids = |found: &Found| {
            let late: Vec<_> = found.late.iter().map(|id| id.uid.clone()).collect();
            let failed: Vec<_> = found.failed.iter().map(|(_, id, why)| (id.uid.clone(), why.as_str())).collect();
            (late, failed)
        };
        let (late, failed) = uids(&find(&pool, &ledger, &agents, now));
        assert_eq!(late, ["8"]);
        let failed: Vec<(&str, &str)> = failed.iter().map(|(uid, why)| (uid.as_str(), *why)).collect();
        assert_eq!(failed, [("1", "timeout"), ("3", "unschedulable"), ("4", "image"), ("6", "ended")]);
        pool.spec.paused = Some(true);
        let (late, failed) = uids(&find(&pool, &ledger, &agents, now));
        assert!(late == ["8"] && failed.is_empty(), "of a paused pool nothing is taken away but what was released");
    }
}
