use std::collections::BTreeSet;

use jiff::Timestamp;

/// All that a decision is made from, beside the spec and the time.
#[derive(Clone, Debug, Default)]
pub struct Observation {
    /// The pool's own pods.
    pub agents: Vec<Agent>,
    /// The job pods, none of which is the pool's own.
    pub jobs: Jobs,
    /// Whether the above can be relied on.
    pub view: View,
    /// Whether whoever decides has led, with a full view, for as long as a resync takes.
    pub settled: bool,
    /// Pods that were asked for and haven't been seen yet.
    pub in_flight: i32,
    /// Headroom: why there is no shape to make placeholders of; Agents: why the template is no pod.
    pub shapeless: Option<Shapeless>,
    /// What earlier decisions left.
    pub memory: Memory,
}

/// Whether what was seen can be relied on.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum View {
    /// It is as new as watches make it.
    #[default]
    Fresh,
    /// A watch or list failed and nothing has shown since that it works again.
    Stale,
    /// Not everything was listed yet.
    Unsynced,
}

/// Why no pod can be made.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Shapeless {
    /// The template can't be used.
    InvalidTemplate(String),
    /// No job pod was seen yet whose shape the placeholders could have.
    NoSample,
}

/// One of the pool's own pods.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Agent {
    /// Which.
    pub id: Id,
    /// What it is doing.
    pub state: State,
    /// When it was made.
    pub created: Timestamp,
    /// Since when it is idle; for others, since when they are what they are, as far as is known.
    pub since: Timestamp,
    /// Made from a template that isn't the newest, or for another mode.
    pub outdated: bool,
    /// On a node that takes no more pods.
    pub cordoned: bool,
    /// Marked as going: nobody may give it work.
    pub draining: bool,
    /// Whether it carries the label that its budget looks for.
    pub marked_busy: bool,
    /// It failed within half a minute: a failure to start rather than of a job.
    pub early: bool,
}

/// Which pod, and in which version it was looked at: what a deletion is tied to.
#[derive(Clone, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
pub struct Id {
    /// Its name.
    pub name: String,
    /// Its uid.
    pub uid: String,
    /// Its resourceVersion.
    pub version: String,
}

/// What a pod is doing.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum State {
    /// At work.
    Busy,
    /// It, or its main container, ended badly.
    Failed,
    /// Ready, and positively not at work.
    Idle,
    /// Should be gone by now and isn't.
    Overdue,
    /// On its way.
    Starting,
    /// Won't start.
    Stuck(Stuck),
    /// It, or its main container, ended well.
    Succeeded,
    /// Going.
    Terminating,
    /// Nobody knows: counts as busy.
    Unknown,
    /// No node has room for it.
    Unschedulable,
}

/// Why a pod won't start.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Stuck {
    /// Its containers end again and again.
    CrashLoop,
    /// An image that isn't there.
    Image,
    /// It takes too long.
    Timeout,
}

/// The job pods.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Jobs {
    /// Pending, on no node.
    pub queued: i32,
    /// On a node, not running yet.
    pub starting: i32,
    /// Running.
    pub busy: i32,
    /// They don't start.
    pub stuck: i32,
    /// Going.
    pub terminating: i32,
    /// Failed, still there.
    pub failed: i32,
}

/// What one decision leaves for the next. Counts of pods are never in here: those come from the pods.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Memory {
    /// When the last decision was made.
    pub last_tick: Option<Timestamp>,
    /// What may still be made at once, in 1/60000 of a pod (a rate of one a minute makes one of these a millisecond).
    pub tokens: i64,
    /// When the pool was last needed at its size.
    pub last_demand: Option<Timestamp>,
    /// When pods were last made.
    pub last_up: Option<Timestamp>,
    /// When pods were last taken away.
    pub last_down: Option<Timestamp>,
    /// Failures to start in a row.
    pub failures: u32,
    /// When the last of them was seen.
    pub last_failure: Option<Timestamp>,
    /// Pods that were counted as failures and are still there.
    pub counted: BTreeSet<String>,
    /// Until when a quota's refusal keeps us from asking again.
    pub quota_until: Option<Timestamp>,
}
