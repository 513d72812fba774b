use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};

/// How long a write may take to be seen (Kubernetes' own controllers wait 5 minutes; the watch here is per namespace and
/// sees its own writes within a second).
const SEEN_WITHIN: SignedDuration = SignedDuration::from_secs(30);
/// How long a name stays unused that somebody else's pod has.
const TAKEN_FOR: SignedDuration = SignedDuration::from_secs(300);
/// The most that may pass between two looks: more is a clock that was set. While anything is expected they are a second
/// apart.
const LONGEST_STEP: SignedDuration = SignedDuration::from_secs(5);

/// Writes that were made and not seen yet. Without them, a watch that lags would have the same need filled twice.
///
/// Time is counted in looks, so that a clock that is set forgets nothing too early.
#[derive(Clone, Debug, Default)]
pub(super) struct Expectations {
    last_look: Option<Timestamp>,
    clock: SignedDuration,
    creates: BTreeMap<String, SignedDuration>,
    deletes: BTreeMap<String, SignedDuration>,
    taken: BTreeMap<String, SignedDuration>,
}

impl Expectations {
    /// A pod of this name was asked for.
    pub(super) fn created(&mut self, name: &str) {
        self.creates.insert(name.to_owned(), self.clock + SEEN_WITHIN);
    }

    /// Nothing came of it.
    pub(super) fn not_created(&mut self, name: &str) {
        self.creates.remove(name);
    }

    /// A pod has that name already: ours, of an earlier leader, or somebody else's.
    pub(super) fn taken(&mut self, name: &str) {
        self.created(name);
        self.taken.insert(name.to_owned(), self.clock + TAKEN_FOR);
    }

    /// The deletion of a pod was asked for.
    pub(super) fn deleted(&mut self, uid: &str) {
        self.deletes.insert(uid.to_owned(), self.clock + SEEN_WITHIN);
    }

    /// It wasn't deleted.
    pub(super) fn not_deleted(&mut self, uid: &str) {
        self.deletes.remove(uid);
    }

    /// Forgets what has come true and what has waited too long.
    pub(super) fn seen<'p>(&mut self, pods: impl Iterator<Item = (&'p str, &'p str)>, now: Timestamp) {
        let passed = self.last_look.map_or(SignedDuration::ZERO, |last| now.duration_since(last));
        self.clock += passed.clamp(SignedDuration::ZERO, LONGEST_STEP);
        self.last_look = Some(now);
        let mut uids = BTreeSet::new();
        for (name, uid) in pods {
            self.creates.remove(name);
            self.taken.remove(name);
            uids.insert(uid);
        }
        let clock = self.clock;
        self.deletes.retain(|uid, until| uids.contains(uid.as_str()) && clock < *until);
        self.creates.retain(|_, until| clock < *until);
        self.taken.retain(|_, until| clock < *until);
    }

    /// How many pods were asked for that haven't been seen.
    pub(super) fn in_flight(&self) -> usize {
        self.creates.len()
    }

    /// Whether the deletion of this pod was asked for.
    pub(super) fn is_deleted(&self, uid: &str) -> bool {
        self.deletes.contains_key(uid)
    }

    /// Whether a new pod can't have this name.
    pub(super) fn holds(&self, name: &str) -> bool {
        self.creates.contains_key(name) || self.taken.contains_key(name)
    }
}
