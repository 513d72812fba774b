use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ContainerStatus, Pod, PodSpec, PodStatus};

use super::sample::Sample;
use crate::{
    names,
    pool::{api::JobSelector, size::Id},
};

/// What of a pod a decision is made from, read once, when the pod comes: a pod itself is ten times as large.
#[derive(Clone, Debug)]
pub struct Watched {
    /// Which, and in which version.
    pub id: Id,
    /// Its labels: any of them may be what a pool's selector asks for.
    pub labels: BTreeMap<String, String>,
    /// Of a pool's own pod: any of them may say that it is at work.
    pub(super) annotations: BTreeMap<String, String>,
    /// Likewise.
    pub(super) conditions: Vec<Condition>,
    /// Whether an AgentPool controls it.
    pub(super) owned: bool,
    /// Whether somebody holds it back.
    pub(super) gated: bool,
    pub(super) node: Option<Box<str>>,
    pub(super) created: Timestamp,
    /// The end of its grace period.
    pub(super) deletion: Option<Timestamp>,
    /// When its node took it on.
    pub(super) started: Option<Timestamp>,
    pub(super) phase: Phase,
    /// Whether it, or its main container (the first) under a sidecar that goes on, ended; well or not; when.
    pub(super) ended: Option<(bool, Timestamp)>,
    /// What is wrong with an image of its.
    pub(super) image: Option<Image>,
    /// Whether a container of its ends again and again.
    pub(super) looping: bool,
    /// When it got its node.
    pub(super) scheduled: Option<Timestamp>,
    /// Whether it is being evicted.
    pub(super) disrupted: bool,
    /// Whether it was ready once.
    pub(super) was_ready: bool,
    /// Of a pod that is no pool's own.
    sample: Option<Sample>,
}

/// The phases of a pod that didn't end.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Phase {
    Pending,
    Running,
    Unknown,
}

/// What may be wrong with an image.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) enum Image {
    /// It can't be pulled right now.
    Failing,
    /// It can never be had.
    Never,
}

/// One of a pod's conditions.
#[derive(Clone, Debug)]
pub(super) struct Condition {
    kind: Box<str>,
    pub(super) status: Box<str>,
    pub(super) reason: Option<Box<str>>,
    pub(super) since: Option<Timestamp>,
}

impl Watched {
    /// One of its labels.
    pub(super) fn label(&self, key: &str) -> Option<&str> {
        self.labels.get(key).map(String::as_str)
    }

    pub(super) fn condition(&self, kind: &str) -> Option<&Condition> {
        self.conditions.iter().find(|condition| *condition.kind == *kind)
    }

    /// Whether it is one of the job pods that a selector means: no pool's own, and one that has labels at all.
    pub fn is_job_of(&self, selector: &JobSelector) -> bool {
        self.sample.is_some() && !self.labels.is_empty() && selector.matches(&self.labels)
    }

    /// Since when it is ready.
    pub(super) fn ready_since(&self) -> Option<Timestamp> {
        self.condition("Ready").filter(|ready| &*ready.status == "True").and_then(|ready| ready.since)
    }

    /// As what comes after another sighting, which may know what this one no longer shows.
    pub fn after(mut self, before: Option<&Self>) -> Self {
        self.was_ready |= before.is_some_and(|before| before.id.uid == self.id.uid && before.was_ready);
        self
    }

    /// The whole pod, for placeholders to be shaped like it; not of a pool's own.
    pub fn sample(&self) -> Option<&Sample> {
        self.sample.as_ref()
    }
}

impl From<Pod> for Watched {
    fn from(mut pod: Pod) -> Self {
        let status = pod.status.take().unwrap_or_default();
        let (mut metadata, spec) = (pod.metadata, pod.spec);
        // Nobody reads them here, and they are half of a pod's size.
        metadata.managed_fields = None;
        let labelled = metadata.labels.as_ref().is_some_and(|labels| labels.contains_key(names::POOL));
        let sample = (!labelled).then(|| Sample::new(&metadata, spec.as_ref()));
        let spec = spec.unwrap_or_default();
        let created = metadata.creation_timestamp.map_or(Timestamp::UNIX_EPOCH, |time| time.0);
        let owners = metadata.owner_references.as_deref().unwrap_or_default();
        // Only a pod that an AgentPool controls is the pool's: a label alone makes nobody's pod ours.
        let owned = owners.iter().any(|owner| owner.kind == "AgentPool" && owner.controller == Some(true));
        // Nobody asks for more of others' pods.
        let own = labelled || owned;
        let (ended, image) = (ended(&spec, &status, created), waiting(&status).filter_map(image).max());
        let looping = waiting(&status).any(|reason| reason == "CrashLoopBackOff");
        let conditions = status.conditions.unwrap_or_default();
        let is_true =
            |kind: &str| conditions.iter().find(|condition| condition.type_ == kind && condition.status == "True");
        let scheduled = is_true("PodScheduled").and_then(|condition| condition.last_transition_time.as_ref());
        let scheduled = scheduled.map(|time| time.0);
        let (disrupted, was_ready) = (is_true("DisruptionTarget").is_some(), is_true("Ready").is_some());
        let conditions = conditions.into_iter().map(|condition| Condition {
            kind: condition.type_.into(),
            status: condition.status.into(),
            reason: condition.reason.map(Into::into),
            since: condition.last_transition_time.map(|time| time.0),
        });
        let conditions = if own { conditions.collect() } else { Vec::new() };
        Self {
            id: Id {
                name: metadata.name.unwrap_or_default(),
                uid: metadata.uid.unwrap_or_default(),
                version: metadata.resource_version.unwrap_or_default(),
            },
            labels: metadata.labels.unwrap_or_default(),
            annotations: metadata.annotations.filter(|_| own).unwrap_or_default(),
            conditions,
            owned,
            gated: spec.scheduling_gates.is_some_and(|gates| !gates.is_empty()),
            node: spec.node_name.filter(|name| !name.is_empty()).map(Into::into),
            created,
            deletion: metadata.deletion_timestamp.map(|time| time.0),
            started: status.start_time.map(|time| time.0),
            phase: match status.phase.as_deref() {
                Some("Running") => Phase::Running,
                Some("Unknown") => Phase::Unknown,
                _ => Phase::Pending,
            },
            ended,
            image,
            looping,
            scheduled,
            disrupted,
            was_ready,
            sample,
        }
    }
}

fn ended(spec: &PodSpec, status: &PodStatus, created: Timestamp) -> Option<(bool, Timestamp)> {
    let statuses = statuses(status);
    let main = spec.containers.first().and_then(|main| {
        let status = statuses.iter().find(|status| status.name == main.name)?;
        status.state.as_ref()?.terminated.as_ref()
    });
    let at = || {
        let ends =
            statuses.iter().filter_map(|status| status.state.as_ref()?.terminated.as_ref()?.finished_at.as_ref());
        ends.map(|time| time.0).max().unwrap_or(created)
    };
    match status.phase.as_deref() {
        Some("Succeeded") => return Some((true, at())),
        Some("Failed") => return Some((false, at())),
        _ => {}
    }
    match (spec.restart_policy.as_deref().unwrap_or("Always"), main?.exit_code) {
        ("Never", code) => Some((code == 0, at())),
        ("OnFailure", 0) => Some((true, at())),
        // It is started again.
        _ => None,
    }
}

fn image(reason: &str) -> Option<Image> {
    match reason {
        "InvalidImageName" | "ErrImageNeverPull" => Some(Image::Never),
        "ErrImagePull" | "ImagePullBackOff" | "ImageInspectError" | "RegistryUnavailable" => Some(Image::Failing),
        _ => None,
    }
}

fn waiting(status: &PodStatus) -> impl Iterator<Item = &str> {
    let init = status.init_container_statuses.as_deref().unwrap_or_default();
    let all = init.iter().chain(statuses(status));
    all.filter_map(|status| status.state.as_ref()?.waiting.as_ref()?.reason.as_deref())
}

fn statuses(status: &PodStatus) -> &[ContainerStatus] {
    status.container_statuses.as_deref().unwrap_or_default()
}
