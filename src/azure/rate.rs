//! How many calls are looked at: before anything is hashed or asked of the API server.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::Instant,
};

use crate::pool::Key;

/// A bucket for each pool that there is, and one for all that there isn't.
#[derive(Debug)]
pub(super) struct Rate {
    per_second: f64,
    buckets: Mutex<HashMap<Option<Key>, (f64, Instant)>>,
}

impl Rate {
    /// So many calls a second, and twice as many at once.
    pub(super) fn new(per_second: u32) -> Self {
        Self { per_second: per_second.into(), buckets: Mutex::default() }
    }

    /// Whether one more call for a pool may be looked at. `None` is a pool that there isn't.
    pub(super) fn allows(&self, pool: Option<Key>, now: Instant) -> bool {
        let most = 2.0 * self.per_second;
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        let (left, last) = buckets.entry(pool).or_insert((most, now));
        *left = (*left + now.saturating_duration_since(*last).as_secs_f64() * self.per_second).min(most);
        *last = now;
        let allowed = *left >= 1.0;
        *left -= f64::from(u8::from(allowed));
        allowed
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_flood_for_one_pool_takes_nothing_from_another() {
        let (rate, start) = (Rate::new(5), Instant::now());
        let key = |name: &str| Some(("ci".to_owned(), name.to_owned()));
        let passed = |key: &Option<Key>, at: Instant| (0..100).filter(|_| rate.allows(key.clone(), at)).count();
        assert_eq!(passed(&key("a"), start), 10);
        assert_eq!(passed(&key("b"), start), 10);
        assert_eq!(passed(&None, start), 10);
        assert_eq!(passed(&key("a"), start + Duration::from_secs(1)), 5);
        assert_eq!(passed(&key("a"), start + Duration::from_secs(100)), 10);
    }
}
