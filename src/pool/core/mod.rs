//! One pool's way from what was seen to what is written, without the writing: what a controller task runs, and what the
//! simulation drives.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use sha2::{Digest, Sha256};

use super::{
    api::{AgentPoolSpec, Mode, PdbMode},
    expectations::Expectations,
    size::{Agent, Decision, Id, Jobs, Memory, Observation, Shapeless, State, View, size},
};

/// How long a quota's refusal keeps a pool from asking again: at most two tries a minute.
const QUOTA_PAUSE: SignedDuration = SignedDuration::from_secs(30);
/// The longest pause after the API server failed.
const LONGEST_PAUSE: SignedDuration = SignedDuration::from_secs(30);

/// What one pool's task keeps.
#[derive(Clone, Debug, Default)]
pub struct Core {
    memory: Memory,
    expectations: Expectations,
    /// Pods that were marked, or found changed when they were to be, by uid, in which version: a mark is tied to a version,
    /// so that nothing comes of another before the pod is seen anew.
    marked: BTreeMap<String, String>,
    /// Failures of the API server in a row, and until when to leave it alone.
    api_failures: u32,
    quiet_until: Option<Timestamp>,
}

/// What was seen of one pool.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// Its own pods.
    pub agents: Vec<Agent>,
    /// Its job pods.
    pub jobs: Jobs,
    /// Whether that can be relied on.
    pub view: View,
    /// Whether this process has led with a full view for as long as a resync takes.
    pub settled: bool,
    /// Why no pod can be made.
    pub shapeless: Option<Shapeless>,
}

/// One write.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Action {
    /// Make a pod of this name.
    Create(String),
    /// Delete a pod, if it is still as it was seen.
    Delete(Id),
    /// Mark an agent as going, if it is still as it was seen.
    Drain(Id),
    /// Say by a label whether an agent is at work, for its budget.
    MarkBusy(Id, bool),
    /// Take the mark away.
    Undrain(Id),
}

/// What the API server said to a write.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Outcome {
    /// It changed or went meanwhile (409, 404): look again.
    Conflict,
    /// Done.
    Done,
    /// There is a pod of that name (409 AlreadyExists).
    Exists,
    /// It can't be told whether it was done (5xx, a broken connection).
    Failed,
    /// Too much at once (429).
    Overloaded,
    /// A quota is used up (403).
    Quota,
    /// It will never be done as it is (403, 422 and the like).
    Refused,
}

impl Core {
    /// Decides, and says what to write.
    pub fn plan(
        &mut self,
        uid: &str,
        name: &str,
        spec: &AgentPoolSpec,
        seen: &Seen,
        now: Timestamp,
    ) -> (Decision, Vec<Action>) {
        let pods = seen.agents.iter().map(|agent| (agent.id.name.as_str(), agent.id.uid.as_str()));
        self.expectations.seen(pods, now);
        let (decision, agents) = self.decide(spec, seen, now);
        self.memory = decision.memory.clone();
        // A time too far ahead means that the clock was set back.
        let quiet = self.quiet_until.is_some_and(|until| now < until && until.duration_since(now) <= LONGEST_PAUSE);
        if quiet {
            return (decision, Vec::new());
        }
        let mut actions: Vec<Action> = Vec::new();
        if decision.hold.is_none() {
            actions.extend(decision.delete.iter().chain(&decision.reap).cloned().map(Action::Delete));
            actions.extend(decision.drain.iter().cloned().map(Action::Drain));
        }
        actions.extend(decision.undrain.iter().cloned().map(Action::Undrain));
        if spec.mode == Mode::Agents && spec.pdb() == PdbMode::Busy && seen.view == View::Fresh {
            let marks = agents.iter().filter_map(|agent| {
                let busy = matches!(agent.state, State::Busy | State::Unknown);
                let settled = busy || agent.state == State::Idle;
                (settled && busy != agent.marked_busy).then(|| Action::MarkBusy(agent.id.clone(), busy))
            });
            actions.extend(marks);
        }
        if !self.marked.is_empty() {
            let versions: BTreeMap<_, _> = agents.iter().map(|agent| (&agent.id.uid, &agent.id.version)).collect();
            self.marked.retain(|uid, version| versions.get(uid) == Some(&&*version));
        }
        actions.retain(|action| mark_of(action).is_none_or(|id| !self.marked.contains_key(&id.uid)));
        for new in self.names(uid, name, &agents, decision.create) {
            self.expectations.created(&new);
            actions.push(Action::Create(new));
        }
        for action in &actions {
            if let Action::Delete(id) = action {
                self.expectations.deleted(&id.uid);
            }
        }
        (decision, actions)
    }

    /// Decides without any consequence: what is told to those who only ask.
    pub fn look(&self, spec: &AgentPoolSpec, seen: &Seen, now: Timestamp) -> Decision {
        self.decide(spec, seen, now).0
    }

    fn decide(&self, spec: &AgentPoolSpec, seen: &Seen, now: Timestamp) -> (Decision, Vec<Agent>) {
        let going = |agent: &Agent| match agent.state {
            State::Overdue => agent.state,
            _ if self.expectations.is_deleted(&agent.id.uid) => State::Terminating,
            state => state,
        };
        let observation = Observation {
            agents: seen.agents.iter().map(|agent| Agent { state: going(agent), ..agent.clone() }).collect(),
            jobs: seen.jobs,
            view: seen.view,
            settled: seen.settled,
            in_flight: i32::try_from(self.expectations.in_flight()).unwrap_or(i32::MAX),
            shapeless: seen.shapeless.clone(),
            memory: self.memory.clone(),
        };
        (size(spec, &observation, now), observation.agents)
    }

    /// Takes in what came of a write.
    pub fn answered(&mut self, action: &Action, outcome: Outcome, now: Timestamp) {
        if let (Action::Delete(id), Outcome::Conflict | Outcome::Overloaded | Outcome::Refused) = (action, outcome) {
            self.expectations.not_deleted(&id.uid);
        }
        if let (Some(id), Outcome::Done | Outcome::Conflict) = (mark_of(action), outcome) {
            self.marked.insert(id.uid.clone(), id.version.clone());
        }
        if let Action::Create(name) = action {
            match outcome {
                Outcome::Done | Outcome::Failed => {}
                Outcome::Exists => self.expectations.taken(name),
                Outcome::Quota => {
                    self.expectations.not_created(name);
                    self.memory.quota_until = Some(now + QUOTA_PAUSE);
                }
                Outcome::Conflict | Outcome::Overloaded | Outcome::Refused => self.expectations.not_created(name),
            }
        }
        match outcome {
            Outcome::Failed | Outcome::Overloaded | Outcome::Refused => {
                self.api_failures = self.api_failures.saturating_add(1);
                let pause = SignedDuration::from_secs(1 << (self.api_failures - 1).min(5));
                self.quiet_until = Some(now + pause.min(LONGEST_PAUSE));
            }
            _ => (self.api_failures, self.quiet_until) = (0, None),
        }
    }

    /// A write of the plan wasn't tried after all.
    pub fn dropped(&mut self, action: &Action) {
        match action {
            Action::Create(name) => self.expectations.not_created(name),
            Action::Delete(id) => self.expectations.not_deleted(&id.uid),
            Action::Drain(_) | Action::MarkBusy(..) | Action::Undrain(_) => {}
        }
    }

    /// Names for new pods: the pool's, its uid's hash and the lowest free numbers. Two leaders that see the same choose
    /// the same, so that a repeated create is the same pod.
    fn names(&self, uid: &str, pool: &str, agents: &[Agent], count: i32) -> Vec<String> {
        let used: BTreeSet<&str> = agents.iter().map(|agent| agent.id.name.as_str()).collect();
        let hash = hex(&Sha256::digest(uid.as_bytes()), 6);
        let all = (0..).map(|number: u32| format!("{pool}-{hash}-{number}"));
        let free = all.filter(|name| !used.contains(name.as_str()) && !self.expectations.holds(name));
        free.take(usize::try_from(count).unwrap_or(0)).collect()
    }
}

/// The pod that an action changes, if it changes one.
fn mark_of(action: &Action) -> Option<&Id> {
    match action {
        Action::Drain(id) | Action::MarkBusy(id, _) | Action::Undrain(id) => Some(id),
        Action::Create(_) | Action::Delete(_) => None,
    }
}

/// The first digits of some bytes.
pub(super) fn hex(bytes: &[u8], digits: usize) -> String {
    let text: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    text.chars().take(digits).collect()
}

#[cfg(test)]
mod chaos;
#[cfg(test)]
mod scenarios;
