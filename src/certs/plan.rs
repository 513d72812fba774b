//! What one replica does next about its certificate, from what it has seen. Pure: no clock, no I/O.
//!
//! A CA is made as `next`, put into the `caBundle` of every entry, and becomes `current` once it was seen there for long
//! enough. Only leaves of `current` are signed, and only while it is seen in every entry. The CA before stays in the
//! bundle until its last leaf has ended. What the configurations hold follows from the Secret alone, and each write names
//! the version that it is based on, so a replica that was asleep for an hour undoes nothing.

use std::time::Duration;

use time::OffsetDateTime;

use super::authority::{Ca, Certificate, Window};
use super::bundle::{Bundle, Fault};
use super::lifetimes::Lifetimes;

/// For how many times `settle` the current CA must have stayed the same before an earlier one goes: replicas that can't
/// use it for their clocks' sake replace it in little more than one.
const UNREST: u32 = 3;

/// The time, twice.
#[derive(Clone, Copy, Debug)]
pub struct Now {
    /// What the clock on the wall says: certificates end by it. It may jump.
    pub wall: OffsetDateTime,
    /// How long this process has run: waiting is measured by it. It never jumps.
    pub steady: Duration,
}

/// What one look at the cluster found. The configurations are read before the Secret: whoever changes the Secret publishes
/// it afterwards, so a configuration that hasn't changed since this look can't hold anything newer than the Secret.
#[derive(Debug)]
pub struct Seen<'a> {
    /// What the Secret holds.
    pub bundle: &'a Bundle,
    /// What is wrong in it.
    pub faults: &'a [Fault],
    /// For each webhook configuration, the `caBundle` of each of its entries; `None` where there is no such configuration.
    pub configurations: &'a [Option<Vec<Vec<u8>>>],
}

/// What to do after one look, in this order. All of it may fail; the next look finds what is left to do.
#[derive(Debug, Default)]
pub struct Plan {
    /// Sign a leaf with this CA and serve it.
    pub sign: Option<Ca>,
    /// Write this to the Secret, if it is as it was.
    pub write: Option<Write>,
    /// Give these configurations the union of the bundle as their `caBundle`, if they are as they were. Not when the
    /// write was done, for then the union is another; but when it failed, so that who may not write still repairs.
    pub publish: Vec<usize>,
    /// Whether every configuration is there and trusts what this replica serves.
    pub trusted: bool,
    /// Whether every entry of every configuration holds the union and nothing else.
    pub in_sync: bool,
}

/// A new content of the Secret.
#[derive(Clone, Debug, PartialEq)]
pub enum Write {
    /// This, with a new CA as its next one.
    Create(Bundle),
    /// What can be used of a Secret in which something can't.
    Mend(Bundle),
    /// The next CA has become the current one.
    Promote(Bundle),
    /// Earlier CAs are gone whose leaves have all ended.
    Retire(Bundle),
}

/// What one replica remembers between two looks.
#[derive(Debug)]
pub struct Replica {
    lifetimes: Lifetimes,
    leaf: Option<Signed>,
    /// The current CA, and since when it has been that.
    current_seen: Option<(Certificate, Duration)>,
    /// The next CA, and since when it has been seen in every entry.
    next_seen: Option<(Certificate, Duration)>,
    /// When this replica wrote a new CA last.
    created: Option<Duration>,
}

/// The leaf that is served.
#[derive(Debug)]
struct Signed {
    ca: Ca,
    window: Window,
}

impl Replica {
    /// A replica that serves nothing yet.
    pub fn new(lifetimes: Lifetimes) -> Self {
        Self { lifetimes, leaf: None, current_seen: None, next_seen: None, created: None }
    }

    /// From when to when a new CA holds.
    pub fn ca_window(&self, now: OffsetDateTime) -> Window {
        Window { from: now - self.lifetimes.skew, to: now + self.lifetimes.ca }
    }

    /// From when to when a leaf of this CA holds that is signed now.
    pub fn leaf_window(&self, ca: &Ca, now: OffsetDateTime) -> Window {
        let to = ca.certificate().not_after.min(now + self.lifetimes.leaf);
        Window { from: now - self.lifetimes.skew, to }
    }

    /// This leaf is served now.
    pub fn signed(&mut self, ca: Ca, window: Window) {
        self.leaf = Some(Signed { ca, window });
    }

    /// This replica has written a new CA.
    pub fn created(&mut self, now: Now) {
        self.created = Some(now.steady);
    }

    /// What to do after a look.
    pub fn plan(&mut self, seen: &Seen<'_>, now: Now) -> Plan {
        let bundle = seen.bundle;
        let entries = Entries::of(seen);
        self.remember(bundle, &entries, now);
        let serves_trusted = self.leaf_holds(now) && self.leaf.as_ref().is_some_and(|leaf| entries.trust(&leaf.ca));
        let mend = self.mend(seen, &entries, now);
        let union = bundle.union_pem();
        let mut publish = if union.is_empty() { Vec::new() } else { entries.other_than(union.as_bytes()) };
        let in_sync = entries.complete && !union.is_empty() && publish.is_empty();
        if mend.is_some() {
            // This union lacks what the configurations must go on to trust.
            publish.clear();
        }
        let sign = self.signer(bundle, &entries, now);
        let write = mend.or_else(|| self.rotate(bundle, serves_trusted, now));
        Plan { sign, write, publish, trusted: serves_trusted, in_sync }
    }

    /// The CA to sign a leaf with while the API server can't be asked: the one that signed the leaf before.
    pub fn renewal(&self, now: Now) -> Option<Ca> {
        let ca = &self.leaf.as_ref()?.ca;
        (self.leaf_is_due(now) && ca.certificate().holds_at(now.wall)).then(|| ca.clone())
    }

    fn remember(&mut self, bundle: &Bundle, entries: &Entries, now: Now) {
        let seen = |found: Option<&Ca>, before: Option<(Certificate, Duration)>| {
            let found = found.map(Ca::certificate)?;
            Some(before.filter(|(before, _)| before == found).unwrap_or_else(|| (found.clone(), now.steady)))
        };
        self.current_seen = seen(bundle.current.as_ref(), self.current_seen.take());
        self.next_seen = seen(bundle.next.as_ref().filter(|next| entries.trust(next)), self.next_seen.take());
    }

    fn signer(&self, bundle: &Bundle, entries: &Entries, now: Now) -> Option<Ca> {
        let current = bundle.current.as_ref().filter(|ca| ca.certificate().holds_at(now.wall) && entries.trust(ca));
        let is_served = |ca: &&Ca| self.leaf.as_ref().is_some_and(|leaf| leaf.ca == **ca);
        // A leaf of the CA before stays until the current one is seen everywhere, and may have to be renewed meanwhile.
        current.filter(|ca| !is_served(ca)).cloned().or_else(|| self.renewal(now))
    }

    fn leaf_holds(&self, now: Now) -> bool {
        self.leaf.as_ref().is_some_and(|leaf| leaf.window.from <= now.wall && now.wall <= leaf.window.to)
    }

    fn leaf_is_due(&self, now: Now) -> bool {
        self.leaf.as_ref().is_some_and(|Signed { ca, window }| {
            // One that ends with its CA would end no later if it were signed again.
            let longer = ca.certificate().not_after > window.to;
            !self.leaf_holds(now) || (longer && self.lifetimes.leaf_is_due(window.to, now.wall))
        })
    }

    /// A part of the Secret is bad or the CA that signs is gone: callers may still be served leaves of CAs that only the
    /// configurations and the replicas know of, so these are written down before anything is published.
    fn mend(&self, seen: &Seen<'_>, entries: &Entries, now: Now) -> Option<Write> {
        let bundle = seen.bundle;
        if seen.faults.is_empty() && bundle.current.is_some() {
            return None;
        }
        let own = self.leaf.as_ref().filter(|_| self.leaf_holds(now)).map(|leaf| leaf.ca.certificate());
        let known = entries.certificates().chain(own).filter(|found| found.holds_at(now.wall)).cloned().collect();
        let mended = bundle.clone().keeping(known, self.lifetimes.keep_until(now.wall));
        if mended.current.is_none() && mended.next.is_none() {
            return Some(Write::Create(mended));
        }
        (!seen.faults.is_empty() || mended != *bundle).then_some(Write::Mend(mended))
    }

    fn rotate(&self, bundle: &Bundle, serves_trusted: bool, now: Now) -> Option<Write> {
        let holds = |ca: &&Ca| ca.certificate().holds_at(now.wall);
        let current = bundle.current.as_ref().map(Ca::certificate);
        let due = current
            .is_none_or(|current| !current.holds_at(now.wall) || self.lifetimes.ca_is_due(current.not_after, now.wall));
        if let Some((_, since)) = self.next_seen.as_ref().filter(|_| bundle.next.as_ref().is_some_and(|ca| holds(&ca)))
        {
            let wait = if serves_trusted { self.lifetimes.settle } else { self.lifetimes.propagation };
            let waited = now.steady.saturating_sub(*since) >= wait;
            return waited.then(|| Write::Promote(bundle.clone().promoted(self.lifetimes.keep_until(now.wall))));
        }
        // Replicas whose clocks are a year apart would replace each other's CAs for ever: not more often than this.
        let paused = self.created.is_none_or(|at| now.steady.saturating_sub(at) >= self.lifetimes.settle);
        if due && paused && !bundle.next.as_ref().is_some_and(|ca| holds(&ca)) {
            return Some(Write::Create(bundle.clone()));
        }
        self.retire(bundle, now)
    }

    fn retire(&self, bundle: &Bundle, now: Now) -> Option<Write> {
        // What has ended by this clock may not have by the others'. They then put another CA in the current one's place.
        let unrest = self.lifetimes.settle * UNREST;
        if self.current_seen.as_ref().is_none_or(|(_, since)| now.steady.saturating_sub(*since) < unrest) {
            return None;
        }
        let over = bundle.until.is_none_or(|until| until < now.wall);
        let own = self.leaf.as_ref().filter(|_| self.leaf_holds(now)).map(|leaf| leaf.ca.certificate());
        let stays = |found: &Certificate| Some(found) == own || (!over && now.wall <= found.not_after);
        let rest = bundle.clone().retaining(stays);
        (rest != *bundle).then_some(Write::Retire(rest))
    }
}

impl Write {
    /// The content to write, with the CA that `create` makes where one is wanted.
    ///
    /// # Errors
    /// What `create` fails with.
    pub fn bundle<E>(self, create: impl FnOnce() -> Result<Ca, E>) -> Result<Bundle, E> {
        match self {
            Self::Create(bundle) => Ok(bundle.with_next(create()?)),
            Self::Mend(bundle) | Self::Promote(bundle) | Self::Retire(bundle) => Ok(bundle),
        }
    }

    /// What it is for, for the log.
    pub fn purpose(&self) -> &'static str {
        match self {
            Self::Create(_) => "a new CA is to follow",
            Self::Mend(_) => "the CA Secret is mended",
            Self::Promote(_) => "the new CA signs from now on",
            Self::Retire(_) => "an earlier CA is no longer trusted",
        }
    }
}

/// The entries of all configurations, read.
struct Entries {
    /// For each entry, the place of its configuration and that of its text.
    entries: Vec<(usize, usize)>,
    /// Each `caBundle` that some entry has, once, for mostly all have the same; and the certificates in it.
    texts: Vec<(Vec<u8>, Vec<Certificate>)>,
    /// Whether every configuration is there.
    complete: bool,
}

impl Entries {
    fn of(seen: &Seen<'_>) -> Self {
        let mut read =
            Self { entries: Vec::new(), texts: Vec::new(), complete: seen.configurations.iter().all(Option::is_some) };
        for (place, bundles) in seen.configurations.iter().enumerate() {
            for bundle in bundles.iter().flatten() {
                let known = read.texts.iter().position(|(text, _)| text == bundle);
                read.entries.push((place, known.unwrap_or(read.texts.len())));
                if known.is_none() {
                    read.texts.push((bundle.clone(), Certificate::all_in(bundle)));
                }
            }
        }
        read
    }

    /// Whether every entry trusts this CA, and no configuration is missing.
    fn trust(&self, ca: &Ca) -> bool {
        self.complete && self.texts.iter().all(|(_, certificates)| certificates.contains(ca.certificate()))
    }

    /// The configurations with an entry whose `caBundle` is another than this.
    fn other_than(&self, union: &[u8]) -> Vec<usize> {
        let others = self.entries.iter().filter(|(_, text)| self.texts[*text].0 != union);
        let mut places: Vec<usize> = others.map(|(place, _)| *place).collect();
        places.dedup();
        places
    }

    fn certificates(&self) -> impl Iterator<Item = &Certificate> {
        self.texts.iter().flat_map(|(_, certificates)| certificates)
    }
}

#[cfg(test)]
mod tests;
