//! How long CAs and leaves last, and when each is renewed.

use std::time::Duration;

use time::OffsetDateTime;

const MINUTE: u64 = 60;
const DAY: u64 = 24 * 60 * MINUTE;

/// The times of self-managed certificates; `docs/certificates.md` shows them on a line.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Lifetimes {
    /// How long a CA lasts. A year: long enough that a rotation is rare, short enough that each cluster sees one.
    pub ca: Duration,
    /// How long a leaf lasts. A week: a replica signs a new one each few days, and an old CA is done with a week after it
    /// was replaced.
    pub leaf: Duration,
    /// How far back certificates begin, and how much longer than the last leaf an old CA stays: the clocks of two
    /// machines differ.
    pub skew: Duration,
    /// How long a new CA is trusted by every webhook configuration before leaves of it are served, while the one before
    /// still does its work: nothing is in a hurry then, and an API server that lags has time to see it.
    pub settle: Duration,
    /// The same while a replica has nothing that is trusted. An API server that is well sees a change within 10 ms.
    pub propagation: Duration,
}

impl Default for Lifetimes {
    fn default() -> Self {
        Self {
            ca: Duration::from_secs(365 * DAY),
            leaf: Duration::from_secs(7 * DAY),
            skew: Duration::from_secs(5 * MINUTE),
            settle: Duration::from_secs(10 * MINUTE),
            propagation: Duration::from_secs(2),
        }
    }
}

impl Lifetimes {
    /// Whether a CA that ends then is to be replaced: with a third of its life left, so that a cluster in which nobody can
    /// write the Secret for months still has a CA.
    pub fn ca_is_due(&self, not_after: OffsetDateTime, now: OffsetDateTime) -> bool {
        not_after - now < self.ca / 3
    }

    /// Whether a leaf that ends then is to be replaced: with a third of its life left.
    pub fn leaf_is_due(&self, not_after: OffsetDateTime, now: OffsetDateTime) -> bool {
        not_after - now < self.leaf / 3
    }

    /// Until when a CA stays trusted that is replaced now: its last leaf was signed a moment ago.
    pub fn keep_until(&self, now: OffsetDateTime) -> OffsetDateTime {
        now + self.leaf + 2 * self.skew
    }
}
