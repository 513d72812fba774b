//! What a pool's status says.

use jiff::{Timestamp, Unit};
use serde_json::Value;

use super::{
    api::{AgentPool, AgentPoolStatus, Condition, Inputs, LastDecision, condition},
    size::{Decision, Hold},
};

/// The status of a pool after a decision. Times of conditions that didn't change are kept from `before`.
pub fn status(pool: &AgentPool, decision: &Decision, before: &AgentPoolStatus, now: Timestamp) -> AgentPoolStatus {
    let counts = decision.counts;
    let (reason, message) = why(decision);
    let live = match pool.spec.mode {
        super::api::Mode::Headroom => counts.starting + counts.idle,
        _ => counts.starting + counts.busy + counts.idle,
    };
    let time = |time: Option<Timestamp>| time.map(|time| time.to_string());
    // To the minute, or a busy pool's status would be written each second; and while there is no work, not at all.
    let works = counts.queued > 0 || counts.busy > 0;
    let demand = decision.memory.last_demand.filter(|_| works).and_then(|time| time.round(Unit::Minute).ok());
    AgentPoolStatus {
        observed_generation: pool.metadata.generation,
        selector: format!("{}={}", crate::names::POOL, pool.metadata.name.as_deref().unwrap_or_default()),
        replicas: live,
        desired: decision.desired,
        queued: counts.queued,
        starting: counts.starting,
        busy: counts.busy,
        idle: counts.idle,
        stuck: counts.stuck,
        failed: counts.failed,
        terminating: counts.terminating,
        terminating_stuck: counts.overdue,
        last_scale_up_time: time(decision.memory.last_up).or_else(|| before.last_scale_up_time.clone()),
        last_scale_down_time: time(decision.memory.last_down).or_else(|| before.last_scale_down_time.clone()),
        last_demand_time: time(demand).or_else(|| before.last_demand_time.clone()),
        active_schedule: decision.schedule.clone(),
        last_decision: Some(LastDecision {
            reason,
            message,
            inputs: Inputs { min_idle: decision.min_idle, max: decision.max, replicas: pool.spec.replicas },
        }),
        conditions: conditions(pool, decision, live, before, now),
    }
}

/// Why a decision was what it was: a word and a sentence.
pub fn why(decision: &Decision) -> (String, String) {
    if let Some(hold) = decision.hold {
        return (hold.reason().into(), hold_message(hold).into());
    }
    if let Some(limited) = decision.limited {
        return (limited.reason().into(), limited.message().into());
    }
    if let Some(degraded) = &decision.degraded {
        return (degraded.reason().into(), degraded.message());
    }
    ("AsDesired".into(), "the pool has, or is getting, the size that it should have".into())
}

fn hold_message(hold: Hold) -> &'static str {
    match hold {
        Hold::CacheUnsynced => "not everything was listed yet: nothing is made or taken away",
        Hold::ClockStep => "the clock was set: nothing is taken away until the delay has passed again",
        Hold::NewLeader => "this controller has only just begun to lead: nothing is taken away yet",
        Hold::Paused => "the pool is paused: nothing is made or taken away",
        Hold::SignalStale => "a watch failed: nothing is made or taken away until it works again",
    }
}

fn conditions(
    pool: &AgentPool,
    decision: &Decision,
    live: i32,
    before: &AgentPoolStatus,
    now: Timestamp,
) -> Vec<Condition> {
    let mut all: Vec<(&str, bool, String, String)> = Vec::new();
    let (reason, message) = why(decision);
    let held = matches!(decision.hold, Some(Hold::CacheUnsynced | Hold::SignalStale));
    let ready = !held && decision.degraded.is_none() && live >= decision.desired;
    let ready_reason = if ready {
        "AsDesired".into()
    } else if decision.limited.is_some() || held || decision.degraded.is_some() {
        reason.clone()
    } else {
        "Scaling".into()
    };
    all.push((condition::READY, ready, ready_reason, message.clone()));
    all.push((
        condition::SCALING_ACTIVE,
        !held,
        if held { reason } else { "ValidSignals".into() },
        if held { message } else { "what is seen of the cluster is fresh".into() },
    ));
    all.push(match decision.limited {
        Some(limited) => (condition::SCALING_LIMITED, true, limited.reason().into(), limited.message().into()),
        None => (condition::SCALING_LIMITED, false, "NotLimited".into(), "nothing keeps the pool from its size".into()),
    });
    all.push(match &decision.degraded {
        Some(degraded) => (condition::DEGRADED, true, degraded.reason().into(), degraded.message()),
        None => (condition::DEGRADED, false, "PodsStart".into(), "pods start".into()),
    });
    let paused = pool.spec.is_paused();
    all.push((
        condition::PAUSED,
        paused,
        if paused { "Paused" } else { "NotPaused" }.into(),
        if paused { "spec.paused is true" } else { "the pool is at work" }.into(),
    ));
    let writers = writers_of_replicas(pool);
    let conflict = writers.len() > 1;
    all.push((
        condition::CONFLICT,
        conflict,
        if conflict { "TwoWriters" } else { "OneWriter" }.into(),
        if conflict {
            format!("spec.replicas is written by {}: leave it out of manifests", writers.join(" and "))
        } else {
            "spec.replicas has one writer at most".into()
        },
    ));
    let condition = |(kind, so, reason, message): (&str, bool, String, String)| {
        let status = if so { "True" } else { "False" };
        let old = before.conditions.iter().find(|old| old.kind == kind && old.status == status);
        Condition {
            kind: kind.into(),
            status: status.into(),
            reason,
            // The API server takes 32 KiB; people read the first lines.
            message: message.chars().take(1024).collect(),
            last_transition_time: old.map_or_else(|| whole_seconds(now), |old| old.last_transition_time.clone()),
            observed_generation: pool.metadata.generation,
        }
    };
    all.into_iter().map(condition).collect()
}

fn whole_seconds(now: Timestamp) -> String {
    Timestamp::from_second(now.as_second()).unwrap_or(now).to_string()
}

/// Who wrote `spec.replicas`, beside the default that the API server fills in when the pool is made.
fn writers_of_replicas(pool: &AgentPool) -> Vec<String> {
    let entries = pool.metadata.managed_fields.as_deref().unwrap_or_default();
    let writes = |fields: &Value| fields["f:spec"].get("f:replicas").is_some();
    let mut writers: Vec<String> = entries
        .iter()
        .filter(|entry| entry.fields_v1.as_ref().is_some_and(|fields| writes(&fields.0)))
        .filter_map(|entry| entry.manager.clone())
        .collect();
    writers.sort();
    writers.dedup();
    writers
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::pool::size::{Counts, Degraded, Limited};

    fn pool(managed: &Value) -> AgentPool {
        let spec = json!({"mode": "Observe", "jobSelector": {"matchLabels": {"a": "b"}}, "max": 1});
        serde_json::from_value(json!({"apiVersion": "podlayer.dev/v1alpha1", "kind": "AgentPool",
            "metadata": {"name": "p", "namespace": "ci", "managedFields": managed}, "spec": spec}))
        .unwrap()
    }

    fn of<'s>(status: &'s AgentPoolStatus, kind: &str) -> &'s Condition {
        status.conditions.iter().find(|condition| condition.kind == kind).unwrap()
    }

    #[test]
    fn every_condition_and_reason_is_in_the_documentation() {
        let page = include_str!("../../docs/pools.md");
        let documented = |word: &str| assert!(page.contains(&format!("`{word}`")), "{word} isn't in docs/pools.md");
        let limits = [
            Limited::AtMax,
            Limited::AtMin,
            Limited::Backoff,
            Limited::BusyProtected,
            Limited::MaxPending,
            Limited::QuotaExceeded,
            Limited::RateLimited,
            Limited::Unschedulable,
        ];
        let holds = [Hold::CacheUnsynced, Hold::ClockStep, Hold::NewLeader, Hold::Paused, Hold::SignalStale];
        let degraded = [
            Degraded::ImageError,
            Degraded::InvalidSchedule(String::new()),
            Degraded::InvalidTemplate(String::new()),
            Degraded::NoSample,
            Degraded::StartFailures,
        ];
        limits.iter().for_each(|limited| documented(limited.reason()));
        holds.iter().for_each(|hold| documented(hold.reason()));
        degraded.iter().for_each(|degraded| documented(degraded.reason()));
        // The words of a pool that nothing is wrong with, and of one that is all wrong.
        let wanting = Decision { desired: 1, ..Decision::default() };
        let manager = |name: &str| json!({"manager": name, "operation": "Apply", "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {"f:replicas": {}}}});
        let mut other = pool(&json!([manager("a"), manager("b")]));
        other.spec.paused = Some(true);
        for (pool, decision) in [(pool(&json!([])), Decision::default()), (other, wanting)] {
            let status = status(&pool, &decision, &AgentPoolStatus::default(), Timestamp::UNIX_EPOCH);
            for condition in status.conditions {
                documented(&condition.kind);
                documented(&condition.reason);
            }
        }
    }

    #[test]
    fn scenario_32_two_writers_of_replicas_are_told_by_name() {
        let entry = |manager: &str| json!({"manager": manager, "operation": "Apply", "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {"f:replicas": {}}}});
        let told = |managed: Value| {
            let status =
                status(&pool(&managed), &Decision::default(), &AgentPoolStatus::default(), Timestamp::UNIX_EPOCH);
            let condition = of(&status, condition::CONFLICT);
            (condition.status.clone(), condition.message.clone())
        };
        assert_eq!(told(json!([entry("hpa")])).0, "False");
        let (state, message) = told(json!([entry("helm"), entry("hpa")]));
        assert_eq!(
            (state.as_str(), message.as_str()),
            ("True", "spec.replicas is written by helm and hpa: leave it out of manifests")
        );
    }

    #[test]
    fn scenario_34_a_status_does_not_grow_with_the_pool_and_stays_the_same_while_nothing_changes() {
        let decision = |many: i32| Decision {
            counts: Counts { busy: many, idle: many, failed: many, ..Counts::default() },
            limited: Some(Limited::AtMax),
            ..Decision::default()
        };
        let pool = pool(&json!([]));
        let first = status(&pool, &decision(10_000), &AgentPoolStatus::default(), Timestamp::UNIX_EPOCH);
        assert!(serde_json::to_string(&first).unwrap().len() < 3000);
        let later = Timestamp::from_second(99).unwrap();
        assert_eq!(status(&pool, &decision(10_000), &first, later), first);
        // A pool that has the size it needs is no demand, nor is the time that passes.
        let rest = Decision {
            memory: crate::pool::size::Memory { last_demand: Some(later), ..Default::default() },
            ..Decision::default()
        };
        let told = status(&pool, &rest, &AgentPoolStatus::default(), later);
        assert_eq!(told.last_demand_time, None);
        let changed = status(&pool, &Decision::default(), &first, later);
        assert_eq!(of(&changed, condition::SCALING_LIMITED).last_transition_time, "1970-01-01T00:01:39Z");
        assert_eq!(of(&changed, condition::PAUSED), of(&first, condition::PAUSED));
    }
}
