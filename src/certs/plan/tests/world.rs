//! The world of the simulation: one Secret, two webhook configurations, API servers, replicas and their clocks.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use rcgen::KeyPair;
use time::OffsetDateTime;

use super::super::*;
use crate::certs::authority::subject_of;

pub(super) const SECOND: Duration = Duration::from_secs(1);
pub(super) const MINUTE: Duration = Duration::from_secs(60);
pub(super) const HOUR: Duration = Duration::from_secs(3600);
pub(super) const POLL: Duration = Duration::from_secs(20);
/// How late an API server may see a configuration: less than `propagation`.
pub(super) const LAG: Duration = Duration::from_millis(1500);
/// A rotation each 40 minutes.
pub(super) const LIFETIMES: Lifetimes = Lifetimes {
    ca: Duration::from_secs(3600),
    leaf: Duration::from_secs(600),
    skew: Duration::from_secs(300),
    settle: Duration::from_secs(60),
    propagation: Duration::from_secs(2),
};

pub(super) type Entries = Option<Vec<Vec<u8>>>;

pub(super) struct World {
    pub(super) random: Random,
    pub(super) now: Duration,
    /// What the right time was at the start, and by how much the world's clocks have jumped since.
    pub(super) epoch: OffsetDateTime,
    pub(super) jumped: time::Duration,
    pub(super) secret: Option<(u64, BTreeMap<String, Vec<u8>>)>,
    /// Every version of each configuration, and since when it is in force.
    pub(super) configurations: [Vec<(Duration, Entries)>; 2],
    pub(super) replicas: Vec<Machine>,
    pub(super) versions: u64,
    pub(super) key: String,
    pub(super) authorities: u64,
    pub(super) promotions: u32,
    /// When a call failed.
    pub(super) failures: Vec<Duration>,
    pub(super) calls: u64,
}

pub(super) struct Machine {
    pub(super) replica: Replica,
    pub(super) started: Duration,
    /// By how much its clock is wrong.
    pub(super) off: time::Duration,
    pub(super) leaf: Option<(Certificate, String, Window)>,
    pub(super) parsed: Option<(u64, Bundle, Vec<Fault>)>,
    pub(super) trusted: bool,
    pub(super) wakes: Duration,
    pub(super) phase: Phase,
}

pub(super) enum Phase {
    ReadConfigurations,
    ReadSecret([(usize, Entries); 2]),
    Act { versions: [usize; 2], secret: u64, left: VecDeque<Act>, done: bool },
}

pub(super) enum Act {
    Sign(Ca),
    Write(Write),
    Publish(usize, String),
    Rest { trusted: bool, in_sync: bool },
}

/// SplitMix64.
pub(super) struct Random(u64);

impl Random {
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (word ^ (word >> 31)) % bound
    }

    /// How long a request takes.
    pub(super) fn delay(&mut self) -> Duration {
        let most = match self.below(200) {
            0 => 90_000,
            1..20 => 3_000,
            _ => 50,
        };
        Duration::from_millis(1 + self.below(most))
    }
}

impl Machine {
    pub(super) fn new(now: Duration, wakes: Duration) -> Self {
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
    pub(super) fn new(seed: u64, replicas: usize) -> Self {
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
    pub(super) fn settled(seed: u64, replicas: usize) -> Self {
        let mut world = Self::new(seed, replicas);
        world.run(5 * MINUTE);
        assert!(world.replicas.iter().all(|machine| machine.trusted), "not installed after five minutes");
        world
    }

    pub(super) fn run(&mut self, length: Duration) {
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

    pub(super) fn right_time(&self) -> OffsetDateTime {
        self.epoch + self.now + self.jumped
    }

    pub(super) fn step(&mut self, place: usize) {
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

    pub(super) fn sign(&mut self, place: usize, ca: Ca, now: Now) {
        let machine = &mut self.replicas[place];
        let window = machine.replica.leaf_window(&ca, now.wall);
        // The end of its signature: nothing else has it, and it is found quickly.
        let pem = ca.certificate().pem();
        let mark = pem[pem.len() - 64..].split('-').next().unwrap().trim().to_owned();
        machine.leaf = Some((ca.certificate().clone(), mark, window));
        machine.replica.signed(ca, window);
    }

    pub(super) fn write(&mut self, place: usize, read: u64, write: Write, now: Now) {
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

    pub(super) fn publish(&mut self, which: usize, read: usize, union: &str) {
        let versions = &mut self.configurations[which];
        if versions.len() == read
            && let Some(entries) = versions.last().unwrap().1.clone()
        {
            versions.push((self.now, Some(entries.iter().map(|_| union.as_bytes().to_vec()).collect())));
        }
    }

    /// An API server calls every replica that is ready, for an entry of each configuration.
    pub(super) fn call_all(&mut self) {
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
                let (ca, mark, window) = self.replicas[place].leaf.as_ref().unwrap();
                let trusts = entries.iter().all(|entry| std::str::from_utf8(entry).unwrap().contains(mark.as_str()));
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

    pub(super) fn set_configurations(&mut self, entries: &Entries) {
        for versions in &mut self.configurations {
            versions.push((self.now, entries.clone()));
        }
    }

    pub(super) fn set_secret(&mut self, change: impl FnOnce(&mut BTreeMap<String, Vec<u8>>)) {
        let mut data = self.secret.take().map(|(_, data)| data).unwrap_or_default();
        change(&mut data);
        self.versions += 1;
        self.secret = Some((self.versions, data));
    }

    pub(super) fn restart_one(&mut self) {
        let place = self.random.below(self.replicas.len() as u64) as usize;
        let wakes = self.now + self.random.delay();
        self.replicas[place] = Machine::new(self.now, wakes);
    }

    pub(super) fn bundle(&self) -> Bundle {
        let (bundle, faults) = Bundle::parse(&self.secret.as_ref().unwrap().1);
        assert!(faults.is_empty(), "{faults:?}");
        bundle
    }

    pub(super) fn assert_no_failure(&self, what: &str) {
        let failures = &self.failures;
        assert!(failures.is_empty(), "{what}: {} calls failed, the first at {:?}", failures.len(), failures[0]);
    }

    /// That every call since the start or the last assertion went well.
    pub(super) fn assert_well(&self, what: &str) {
        self.assert_no_failure(what);
        assert!(self.replicas.iter().all(|machine| machine.trusted), "{what}: somebody isn't trusted");
        let union = self.bundle().union_pem().into_bytes();
        for versions in &self.configurations {
            let entries = versions.last().unwrap().1.as_ref().unwrap();
            assert!(entries.iter().all(|entry| *entry == union), "{what}: out of sync");
        }
    }

    /// Runs for so long, in which calls may fail but no later than `limit` from now.
    pub(super) fn recover(&mut self, limit: Duration, length: Duration, what: &str) {
        let latest = self.now + limit;
        self.run(length);
        self.failures.retain(|at| *at > latest);
        self.assert_well(what);
    }
}
