//! Which agents a pool has, and had, for Azure Pipelines: pure, so that any order of calls of any replicas can be tried
//! out. It is stored as one text; who changes it writes it back only if nobody else did meanwhile (`store`).

use std::{collections::BTreeMap, fmt, str::FromStr};

use sha2::{Digest, Sha256};

/// How long it is remembered that an agent was released: a call that comes again later than that finds credentials that
/// Azure Pipelines has withdrawn. Its own time-outs are minutes.
const REMEMBERED: i64 = 24 * 3600;
/// How many releases are remembered: with as many agents as a pool may have, 5,000 lines of 47 bytes, under the 256 KiB
/// that an object's annotations may have.
const RELEASES: usize = 3000;
/// How long an admitted agent may be without a pod: a call takes 30 s at most, so that whoever admitted it is gone.
const UNMADE: i64 = 120;

/// An agent of a pool: a hash of the pool's uid and the agent's id, so that a pool made anew has other agents.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct AgentKey(u64);

/// All of a pool's agents.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Ledger(BTreeMap<AgentKey, Entry>);

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Entry {
    state: State,
    /// When it got into that state, in seconds since 1970.
    since: i64,
    /// Of the body that asked for it.
    digest: u64,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum State {
    /// Admitted; its pod may be there or not.
    Admitted,
    /// Its pod was seen.
    Made,
    /// Its pod is gone without a release. It doesn't come back, unless whoever made it took it away again.
    Gone,
    /// Gone, or going; it never comes back.
    Released,
}

impl State {
    fn is_live(self) -> bool {
        matches!(self, Self::Admitted | Self::Made)
    }
}

/// The text of a ledger can't be read. Nothing is decided on half of it.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("line {0} is not of the form \"key a|m|g|r seconds digest\"")]
pub struct Unreadable(usize);

/// The pods of a pool, as one list showed them.
#[derive(Clone, Debug, Default)]
pub struct Pods {
    /// Those named for an agent.
    pub agents: BTreeMap<AgentKey, Seen>,
    /// How many others there are that count.
    pub others: usize,
}

/// What a pod is doing, as far as it matters here.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Seen {
    /// It ended well, or should be gone: it doesn't count against `max`.
    Ended,
    /// It is being deleted.
    Going,
    /// Anything else.
    Live,
}

/// What became of a call for an agent.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Admission {
    /// It has a place: make it, or what of it isn't there yet.
    Admitted,
    /// It had been made, and is gone without a release.
    Ended,
    /// There is no place.
    Full,
    /// It was released before.
    Released,
}

impl AgentKey {
    /// The key of an agent in the pool of this uid.
    pub fn new(pool_uid: &str, agent_id: &str) -> Self {
        Self(digest(format!("{pool_uid}\0{agent_id}").as_bytes()))
    }
}

/// The first 64 bits of a SHA-256.
pub(super) fn digest(bytes: &[u8]) -> u64 {
    Sha256::digest(bytes).iter().take(8).fold(0, |sum, byte| sum << 8 | u64::from(*byte))
}

impl Ledger {
    /// Takes an agent in, if there is a place for it, or finds it.
    pub fn admit(&mut self, key: AgentKey, digest: u64, max: i32, pods: &Pods, now: i64) -> Admission {
        match self.0.get(&key).map(|entry| entry.state) {
            Some(State::Released) => return Admission::Released,
            Some(State::Gone) => return Admission::Ended,
            Some(State::Made) if !pods.agents.contains_key(&key) => {
                self.look(pods, now);
                return Admission::Ended;
            }
            Some(State::Admitted | State::Made) => return Admission::Admitted,
            None => {}
        }
        // One whose pod is there without an entry was admitted too, by a ledger that somebody has deleted since; it
        // counts already.
        let there = match pods.agents.get(&key) {
            Some(Seen::Live) => true,
            Some(Seen::Ended | Seen::Going) => return Admission::Ended,
            None => false,
        };
        if !there && self.count(pods) >= usize::try_from(max).unwrap_or(0) {
            return Admission::Full;
        }
        self.0.insert(key, Entry { state: State::Admitted, since: now, digest });
        Admission::Admitted
    }

    /// How many count against `max`: who was admitted, but for those whose pod ended well; and the pool's other pods,
    /// those that are going too.
    pub fn count(&self, pods: &Pods) -> usize {
        let admitted =
            self.0.iter().filter(|(key, entry)| entry.state.is_live() && pods.agents.get(key) != Some(&Seen::Ended));
        let strange = pods.agents.iter().filter(|(key, seen)| **seen != Seen::Ended && !self.is_live(**key));
        admitted.count() + strange.count() + pods.others
    }

    /// Brings what was seen of the pods in: who has a pod was made; who had one and has none is gone; who never got one
    /// gives the place back. The pods must have been listed after the ledger was read. Gives whether anything changed.
    pub fn look(&mut self, pods: &Pods, now: i64) -> bool {
        let before = self.clone();
        for (key, entry) in &mut self.0 {
            match (entry.state, pods.agents.contains_key(key)) {
                (State::Admitted, true) => entry.state = State::Made,
                (State::Made, false) => (entry.state, entry.since) = (State::Gone, now),
                _ => {}
            }
        }
        self.0.retain(|_, entry| match entry.state {
            State::Admitted => now - entry.since < UNMADE,
            State::Made => true,
            State::Gone | State::Released => now - entry.since < REMEMBERED,
        });
        for (key, _) in pods.agents.iter().filter(|(_, seen)| **seen == Seen::Live) {
            // See `admit`.
            self.0.entry(*key).or_insert(Entry { state: State::Made, since: now, digest: 0 });
        }
        self.trim();
        *self != before
    }

    /// An agent may go, and never comes back; also one that wasn't heard of yet, for calls overtake each other.
    pub fn release(&mut self, key: AgentKey, now: i64) {
        let entry = self.0.entry(key).or_insert(Entry { state: State::Admitted, since: now, digest: 0 });
        if entry.state != State::Released {
            (entry.state, entry.since) = (State::Released, now);
        }
        self.trim();
    }

    /// Forgets the oldest of those that are over, where there are too many.
    fn trim(&mut self) {
        let mut over: Vec<(i64, AgentKey)> =
            self.0.iter().filter(|(_, entry)| !entry.state.is_live()).map(|(key, entry)| (entry.since, *key)).collect();
        if over.len() > RELEASES {
            over.sort_unstable();
            for (_, oldest) in over.iter().take(over.len() - RELEASES) {
                self.0.remove(oldest);
            }
        }
    }

    /// An agent can't be made, and what was made of it was taken away: it gives its place back, and may be asked for again.
    pub fn forget(&mut self, key: AgentKey) {
        if !self.is_released(key) {
            self.0.remove(&key);
        }
    }

    /// Whether an agent is admitted and not released.
    pub fn is_live(&self, key: AgentKey) -> bool {
        self.0.get(&key).is_some_and(|entry| entry.state.is_live())
    }

    /// Since when an agent that had a pod must not have one any more, in seconds.
    pub fn over_since(&self, key: AgentKey) -> Option<i64> {
        self.0.get(&key).filter(|entry| !entry.state.is_live()).map(|entry| entry.since)
    }

    /// Whether an agent was released.
    pub fn is_released(&self, key: AgentKey) -> bool {
        self.0.get(&key).is_some_and(|entry| entry.state == State::Released)
    }

    /// Whether this is the digest of a body that asked for an agent.
    pub fn knows_acquire(&self, digest: u64) -> bool {
        digest != 0 && self.0.values().any(|entry| entry.digest == digest)
    }
}

impl fmt::Display for AgentKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:016x}", self.0)
    }
}

impl FromStr for AgentKey {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        hex(text).map(Self).ok_or(())
    }
}

fn hex(text: &str) -> Option<u64> {
    let is_ours = text.len() == 16 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    u64::from_str_radix(text, 16).ok().filter(|_| is_ours)
}

impl fmt::Display for Ledger {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (key, Entry { state, since, digest }) in &self.0 {
            let state = match state {
                State::Admitted => 'a',
                State::Made => 'm',
                State::Gone => 'g',
                State::Released => 'r',
            };
            writeln!(formatter, "{key} {state} {since} {digest:016x}")?;
        }
        Ok(())
    }
}

impl FromStr for Ledger {
    type Err = Unreadable;

    fn from_str(text: &str) -> Result<Self, Unreadable> {
        let line = |line: &str| {
            let mut parts = line.split(' ');
            let key = parts.next()?.parse().ok()?;
            let state = match parts.next()? {
                "a" => State::Admitted,
                "m" => State::Made,
                "g" => State::Gone,
                "r" => State::Released,
                _ => return None,
            };
            let entry = Entry { state, since: parts.next()?.parse().ok()?, digest: hex(parts.next()?)? };
            parts.next().is_none().then_some((key, entry))
        };
        let lines = text.lines().enumerate();
        lines.map(|(number, text)| line(text).ok_or(Unreadable(number + 1))).collect::<Result<_, _>>().map(Self)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn key(id: u64) -> AgentKey {
        AgentKey::new("uid", &id.to_string())
    }

    fn pods(keys: &[AgentKey]) -> Pods {
        Pods { agents: keys.iter().map(|key| (*key, Seen::Live)).collect(), others: 0 }
    }

    #[test]
    fn p5_p6_a_call_that_comes_again_changes_nothing_and_what_was_released_does_not_come_back() {
        let mut ledger = Ledger::default();
        let none = Pods::default();
        assert_eq!(ledger.admit(key(1), 7, 1, &none, 0), Admission::Admitted);
        assert_eq!(ledger.admit(key(1), 8, 1, &none, 0), Admission::Admitted);
        assert_eq!(ledger.admit(key(2), 9, 1, &none, 0), Admission::Full);
        assert!(ledger.knows_acquire(7) && !ledger.knows_acquire(9) && !ledger.knows_acquire(0));
        ledger.release(key(1), 5);
        ledger.release(key(1), 9);
        // Its pod is still going: its place isn't free yet.
        assert_eq!(ledger.admit(key(2), 9, 1, &pods(&[key(1)]), 9), Admission::Full);
        assert_eq!(ledger.admit(key(2), 9, 1, &none, 9), Admission::Admitted);
        assert_eq!(ledger.admit(key(1), 7, 5, &none, 9), Admission::Released);
        // A release may overtake its acquire.
        ledger.release(key(3), 9);
        assert_eq!(ledger.admit(key(3), 7, 5, &none, 9), Admission::Released);
        let text = ledger.to_string();
        assert_eq!(text.parse::<Ledger>().unwrap(), ledger);
        ledger.look(&none, 5 + REMEMBERED);
        assert!(!ledger.is_released(key(1)) && ledger.is_released(key(3)));
    }

    #[test]
    fn an_agent_that_never_got_its_pod_gives_its_place_back_and_one_that_had_one_does_not_return() {
        let mut ledger = Ledger::default();
        ledger.admit(key(1), 1, 2, &Pods::default(), 0);
        ledger.admit(key(2), 2, 2, &Pods::default(), 0);
        assert!(ledger.look(&pods(&[key(2)]), 10));
        assert!(!ledger.look(&pods(&[key(2)]), 11), "nothing new");
        ledger.look(&pods(&[]), UNMADE);
        assert!(!ledger.is_live(key(1)) && ledger.over_since(key(1)).is_none() && ledger.over_since(key(2)).is_some());
        assert_eq!(ledger.admit(key(2), 2, 2, &Pods::default(), UNMADE), Admission::Ended);
        // Whoever took it away again may let it come again.
        ledger.forget(key(2));
        assert_eq!(ledger.admit(key(2), 2, 2, &Pods::default(), UNMADE), Admission::Admitted);
        // A ledger that somebody deleted is made anew from the pods.
        let mut anew = Ledger::default();
        assert_eq!(anew.admit(key(8), 1, 1, &pods(&[key(9)]), 0), Admission::Full);
        assert_eq!(anew.admit(key(9), 1, 1, &pods(&[key(9)]), 0), Admission::Admitted);
        let going = Pods { agents: [(key(9), Seen::Going)].into(), others: 0 };
        let mut anew = Ledger::default();
        assert!(!anew.look(&going, 0), "what is going was taken away by somebody who knows why");
        assert_eq!(anew.admit(key(9), 1, 5, &going, 0), Admission::Ended);
    }

    #[test]
    fn the_largest_ledger_fits_into_an_annotation() {
        let mut ledger = Ledger::default();
        for id in 0..4000 {
            ledger.release(key(id), 1_800_000_000);
        }
        for id in 5000..7000 {
            ledger.admit(key(id), id, 2000, &Pods::default(), 1_800_000_000);
        }
        let text = ledger.to_string();
        assert_eq!(text.lines().count(), RELEASES + 2000);
        assert!(text.len() < 256 << 10, "{}", text.len());
    }

    #[test]
    fn half_of_a_ledger_is_none() {
        for (bad, line) in
            [("x", 1), ("0123456789abcdef a 1 0123456789abcdef\n\n", 2), ("0123456789ABCDEF a 1 0123456789abcdef", 1)]
        {
            assert_eq!(bad.parse::<Ledger>(), Err(Unreadable(line)));
        }
        assert_eq!("".parse::<Ledger>(), Ok(Ledger::default()));
    }

    proptest! {
        /// Whatever calls come in whatever order, with pods that appear and go as they like: never more than `max` are in.
        #[test]
        fn never_more_than_max_are_admitted(max in 0..6i32, calls in prop::collection::vec((0..4u8, 0..12u64), 0..200)) {
            let mut ledger = Ledger::default();
            let mut there: Vec<AgentKey> = Vec::new();
            let mut released: Vec<AgentKey> = Vec::new();
            for (time, (what, id)) in (0i64..).zip(calls) {
                let key = key(id);
                match what {
                    0 | 1 => {
                        let admission = ledger.admit(key, id + 1, max, &pods(&there), time);
                        prop_assert!(!released.contains(&key) || admission != Admission::Admitted);
                        if admission == Admission::Admitted && what == 1 && !there.contains(&key) {
                            there.push(key);
                        }
                    }
                    2 => {
                        ledger.release(key, time);
                        released.push(key);
                        there.retain(|other| *other != key);
                    }
                    _ => {
                        ledger.look(&pods(&there), time);
                        if let Some(gone) = there.pop() {
                            released.push(gone);
                        }
                        ledger.look(&pods(&there), time);
                    }
                }
                prop_assert!(ledger.count(&pods(&there)) <= usize::try_from(max).unwrap());
                prop_assert_eq!(ledger.to_string().parse::<Ledger>().unwrap(), ledger.clone());
            }
        }
    }
}
