use std::time::Duration;

use jiff::Timestamp;

use super::{Watched, state, watched::Phase};
use crate::{
    names,
    pool::{
        api::{AgentPoolSpec, Mode},
        size::State,
    },
};

/// Something that happened to a pod and is counted. All times are the API server's and the kubelet's, to the second.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Happening {
    /// A pod that was at work is being evicted: by a drain, a preemption, a taint or its node, not by a plain deletion.
    Evicted,
    /// A job pod got a node, so long after it was made.
    Placed(Duration),
    /// A pool's own pod got ready for the first time, so long after it was made.
    Started(Duration),
}

/// What happened to a pod between two sightings of it. `spec` is that of a pool that it belongs to, or whose job it is.
///
/// Nothing is made of a first sighting: what it shows may have happened long ago, and have been counted by an earlier
/// leader.
pub fn happenings(before: &Watched, now: &Watched, spec: &AgentPoolSpec) -> Vec<Happening> {
    if before.id.uid != now.id.uid {
        return Vec::new();
    }
    let own = now.label(names::POOL).is_some();
    let since = |at: Timestamp| Duration::try_from(at.duration_since(now.created)).unwrap_or_default();
    let ready = now.ready_since().filter(|_| own && now.owned && !before.was_ready);
    let placed = now.scheduled.filter(|_| !own && before.scheduled.is_none());
    let evicted = now.disrupted && !before.disrupted && is_at_work(before, own, spec);
    let mut all = Vec::new();
    all.extend(ready.map(|at| Happening::Started(since(at))));
    all.extend(placed.map(|at| Happening::Placed(since(at))));
    all.extend(evicted.then_some(Happening::Evicted));
    all
}

/// Whether a pod counts as busy, in its pool's way: an agent under Agents, a job otherwise.
fn is_at_work(pod: &Watched, own: bool, spec: &AgentPoolSpec) -> bool {
    match spec.mode {
        // The time makes no difference between these states and others.
        Mode::Agents => own && pod.owned && matches!(state(pod, spec, pod.created).0, State::Busy | State::Unknown),
        Mode::Headroom | Mode::Observe => {
            !own && pod.deletion.is_none() && pod.ended.is_none() && pod.phase != Phase::Pending
        }
    }
}
