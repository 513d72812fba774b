//! What holds for every pool, whatever was seen.

use proptest::prelude::*;

use super::*;
use crate::pool::api::{AgentPoolSpec, JobSelector, ScaleDown, ScaleUp};

fn state() -> impl Strategy<Value = State> {
    prop_oneof![
        3 => Just(State::Idle),
        3 => Just(State::Busy),
        1 => Just(State::Unknown),
        1 => Just(State::Starting),
        1 => Just(State::Unschedulable),
        1 => Just(State::Stuck(Stuck::Image)),
        1 => Just(State::Stuck(Stuck::Timeout)),
        1 => Just(State::Succeeded),
        1 => Just(State::Failed),
        1 => Just(State::Terminating),
        1 => Just(State::Overdue),
    ]
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + second).unwrap()
}

fn agents() -> impl Strategy<Value = Vec<Agent>> {
    let one = (state(), -1000i64..10, any::<[bool; 5]>());
    prop::collection::vec(one, 0..30).prop_map(|all| {
        type One = (State, i64, [bool; 5]);
        let agent = |number: usize, (state, created, [outdated, cordoned, draining, marked_busy, early]): One| Agent {
            id: Id { name: format!("a-{number}"), uid: format!("u-{number}"), version: "1".into() },
            state,
            created: at(created),
            since: at(created),
            outdated,
            cordoned,
            draining,
            marked_busy,
            early,
        };
        all.into_iter().enumerate().map(|(number, one)| agent(number, one)).collect()
    })
}

/// mode, minIdle, max, replicas, step, rate and burst, delay
type Shape = (Mode, i32, i32, i32, Option<i32>, Option<(i32, i32)>, Option<i32>);

fn spec() -> impl Strategy<Value = AgentPoolSpec> {
    let mode = prop_oneof![Just(Mode::Agents), Just(Mode::Headroom), Just(Mode::Observe)];
    (
        mode,
        0i32..20,
        0i32..40,
        0i32..40,
        prop::option::of(1..10),
        prop::option::of((1..100, 1..20)),
        prop::option::of(0..600),
    )
        .prop_map(|(mode, min_idle, max, replicas, step, rate, delay): Shape| AgentPoolSpec {
            min_idle: Some(min_idle.min(max)),
            replicas,
            scale_up: Some(ScaleUp {
                max_step: step,
                rate_per_minute: rate.map(|(rate, _)| rate),
                burst: rate.map(|(_, burst)| burst),
            }),
            scale_down: Some(ScaleDown { delay_seconds: delay, ..ScaleDown::default() }),
            ..scenarios::spec(mode, max)
        })
}

fn observation() -> impl Strategy<Value = Observation> {
    let view = prop_oneof![4 => Just(View::Fresh), 1 => Just(View::Stale), 1 => Just(View::Unsynced)];
    let memory =
        (prop::option::of(-100i64..10), prop::option::of(-1000i64..10), 0u32..6, prop::option::of(-100i64..40));
    (agents(), (0..40, 0..10, 0..40), view, any::<bool>(), 0..5, memory).prop_map(
        |(agents, (queued, starting, busy), view, settled, in_flight, (tick, demand, failures, quota))| Observation {
            agents,
            jobs: Jobs { queued, starting, busy, ..Jobs::default() },
            view,
            settled,
            in_flight,
            shapeless: None,
            memory: Memory {
                last_tick: tick.map(at),
                last_demand: demand.map(at),
                failures,
                last_failure: (failures > 0).then(|| at(-50)),
                quota_until: quota.map(at),
                ..Memory::default()
            },
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_busy_agent_is_ever_drained_or_deleted(spec in spec(), seen in observation()) {
        let decision = size(&spec, &seen, at(0));
        for id in decision.drain.iter().chain(&decision.delete).chain(&decision.reap) {
            let agent = seen.agents.iter().find(|agent| agent.id == *id).unwrap();
            prop_assert!(!matches!(agent.state, State::Busy | State::Unknown), "{agent:?}");
        }
        if spec.mode == Mode::Agents {
            prop_assert!(decision.desired >= decision.counts.busy);
        }
    }

    #[test]
    fn the_ceiling_is_never_passed(spec in spec(), seen in observation()) {
        let decision = size(&spec, &seen, at(0));
        let held = Own::of(&seen).held() + seen.in_flight;
        prop_assert!(decision.create == 0 || held + decision.create <= decision.max, "{decision:?}");
        prop_assert!(decision.create >= 0);
        prop_assert!(spec.mode != Mode::Observe || decision.create == 0 && decision.delete.is_empty());
    }

    #[test]
    fn more_queue_never_means_less(spec in spec(), mut seen in observation(), more in 1..20) {
        // Outdated agents, and those on cordoned nodes, go however much there is to do: that is no shrinking.
        seen.agents.iter_mut().for_each(|agent| (agent.outdated, agent.cordoned) = (false, false));
        let fewer = size(&spec, &seen, at(0));
        let mut longer = seen.clone();
        longer.jobs.queued += more;
        let decision = size(&spec, &longer, at(0));
        prop_assert!(decision.desired >= fewer.desired);
        prop_assert!(decision.create + i32::try_from(decision.undrain.len()).unwrap()
            >= fewer.create + i32::try_from(fewer.undrain.len()).unwrap());
        prop_assert!(decision.drain.len() <= fewer.drain.len());
    }

    #[test]
    fn the_same_input_gives_the_same_answer(spec in spec(), seen in observation()) {
        prop_assert_eq!(size(&spec, &seen, at(0)), size(&spec, &seen, at(0)));
    }

    #[test]
    fn what_is_not_known_is_held(spec in spec(), seen in observation()) {
        let decision = size(&spec, &seen, at(0));
        if seen.view != View::Fresh || !seen.settled {
            prop_assert!(decision.hold.is_some());
        }
        if decision.hold.is_some() {
            prop_assert!(decision.delete.is_empty() && decision.drain.is_empty() && decision.reap.is_empty());
        }
        if seen.view != View::Fresh {
            prop_assert_eq!(decision.create, 0);
        }
    }

    #[test]
    fn nothing_goes_twice_and_nothing_both_stays_and_goes(spec in spec(), seen in observation()) {
        let decision = size(&spec, &seen, at(0));
        let all: Vec<&Id> = [&decision.drain, &decision.undrain, &decision.delete, &decision.reap].into_iter().flatten().collect();
        let mut once = all.clone();
        once.sort();
        once.dedup();
        prop_assert_eq!(all.len(), once.len());
    }
}

#[test]
fn the_selector_of_the_made_up_specs_is_not_empty() {
    assert_ne!(scenarios::spec(Mode::Agents, 1).job_selector, JobSelector::default());
}
