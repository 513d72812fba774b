//! Until when a caller waits for its answer.

use std::time::{Duration, Instant};

use axum::http::Uri;

use super::limits::Limits;

/// The time that an API server allows for a call, as it says itself: `?timeout=5s`.
///
/// It is a webhook's `timeoutSeconds`, or less where the API server's own caller waits no longer. What is answered after
/// it is lost, so the server gives up a little earlier and says so.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Deadline {
    /// When the server gives up.
    pub(super) at: Instant,
    /// What the caller allowed.
    pub(super) allowed: Duration,
}

/// The share of the caller's time that is left for what happens on its side: it began to count before it connected, and
/// the answer must get there.
const RESERVE: u32 = 10;

/// The most that is left for that: half a second is several round trips to the other side of the world.
const MOST_RESERVE: Duration = Duration::from_millis(500);

impl Deadline {
    /// For a request whose head had come at `arrived`. Without a readable `timeout`, or with a longer one, it is the
    /// longest that an API server allows ([`Limits::body`]).
    pub(super) fn of(uri: &Uri, arrived: Instant, limits: &Limits) -> Self {
        let asked = uri.query().and_then(asked);
        let allowed = asked.map_or(limits.body, |asked| asked.min(limits.body));
        Self { at: arrived + (allowed - (allowed / RESERVE).min(MOST_RESERVE)), allowed }
    }
}

/// The value of `timeout` in a query.
fn asked(query: &str) -> Option<Duration> {
    let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    pairs.find(|(key, _)| *key == "timeout").and_then(|(_, value)| duration(value))
}

/// A duration as Go prints and reads it: `5s`, `1m30s`, `1.5s`, `300ms`.
fn duration(text: &str) -> Option<Duration> {
    const UNITS: [(&str, f64); 7] =
        [("ns", 1e-9), ("us", 1e-6), ("%C2%B5s", 1e-6), ("ms", 1e-3), ("s", 1.0), ("m", 60.0), ("h", 3600.0)];
    let mut rest = text;
    let mut seconds = 0.0;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let amount: f64 = rest[..digits].parse().ok()?;
        let unit = &rest[digits..];
        let length = unit.find(|c: char| c.is_ascii_digit() && !unit.starts_with('%')).map_or(unit.len(), |at| at);
        let (unit, after) = unit.split_at(length);
        seconds += amount * UNITS.iter().find(|(name, _)| *name == unit)?.1;
        rest = after;
    }
    Duration::try_from_secs_f64(seconds).ok().filter(|duration| !duration.is_zero())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_go_writes_them() {
        for (text, millis) in [("5s", 5_000), ("1m30s", 90_000), ("1.5s", 1_500), ("300ms", 300), ("2h0m0s", 7_200_000)]
        {
            assert_eq!(duration(text), Some(Duration::from_millis(millis)), "{text}");
        }
        for text in ["", "5", "s", "-5s", "0s", "5x", "5s!", ".", "1e9s", "99999999999999999999999999h", "5 s", "%"] {
            assert_eq!(duration(text), None, "{text}");
        }
    }

    #[test]
    fn the_server_gives_up_before_its_caller_and_never_later_than_the_longest_timeout() {
        let limits = Limits::default();
        let arrived = Instant::now();
        let given = |uri: &str| Deadline::of(&uri.parse().unwrap(), arrived, &limits).at - arrived;
        assert_eq!(given("/mutate?timeout=2s"), Duration::from_millis(1800));
        assert_eq!(given("/mutate?a=b&timeout=10s"), Duration::from_millis(9500));
        for uri in
            ["/mutate", "/mutate?timeout=", "/mutate?timeout=nonsense", "/mutate?timeout=500s", "/mutate?time=1s"]
        {
            assert_eq!(given(uri), Duration::from_millis(29_500), "{uri}");
        }
    }
}
