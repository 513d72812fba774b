//! How large a pool should be: one pure function.
//!
//! ```text
//! spec ─┐
//!       ├─ size ─▶ Decision: how many to make, which to drain, delete, reap; why; what to remember
//! what was seen, what was remembered, the time
//! ```
//! It knows no clock and no API server. What isn't known is held: an agent goes only when it was seen, positively and
//! freshly, to have no work.

mod decision;
mod observation;
pub mod schedule;

pub use decision::{Counts, Decision, Degraded, Hold, Limited, StartFailure};
pub use observation::{Agent, Id, Jobs, Memory, Observation, Shapeless, State, Stuck, View};

use jiff::{SignedDuration, Timestamp};

use crate::pool::api::{AgentPoolSpec, Mode, Order};

/// How long a pod that ended stays, so that people can look at it.
const FINISHED_STAYS: SignedDuration = SignedDuration::from_secs(30);
/// Decisions are never further apart than [`AT_LATEST`]; a time between two that is longer than this was no waiting.
const CLOCK_STEP: SignedDuration = SignedDuration::from_secs(180);
/// When to decide again if nothing happens: schedules are to the minute, and this is well within one.
const AT_LATEST: SignedDuration = SignedDuration::from_secs(15);
/// When to decide again while something is under way.
const SOON: SignedDuration = SignedDuration::from_secs(1);
/// One pod in the units of [`Memory::tokens`].
const TOKENS_PER_POD: i64 = 60_000;

/// Decides what a pool needs. The same input gives the same answer.
pub fn size(spec: &AgentPoolSpec, seen: &Observation, now: Timestamp) -> Decision {
    let (mut min_idle, mut max) = (spec.min_idle.unwrap_or(0), spec.max);
    let mut decision = Decision { memory: seen.memory.clone(), again: AT_LATEST, ..Decision::default() };
    match schedule::active(&spec.schedules, now) {
        Ok(Some(schedule)) => {
            min_idle = schedule.min_idle.unwrap_or(min_idle);
            max = schedule.max.unwrap_or(max);
            decision.schedule = Some(schedule.name.clone());
        }
        Ok(None) => {}
        Err(error) => decision.degraded = Some(Degraded::InvalidSchedule(error.to_string())),
    }
    decision.max = max;
    decision.min_idle = min_idle.min(max);
    decision.counts = count(spec.mode, seen);

    let own = Own::of(seen);
    decision.desired = desired(spec, seen, &own, decision.min_idle, max);
    decision.hold = hold(spec, seen, now);
    remember(spec, seen, &own, now, &mut decision);
    if spec.mode == Mode::Observe {
        return decision;
    }
    if spec.is_paused() {
        decision.desired = own.live();
        return decision;
    }
    create(spec, seen, &own, now, &mut decision);
    if decision.hold.is_none() {
        shrink(spec, seen, &own, now, &mut decision);
    }
    if decision.create > 0 {
        decision.memory.last_up = Some(now);
    }
    if !decision.delete.is_empty() {
        decision.memory.last_down = Some(now);
    }
    let busy_hands = decision.limited.is_some()
        || decision.hold.is_some()
        || decision.desired != own.live()
        || !decision.drain.is_empty()
        || !decision.reap.is_empty()
        || own.draining + own.stuck + own.failed > 0;
    decision.again = if busy_hands { SOON } else { AT_LATEST };
    decision
}

/// The pool's own pods, counted.
struct Own {
    starting: i32,
    busy: i32,
    idle: i32,
    draining: i32,
    stuck: i32,
    failed: i32,
    terminating: i32,
    overdue: i32,
}

impl Own {
    fn of(seen: &Observation) -> Self {
        let count = |of: &dyn Fn(&Agent) -> bool| {
            i32::try_from(seen.agents.iter().filter(|agent| of(agent)).count()).unwrap_or(i32::MAX)
        };
        Self {
            starting: count(&|agent| matches!(agent.state, State::Starting | State::Unschedulable)),
            busy: count(&|agent| matches!(agent.state, State::Busy | State::Unknown)),
            idle: count(&|agent| agent.state == State::Idle && !agent.draining),
            draining: count(&|agent| agent.state == State::Idle && agent.draining),
            stuck: count(&|agent| matches!(agent.state, State::Stuck(_))),
            failed: count(&|agent| agent.state == State::Failed),
            terminating: count(&|agent| agent.state == State::Terminating),
            overdue: count(&|agent| agent.state == State::Overdue),
        }
    }

    fn live(&self) -> i32 {
        self.starting + self.busy + self.idle
    }

    /// What counts against the ceiling: all but what ended well and what should be gone by now.
    fn held(&self) -> i32 {
        self.live() + self.draining + self.stuck + self.failed + self.terminating
    }
}

fn count(mode: Mode, seen: &Observation) -> Counts {
    let own = Own::of(seen);
    let jobs = seen.jobs;
    let counts = Counts {
        queued: jobs.queued,
        starting: own.starting,
        busy: own.busy,
        idle: own.idle,
        draining: own.draining,
        stuck: own.stuck,
        failed: own.failed,
        terminating: own.terminating,
        overdue: own.overdue,
    };
    match mode {
        Mode::Agents => counts,
        // What is at work are the job pods; what waits for work are the placeholders.
        Mode::Headroom => Counts { busy: jobs.busy + jobs.starting, ..counts },
        Mode::Observe => Counts {
            starting: jobs.starting,
            busy: jobs.busy,
            idle: 0,
            stuck: jobs.stuck,
            failed: jobs.failed,
            terminating: jobs.terminating,
            ..counts
        },
    }
}

fn desired(spec: &AgentPoolSpec, seen: &Observation, own: &Own, min_idle: i32, max: i32) -> i32 {
    let jobs = seen.jobs;
    match spec.mode {
        // Azure Pipelines makes them; what there is, is what there should be.
        Mode::Agents if spec.azure.is_some() => own.live(),
        Mode::Agents => {
            let need = own.busy.saturating_add(jobs.queued).saturating_add(min_idle).max(spec.replicas);
            need.min(max.max(own.busy)).max(own.busy)
        }
        Mode::Headroom => {
            // In the middle so that it doesn't overflow: at most 10,000 percent points of two billion.
            let share = i64::from(jobs.busy + jobs.starting) * i64::from(spec.headroom_percent.unwrap_or(0)) / 100;
            let need = min_idle.saturating_add(i32::try_from(share).unwrap_or(i32::MAX)).max(spec.replicas);
            need.min(max.saturating_sub(jobs.busy + jobs.starting)).max(0)
        }
        Mode::Observe => (jobs.queued + jobs.starting + jobs.busy).min(max),
    }
}

fn hold(spec: &AgentPoolSpec, seen: &Observation, now: Timestamp) -> Option<Hold> {
    let stepped = seen.memory.last_tick.is_some_and(|last| now < last || now.duration_since(last) > CLOCK_STEP);
    match seen.view {
        View::Unsynced => Some(Hold::CacheUnsynced),
        View::Stale => Some(Hold::SignalStale),
        View::Fresh if spec.is_paused() => Some(Hold::Paused),
        View::Fresh if stepped => Some(Hold::ClockStep),
        View::Fresh if !seen.settled => Some(Hold::NewLeader),
        View::Fresh => None,
    }
}

/// Brings what is remembered up to now: demand, tokens, failures.
fn remember(spec: &AgentPoolSpec, seen: &Observation, own: &Own, now: Timestamp, decision: &mut Decision) {
    let memory = &mut decision.memory;
    let waited = match memory.last_tick {
        Some(last) if decision.hold != Some(Hold::ClockStep) => now.duration_since(last),
        _ => SignedDuration::ZERO,
    };
    let first = memory.last_tick.is_none();
    memory.last_tick = Some(now);
    if let Some((rate, burst)) = spec.rate() {
        let most = i64::from(burst) * TOKENS_PER_POD;
        let gained = i64::try_from(waited.as_millis()).unwrap_or(0).saturating_mul(i64::from(rate));
        memory.tokens = if first { most } else { memory.tokens.saturating_add(gained).min(most) };
    }
    // After a start or a step of the clock nobody knows when the last demand was: as if it were now.
    let needed = decision.desired >= own.live() || seen.jobs.queued > 0;
    if needed || memory.last_demand.is_none_or(|last| last > now) || decision.hold == Some(Hold::ClockStep) {
        memory.last_demand = Some(now);
    }
    if memory.last_failure.is_some_and(|last| last > now) {
        memory.last_failure = Some(now);
    }
    if memory.quota_until.is_some_and(|until| until <= now || until.duration_since(now) > CLOCK_STEP) {
        memory.quota_until = None;
    }

    let failed =
        |agent: &&Agent| matches!(agent.state, State::Stuck(_)) || (agent.state == State::Failed && agent.early);
    memory.counted.retain(|uid| seen.agents.iter().any(|agent| agent.id.uid == *uid));
    let new: Vec<&Agent> =
        seen.agents.iter().filter(failed).filter(|agent| !memory.counted.contains(&agent.id.uid)).collect();
    // Pods made together fail together: one step, not one for each.
    if new.iter().any(|agent| memory.last_failure.is_none_or(|last| agent.created > last)) {
        memory.failures = memory.failures.saturating_add(1);
        memory.last_failure = Some(now);
    }
    decision.start_failures = new.iter().map(|agent| StartFailure::of(agent.state)).collect();
    memory.counted.extend(new.iter().map(|agent| agent.id.uid.clone()));
    let works = |agent: &Agent| {
        matches!(agent.state, State::Idle | State::Busy | State::Succeeded)
            && memory.last_failure.is_some_and(|last| agent.created > last)
    };
    if seen.agents.iter().any(works) {
        memory.failures = 0;
        memory.last_failure = None;
    }
    if decision.degraded.is_none() {
        let stuck = seen.agents.iter().find_map(|agent| match agent.state {
            State::Stuck(stuck) => Some(stuck),
            _ => None,
        });
        decision.degraded = match (&seen.shapeless, stuck) {
            (Some(Shapeless::InvalidTemplate(why)), _) => Some(Degraded::InvalidTemplate(why.clone())),
            (Some(Shapeless::NoSample), _) => Some(Degraded::NoSample),
            (None, Some(stuck)) => Some(Degraded::of(stuck)),
            // One failure may be anything; a row of them is the pool's.
            (None, None) => (decision.memory.failures > 1).then_some(Degraded::StartFailures),
        };
    }
}

fn create(spec: &AgentPoolSpec, seen: &Observation, own: &Own, now: Timestamp, decision: &mut Decision) {
    if spec.azure.is_some() {
        decision.limited = (own.held() >= decision.max).then_some(Limited::AtMax);
        return;
    }
    let jobs_at_work = seen.jobs.busy + seen.jobs.starting;
    let ceiling = if spec.mode == Mode::Headroom { decision.max.saturating_sub(jobs_at_work) } else { decision.max };
    let wanted = decision.desired - own.live() - seen.in_flight;
    if spec.mode == Mode::Agents && spec.replicas > 0 {
        let need = own.busy.saturating_add(seen.jobs.queued).saturating_add(decision.min_idle);
        decision.limited = match spec.replicas {
            asked if asked < own.busy => Some(Limited::BusyProtected),
            asked if asked < need => Some(Limited::AtMin),
            _ => None,
        };
    }
    if spec.mode == Mode::Agents && decision.max < own.busy {
        decision.limited = Some(Limited::BusyProtected);
    } else if unbounded(spec, seen, own, decision.min_idle) > decision.desired {
        decision.limited = Some(Limited::AtMax);
    }
    let seeing = !matches!(decision.hold, Some(Hold::CacheUnsynced | Hold::SignalStale | Hold::Paused));
    if wanted <= 0 || !seeing || seen.shapeless.is_some() {
        return;
    }
    // Draining agents come back before new ones are made.
    let back: Vec<Id> = seen
        .agents
        .iter()
        .filter(|agent| agent.state == State::Idle && agent.draining && !agent.outdated && !agent.cordoned)
        .map(|agent| agent.id.clone())
        .take(usize::try_from(wanted).unwrap_or(0))
        .collect();
    let wanted = wanted - i32::try_from(back.len()).unwrap_or(wanted);
    decision.undrain = back;

    let mut create = wanted;
    let mut bound = |by: i32, reason: Limited| {
        if by < create {
            create = by.max(0);
            decision.limited = Some(reason);
        }
    };
    bound(spec.step_up(), Limited::RateLimited);
    if spec.rate().is_some() {
        let tokens = decision.memory.tokens / TOKENS_PER_POD;
        bound(i32::try_from(tokens).unwrap_or(i32::MAX), Limited::RateLimited);
    }
    bound(spec.pending_bound() - own.starting - seen.in_flight, Limited::MaxPending);
    bound(ceiling - own.held() - seen.in_flight, Limited::AtMax);
    let timeout = spec.start_timeout();
    let no_room = |agent: &Agent| agent.state == State::Unschedulable && older(agent.created, timeout, now);
    if seen.agents.iter().any(no_room) {
        bound(0, Limited::Unschedulable);
    }
    if let Some(last) = decision.memory.last_failure.filter(|_| decision.memory.failures > 0) {
        let waited = older(last, spec.backoff(decision.memory.failures), now);
        let trying = seen.in_flight > 0
            || seen.agents.iter().any(|agent| agent.state == State::Starting && agent.created > last);
        // After the pause one pod tries; the rest follow when it works.
        bound(i32::from(waited && !trying), Limited::Backoff);
    }
    if decision.memory.quota_until.is_some() {
        bound(0, Limited::QuotaExceeded);
    }
    decision.create = create;
    if spec.rate().is_some() {
        decision.memory.tokens -= i64::from(create) * TOKENS_PER_POD;
    }
}

/// What would be desired if there were no `max`.
fn unbounded(spec: &AgentPoolSpec, seen: &Observation, own: &Own, min_idle: i32) -> i32 {
    desired(spec, seen, own, min_idle, i32::MAX)
}

fn shrink(spec: &AgentPoolSpec, seen: &Observation, own: &Own, now: Timestamp, decision: &mut Decision) {
    let placeholders = spec.mode == Mode::Headroom;
    let mut step = spec.step_down();
    reap(spec, seen, now, decision);

    // Second phase: what was marked in an earlier decision and still has no work. What got work is let go.
    for agent in seen.agents.iter().filter(|agent| agent.draining) {
        match agent.state {
            State::Busy | State::Unknown => decision.undrain.push(agent.id.clone()),
            State::Idle if !decision.undrain.contains(&agent.id) && step > 0 => {
                step -= 1;
                decision.delete.push(agent.id.clone());
            }
            _ => {}
        }
    }
    let disposable = |agent: &&Agent| match agent.state {
        State::Idle => !agent.draining,
        State::Starting | State::Unschedulable => placeholders,
        _ => false,
    };
    let mut free: Vec<&Agent> = seen.agents.iter().filter(disposable).collect();
    free.sort_by(|a, b| {
        let newest = b.created.cmp(&a.created).then_with(|| a.id.name.cmp(&b.id.name));
        let by_age = if spec.order() == Order::Newest { newest } else { newest.reverse() };
        (!a.outdated, !a.cordoned).cmp(&(!b.outdated, !b.cordoned)).then(by_age)
    });
    let excess = usize::try_from(own.live() - decision.desired).unwrap_or(0);
    let over_max = usize::try_from(own.live() - decision.max).unwrap_or(0);
    // Outdated ones go a quarter at a time, so that the pool stays warm meanwhile.
    let mut rotate = (usize::try_from(decision.desired).unwrap_or(0) / 4).max(1);
    rotate = rotate.saturating_sub(usize::try_from(own.draining + own.starting).unwrap_or(0));
    let delayed = !decision.memory.last_demand.is_some_and(|last| older(last, spec.scale_down_delay(), now));
    let ttl = spec.idle_ttl();

    let (mut surplus, mut over) = (excess, over_max);
    for agent in free {
        let cordoned = agent.cordoned && agent.state == State::Idle;
        let ripe = !delayed && older(agent.since, ttl, now);
        let mut goes = cordoned || over > 0 || (surplus > 0 && ripe);
        if !goes && agent.outdated && rotate > 0 && seen.shapeless.is_none() {
            rotate -= 1;
            goes = true;
        }
        if !goes {
            continue;
        }
        if step == 0 {
            decision.limited = decision.limited.or(Some(Limited::RateLimited));
            break;
        }
        step -= 1;
        (surplus, over) = (surplus.saturating_sub(1), over.saturating_sub(1));
        if placeholders {
            decision.delete.push(agent.id.clone());
        } else {
            decision.drain.push(agent.id.clone());
        }
    }
}

/// Pods that are no capacity any more: those that ended, after a while, and those that won't start, once the pause is
/// over after which the next is tried.
fn reap(spec: &AgentPoolSpec, seen: &Observation, now: Timestamp, decision: &mut Decision) {
    let pause = spec.backoff(decision.memory.failures);
    let paused = decision.memory.last_failure.is_some_and(|last| !older(last, pause, now));
    for agent in &seen.agents {
        let goes = match agent.state {
            State::Succeeded | State::Failed => now.duration_since(agent.since) >= FINISHED_STAYS,
            // Whoever answers Azure Pipelines tells it so, and takes it away.
            State::Stuck(_) if spec.azure.is_some() => false,
            State::Stuck(_) => !paused,
            _ => false,
        };
        if goes {
            decision.reap.push(agent.id.clone());
        }
    }
}

/// Whether a time is at least so long ago. Times in the future never are.
fn older(then: Timestamp, by: impl TryInto<SignedDuration>, now: Timestamp) -> bool {
    by.try_into().is_ok_and(|by| now.duration_since(then) >= by)
}

#[cfg(test)]
mod properties;
#[cfg(test)]
mod scenarios;
