use std::{
    fmt,
    sync::{Arc, OnceLock},
    time::Duration,
};

use prometheus_client::{
    encoding::{EncodeLabelSet, EncodeLabelValue, EncodeMetric, LabelSetEncoder, MetricEncoder},
    metrics::{MetricType, counter::Counter, family::Family, gauge::Gauge, histogram::Histogram as Buckets},
    registry::Registry,
};

use super::histogram::Histogram;

/// The metrics of the controller. Labels are namespace and pool, and words that are known when podlayer is built.
#[derive(Clone, Debug, Default)]
pub struct PoolMetrics(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    pods: Family<Labels, Gauge>,
    desired: Family<Labels, Gauge>,
    queued: Family<Labels, Gauge>,
    limited: Family<Labels, Gauge>,
    scale_events: Family<Labels, Counter>,
    writes: Family<Labels, Counter>,
    turn_seconds: Histogram,
    start_seconds: Waits,
    queue_seconds: Waits,
    busy_evictions: Family<Labels, Counter>,
    start_failures: Family<Labels, Counter>,
    signal_age: Ages,
    leader: Gauge,
    synced: Gauge,
}

/// Upper bounds of what pods wait, in seconds. They are told to the second; an image is pulled within a minute, a new node
/// is there within some, `startTimeoutSeconds` is 300, and who waits for an hour waits for people.
const WAITS: [f64; 12] = [1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0];

/// A histogram for each pool. A pod is counted once in its life, so that a lock is none to speak of.
#[derive(Clone, Debug)]
struct Waits(Family<Labels, Buckets, fn() -> Buckets>);

impl Default for Waits {
    fn default() -> Self {
        Self(Family::new_with_constructor(|| Buckets::new(WAITS)))
    }
}

type Ask = Box<dyn Fn() -> Vec<(String, &'static str, Duration)> + Send + Sync>;

/// How old signals are when somebody asks, by namespace and signal.
#[derive(Clone, Default)]
struct Ages(Arc<OnceLock<Ask>>);

impl fmt::Debug for Ages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Ages")
    }
}

impl EncodeMetric for Ages {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> fmt::Result {
        for (namespace, signal, age) in self.0.get().map(|ask| ask()).unwrap_or_default() {
            let labels = [("namespace", namespace.as_str()), ("signal", signal)];
            encoder.encode_family(&labels)?.encode_gauge(&age.as_secs_f64())?;
        }
        Ok(())
    }

    fn metric_type(&self) -> MetricType {
        MetricType::Gauge
    }
}

/// What a pool's pods are counted as.
const STATES: [&str; 7] = ["starting", "busy", "idle", "stuck", "failed", "terminating", "overdue"];

/// What may limit a pool.
const LIMITS: [&str; 8] =
    ["AtMax", "AtMin", "Backoff", "BusyProtected", "MaxPending", "QuotaExceeded", "RateLimited", "Unschedulable"];

/// How a pod may fail to start.
const START_FAILURES: [&str; 4] = ["crash_loop", "ended", "image", "timeout"];

/// What is counted of one decision.
#[derive(Clone, Debug, Default)]
pub struct PoolNumbers {
    /// Starting, busy, idle, stuck, failed, terminating, overdue.
    pub pods: [i32; 7],
    /// How many there should be.
    pub desired: i32,
    /// How many jobs wait.
    pub queued: i32,
    /// What limits the pool.
    pub limited: Option<&'static str>,
    /// How pods failed to start, for each that was found to.
    pub start_failures: Vec<&'static str>,
    /// How many pods were made.
    pub up: i32,
    /// How many were taken away.
    pub down: i32,
}

impl PoolMetrics {
    /// Registers them.
    pub(super) fn register(&self, registry: &mut Registry) {
        let inner = &self.0;
        registry.register("pool_pods", "Pods of a pool by state", inner.pods.clone());
        registry.register("pool_desired", "Pods that a pool should hold", inner.desired.clone());
        registry.register("pool_queued", "Job pods that wait for a place", inner.queued.clone());
        registry.register("pool_limited", "1 for the reason that limits a pool", inner.limited.clone());
        registry.register("pool_scale_events", "Pods made (up) and taken away (down)", inner.scale_events.clone());
        registry.register("pool_api_writes", "Writes to the API server by verb", inner.writes.clone());
        registry.register("pool_turn_seconds", "One look, decision and its writes", inner.turn_seconds.clone());
        registry.register(
            "pool_start_seconds",
            "From a pod's creation until it is ready",
            inner.start_seconds.0.clone(),
        );
        let queue = inner.queue_seconds.0.clone();
        registry.register("pool_queue_seconds", "From a job pod's creation until it has a node", queue);
        registry.register("pool_busy_evictions", "Pods evicted while at work", inner.busy_evictions.clone());
        registry.register("pool_start_failures", "Pods that did not start, by reason", inner.start_failures.clone());
        let age = "For how long what is known may have been out of date";
        registry.register("pool_signal_age_seconds", age, inner.signal_age.clone());
        registry.register("pool_leader", "Whether this process changes pools", inner.leader.clone());
        registry.register("pool_cache_synced", "Whether everything was listed", inner.synced.clone());
    }

    /// A decision was made and carried out.
    pub fn decided(&self, pool: &(String, String), numbers: &PoolNumbers, took: Duration) {
        let inner = &self.0;
        for (state, count) in STATES.iter().zip(numbers.pods) {
            inner.pods.get_or_create(&Labels::of(pool, Some(("state", state)))).set(count.into());
        }
        inner.desired.get_or_create(&Labels::of(pool, None)).set(numbers.desired.into());
        inner.queued.get_or_create(&Labels::of(pool, None)).set(numbers.queued.into());
        self.unlimited(pool);
        if let Some(reason) = numbers.limited {
            inner.limited.get_or_create(&Labels::of(pool, Some(("reason", reason)))).set(1);
        }
        for (direction, count) in [("up", numbers.up), ("down", numbers.down)] {
            let counter = inner.scale_events.get_or_create_owned(&Labels::of(pool, Some(("direction", direction))));
            counter.inc_by(u64::try_from(count).unwrap_or(0));
        }
        // From the first decision on, for a rate is right only from a 0 on.
        let _ = inner.start_seconds.0.get_or_create_owned(&Labels::of(pool, None));
        let _ = inner.queue_seconds.0.get_or_create_owned(&Labels::of(pool, None));
        let _ = inner.busy_evictions.get_or_create_owned(&Labels::of(pool, None));
        for reason in START_FAILURES {
            let count = numbers.start_failures.iter().filter(|failure| **failure == reason).count();
            let counter = inner.start_failures.get_or_create_owned(&Labels::of(pool, Some(("reason", reason))));
            counter.inc_by(u64::try_from(count).unwrap_or(0));
        }
        inner.turn_seconds.observe(took);
    }

    /// A pool's own pod got ready, so long after it was made.
    pub fn started(&self, pool: &(String, String), after: Duration) {
        self.0.start_seconds.0.get_or_create_owned(&Labels::of(pool, None)).observe(after.as_secs_f64());
    }

    /// A job pod of a pool got a node, so long after it was made.
    pub fn placed(&self, pool: &(String, String), after: Duration) {
        self.0.queue_seconds.0.get_or_create_owned(&Labels::of(pool, None)).observe(after.as_secs_f64());
    }

    /// A pod at work was evicted.
    pub fn evicted(&self, pool: &(String, String)) {
        self.0.busy_evictions.get_or_create_owned(&Labels::of(pool, None)).inc();
    }

    /// Whom to ask how old each signal is whenever the metrics are read: namespace, signal, age. The first one is asked.
    pub fn ages(&self, ask: impl Fn() -> Vec<(String, &'static str, Duration)> + Send + Sync + 'static) {
        let _ = self.0.signal_age.0.set(Box::new(ask));
    }

    /// A pool is gone.
    pub fn forget(&self, pool: &(String, String)) {
        let inner = &self.0;
        for state in STATES {
            inner.pods.remove(&Labels::of(pool, Some(("state", state))));
        }
        for family in [&inner.desired, &inner.queued] {
            family.remove(&Labels::of(pool, None));
        }
        for family in [&inner.start_seconds, &inner.queue_seconds] {
            family.0.remove(&Labels::of(pool, None));
        }
        inner.busy_evictions.remove(&Labels::of(pool, None));
        for reason in START_FAILURES {
            inner.start_failures.remove(&Labels::of(pool, Some(("reason", reason))));
        }
        self.unlimited(pool);
        for direction in ["up", "down"] {
            inner.scale_events.remove(&Labels::of(pool, Some(("direction", direction))));
        }
    }

    fn unlimited(&self, pool: &(String, String)) {
        for reason in LIMITS {
            self.0.limited.remove(&Labels::of(pool, Some(("reason", reason))));
        }
    }

    /// A write was sent to the API server.
    pub fn wrote(&self, verb: &'static str) {
        self.0.writes.get_or_create(&Labels { pool: None, more: Some(("verb", verb)) }).inc();
    }

    /// Whether this process changes pools.
    pub fn leads(&self, so: bool) {
        self.0.leader.set(so.into());
    }

    /// Whether everything was listed.
    pub fn synced(&self, so: bool) {
        self.0.synced.set(so.into());
    }
}

#[derive(Clone, Debug, Eq, Hash, PartialEq)]
struct Labels {
    pool: Option<(String, String)>,
    more: Option<(&'static str, &'static str)>,
}

impl Labels {
    fn of(pool: &(String, String), more: Option<(&'static str, &'static str)>) -> Self {
        Self { pool: Some(pool.clone()), more }
    }
}

impl EncodeLabelSet for Labels {
    fn encode(&self, encoder: &mut LabelSetEncoder<'_>) -> fmt::Result {
        let pool = self.pool.iter().flat_map(|(namespace, pool)| [("namespace", namespace.as_str()), ("pool", pool)]);
        for (name, value) in pool.chain(self.more) {
            let mut label = encoder.encode_label();
            let mut key = label.encode_label_key()?;
            fmt::Write::write_str(&mut key, name)?;
            let mut text = key.encode_label_value()?;
            value.encode(&mut text)?;
            text.finish()?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::Metrics;

    fn pool() -> (String, String) {
        ("ci".into(), "linux".into())
    }

    #[test]
    fn every_metric_of_pools_is_documented_and_every_documented_one_exists() {
        let (metrics, pools) = Metrics::with_pools();
        for limited in LIMITS {
            let numbers = PoolNumbers { limited: Some(limited), ..PoolNumbers::default() };
            pools.decided(&pool(), &numbers, Duration::ZERO);
        }
        pools.ages(|| ["pods", "pools"].map(|signal| ("ci".into(), signal, Duration::ZERO)).into());
        for verb in ["apply", "create", "delete", "patch", "status"] {
            pools.wrote(verb);
        }
        let text = metrics.text();
        let typed = text.lines().filter_map(|line| line.strip_prefix("# TYPE podlayer_pool_"));
        let mut exist: Vec<&str> = typed.filter_map(|rest| rest.split(' ').next()).collect();
        let page = include_str!("../../docs/pools.md");
        let rows = page.lines().filter_map(|line| line.strip_prefix("| `podlayer_pool_"));
        let mut documented: Vec<&str> = rows.filter_map(|row| row.split(['`', '{']).next()).collect();
        exist.sort_unstable();
        documented.sort_unstable();
        assert_eq!(exist, documented);
        for line in text.lines().filter(|line| line.starts_with("podlayer_pool_") && !line.contains("_bucket")) {
            let values = line.split('"').skip(1).step_by(2).filter(|value| !["ci", "linux"].contains(value));
            for value in values {
                assert!(page.contains(&format!("`{value}`")), "{value} of {line} isn't in docs/pools.md");
            }
        }
    }

    #[test]
    fn what_pods_wait_and_how_they_fail_is_counted_for_their_pool_until_it_is_gone() {
        let (metrics, pools) = Metrics::with_pools();
        pools.decided(&pool(), &PoolNumbers::default(), Duration::ZERO);
        let told = |name: &str| -> Vec<String> {
            let text = metrics.text();
            let lines = text.lines().filter(|line| line.starts_with(&format!("podlayer_pool_{name}")));
            lines.map(str::to_owned).collect()
        };
        let of = "{namespace=\"ci\",pool=\"linux\"";
        assert_eq!(told("start_seconds_count"), [format!("podlayer_pool_start_seconds_count{of}}} 0")]);
        assert_eq!(told("busy_evictions"), [format!("podlayer_pool_busy_evictions_total{of}}} 0")]);
        assert!(told("start_failures").iter().all(|line| line.ends_with(" 0")) && told("start_failures").len() == 4);
        assert!(told("signal_age").is_empty(), "nobody was told whom to ask");

        pools.started(&pool(), Duration::from_secs(5));
        pools.started(&pool(), Duration::from_secs(6));
        pools.placed(&pool(), Duration::from_secs(7200));
        pools.evicted(&pool());
        let failures = vec!["image", "ended", "image"];
        pools.decided(&pool(), &PoolNumbers { start_failures: failures, ..PoolNumbers::default() }, Duration::ZERO);
        pools.ages(|| vec![("ci".into(), "pods", Duration::from_millis(1500))]);
        for line in [
            format!("podlayer_pool_start_seconds_bucket{of},le=\"5\"}} 1"),
            format!("podlayer_pool_start_seconds_sum{of}}} 11.0"),
            format!("podlayer_pool_queue_seconds_bucket{of},le=\"3600\"}} 0"),
            format!("podlayer_pool_queue_seconds_count{of}}} 1"),
            format!("podlayer_pool_busy_evictions_total{of}}} 1"),
            format!("podlayer_pool_start_failures_total{of},reason=\"image\"}} 2"),
            format!("podlayer_pool_start_failures_total{of},reason=\"ended\"}} 1"),
            "podlayer_pool_signal_age_seconds{namespace=\"ci\",signal=\"pods\"} 1.5".to_owned(),
        ] {
            assert!(metrics.text().lines().any(|have| have == line), "{line} isn't in {}", metrics.text());
        }
        pools.forget(&pool());
        assert!(!metrics.text().contains("linux"), "{}", metrics.text());
    }
}
