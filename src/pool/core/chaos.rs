//! A hundred thousand random events against a made-up API server: watches that lag and drop, conflicts, refusals, lost
//! leaders, clocks that are set, pods that fail in each known way, jobs that claim an agent in the middle of a decision.
//!
//! What must hold at each step: no busy agent is ever deleted, the ceiling is never passed by a create, and once nothing
//! happens any more the pool has the size that it should have.

use proptest::{
    prelude::Rng,
    test_runner::{RngAlgorithm, TestRng},
};

use super::{scenarios::at, *};
use crate::pool::size::{Limited, Stuck};

/// A pod on the made-up server. Its version goes up with each change.
#[derive(Clone, Debug)]
struct Pod {
    name: String,
    uid: String,
    version: u64,
    state: State,
    created: i64,
    since: i64,
    draining: bool,
    marked: bool,
    outdated: bool,
}

struct World {
    rng: TestRng,
    pods: Vec<Pod>,
    next_uid: u64,
    /// What the watch has shown, and from when that is.
    cache: Vec<Pod>,
    /// Seconds, as the world has them and as the controller's clock shows them.
    clock: i64,
    skew: i64,
    queued: i32,
    max: i32,
    quota: usize,
    busy_deleted: usize,
    over_max: usize,
    deleted: usize,
    made: usize,
}

impl World {
    fn pick(&mut self, below: u32) -> u32 {
        self.rng.next_u32() % below
    }

    fn any_pod(&mut self) -> Option<&mut Pod> {
        let count = u32::try_from(self.pods.len()).unwrap();
        let at = (count > 0).then(|| self.pick(count))?;
        self.pods.get_mut(usize::try_from(at).unwrap())
    }

    fn change(&mut self, from: &[State], to: State) {
        let clock = self.clock;
        if let Some(pod) = self.any_pod().filter(|pod| from.contains(&pod.state)) {
            (pod.state, pod.since, pod.version) = (to, clock, pod.version + 1);
        }
    }

    fn watch(&mut self) {
        self.cache = self.pods.clone();
    }

    /// What happens by itself.
    fn event(&mut self) {
        match self.pick(20) {
            0..=3 => self.change(&[State::Starting, State::Unschedulable], State::Idle),
            // A job is given only to an agent that isn't marked as going; in the middle of decisions too.
            4..=7 => {
                let clock = self.clock;
                let claimed = self.any_pod().filter(|pod| pod.state == State::Idle && !pod.draining).map(|pod| {
                    (pod.state, pod.since, pod.version) = (State::Busy, clock, pod.version + 1);
                });
                if claimed.is_some() {
                    self.queued = (self.queued - 1).max(0);
                }
            }
            8 | 9 => self.change(&[State::Busy], State::Idle),
            10 => self.change(&[State::Starting], State::Unschedulable),
            11 => self.change(&[State::Starting], State::Stuck(Stuck::Image)),
            12 => self.change(&[State::Starting, State::Idle], State::Failed),
            13 => self.change(&[State::Busy, State::Idle], State::Unknown),
            14 => self.change(&[State::Unknown], State::Busy),
            15 => self.change(&[State::Busy], State::Succeeded),
            16 => {
                // Somebody deletes a pod, or its node goes.
                let name = self.any_pod().map(|pod| pod.name.clone());
                self.pods.retain(|pod| Some(&pod.name) != name.as_ref());
            }
            17 => self.queued = i32::try_from(self.pick(30)).unwrap(),
            18 => self.max = i32::try_from(10 + self.pick(30)).unwrap(),
            _ => {
                if let Some(pod) = self.any_pod() {
                    (pod.outdated, pod.version) = (true, pod.version + 1);
                }
            }
        }
    }

    fn write(&mut self, action: &Action, faults: bool) -> Outcome {
        // The request may be lost, or its answer.
        let fault = if faults { self.pick(40) } else { 9 };
        match fault {
            0 => return Outcome::Failed,
            1 => return Outcome::Overloaded,
            _ => {}
        }
        let outcome = match action {
            Action::Create(name) if self.pods.iter().any(|pod| pod.name == *name) => Outcome::Exists,
            Action::Create(_) if self.pods.len() >= self.quota => Outcome::Quota,
            Action::Create(name) => {
                self.next_uid += 1;
                self.made += 1;
                let (uid, clock) = (format!("uid-{}", self.next_uid), self.clock);
                self.pods.push(Pod {
                    name: name.clone(),
                    uid,
                    version: 1,
                    state: State::Starting,
                    created: clock,
                    since: clock,
                    draining: false,
                    marked: false,
                    outdated: false,
                });
                Outcome::Done
            }
            Action::Delete(id) => {
                match self.pods.iter().position(|pod| pod.uid == id.uid && pod.version.to_string() == id.version) {
                    Some(place) => {
                        let pod = self.pods.remove(place);
                        self.deleted += 1;
                        self.busy_deleted += usize::from(matches!(pod.state, State::Busy | State::Unknown));
                        Outcome::Done
                    }
                    None => Outcome::Conflict,
                }
            }
            Action::Drain(id) | Action::Undrain(id) | Action::MarkBusy(id, _) => {
                let found = self.pods.iter_mut().find(|pod| pod.uid == id.uid && pod.version.to_string() == id.version);
                match (found, action) {
                    (None, _) => Outcome::Conflict,
                    (Some(pod), Action::MarkBusy(_, busy)) => {
                        (pod.marked, pod.version) = (*busy, pod.version + 1);
                        Outcome::Done
                    }
                    (Some(pod), _) => {
                        (pod.draining, pod.version) = (matches!(action, Action::Drain(_)), pod.version + 1);
                        Outcome::Done
                    }
                }
            }
        };
        if fault == 2 { Outcome::Failed } else { outcome }
    }

    fn seen(&self, view: View, settled: bool) -> Seen {
        let agent = |pod: &Pod| Agent {
            id: Id { name: pod.name.clone(), uid: pod.uid.clone(), version: pod.version.to_string() },
            state: pod.state,
            created: at(pod.created),
            since: at(pod.since),
            outdated: pod.outdated,
            cordoned: false,
            draining: pod.draining,
            marked_busy: pod.marked,
            early: true,
        };
        Seen {
            agents: self.cache.iter().map(agent).collect(),
            jobs: Jobs { queued: self.queued, ..Jobs::default() },
            view,
            settled,
            shapeless: None,
        }
    }

    fn decide(&mut self, core: &mut Core, view: View, settled: bool, faults: bool) -> Decision {
        let spec = AgentPoolSpec { max: self.max, ..scenarios::spec(3, self.max) };
        let now = at(self.clock + self.skew);
        let (decision, actions) = core.plan("uid", "pool", &spec, &self.seen(view, settled), now);
        for action in &actions {
            // Other things go on between two writes.
            if faults && self.pick(3) == 0 {
                self.event();
            }
            let outcome = self.write(action, faults);
            core.answered(action, outcome, now);
        }
        decision
    }
}

fn held(pods: &[Pod]) -> usize {
    pods.iter().filter(|pod| pod.state != State::Succeeded).count()
}

fn run(seed: u8, events: usize) {
    let mut world = World {
        rng: TestRng::from_seed(RngAlgorithm::ChaCha, &[seed; 32]),
        pods: Vec::new(),
        next_uid: 0,
        cache: Vec::new(),
        clock: 0,
        skew: 0,
        queued: 0,
        max: 30,
        quota: 100,
        busy_deleted: 0,
        over_max: 0,
        deleted: 0,
        made: 0,
    };
    let mut core = Core::default();
    let mut lag = 0;
    let mut leading_since = 0;
    for _ in 0..events {
        world.event();
        match world.pick(60) {
            // The watch falls behind for some steps, at most as long as an expectation waits.
            0 => lag = world.pick(20),
            // Leadership is lost and another process takes over, which remembers nothing and has listed everything.
            1 => {
                core = Core::default();
                leading_since = world.clock;
                lag = 0;
            }
            2 => world.skew = i64::from(world.pick(1000)) - 500,
            3 => world.quota = usize::try_from(15 + world.pick(60)).unwrap(),
            _ => {}
        }
        if lag == 0 {
            world.watch();
        }
        lag = lag.saturating_sub(1);
        world.clock += i64::from(world.pick(2));
        let view = if world.pick(25) == 0 { View::Stale } else { View::Fresh };
        let settled = world.clock - leading_since > 15;
        let (before, made, max) = (held(&world.pods), world.made, world.max);
        world.decide(&mut core, view, settled, true);
        // What a leader makes is within the ceiling as it stood, whatever it couldn't see; a pool may be over because
        // max was lowered, or because pods of an earlier leader weren't visible.
        if world.made > made && held(&world.pods) > usize::try_from(max).unwrap() && before < held(&world.pods) {
            world.over_max += 1;
        }
    }
    assert_eq!(world.busy_deleted, 0, "seed {seed}");
    assert_eq!(world.over_max, 0, "seed {seed}");
    assert!(world.deleted > events / 100 && world.made > events / 100, "{} {}", world.deleted, world.made);

    // Peace: everything that starts works, everything is seen, nothing fails. The counts come right by themselves.
    (world.quota, world.max, world.queued) = (1000, 40, 4);
    let mut decision = Decision::default();
    for _ in 0..2000 {
        for pod in &mut world.pods {
            if matches!(pod.state, State::Starting | State::Unschedulable) {
                (pod.state, pod.since, pod.version) = (State::Idle, world.clock, pod.version + 1);
            }
        }
        world.watch();
        world.clock += 1;
        decision = world.decide(&mut core, View::Fresh, true, false);
    }
    let busy = world.pods.iter().filter(|pod| matches!(pod.state, State::Busy | State::Unknown)).count();
    let wanted = (busy + 4 + 3).min(40.max(busy));
    assert_eq!(held(&world.pods), wanted, "seed {seed}: {decision:?}");
    assert!(matches!(decision.limited, None | Some(Limited::AtMax)), "seed {seed}: {decision:?}");
}

#[test]
fn a_hundred_thousand_random_events_delete_no_busy_agent_and_pass_no_ceiling() {
    for seed in 0..10 {
        run(seed, 10_000);
    }
}
