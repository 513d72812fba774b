//! From pods as the API server tells them to what a decision is made from.

use jiff::{SignedDuration, Timestamp};

use super::{
    api::{AgentPoolSpec, BusySource, Mode},
    core::Seen,
    size::{Agent, Jobs, State, Stuck},
};
use crate::names;

mod happening;
mod sample;
mod watched;

pub use happening::{Happening, happenings};
pub use sample::Sample;
pub use watched::Watched;
use watched::{Image, Phase};

/// How long an image may fail to be pulled: registries have hiccups, and kubelets try again by themselves.
const IMAGE_GRACE: SignedDuration = SignedDuration::from_secs(30);
/// How long past its time a pod may still be there: a kubelet needs a moment, a lost node doesn't answer at all.
const GOING_GRACE: SignedDuration = SignedDuration::from_secs(60);
/// A pod that ran for less failed to start, whatever its exit code says.
const EARLY: SignedDuration = SignedDuration::from_secs(30);

/// Sorts the pods of a namespace into a pool's own and its job pods. `version` is that of the pool's shape, where pods of
/// another are to go.
pub fn observe<'p>(
    pool: &str,
    spec: &AgentPoolSpec,
    version: Option<&str>,
    pods: impl Iterator<Item = &'p Watched>,
    is_cordoned: impl Fn(&str) -> bool,
    now: Timestamp,
) -> Seen {
    let mut seen = Seen::default();
    for pod in pods {
        match pod.label(names::POOL) {
            Some(name) => {
                let kind = pod.label(names::POOL_KIND).unwrap_or_default();
                let ours = [names::POOL_KIND_AGENT, names::POOL_KIND_HEADROOM].contains(&kind);
                if name == pool && ours && pod.owned {
                    let mut agent = agent(pod, spec, now);
                    agent.cordoned = pod.node.as_deref().is_some_and(&is_cordoned);
                    let wrong_kind = (kind == names::POOL_KIND_AGENT) != (spec.mode == Mode::Agents);
                    let old = version.is_some_and(|version| pod.label(names::POOL_TEMPLATE) != Some(version));
                    agent.outdated = wrong_kind || old;
                    seen.agents.push(agent);
                }
            }
            None if pod.is_job_of(&spec.job_selector) => count_job(pod, now, &mut seen.jobs),
            None => {}
        }
    }
    seen
}

/// The newest job pod of a pool: what placeholders are shaped like.
pub fn newest<'p>(spec: &AgentPoolSpec, pods: impl Iterator<Item = &'p Watched>) -> Option<&'p Sample> {
    let jobs = pods.filter(|pod| pod.is_job_of(&spec.job_selector));
    jobs.max_by_key(|pod| (pod.created, &pod.id.name)).and_then(Watched::sample)
}

fn count_job(pod: &Watched, now: Timestamp, jobs: &mut Jobs) {
    match pod.ended {
        _ if pod.deletion.is_some() => jobs.terminating += 1,
        Some((true, _)) => {}
        Some((false, _)) => jobs.failed += 1,
        None if pod.phase != Phase::Pending => jobs.busy += 1,
        // Held back by somebody (a queue's quota): it could not run if there were room.
        None if pod.gated => {}
        None if pod.node.is_none() => jobs.queued += 1,
        None if bad_image(pod, now) => jobs.stuck += 1,
        None => jobs.starting += 1,
    }
}

fn agent(pod: &Watched, spec: &AgentPoolSpec, now: Timestamp) -> Agent {
    let is_set = |key: &str| pod.label(key) == Some("true");
    let (state, since) = state(pod, spec, now);
    // At work, all of its marks must be there; idle, none.
    let annotation = pod.annotations.contains_key(names::SAFE_TO_EVICT);
    let annotation = if spec.annotates() { annotation } else { is_set(names::POOL_BUSY) };
    let marked_busy = match state {
        State::Busy | State::Unknown => is_set(names::POOL_BUSY) && annotation,
        _ => is_set(names::POOL_BUSY) || annotation,
    };
    let early = pod.started.is_none_or(|started| since.duration_since(started) < EARLY);
    Agent {
        id: pod.id.clone(),
        state,
        created: pod.created,
        since,
        outdated: false,
        cordoned: false,
        draining: is_set(names::POOL_DRAINING),
        marked_busy,
        early: state == State::Failed && early,
    }
}

/// What a pool's own pod is doing, and since when.
pub fn state(pod: &Watched, spec: &AgentPoolSpec, now: Timestamp) -> (State, Timestamp) {
    if let Some(deletion) = pod.deletion {
        // It holds the end of the grace period, not its start.
        let overdue = now.duration_since(deletion) > GOING_GRACE;
        return (if overdue { State::Overdue } else { State::Terminating }, deletion);
    }
    if let Some((well, at)) = pod.ended {
        return (if well { State::Succeeded } else { State::Failed }, at);
    }
    let ready = pod.condition("Ready");
    let since = ready.and_then(|ready| ready.since).unwrap_or(pod.created);
    if pod.phase == Phase::Unknown || ready.is_some_and(|ready| &*ready.status == "Unknown") {
        return (State::Unknown, since);
    }
    let late = |from: Timestamp| {
        SignedDuration::try_from(spec.start_timeout()).is_ok_and(|timeout| now.duration_since(from) >= timeout)
    };
    if pod.phase != Phase::Running {
        let scheduled = pod.condition("PodScheduled");
        let unschedulable =
            scheduled.is_some_and(|c| &*c.status == "False" && c.reason.as_deref() == Some("Unschedulable"));
        let state = match pod.node {
            None if unschedulable => State::Unschedulable,
            Some(_) if bad_image(pod, now) => State::Stuck(Stuck::Image),
            Some(_) if late(pod.created) => State::Stuck(Stuck::Timeout),
            _ => State::Starting,
        };
        return (state, pod.created);
    }
    // Placeholders have no work to be busy with.
    let busy = if spec.mode == Mode::Headroom { Some(false) } else { is_busy(pod, spec) };
    let state = match busy {
        Some(true) => State::Busy,
        None => State::Unknown,
        Some(false) if pod.looping => State::Stuck(Stuck::CrashLoop),
        Some(false) if ready.is_some_and(|ready| &*ready.status == "True") => State::Idle,
        Some(false) if late(since) => State::Stuck(Stuck::Timeout),
        Some(false) => State::Starting,
    };
    (state, since)
}

/// Whether a running agent is at work, as far as that is known.
fn is_busy(pod: &Watched, spec: &AgentPoolSpec) -> Option<bool> {
    let rule = spec.busy.as_ref();
    let key = rule.and_then(|rule| rule.key.as_deref()).unwrap_or(names::POOL_BUSY);
    let value = rule.and_then(|rule| rule.value.as_deref());
    match spec.busy_source() {
        BusySource::PodPhase => Some(true),
        BusySource::Label => Some(pod.label(key).is_some_and(|found| found == value.unwrap_or("true"))),
        BusySource::Annotation => Some(pod.annotations.get(key).is_some_and(|found| found == value.unwrap_or("true"))),
        BusySource::ReadinessGate => match &*pod.condition(key)?.status {
            "Unknown" => None,
            status => Some(status == value.unwrap_or("False")),
        },
    }
}

fn bad_image(pod: &Watched, now: Timestamp) -> bool {
    match pod.image {
        Some(Image::Never) => true,
        Some(Image::Failing) => now.duration_since(pod.created) >= IMAGE_GRACE,
        None => false,
    }
}

#[cfg(test)]
mod scenarios;
