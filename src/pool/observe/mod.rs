//! From pods as the API server tells them to what a decision is made from.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{ContainerStatus, Pod, PodCondition};

use super::{
    api::{AgentPoolSpec, BusySource, Mode},
    core::Seen,
    size::{Agent, Id, Jobs, State, Stuck},
};
use crate::names;

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
    pods: impl Iterator<Item = &'p Pod>,
    is_cordoned: impl Fn(&str) -> bool,
    now: Timestamp,
) -> Seen {
    let mut seen = Seen::default();
    for pod in pods {
        let labels = pod.metadata.labels.as_ref();
        let label = |key: &str| labels.and_then(|labels| labels.get(key)).map(String::as_str);
        match label(names::POOL) {
            Some(name) => {
                let kind = label(names::POOL_KIND).unwrap_or_default();
                let ours = [names::POOL_KIND_AGENT, names::POOL_KIND_HEADROOM].contains(&kind);
                if name == pool && ours && owned(pod) {
                    let mut agent = agent(pod, spec, now);
                    agent.cordoned = node(pod).is_some_and(&is_cordoned);
                    let wrong_kind = (kind == names::POOL_KIND_AGENT) != (spec.mode == Mode::Agents);
                    let old = version.is_some_and(|version| label(names::POOL_TEMPLATE) != Some(version));
                    agent.outdated = wrong_kind || old;
                    seen.agents.push(agent);
                }
            }
            None if labels.is_some_and(|labels| spec.job_selector.matches(labels)) => {
                count_job(pod, now, &mut seen.jobs);
            }
            None => {}
        }
    }
    seen
}

/// The newest job pod of a pool: what placeholders are shaped like.
pub fn newest<'p>(spec: &AgentPoolSpec, pods: impl Iterator<Item = &'p Pod>) -> Option<&'p Pod> {
    let is_job = |pod: &&Pod| {
        pod.metadata
            .labels
            .as_ref()
            .is_some_and(|labels| !labels.contains_key(names::POOL) && spec.job_selector.matches(labels))
    };
    pods.filter(is_job).max_by_key(|pod| (created(pod), pod.metadata.name.as_deref()))
}

/// Only a pod that an AgentPool controls is the pool's: a label alone makes nobody's pod ours.
fn owned(pod: &Pod) -> bool {
    let owners = pod.metadata.owner_references.as_deref().unwrap_or_default();
    owners.iter().any(|owner| owner.kind == "AgentPool" && owner.controller == Some(true))
}

fn count_job(pod: &Pod, now: Timestamp, jobs: &mut Jobs) {
    let gated =
        pod.spec.as_ref().and_then(|spec| spec.scheduling_gates.as_ref()).is_some_and(|gates| !gates.is_empty());
    match ended(pod) {
        _ if pod.metadata.deletion_timestamp.is_some() => jobs.terminating += 1,
        Some((true, _)) => {}
        Some((false, _)) => jobs.failed += 1,
        None if phase(pod) == "Running" || phase(pod) == "Unknown" => jobs.busy += 1,
        // Held back by somebody (a queue's quota): it could not run if there were room.
        None if gated => {}
        None if node(pod).is_none() => jobs.queued += 1,
        None if bad_image(pod, now) => jobs.stuck += 1,
        None => jobs.starting += 1,
    }
}

fn agent(pod: &Pod, spec: &AgentPoolSpec, now: Timestamp) -> Agent {
    let metadata = &pod.metadata;
    let is_set =
        |key: &str| metadata.labels.as_ref().and_then(|labels| labels.get(key)).is_some_and(|value| value == "true");
    let (state, since) = state(pod, spec, now);
    // At work, all of its marks must be there; idle, none.
    let annotation =
        metadata.annotations.as_ref().is_some_and(|annotations| annotations.contains_key(names::SAFE_TO_EVICT));
    let annotation = if spec.annotates() { annotation } else { is_set(names::POOL_BUSY) };
    let marked_busy = match state {
        State::Busy | State::Unknown => is_set(names::POOL_BUSY) && annotation,
        _ => is_set(names::POOL_BUSY) || annotation,
    };
    let ran = pod.status.as_ref().and_then(|status| status.start_time.as_ref()).map(|time| time.0);
    let early = ran.is_none_or(|started| since.duration_since(started) < EARLY);
    Agent {
        id: Id {
            name: metadata.name.clone().unwrap_or_default(),
            uid: metadata.uid.clone().unwrap_or_default(),
            version: metadata.resource_version.clone().unwrap_or_default(),
        },
        state,
        created: created(pod),
        since,
        outdated: false,
        cordoned: false,
        draining: is_set(names::POOL_DRAINING),
        marked_busy,
        early: state == State::Failed && early,
    }
}

/// What a pool's own pod is doing, and since when.
pub fn state(pod: &Pod, spec: &AgentPoolSpec, now: Timestamp) -> (State, Timestamp) {
    if let Some(deletion) = &pod.metadata.deletion_timestamp {
        // It holds the end of the grace period, not its start.
        let overdue = now.duration_since(deletion.0) > GOING_GRACE;
        return (if overdue { State::Overdue } else { State::Terminating }, deletion.0);
    }
    if let Some((well, at)) = ended(pod) {
        return (if well { State::Succeeded } else { State::Failed }, at);
    }
    let ready = condition(pod, "Ready");
    let since = ready.and_then(|ready| ready.last_transition_time.as_ref()).map_or_else(|| created(pod), |time| time.0);
    if phase(pod) == "Unknown" || ready.is_some_and(|ready| ready.status == "Unknown") {
        return (State::Unknown, since);
    }
    let late = |from: Timestamp| {
        SignedDuration::try_from(spec.start_timeout()).is_ok_and(|timeout| now.duration_since(from) >= timeout)
    };
    if phase(pod) != "Running" {
        let scheduled = condition(pod, "PodScheduled");
        let unschedulable =
            scheduled.is_some_and(|c| c.status == "False" && c.reason.as_deref() == Some("Unschedulable"));
        let state = match node(pod) {
            None if unschedulable => State::Unschedulable,
            Some(_) if bad_image(pod, now) => State::Stuck(Stuck::Image),
            Some(_) if late(created(pod)) => State::Stuck(Stuck::Timeout),
            _ => State::Starting,
        };
        return (state, created(pod));
    }
    // Placeholders have no work to be busy with.
    let busy = if spec.mode == Mode::Headroom { Some(false) } else { is_busy(pod, spec) };
    let looping = waiting(pod).any(|reason| reason == "CrashLoopBackOff");
    let state = match busy {
        Some(true) => State::Busy,
        None => State::Unknown,
        Some(false) if looping => State::Stuck(Stuck::CrashLoop),
        Some(false) if ready.is_some_and(|ready| ready.status == "True") => State::Idle,
        Some(false) if late(since) => State::Stuck(Stuck::Timeout),
        Some(false) => State::Starting,
    };
    (state, since)
}

/// Whether a running agent is at work, as far as that is known.
fn is_busy(pod: &Pod, spec: &AgentPoolSpec) -> Option<bool> {
    let rule = spec.busy.as_ref();
    let key = rule.and_then(|rule| rule.key.as_deref()).unwrap_or(names::POOL_BUSY);
    let value = rule.and_then(|rule| rule.value.as_deref());
    match spec.busy_source() {
        BusySource::PodPhase => Some(true),
        BusySource::Label => {
            let found = pod.metadata.labels.as_ref().and_then(|labels| labels.get(key));
            Some(found.is_some_and(|found| found == value.unwrap_or("true")))
        }
        BusySource::Annotation => {
            let found = pod.metadata.annotations.as_ref().and_then(|annotations| annotations.get(key));
            Some(found.is_some_and(|found| found == value.unwrap_or("true")))
        }
        BusySource::ReadinessGate => match condition(pod, key)?.status.as_str() {
            "Unknown" => None,
            status => Some(status == value.unwrap_or("False")),
        },
    }
}

/// Whether a pod, or its main container (the first) under a sidecar that goes on, ended; well or not; when.
fn ended(pod: &Pod) -> Option<(bool, Timestamp)> {
    let statuses = statuses(pod);
    let main = pod.spec.as_ref().and_then(|spec| spec.containers.first()).and_then(|main| {
        let status = statuses.iter().find(|status| status.name == main.name)?;
        status.state.as_ref()?.terminated.as_ref()
    });
    let at = |pod: &Pod| {
        let ends =
            statuses.iter().filter_map(|status| status.state.as_ref()?.terminated.as_ref()?.finished_at.as_ref());
        ends.map(|time| time.0).max().unwrap_or_else(|| created(pod))
    };
    match phase(pod) {
        "Succeeded" => return Some((true, at(pod))),
        "Failed" => return Some((false, at(pod))),
        _ => {}
    }
    let main = main?;
    let policy = pod.spec.as_ref().and_then(|spec| spec.restart_policy.as_deref()).unwrap_or("Always");
    match (policy, main.exit_code) {
        ("Never", code) => Some((code == 0, at(pod))),
        ("OnFailure", 0) => Some((true, at(pod))),
        // It is started again.
        _ => None,
    }
}

fn bad_image(pod: &Pod, now: Timestamp) -> bool {
    waiting(pod).any(|reason| match reason {
        "InvalidImageName" | "ErrImageNeverPull" => true,
        "ErrImagePull" | "ImagePullBackOff" | "ImageInspectError" | "RegistryUnavailable" => {
            now.duration_since(created(pod)) >= IMAGE_GRACE
        }
        _ => false,
    })
}

fn waiting(pod: &Pod) -> impl Iterator<Item = &str> {
    let status = pod.status.as_ref();
    let init = status.and_then(|status| status.init_container_statuses.as_deref()).unwrap_or_default();
    init.iter().chain(statuses(pod)).filter_map(|status| status.state.as_ref()?.waiting.as_ref()?.reason.as_deref())
}

fn statuses(pod: &Pod) -> &[ContainerStatus] {
    pod.status.as_ref().and_then(|status| status.container_statuses.as_deref()).unwrap_or_default()
}

fn phase(pod: &Pod) -> &str {
    pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or("Pending")
}

fn node(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()).filter(|name| !name.is_empty())
}

fn created(pod: &Pod) -> Timestamp {
    pod.metadata.creation_timestamp.as_ref().map_or(Timestamp::UNIX_EPOCH, |time| time.0)
}

fn condition<'p>(pod: &'p Pod, kind: &str) -> Option<&'p PodCondition> {
    pod.status.as_ref()?.conditions.as_ref()?.iter().find(|condition| condition.type_ == kind)
}

#[cfg(test)]
mod scenarios;
