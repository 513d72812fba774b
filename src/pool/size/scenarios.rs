//! Reported failures of other systems that a decision alone can show, one test each; the others stand in
//! `pool/observe/scenarios.rs`, `pool/core/scenarios.rs`, `pool/children.rs` and `tests/pools`.

use super::*;
use crate::pool::api::{AgentPoolSpec, Azure, JobSelector, ScaleDown, ScaleUp, Schedule, Template};

pub(super) fn spec(mode: Mode, max: i32) -> AgentPoolSpec {
    AgentPoolSpec {
        mode,
        azure: None,
        job_selector: JobSelector { match_labels: [("ci".into(), "x".into())].into(), ..JobSelector::default() },
        template: Some(Template { spec: serde_json::json!({"containers": []}), ..Template::default() }),
        shape_from: None,
        images: Vec::new(),
        buildkit: None,
        min_idle: None,
        max,
        max_pending: None,
        headroom_percent: None,
        replicas: 0,
        scale_up: None,
        scale_down: Some(ScaleDown { delay_seconds: Some(0), ..ScaleDown::default() }),
        busy: None,
        protection: None,
        start_timeout_seconds: None,
        failure_backoff: None,
        schedules: Vec::new(),
        paused: None,
    }
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + second).unwrap()
}

fn agent(number: usize, state: State) -> Agent {
    Agent {
        id: Id { name: format!("a-{number}"), uid: format!("u-{number}"), version: "1".into() },
        state,
        created: at(-100),
        since: at(-100),
        outdated: false,
        cordoned: false,
        draining: false,
        marked_busy: false,
        early: true,
    }
}

fn seen(states: &[(State, usize)], queued: i32) -> Observation {
    let states = states.iter().flat_map(|(state, count)| std::iter::repeat_n(*state, *count));
    Observation {
        agents: states.enumerate().map(|(number, state)| agent(number, state)).collect(),
        jobs: Jobs { queued, ..Jobs::default() },
        settled: true,
        memory: Memory { last_tick: Some(at(-1)), last_demand: Some(at(-1)), ..Memory::default() },
        ..Observation::default()
    }
}

#[test]
fn scenario_01_a_failed_agent_is_no_capacity_and_is_replaced_within_the_backoff() {
    let spec = AgentPoolSpec { min_idle: Some(2), ..spec(Mode::Agents, 5) };
    let mut now = seen(&[(State::Idle, 1), (State::Failed, 1)], 0);
    let first = size(&spec, &now, at(0));
    assert_eq!((first.counts.failed, first.counts.idle, first.create), (1, 1, 0));
    assert_eq!(first.limited, Some(Limited::Backoff));
    now.memory = first.memory;
    assert_eq!(size(&spec, &now, at(9)).create, 0);
    assert_eq!(size(&spec, &now, at(10)).create, 1);
}

#[test]
fn scenario_02_twenty_failures_back_off_up_to_the_cap_and_the_pool_recovers_by_itself() {
    let spec = AgentPoolSpec { min_idle: Some(3), ..spec(Mode::Agents, 5) };
    let mut now = seen(&[(State::Busy, 1)], 0);
    let (mut second, mut tries) = (0, Vec::new());
    while tries.len() < 20 {
        let decision = size(&spec, &now, at(second));
        now.agents.retain(|agent| !decision.reap.contains(&agent.id));
        now.memory = decision.memory.clone();
        assert!(decision.drain.is_empty() && decision.delete.is_empty());
        if decision.create > 0 {
            tries.push((second, decision.create));
            // Each pod that is made fails at once.
            for _ in 0..decision.create {
                let made = agent(100 + tries.len() * 10 + now.agents.len(), State::Failed);
                now.agents.push(Agent { created: at(second), since: at(second), ..made });
            }
        }
        second += 1;
    }
    let gaps: Vec<i64> = tries.windows(2).map(|pair| pair[1].0 - pair[0].0).collect();
    assert_eq!(gaps[..7], [11, 21, 41, 81, 161, 301, 301]);
    assert!(tries[1..].iter().all(|(_, count)| *count == 1), "one pod tries: {tries:?}");
    let decision = size(&spec, &now, at(second));
    assert_eq!(decision.degraded, Some(Degraded::StartFailures));
    // The cause is gone: the next one works, and the rest follows at once.
    now.memory = decision.memory;
    now.agents = vec![agent(0, State::Busy), Agent { created: at(second + 1), ..agent(1, State::Idle) }];
    let decision = size(&spec, &now, at(second + 2));
    assert_eq!((decision.create, decision.degraded), (2, None));
}

#[test]
fn scenario_08_a_bad_image_stops_new_pods_but_for_one_try_after_each_pause() {
    let spec = AgentPoolSpec { min_idle: Some(4), ..spec(Mode::Agents, 5) };
    let mut now = seen(&[(State::Stuck(Stuck::Image), 2)], 0);
    let first = size(&spec, &now, at(0));
    assert_eq!((first.create, first.degraded.clone()), (0, Some(Degraded::ImageError)));
    assert!(first.reap.is_empty(), "they stay for people to look at");
    now.memory = first.memory;
    let later = size(&spec, &now, at(10));
    assert_eq!((later.create, later.reap.len()), (1, 2));
}

#[test]
fn scenario_09_what_succeeded_never_counts_and_what_failed_counts_to_the_ceiling_only() {
    let spec = AgentPoolSpec { min_idle: Some(4), ..spec(Mode::Agents, 4) };
    let mut now = seen(&[(State::Succeeded, 9)], 0);
    assert_eq!(size(&spec, &now, at(0)).create, 4);
    now = seen(&[(State::Failed, 3)], 0);
    now.agents.iter_mut().for_each(|agent| agent.early = false);
    let decision = size(&spec, &now, at(0));
    assert_eq!((decision.create, decision.limited), (1, Some(Limited::AtMax)));
    assert_eq!(decision.counts.idle, 0);
}

#[test]
fn scenario_11_what_is_on_its_way_counts_before_it_is_seen_so_the_ceiling_holds_however_many_ask() {
    let spec = spec(Mode::Agents, 30);
    for in_flight in 0..40 {
        let now = Observation { in_flight, ..seen(&[(State::Busy, 5)], 89) };
        assert_eq!(size(&spec, &now, at(0)).create, (25 - in_flight).max(0));
    }
}

#[test]
fn scenario_14_a_pod_that_should_be_gone_leaves_the_capacity_and_is_told() {
    let spec = AgentPoolSpec { min_idle: Some(2), ..spec(Mode::Agents, 2) };
    let decision = size(&spec, &seen(&[(State::Overdue, 2)], 0), at(0));
    assert_eq!((decision.counts.overdue, decision.create), (2, 2));
}

#[test]
fn scenario_15_a_pod_that_is_going_is_not_idle_but_counts_to_the_ceiling() {
    let spec = AgentPoolSpec { min_idle: Some(3), ..spec(Mode::Agents, 3) };
    let decision = size(&spec, &seen(&[(State::Terminating, 2)], 0), at(0));
    assert_eq!((decision.counts.idle, decision.create, decision.limited), (0, 1, Some(Limited::AtMax)));
}

#[test]
fn scenario_17_a_changed_template_takes_idle_agents_first_a_few_at_a_time_and_no_busy_one() {
    let spec = AgentPoolSpec { min_idle: Some(8), ..spec(Mode::Agents, 20) };
    let mut now = seen(&[(State::Busy, 4), (State::Idle, 8)], 0);
    now.agents.iter_mut().for_each(|agent| agent.outdated = true);
    let decision = size(&spec, &now, at(0));
    assert_eq!(decision.drain.len(), 3, "a quarter of what is desired");
    let idle = |id: &Id| now.agents.iter().any(|agent| agent.id == *id && agent.state == State::Idle);
    assert!(decision.drain.iter().all(idle) && decision.delete.is_empty());
}

#[test]
fn scenario_20_an_agent_of_which_nobody_knows_counts_as_busy() {
    let spec = spec(Mode::Agents, 0);
    let decision = size(&spec, &seen(&[(State::Unknown, 3), (State::Idle, 1)], 0), at(0));
    assert_eq!((decision.counts.busy, decision.desired, decision.drain.len()), (3, 3, 1));
}

#[test]
fn scenario_21_replicas_below_what_is_busy_are_clamped_and_said() {
    let spec = AgentPoolSpec { replicas: 2, ..spec(Mode::Agents, 10) };
    let decision = size(&spec, &seen(&[(State::Busy, 5), (State::Idle, 2)], 0), at(0));
    assert_eq!((decision.desired, decision.limited), (5, Some(Limited::BusyProtected)));
    assert_eq!(decision.drain.len(), 2);
}

#[test]
fn scenario_27_a_cordoned_nodes_idle_agents_go_and_its_busy_ones_stay() {
    let mut spec = AgentPoolSpec { min_idle: Some(2), ..spec(Mode::Agents, 10) };
    spec.scale_down = Some(ScaleDown { delay_seconds: Some(3600), ..ScaleDown::default() });
    let mut now = seen(&[(State::Busy, 1), (State::Idle, 2)], 0);
    now.agents[0].cordoned = true;
    now.agents[1].cordoned = true;
    let decision = size(&spec, &now, at(0));
    assert_eq!(decision.drain, [now.agents[1].id.clone()]);
    // Once it is marked it is no capacity, so its replacement is made beside it.
    now.agents[1].draining = true;
    let decision = size(&spec, &now, at(1));
    assert_eq!((decision.delete.len(), decision.create, decision.undrain.len()), (1, 1, 0));
}

#[test]
fn scenario_29_one_long_goodbye_does_not_hold_up_the_others() {
    let decision = size(&spec(Mode::Agents, 10), &seen(&[(State::Terminating, 1), (State::Idle, 3)], 0), at(0));
    assert_eq!(decision.drain.len(), 3);
}

#[test]
fn scenario_36_what_is_pending_in_the_cluster_and_what_scale_asks_for_are_joined_by_the_larger() {
    let base = AgentPoolSpec { replicas: 3, ..spec(Mode::Agents, 50) };
    assert_eq!(size(&base, &seen(&[], 0), at(0)).desired, 3);
    assert_eq!(size(&base, &seen(&[], 7), at(0)).desired, 7);
}

#[test]
fn scenario_37_demand_goes_to_fifty_and_back_within_a_bounded_number_of_decisions() {
    let mut spec = AgentPoolSpec { min_idle: Some(1), ..spec(Mode::Agents, 100) };
    spec.scale_up = Some(ScaleUp { max_step: Some(10), ..ScaleUp::default() });
    let mut now = seen(&[], 50);
    let mut second = 0;
    let mut tick = |now: &mut Observation, done: &dyn Fn(&Observation) -> bool| {
        for round in 0.. {
            if done(now) {
                return round;
            }
            second += 1;
            let decision = size(&spec, now, at(second));
            now.memory = decision.memory.clone();
            now.agents.retain(|agent| !decision.delete.contains(&agent.id));
            for agent in &mut now.agents {
                agent.draining |= decision.drain.contains(&agent.id);
            }
            for _ in 0..decision.create {
                let number = 1000 * usize::try_from(second).unwrap() + now.agents.len();
                now.agents.push(Agent { since: at(second), created: at(second), ..agent(number, State::Idle) });
            }
        }
        unreachable!()
    };
    assert_eq!(tick(&mut now, &|now| now.agents.len() == 51), 6);
    now.jobs.queued = 0;
    assert!(tick(&mut now, &|now| now.agents.len() == 1) <= 12);
}

#[test]
fn scenario_39_a_paused_pool_or_one_of_max_zero_makes_nothing_and_still_tells_demand() {
    for spec in [spec(Mode::Agents, 0), AgentPoolSpec { paused: Some(true), ..spec(Mode::Agents, 9) }] {
        let decision = size(&spec, &seen(&[], 4), at(0));
        assert_eq!((decision.create, decision.counts.queued), (0, 4));
    }
}

#[test]
fn scenario_41_a_pod_that_is_starting_answers_for_one_that_is_queued() {
    let mut now = seen(&[], 1);
    let mut made = 0;
    for second in 0..10 {
        let decision = size(&spec(Mode::Agents, 50), &now, at(second));
        made += decision.create;
        now.memory = decision.memory;
        now.in_flight += decision.create;
        if second == 4 {
            (now.in_flight, now.agents) = (0, vec![agent(0, State::Starting)]);
        }
    }
    assert_eq!(made, 1);
}

#[test]
fn scenario_43_the_clamp_for_all_small_numbers() {
    for (min, max, busy, queued) in (0..6 * 6 * 6 * 6).map(|n| (n % 6, n / 6 % 6, n / 36 % 6, n / 216)) {
        let spec = AgentPoolSpec { min_idle: Some(min), ..spec(Mode::Agents, max) };
        let busy_agents = usize::try_from(busy).unwrap();
        let decision = size(&spec, &seen(&[(State::Busy, busy_agents)], queued), at(0));
        let want = (busy + queued + min.min(max)).min(max.max(busy));
        assert_eq!(decision.desired, want, "min {min} max {max} busy {busy} queued {queued}");
        assert_eq!(decision.create, want - busy);
    }
}

#[test]
fn scenario_44_a_list_that_failed_is_no_zero_nothing_is_decided() {
    for (view, hold) in [(View::Unsynced, Hold::CacheUnsynced), (View::Stale, Hold::SignalStale)] {
        let now = Observation { view, ..seen(&[(State::Idle, 3)], 9) };
        let decision = size(&spec(Mode::Agents, 50), &now, at(0));
        assert_eq!((decision.hold, decision.create), (Some(hold), 0));
        assert!(decision.drain.is_empty());
    }
}

#[test]
fn scenario_46_pods_that_find_no_room_stop_more_of_them_and_stay_for_the_autoscaler() {
    let spec = AgentPoolSpec { max_pending: Some(5), ..spec(Mode::Agents, 50) };
    let decision = size(&spec, &seen(&[], 20), at(0));
    assert_eq!((decision.create, decision.limited), (5, Some(Limited::MaxPending)));
    let mut now = seen(&[(State::Unschedulable, 2)], 20);
    assert_eq!(size(&spec, &now, at(0)).create, 3);
    now.agents[0].created = at(-300);
    let decision = size(&spec, &now, at(0));
    assert_eq!((decision.create, decision.limited), (0, Some(Limited::Unschedulable)));
    assert!(decision.reap.is_empty() && decision.drain.is_empty());
}

#[test]
fn headroom_keeps_its_placeholders_beside_the_jobs_and_within_the_ceiling() {
    let spec = AgentPoolSpec { min_idle: Some(3), headroom_percent: Some(50), ..spec(Mode::Headroom, 20) };
    let jobs = |busy| Observation { jobs: Jobs { busy, ..Jobs::default() }, ..seen(&[(State::Idle, 3)], 0) };
    for (busy, want) in [(0, 3), (4, 5), (10, 8), (16, 4), (20, 0), (30, 0)] {
        assert_eq!(size(&spec, &jobs(busy), at(0)).desired, want, "{busy} busy");
    }
    // Those that don't run yet go as well: nobody's work is on a placeholder.
    let mut now = seen(&[(State::Starting, 2), (State::Idle, 3)], 0);
    now.jobs.busy = 20;
    assert_eq!(size(&spec, &now, at(0)).delete.len(), 5);
}

#[test]
fn a_schedule_sets_other_numbers_and_one_that_cannot_be_read_is_said() {
    let schedule = |start: &str| Schedule {
        name: "work".into(),
        start: start.into(),
        duration_seconds: 3600,
        timezone: None,
        min_idle: Some(4),
        max: None,
    };
    // 1,800,000,000 is 2027-01-15 08:00 UTC, a Friday.
    let mut spec = AgentPoolSpec { schedules: vec![schedule("0 8 * * 5")], ..spec(Mode::Agents, 10) };
    let decision = size(&spec, &seen(&[], 0), at(0));
    assert_eq!((decision.create, decision.schedule.as_deref()), (4, Some("work")));
    assert_eq!(size(&spec, &seen(&[], 0), at(3600)).desired, 0);
    spec.schedules = vec![schedule("never")];
    let decision = size(&spec, &seen(&[], 2), at(0));
    assert!(matches!(decision.degraded, Some(Degraded::InvalidSchedule(_))));
    assert_eq!(decision.create, 2, "the pool's own numbers hold");
}

#[test]
fn rate_and_burst_bound_how_fast_a_pool_grows() {
    let mut spec = spec(Mode::Agents, 1000);
    spec.scale_up = Some(ScaleUp { rate_per_minute: Some(60), burst: Some(5), max_step: None });
    let mut now = seen(&[], 500);
    now.memory = Memory::default();
    let mut made = Vec::new();
    for second in [0, 0, 1, 2, 2, 12] {
        let decision = size(&spec, &now, at(second));
        made.push(decision.create);
        now.in_flight += decision.create;
        now.memory = decision.memory;
    }
    assert_eq!(made, [5, 0, 1, 1, 0, 5]);
}

#[test]
fn an_agent_goes_in_two_steps_and_work_in_between_keeps_it() {
    let spec = spec(Mode::Agents, 10);
    let mut now = seen(&[(State::Idle, 2)], 0);
    let first = size(&spec, &now, at(0));
    assert_eq!((first.drain.len(), first.delete.len()), (2, 0));
    now.agents.iter_mut().for_each(|agent| agent.draining = true);
    now.agents[0].state = State::Busy;
    let second = size(&spec, &now, at(1));
    assert_eq!(second.delete, [now.agents[1].id.clone()]);
    assert_eq!(second.undrain, [now.agents[0].id.clone()]);
    // New demand takes them back before any is made.
    now.agents[0].state = State::Idle;
    now.jobs.queued = 3;
    let third = size(&spec, &now, at(1));
    assert_eq!((third.undrain.len(), third.create, third.delete.len()), (2, 1, 0));
}

#[test]
fn delay_and_ttl_are_waited_for_and_a_step_of_the_clock_starts_them_anew() {
    let mut spec = spec(Mode::Agents, 10);
    spec.scale_down = Some(ScaleDown { delay_seconds: Some(60), idle_ttl_seconds: Some(120), ..ScaleDown::default() });
    let mut now = seen(&[(State::Idle, 1)], 0);
    now.memory.last_demand = Some(at(-1));
    let mut drained = None;
    for second in (0..200).step_by(2) {
        let decision = size(&spec, &now, at(second));
        now.memory = decision.memory;
        if !decision.drain.is_empty() {
            drained = Some(second);
            break;
        }
    }
    assert_eq!(drained, Some(60), "idle since -100, needed last at -1");
    for step in [10_000, -10_000] {
        let decision = size(&spec, &now, at(60 + step));
        assert_eq!((decision.hold, decision.drain.len()), (Some(Hold::ClockStep), 0));
        now.memory = decision.memory;
        let decision = size(&spec, &now, at(61 + step));
        assert_eq!((decision.hold, decision.drain.len()), (None, 0));
        now.memory.last_tick = Some(at(59));
    }
}

#[test]
fn of_agents_that_azure_pipelines_asks_for_the_controller_makes_none_takes_none_and_clears_away_what_ended() {
    let spec = AgentPoolSpec { azure: Some(Azure::default()), max: 4, ..spec(Mode::Agents, 4) };
    let at = |seconds: i64| Timestamp::from_second(seconds).unwrap();
    let agent = |uid: &str, state: State| Agent {
        id: Id { name: uid.into(), uid: uid.into(), version: "1".into() },
        state,
        created: at(0),
        since: at(0),
        outdated: true,
        cordoned: true,
        draining: false,
        marked_busy: true,
        early: false,
    };
    let seen = Observation {
        agents: vec![
            agent("busy", State::Busy),
            agent("starting", State::Starting),
            agent("stuck", State::Stuck(Stuck::Timeout)),
            agent("ended", State::Succeeded),
            agent("failed", State::Failed),
        ],
        jobs: Jobs { queued: 50, ..Jobs::default() },
        settled: true,
        ..Observation::default()
    };
    let decision = size(&spec, &seen, at(100_000));
    assert_eq!((decision.create, decision.desired, decision.limited), (0, 2, Some(Limited::AtMax)));
    assert!(decision.drain.is_empty() && decision.delete.is_empty());
    let reaped: Vec<&str> = decision.reap.iter().map(|id| id.name.as_str()).collect();
    assert_eq!(reaped, ["ended", "failed"], "one that is stuck is its answerer's to tell of");
}

#[test]
fn each_pod_that_does_not_start_is_told_once_with_how_it_failed() {
    let spec = spec(Mode::Agents, 9);
    let states =
        [State::Stuck(Stuck::CrashLoop), State::Stuck(Stuck::Image), State::Stuck(Stuck::Timeout), State::Failed];
    let mut observation = seen(&states.map(|state| (state, 1)), 0);
    // A job that failed after a while is none, nor is one that does well.
    observation.agents.extend([Agent { early: false, ..agent(8, State::Failed) }, agent(9, State::Idle)]);
    let first = size(&spec, &observation, at(0));
    let all = [StartFailure::CrashLoop, StartFailure::Image, StartFailure::Timeout, StartFailure::Ended];
    assert_eq!(first.start_failures, all);
    observation.memory = first.memory;
    observation.agents.push(agent(10, State::Stuck(Stuck::Image)));
    assert_eq!(size(&spec, &observation, at(1)).start_failures, [StartFailure::Image]);
}
