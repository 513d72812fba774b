//! Replicas, a Secret, two webhook configurations and API servers that lag, in virtual time.
//!
//! Each request of a replica takes its own while, now and then a minute, and the others' requests come between. After every
//! step each replica that says it is trusted must be: by API servers that see the configurations late, and go by the right
//! time. CAs are real certificates, all with one key, so that no time is spent on making keys.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use rcgen::KeyPair;
use time::OffsetDateTime;

use super::*;
use crate::certs::authority::subject_of;

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);
const POLL: Duration = Duration::from_secs(20);
/// How late an API server may see a configuration: less than `propagation`.
const LAG: Duration = Duration::from_millis(1500);
/// A rotation each 40 minutes.
const LIFETIMES: Lifetimes = Lifetimes {
    ca: Duration::from_secs(3600),
    leaf: Duration::from_secs(600),
    skew: Duration::from_secs(300),
    settle: Duration::from_secs(60),
    propagation: Duration::from_secs(2),
};

type Entries = Option<Vec<Vec<u8>>>;

struct World {
    random: Random,
    now: Duration,
    /// What the right time was at the start, and by how much the world's clocks have jumped since.
    epoch: OffsetDateTime,
    jumped: time::Duration,
    secret: Option<(u64, BTreeMap<String, Vec<u8>>)>,
    /// Every version of each configuration, and since when it is in force.
    configurations: [Vec<(Duration, Entries)>; 2],
    replicas: Vec<Machine>,
    versions: u64,
    key: String,
    authorities: u64,
    promotions: u32,
    /// When a call failed.
    failures: Vec<Duration>,
    calls: u64,
}

struct Machine {
    replica: Replica,
    started: Duration,
    /// By how much its clock is wrong.
    off: time::Duration,
    leaf: Option<(Certificate, String, Window)>,
    parsed: Option<(u64, Bundle, Vec<Fault>)>,
    trusted: bool,
    wakes: Duration,
    phase: Phase,
}

enum Phase {
    ReadConfigurations,
    ReadSecret([(usize, Entries); 2]),
    Act { versions: [usize; 2], secret: u64, left: VecDeque<Act>, done: bool },
}

enum Act {
    Sign(Ca),
    Write(Write),
    Publish(usize, String),
    Rest { trusted: bool, in_sync: bool },
}

/// SplitMix64.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (word ^ (word >> 31)) % bound
    }

    /// How long a request takes.
    fn delay(&mut self) -> Duration {
        let most = match self.below(200) {
            0 => 90_000,
            1..20 => 3_000,
            _ => 50,
        };
        Duration::from_millis(1 + self.below(most))
    }
}

impl Machine {
    fn new(now: Duration, wakes: Duration) -> Self {
        Self {
            replica: Replica::new(LIFETIMES),
            started: now,
            off: time::Duration::ZERO,
            leaf: None,
            parsed: None,
            trusted: false,
            wakes,
            phase: Phase::ReadConfigurations,
        }
    }
}

impl World {
    /// As a chart installs it: an empty Secret, and no `caBundle` anywhere.
    fn new(seed: u64, replicas: usize) -> Self {
        let mut random = Random(seed);
        let empty = || vec![(Duration::ZERO, Some(vec![Vec::new(), Vec::new()]))];
        let replicas = (0..replicas).map(|_| Machine::new(Duration::ZERO, random.delay())).collect();
        Self {
            random,
            now: Duration::ZERO,
            epoch: OffsetDateTime::from_unix_timestamp(1_800_000_000).unwrap(),
            jumped: time::Duration::ZERO,
            secret: Some((0, BTreeMap::new())),
            configurations: [empty(), empty()],
            replicas,
            versions: 0,
            key: KeyPair::generate().unwrap().serialize_pem(),
            authorities: 0,
            promotions: 0,
            failures: Vec::new(),
            calls: 0,
        }
    }

    /// The same, run until every replica is trusted.
    fn settled(seed: u64, replicas: usize) -> Self {
        let mut world = Self::new(seed, replicas);
        world.run(5 * MINUTE);
        assert!(world.replicas.iter().all(|machine| machine.trusted), "not installed after five minutes");
        world
    }

    fn run(&mut self, length: Duration) {
        let end = self.now + length;
        loop {
            let place = (0..self.replicas.len()).min_by_key(|place| self.replicas[*place].wakes).unwrap();
            if self.replicas[place].wakes > end {
                self.now = end;
                return;
            }
            self.now = self.replicas[place].wakes;
            self.step(place);
            self.call_all();
        }
    }

    fn right_time(&self) -> OffsetDateTime {
        self.epoch + self.now + self.jumped
    }

    fn step(&mut self, place: usize) {
        let wall = self.right_time() + self.replicas[place].off;
        let machine = &mut self.replicas[place];
        let now = Now { wall, steady: self.now - machine.started };
        let mut pause = None;
        match std::mem::replace(&mut machine.phase, Phase::ReadConfigurations) {
            Phase::ReadConfigurations => {
                let read = |versions: &Vec<(Duration, Entries)>| (versions.len(), versions.last().unwrap().1.clone());
                machine.phase = Phase::ReadSecret([read(&self.configurations[0]), read(&self.configurations[1])]);
            }
            Phase::ReadSecret(configurations) => match &self.secret {
                Some((version, data)) => {
                    if machine.parsed.as_ref().is_none_or(|parsed| parsed.0 != *version) {
                        let (bundle, faults) = Bundle::parse(data);
                        machine.parsed = Some((*version, bundle, faults));
                    }
                    let (_, bundle, faults) = machine.parsed.as_ref().unwrap();
                    let [(one, mutating), (two, validating)] = configurations;
                    let configurations = &[mutating, validating];
                    let plan = machine.replica.plan(&Seen { bundle, faults, configurations }, now);
                    let union = bundle.union_pem();
                    let mut left: VecDeque<Act> = plan.sign.into_iter().map(Act::Sign).collect();
                    left.extend(plan.write.map(Act::Write));
                    left.extend(plan.publish.into_iter().map(|place| Act::Publish(place, union.clone())));
                    left.push_back(Act::Rest { trusted: plan.trusted, in_sync: plan.in_sync });
                    machine.phase = Phase::Act { versions: [one, two], secret: *version, left, done: false };
                }
                None => {
                    if let Some(ca) = machine.replica.renewal(now) {
                        self.sign(place, ca, now);
                    }
                    pause = Some(SECOND);
                }
            },
            Phase::Act { versions, secret, mut left, mut done } => {
                match left.pop_front().unwrap() {
                    Act::Sign(ca) => {
                        self.sign(place, ca, now);
                        done = true;
                    }
                    Act::Write(write) => {
                        self.write(place, secret, write, now);
                        (left, done) = (VecDeque::new(), true);
                    }
                    Act::Publish(which, union) => {
                        self.publish(which, versions[which], &union);
                        done = true;
                    }
                    Act::Rest { .. } if done => left.clear(),
                    Act::Rest { trusted, in_sync } => {
                        self.replicas[place].trusted = trusted;
                        pause = Some(if trusted && in_sync { POLL } else { SECOND });
                    }
                }
                if !left.is_empty() {
                    self.replicas[place].phase = Phase::Act { versions, secret, left, done };
                }
            }
        }
        let wakes = self.now + pause.unwrap_or_default() + self.random.delay();
        self.replicas[place].wakes = wakes;
    }

    fn sign(&mut self, place: usize, ca: Ca, now: Now) {
        let machine = &mut self.replicas[place];
        let window = machine.replica.leaf_window(&ca, now.wall);
        machine.leaf = Some((ca.certificate().clone(), ca.certificate().pem(), window));
        machine.replica.signed(ca, window);
    }

    fn write(&mut self, place: usize, read: u64, write: Write, now: Now) {
        let Some((version, data)) = &mut self.secret else { return };
        if *version != read {
            return;
        }
        let created = matches!(write, Write::Create(_));
        let promoted = matches!(write, Write::Promote(_));
        let mut window = self.replicas[place].replica.ca_window(now.wall);
        // No two CAs are the same, though they have one key.
        self.authorities += 1;
        window.to += Duration::from_secs(self.authorities);
        let key = &self.key;
        let create = || {
            let key = KeyPair::from_pem(key).unwrap();
            let subject = subject_of(&key);
            Ca::with_key(key, &subject, window)
        };
        for (key, value) in write.bundle(create).unwrap().data() {
            match value {
                Some(value) => data.insert(key.to_owned(), value),
                None => data.remove(key),
            };
        }
        self.versions += 1;
        *version = self.versions;
        self.promotions += u32::from(promoted);
        if created {
            self.replicas[place].replica.created(now);
        }
    }

    fn publish(&mut self, which: usize, read: usize, union: &str) {
        let versions = &mut self.configurations[which];
        if versions.len() == read
            && let Some(entries) = versions.last().unwrap().1.clone()
        {
            versions.push((self.now, Some(entries.iter().map(|_| union.as_bytes().to_vec()).collect())));
        }
    }

    /// An API server calls every replica that is ready, for an entry of each configuration.
    fn call_all(&mut self) {
        let time = self.right_time();
        for place in 0..self.replicas.len() {
            for which in 0..2 {
                let machine = &self.replicas[place];
                if !machine.trusted || machine.off != time::Duration::ZERO {
                    continue;
                }
                let lag = Duration::from_millis(self.random.below(LAG.as_millis() as u64));
                let seen = self.now.saturating_sub(lag);
                let versions = &self.configurations[which];
                let version = versions.iter().rfind(|(since, _)| *since <= seen).unwrap();
                // No registration, no call.
                let Some(entries) = &version.1 else { continue };
                let (ca, pem, window) = self.replicas[place].leaf.as_ref().unwrap();
                let trusts = entries.iter().all(|entry| std::str::from_utf8(entry).unwrap().contains(pem));
                self.calls += 1;
                if !(trusts && ca.holds_at(time) && window.from <= time && time <= window.to) {
                    self.failures.push(self.now);
                }
            }
        }
        // Old versions that nobody can see any more.
        for versions in &mut self.configurations {
            for (since, entries) in versions.iter_mut().rev().skip(2) {
                if *since + LAG + SECOND < self.now && entries.is_some() {
                    *entries = Some(Vec::new());
                } else if *since + 2 * LAG < self.now {
                    break;
                }
            }
        }
    }

    fn set_configurations(&mut self, entries: &Entries) {
        for versions in &mut self.configurations {
            versions.push((self.now, entries.clone()));
        }
    }

    fn set_secret(&mut self, change: impl FnOnce(&mut BTreeMap<String, Vec<u8>>)) {
        let mut data = self.secret.take().map(|(_, data)| data).unwrap_or_default();
        change(&mut data);
        self.versions += 1;
        self.secret = Some((self.versions, data));
    }

    fn restart_one(&mut self) {
        let place = self.random.below(self.replicas.len() as u64) as usize;
        let wakes = self.now + self.random.delay();
        self.replicas[place] = Machine::new(self.now, wakes);
    }

    fn bundle(&self) -> Bundle {
        let (bundle, faults) = Bundle::parse(&self.secret.as_ref().unwrap().1);
        assert!(faults.is_empty(), "{faults:?}");
        bundle
    }

    fn assert_no_failure(&self, what: &str) {
        let failures = &self.failures;
        assert!(failures.is_empty(), "{what}: {} calls failed, the first at {:?}", failures.len(), failures[0]);
    }

    /// That every call since the start or the last assertion went well.
    fn assert_well(&self, what: &str) {
        self.assert_no_failure(what);
        assert!(self.replicas.iter().all(|machine| machine.trusted), "{what}: somebody isn't trusted");
        let union = self.bundle().union_pem().into_bytes();
        for versions in &self.configurations {
            let entries = versions.last().unwrap().1.as_ref().unwrap();
            assert!(entries.iter().all(|entry| *entry == union), "{what}: out of sync");
        }
    }

    /// Runs for so long, in which calls may fail but no later than `limit` from now.
    fn recover(&mut self, limit: Duration, length: Duration, what: &str) {
        let latest = self.now + limit;
        self.run(length);
        self.failures.retain(|at| *at > latest);
        self.assert_well(what);
    }
}

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
        world.run(2 * HOUR);
        world.assert_well("after the jump");
        assert!(world.bundle().certificates().len() <= 3, "{hours}: {:?}", world.bundle());
    }
}

#[test]
fn a_replica_whose_clock_is_wrong_costs_the_others_no_call() {
    for minutes in [4, 20, 50, 100_000, -4, -20, -50, -100_000] {
        let mut world = World::settled(99, 3);
        world.replicas[0].off = time::Duration::minutes(minutes);
        world.run(HOUR);
        world.assert_no_failure(&format!("{minutes} minutes off"));
        assert!(world.authorities < 600, "{minutes}: {}", world.authorities);
        world.replicas[0].off = time::Duration::ZERO;
        world.recover(2 * MINUTE, HOUR, "set right");
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
