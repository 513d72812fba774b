use jiff::SignedDuration;

use super::observation::{Id, Memory, State, Stuck};

/// What is to be done, and why.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Decision {
    /// How many pods the pool should hold.
    pub desired: i32,
    /// The idle floor in force.
    pub min_idle: i32,
    /// The ceiling in force.
    pub max: i32,
    /// The schedule in force.
    pub schedule: Option<String>,
    /// What was counted.
    pub counts: Counts,
    /// How many pods to make.
    pub create: i32,
    /// Idle agents to mark as going.
    pub drain: Vec<Id>,
    /// Agents whose mark to take away.
    pub undrain: Vec<Id>,
    /// Idle pods to delete, each only as it was seen.
    pub delete: Vec<Id>,
    /// Pods that are no capacity any more, to delete.
    pub reap: Vec<Id>,
    /// What kept the pool from the size that it should have.
    pub limited: Option<Limited>,
    /// Pods that were found not to start, each in one decision only.
    pub start_failures: Vec<StartFailure>,
    /// What is wrong with its pods.
    pub degraded: Option<Degraded>,
    /// Why nothing was taken away (and unless the view is good, nothing made).
    pub hold: Option<Hold>,
    /// When to decide again if nothing happens before.
    pub again: SignedDuration,
    /// For the next decision.
    pub memory: Memory,
}

/// What was counted, as the mode counts it.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Counts {
    /// Job pods that wait for a place.
    pub queued: i32,
    /// On their way.
    pub starting: i32,
    /// At work, or nobody knows.
    pub busy: i32,
    /// Waiting for work.
    pub idle: i32,
    /// Idle and marked as going.
    pub draining: i32,
    /// They don't start.
    pub stuck: i32,
    /// They failed.
    pub failed: i32,
    /// Going.
    pub terminating: i32,
    /// Should be gone.
    pub overdue: i32,
}

/// What kept a pool from the size that it should have.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Limited {
    /// `max` is reached.
    AtMax,
    /// `replicas` asks for less than demand and minIdle need.
    AtMin,
    /// Pods failed: waiting before the next try.
    Backoff,
    /// It may not get smaller than what is at work.
    BusyProtected,
    /// `maxPending` pods wait to start.
    MaxPending,
    /// A quota refused pods.
    QuotaExceeded,
    /// `scaleUp` or `scaleDown` bound the step.
    RateLimited,
    /// No node has room for pods for longer than `startTimeoutSeconds`.
    Unschedulable,
}

/// What is wrong with a pool's pods.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Degraded {
    /// An image that can't be had.
    ImageError,
    /// A schedule can't be read.
    InvalidSchedule(String),
    /// The template is no pod.
    InvalidTemplate(String),
    /// Headroom without a template, and no job pod seen yet.
    NoSample,
    /// Pods end or hang before they are ready.
    StartFailures,
}

/// How a pod failed to start.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum StartFailure {
    /// Its containers end again and again.
    CrashLoop,
    /// It failed within half a minute.
    Ended,
    /// An image that isn't there.
    Image,
    /// It took too long.
    Timeout,
}

/// Why nothing was taken away.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Hold {
    /// Not everything was listed yet.
    CacheUnsynced,
    /// The clock was set.
    ClockStep,
    /// Whoever decides has only just become leader.
    NewLeader,
    /// `paused`.
    Paused,
    /// What was seen may be old.
    SignalStale,
}

impl Limited {
    /// The reason of the condition.
    pub fn reason(self) -> &'static str {
        match self {
            Self::AtMax => "AtMax",
            Self::AtMin => "AtMin",
            Self::Backoff => "Backoff",
            Self::BusyProtected => "BusyProtected",
            Self::MaxPending => "MaxPending",
            Self::QuotaExceeded => "QuotaExceeded",
            Self::RateLimited => "RateLimited",
            Self::Unschedulable => "Unschedulable",
        }
    }

    /// A sentence for people.
    pub fn message(self) -> &'static str {
        match self {
            Self::AtMax => "max is reached",
            Self::AtMin => "replicas asks for less than demand and minIdle need",
            Self::Backoff => "pods failed to start: waiting before the next try",
            Self::BusyProtected => "less was asked for than is at work: busy agents stay",
            Self::MaxPending => "maxPending pods are waiting to start",
            Self::QuotaExceeded => "a ResourceQuota refused pods: trying again after 30 s",
            Self::RateLimited => "scaleUp or scaleDown bounds the step",
            Self::Unschedulable => "no node has room for the pods that are there: no more are made",
        }
    }
}

impl StartFailure {
    /// Its word in metrics.
    pub fn reason(self) -> &'static str {
        match self {
            Self::CrashLoop => "crash_loop",
            Self::Ended => "ended",
            Self::Image => "image",
            Self::Timeout => "timeout",
        }
    }

    /// What the state of a pod that failed to start says.
    pub(super) fn of(state: State) -> Self {
        match state {
            State::Stuck(Stuck::CrashLoop) => Self::CrashLoop,
            State::Stuck(Stuck::Image) => Self::Image,
            State::Stuck(Stuck::Timeout) => Self::Timeout,
            _ => Self::Ended,
        }
    }
}

impl Degraded {
    /// The reason of the condition.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::ImageError => "ImageError",
            Self::InvalidSchedule(_) => "InvalidSchedule",
            Self::InvalidTemplate(_) => "InvalidTemplate",
            Self::NoSample => "NoSample",
            Self::StartFailures => "StartFailures",
        }
    }

    /// A sentence for people.
    pub fn message(&self) -> String {
        match self {
            Self::ImageError => "an image of the pool's pods can't be pulled: look at their events".into(),
            Self::InvalidSchedule(why) | Self::InvalidTemplate(why) => why.clone(),
            Self::NoSample => "no job pod was seen yet whose shape placeholders could have: give a template".into(),
            Self::StartFailures => "pods end or hang before they are ready: look at their events and logs".into(),
        }
    }

    /// What a pod that is stuck says about its pool.
    pub(super) fn of(stuck: Stuck) -> Self {
        match stuck {
            Stuck::Image => Self::ImageError,
            Stuck::CrashLoop | Stuck::Timeout => Self::StartFailures,
        }
    }
}

impl Hold {
    /// The reason of the condition.
    pub fn reason(self) -> &'static str {
        match self {
            Self::CacheUnsynced => "CacheUnsynced",
            Self::ClockStep => "ClockStep",
            Self::NewLeader => "NewLeader",
            Self::Paused => "Paused",
            Self::SignalStale => "SignalStale",
        }
    }
}
