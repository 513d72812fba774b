//! Reported failures that need more than one decision: writes that were refused, watches that lag, restarts.

use super::*;
use crate::pool::api::ScaleDown;

pub(super) fn spec(min_idle: i32, max: i32) -> AgentPoolSpec {
    let text = serde_json::json!({
        "mode": "Agents", "jobSelector": {"matchLabels": {"ci": "x"}}, "max": max, "minIdle": min_idle,
        "template": {"spec": {"containers": []}}, "scaleDown": {"delaySeconds": 0},
    });
    serde_json::from_value(text).unwrap()
}

pub(super) fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + second).unwrap()
}

pub(super) fn agent(name: &str, state: State, created: Timestamp) -> Agent {
    Agent {
        id: Id { name: name.into(), uid: format!("uid-of-{name}"), version: "1".into() },
        state,
        created,
        since: created,
        outdated: false,
        cordoned: false,
        draining: false,
        marked_busy: false,
        early: true,
    }
}

fn creates(actions: &[Action]) -> Vec<String> {
    actions
        .iter()
        .filter_map(|action| if let Action::Create(name) = action { Some(name.clone()) } else { None })
        .collect()
}

fn queue(queued: i32) -> Seen {
    Seen { jobs: Jobs { queued, ..Jobs::default() }, settled: true, ..Seen::default() }
}

#[test]
fn scenario_12_nothing_leaks_what_was_never_seen_is_forgotten_after_half_a_minute() {
    let mut core = Core::default();
    let (_, actions) = core.plan("u", "p", &spec(0, 10), &queue(10), at(0));
    assert_eq!(creates(&actions).len(), 10);
    for action in &actions {
        core.answered(action, Outcome::Done, at(0));
    }
    for second in 1..30 {
        assert!(core.plan("u", "p", &spec(0, 10), &queue(10), at(second)).1.is_empty());
    }
    assert_eq!(creates(&core.plan("u", "p", &spec(0, 10), &queue(10), at(30)).1).len(), 10);
}

#[test]
fn a_mark_is_not_repeated_before_the_pod_was_seen_anew() {
    for outcome in [Outcome::Done, Outcome::Conflict] {
        let mut core = Core::default();
        let mut seen = queue(0);
        seen.agents.push(agent("a", State::Busy, at(0)));
        let (_, actions) = core.plan("u", "p", &spec(0, 10), &seen, at(60));
        assert!(matches!(&actions[..], [Action::MarkBusy(_, true)]), "{actions:?}");
        core.answered(&actions[0], outcome, at(60));
        assert!(core.plan("u", "p", &spec(0, 10), &seen, at(61)).1.is_empty());
        seen.agents[0].id.version = "2".into();
        assert_eq!(core.plan("u", "p", &spec(0, 10), &seen, at(62)).1.len(), 1, "it still lacks the mark");
    }
    // What nobody answered may not have happened.
    let mut core = Core::default();
    let mut seen = queue(0);
    seen.agents.push(agent("a", State::Busy, at(0)));
    let (_, actions) = core.plan("u", "p", &spec(0, 10), &seen, at(60));
    core.answered(&actions[0], Outcome::Failed, at(60));
    assert_eq!(core.plan("u", "p", &spec(0, 10), &seen, at(70)).1.len(), 1);
}

#[test]
fn scenario_18_a_claim_between_decision_and_deletion_wins() {
    let mut core = Core::default();
    let mut seen = queue(0);
    seen.agents = vec![agent("p-0", State::Idle, at(-9))];
    let (_, actions) = core.plan("u", "p", &spec(0, 5), &seen, at(0));
    assert!(matches!(&actions[..], [Action::Drain(id)] if id.version == "1"));
    core.answered(&actions[0], Outcome::Done, at(0));
    (seen.agents[0].draining, seen.agents[0].id.version) = (true, "2".into());
    let (_, actions) = core.plan("u", "p", &spec(0, 5), &seen, at(1));
    assert!(matches!(&actions[..], [Action::Delete(id)] if id.version == "2"), "tied to what was seen: {actions:?}");
    core.answered(&actions[0], Outcome::Conflict, at(1));
    // Claimed meanwhile: it isn't tried again, and its mark is taken away.
    (seen.agents[0].state, seen.agents[0].id.version) = (State::Busy, "3".into());
    let (_, actions) = core.plan("u", "p", &spec(0, 5), &seen, at(2));
    assert!(actions.iter().all(|action| !matches!(action, Action::Delete(_) | Action::Drain(_))), "{actions:?}");
    assert!(actions.iter().any(|action| matches!(action, Action::Undrain(_))));
}

#[test]
fn scenario_22_ten_restarts_and_an_apply_without_change_delete_nothing() {
    let spec = AgentPoolSpec { scale_down: Some(ScaleDown::default()), ..spec(1, 9) };
    let mut seen = queue(0);
    seen.agents =
        (0..5).map(|n| agent(&format!("p-{n}"), if n < 2 { State::Busy } else { State::Idle }, at(-900))).collect();
    for restart in 0..10 {
        let mut core = Core::default();
        for second in 0..20 {
            seen.settled = second > 14;
            let (_, actions) = core.plan("u", "p", &spec.clone(), &seen, at(restart * 20 + second));
            let goes = |action: &Action| matches!(action, Action::Delete(_) | Action::Drain(_));
            assert!(!actions.iter().any(goes), "{actions:?}");
            assert!(creates(&actions).is_empty());
        }
    }
}

#[test]
fn scenario_31_a_watch_five_seconds_behind_makes_no_more_than_is_needed() {
    let mut core = Core::default();
    let (mut made, mut seen): (Vec<(i64, String)>, _) = (Vec::new(), queue(7));
    for second in 0..60 {
        seen.agents = made
            .iter()
            .filter(|(when, _)| when + 5 <= second)
            .map(|(when, name)| agent(name, State::Starting, at(*when)))
            .collect();
        let (_, actions) = core.plan("u", "p", &spec(3, 50), &seen, at(second));
        for action in &actions {
            core.answered(action, Outcome::Done, at(second));
        }
        made.extend(creates(&actions).into_iter().map(|name| (second, name)));
    }
    assert_eq!(made.len(), 10);
}

#[test]
fn scenario_32_a_pool_does_not_grow_without_end_whatever_asks() {
    let mut core = Core::default();
    let mut seen = queue(i32::MAX);
    let mut all = BTreeSet::new();
    for second in 0..100 {
        let spec = AgentPoolSpec { replicas: if second % 2 == 0 { 10_000 } else { 0 }, ..spec(5, 20) };
        let (_, actions) = core.plan("u", "p", &spec, &seen, at(second));
        for name in creates(&actions) {
            seen.agents.push(agent(&name, State::Idle, at(second)));
            all.insert(name);
        }
        assert!(seen.agents.len() <= 20);
    }
    assert_eq!(all.len(), 20);
}

#[test]
fn scenario_49_a_quota_is_asked_at_most_twice_a_minute_and_nothing_is_marked_as_failed() {
    let mut core = Core::default();
    let mut tries = Vec::new();
    for second in 0..120 {
        let (decision, actions) = core.plan("u", "p", &spec(0, 10), &queue(4), at(second));
        if let Some(action) = actions.first() {
            tries.push(second);
            for other in &actions[1..] {
                core.dropped(other);
            }
            core.answered(action, Outcome::Quota, at(second));
        } else {
            assert_eq!(decision.limited, Some(super::super::size::Limited::QuotaExceeded));
        }
        assert_eq!((decision.counts.failed, decision.degraded), (0, None));
    }
    assert_eq!(tries, [0, 30, 60, 90]);
    let (_, actions) = core.plan("u", "p", &spec(0, 10), &queue(4), at(121));
    assert_eq!(creates(&actions).len(), 4, "free again");
}

#[test]
fn names_are_the_same_for_every_leader_and_a_name_that_somebody_has_is_left_alone() {
    let plan = |core: &mut Core, second| creates(&core.plan("uid-1", "pool", &spec(0, 9), &queue(2), at(second)).1);
    let first = plan(&mut Core::default(), 0);
    assert_eq!(first, plan(&mut Core::default(), 7));
    assert!(first[0].starts_with("pool-") && first[0].ends_with("-0"), "{first:?}");
    let mut core = Core::default();
    let taken = plan(&mut core, 0);
    for name in &taken {
        core.answered(&Action::Create(name.clone()), Outcome::Exists, at(0));
    }
    for second in 1..30 {
        assert!(plan(&mut core, second).is_empty(), "they may be ours, of an earlier leader");
    }
    let others = plan(&mut core, 30);
    assert_eq!(others.len(), 2);
    assert!(others.iter().all(|name| !taken.contains(name)), "{others:?}");
}

#[test]
fn an_api_server_that_fails_is_left_alone_for_longer_and_longer() {
    let mut core = Core::default();
    let mut tries = Vec::new();
    for second in 0..100 {
        let (_, actions) = core.plan("u", "p", &spec(0, 10), &queue(1), at(second));
        if let Some(action) = actions.first() {
            tries.push(second);
            core.answered(action, Outcome::Overloaded, at(second));
        }
    }
    assert_eq!(tries, [0, 1, 3, 7, 15, 31, 61, 91]);
}

#[test]
fn a_budgets_label_follows_what_the_agent_does() {
    let mut core = Core::default();
    let mut seen = queue(0);
    seen.agents =
        vec![agent("p-0", State::Busy, at(-9)), Agent { marked_busy: true, ..agent("p-1", State::Idle, at(-9)) }];
    let (_, actions) = core.plan("u", "p", &spec(1, 5), &seen, at(0));
    let marks: Vec<(&str, bool)> = actions
        .iter()
        .filter_map(
            |action| if let Action::MarkBusy(id, busy) = action { Some((id.name.as_str(), *busy)) } else { None },
        )
        .collect();
    assert_eq!(marks, [("p-0", true), ("p-1", false)]);
}

#[test]
fn a_clock_that_is_set_forgets_nothing_that_is_under_way() {
    let mut core = Core::default();
    assert_eq!(creates(&core.plan("u", "p", &spec(0, 10), &queue(3), at(0)).1).len(), 3);
    for second in [100, -500, 3000] {
        assert!(core.plan("u", "p", &spec(0, 10), &queue(3), at(second)).1.is_empty());
    }
}
