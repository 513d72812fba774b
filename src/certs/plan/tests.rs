//! Replicas, a Secret, two webhook configurations and API servers that lag, in virtual time.
//!
//! Each request of a replica takes its own while, now and then a minute, and the others' requests come between. After every
//! step each replica that says it is trusted must be: by API servers that see the configurations late, and go by the right
//! time. CAs are real certificates, all with one key, so that no time is spent on making keys.

mod world;

use std::collections::BTreeMap;
use std::time::Duration;

use time::OffsetDateTime;

use super::*;
use world::{Act, HOUR, LIFETIMES, MINUTE, POLL, Phase, SECOND, World};

/// A few worlds, each its own.
fn seeds() -> impl Iterator<Item = u64> {
    (1..=4).map(|seed| seed * 7919)
}

#[test]
fn an_installation_is_trusted_within_seconds() {
    for seed in seeds() {
        let mut world = World::new(seed, 3);
        while !world.replicas.iter().any(|machine| machine.trusted) {
            world.run(SECOND);
            assert!(world.now < 2 * MINUTE);
        }
        world.run(2 * MINUTE);
        world.assert_well("installation");
        let bundle = world.bundle();
        assert!(bundle.current.is_some() && bundle.next.is_none() && bundle.previous.is_empty());
    }
}

#[test]
fn no_call_fails_in_four_rotations_with_replicas_that_lag_stall_and_restart() {
    for seed in seeds() {
        let mut world = World::settled(seed, 4);
        let first = world.bundle().current;
        while world.promotions < 5 {
            world.run(5 * MINUTE);
            world.restart_one();
            assert!(world.now < 5 * HOUR, "rotations have ended");
        }
        world.run(5 * MINUTE);
        world.assert_well("rotations");
        assert!(world.calls > 10_000, "{}", world.calls);
        assert_ne!(world.bundle().current, first);
        // The CA before the last is gone by the time of the next but one.
        assert!(world.bundle().previous.len() <= 1, "{:?}", world.bundle());
    }
}

#[test]
fn the_old_ca_stays_until_its_last_leaf_has_ended_and_then_goes() {
    let mut world = World::settled(11, 3);
    while world.promotions < 2 {
        world.run(SECOND);
    }
    let promoted = world.now;
    assert_eq!(world.bundle().previous.len(), 1);
    while !world.bundle().previous.is_empty() {
        world.run(SECOND);
        assert!(world.now < promoted + HOUR);
    }
    assert!(world.now >= promoted + LIFETIMES.leaf);
    world.run(MINUTE);
    world.assert_well("retirement");
}

#[test]
fn an_emptied_or_corrupt_secret_gives_a_new_ca_while_serving_goes_on() {
    type Damage = fn(&mut BTreeMap<String, Vec<u8>>);
    let damages: [(&str, Damage); 5] = [
        ("emptied", BTreeMap::clear),
        ("nonsense", |data| data.values_mut().for_each(|value| *value = b"nonsense".to_vec())),
        ("without the key", |data| _ = data.remove("current.key")),
        ("cut", |data| data.get_mut("current.crt").unwrap().truncate(300)),
        ("bad time", |data| {
            data.insert("previous.until".to_owned(), b"never".to_vec());
            data.insert("previous.crt".to_owned(), data["current.crt"].clone());
        }),
    ];
    for seed in seeds().take(2) {
        for (what, damage) in damages {
            let mut world = World::settled(seed, 3);
            let before = world.bundle().current.unwrap();
            // Also in the middle of a rotation.
            world.run(Duration::from_secs(60 * (seed % 45)));
            world.set_secret(damage);
            world.run(10 * MINUTE);
            world.assert_well(what);
            let after = world.bundle();
            if what != "bad time" {
                assert_ne!(after.current.unwrap(), before, "{what}");
            }
            world.run(HOUR);
            world.assert_well(what);
            assert!(world.bundle().certificates().len() <= 2, "{what}: earlier CAs have gone");
        }
    }
}

#[test]
fn a_deleted_secret_is_borne_for_longer_than_a_leaf_lasts() {
    for seed in seeds().take(3) {
        let mut world = World::settled(seed, 3);
        world.secret = None;
        world.run(LIFETIMES.leaf * 2);
        world.assert_no_failure("deleted");
        world.set_secret(BTreeMap::clear);
        world.run(10 * MINUTE);
        world.assert_well("made again");
    }
}

#[test]
fn a_secret_and_configurations_that_are_made_anew_together_are_filled_again() {
    for seed in seeds().take(3) {
        let mut world = World::settled(seed, 3);
        world.set_configurations(&None);
        world.set_secret(BTreeMap::clear);
        world.run(5 * MINUTE);
        assert!(world.replicas.iter().all(|machine| !machine.trusted), "there is nothing that could trust them");
        world.set_configurations(&Some(vec![Vec::new()]));
        world.recover(5 * MINUTE, 10 * MINUTE, "made anew");
    }
}

#[test]
fn a_bundle_that_somebody_empties_or_fills_is_repaired_by_the_next_look() {
    let foreign = World::settled(5, 1).bundle().union_pem().into_bytes();
    for seed in seeds().take(3) {
        let mut world = World::settled(seed, 3);
        for entries in
            [vec![Vec::new(), Vec::new()], vec![foreign.clone()], vec![b"no PEM".to_vec(), Vec::new(), Vec::new()]]
        {
            let authorities = world.authorities;
            world.set_configurations(&Some(entries));
            world.recover(POLL + 5 * SECOND, 3 * MINUTE, "repair");
            assert_eq!(world.authorities, authorities, "no new CA is needed for that");
        }
    }
}

#[test]
fn a_jump_of_all_clocks_is_recovered_from_within_a_minute() {
    for hours in [3, 24, 24 * 400, -1, -3, -24 * 400] {
        let mut world = World::settled(77, 3);
        world.run(30 * MINUTE);
        world.jumped += time::Duration::hours(hours);
        world.recover(2 * MINUTE, 15 * MINUTE, "jump");
        world.run(HOUR);
        world.assert_well("after the jump");
        assert!(world.bundle().certificates().len() <= 3, "{hours}: {:?}", world.bundle());
    }
}

#[test]
fn a_replica_whose_clock_is_wrong_costs_the_others_no_call() {
    for minutes in [4, 50, 100_000, -4, -20, -100_000] {
        let mut world = World::settled(99, 3);
        world.replicas[0].off = time::Duration::minutes(minutes);
        world.run(40 * MINUTE);
        world.assert_no_failure(&format!("{minutes} minutes off"));
        assert!(world.authorities < 600, "{minutes}: {}", world.authorities);
        world.replicas[0].off = time::Duration::ZERO;
        world.recover(2 * MINUTE, 20 * MINUTE, "set right");
    }
}

#[test]
fn of_two_replicas_that_write_at_once_one_gives_way() {
    let mut world = World::new(3, 2);
    for place in [0, 1, 0, 1] {
        world.step(place);
    }
    // Both have read the empty Secret, and both plan a CA.
    for place in [0, 1] {
        let Phase::Act { left, .. } = &world.replicas[place].phase else { panic!("it plans nothing") };
        assert!(matches!(left[0], Act::Write(Write::Create(_))));
        world.step(place);
    }
    assert_eq!(world.versions, 1);
    world.run(2 * MINUTE);
    world.assert_well("race");
}

#[test]
fn a_replica_that_slept_through_a_rotation_with_a_write_in_its_hand_undoes_nothing() {
    let mut world = World::settled(13, 3);
    world.set_configurations(&Some(vec![Vec::new()]));
    // It has read the emptied configurations, and is about to write the union that is right now.
    world.replicas[0].phase = Phase::ReadConfigurations;
    while !matches!(&world.replicas[0].phase, Phase::Act { left, .. } if matches!(left[0], Act::Publish(..))) {
        world.step(0);
    }
    // Meanwhile it is called by nobody.
    world.replicas[0].trusted = false;
    world.replicas[0].wakes = world.now + 2 * HOUR;
    let (promotions, repaired) = (world.promotions, world.now + MINUTE);
    while world.promotions < promotions + 2 {
        world.run(MINUTE);
    }
    world.run(5 * MINUTE);
    world.failures.retain(|at| *at > repaired);
    world.replicas[0].wakes = world.now;
    world.run(5 * MINUTE);
    world.assert_well("slept");
}

/// One look of a replica, with what the Secret and two configurations of an entry each hold.
fn look(replica: &mut Replica, bundle: &Bundle, faults: &[Fault], trusting: &[&Ca]) -> Plan {
    let text: String = trusting.iter().map(|ca| ca.certificate().pem()).collect();
    let configurations = [Some(vec![text.clone().into_bytes()]), Some(vec![text.into_bytes()])];
    replica.plan(&Seen { bundle, faults, configurations: &configurations }, start())
}

fn start() -> Now {
    Now { wall: OffsetDateTime::from_unix_timestamp(1_800_000_000).unwrap(), steady: HOUR }
}

fn ca() -> Ca {
    Ca::create(Replica::new(LIFETIMES).ca_window(start().wall)).unwrap()
}

#[test]
fn nothing_is_signed_before_every_entry_trusts_the_ca() {
    let bundle = Bundle { current: Some(ca()), ..Bundle::default() };
    let current = bundle.current.clone().unwrap();
    let mut replica = Replica::new(LIFETIMES);
    let plan = look(&mut replica, &bundle, &[], &[]);
    assert_eq!((plan.sign, plan.publish, plan.trusted, plan.in_sync), (None, vec![0, 1], false, false));
    let half = [Some(vec![bundle.union_pem().into_bytes(), Vec::new()]), Some(vec![bundle.union_pem().into_bytes()])];
    let plan = replica.plan(&Seen { bundle: &bundle, faults: &[], configurations: &half }, start());
    assert_eq!((plan.sign, plan.publish), (None, vec![0]));
    let missing = [Some(vec![bundle.union_pem().into_bytes()]), None];
    let plan = replica.plan(&Seen { bundle: &bundle, faults: &[], configurations: &missing }, start());
    assert_eq!((plan.sign, plan.publish, plan.in_sync), (None, vec![], false), "a missing one is waited for");
    let plan = look(&mut replica, &bundle, &[], &[&current]);
    assert_eq!((plan.sign, plan.publish, plan.in_sync), (Some(current.clone()), vec![], true));
    replica.signed(current.clone(), replica.leaf_window(&current, start().wall));
    let plan = look(&mut replica, &bundle, &[], &[&current]);
    assert_eq!((plan.sign, plan.write, plan.trusted), (None, None, true), "nothing is left to do");
}

#[test]
fn a_damaged_secret_is_mended_before_anything_is_published() {
    let (lost, next) = (ca(), ca());
    let bundle = Bundle { next: Some(next.clone()), ..Bundle::default() };
    let plan = look(&mut Replica::new(LIFETIMES), &bundle, &[Fault::Previous], &[&lost, &next]);
    let Some(Write::Mend(mended)) = plan.write else { panic!("{plan:?}") };
    assert_eq!(mended.previous, [lost.certificate().clone()]);
    assert!(plan.publish.is_empty(), "the union lacks the CA that is lost");
}

#[test]
fn a_rotation_that_nobody_may_write_keeps_no_bundle_from_being_repaired() {
    let late = start().wall + Duration::from_secs(60);
    let old = Ca::create(Window { from: start().wall - HOUR, to: late }).unwrap();
    let bundle = Bundle { current: Some(old), ..Bundle::default() };
    let plan = look(&mut Replica::new(LIFETIMES), &bundle, &[], &[]);
    assert!(matches!(plan.write, Some(Write::Create(_))));
    assert_eq!(plan.publish, [0, 1]);
}

#[test]
fn replicas_whose_clocks_are_all_at_odds_make_a_ca_a_minute_each_and_no_more() {
    let mut world = World::settled(101, 3);
    let before = world.authorities;
    world.replicas[0].off = time::Duration::days(500);
    world.replicas[1].off = time::Duration::days(-500);
    world.run(30 * MINUTE);
    let made = world.authorities - before;
    assert!(made <= 3 * 31, "{made}");
    for place in [0, 1] {
        world.replicas[place].off = time::Duration::ZERO;
    }
    world.recover(2 * MINUTE, 20 * MINUTE, "set right");
}
