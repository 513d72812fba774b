use std::{fmt, sync::Arc, time::Duration};

use prometheus_client::{
    encoding::{EncodeLabelSet, EncodeLabelValue, LabelSetEncoder},
    metrics::{counter::Counter, family::Family, gauge::Gauge},
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
    leader: Gauge,
    synced: Gauge,
}

/// What a pool's pods are counted as.
const STATES: [&str; 7] = ["starting", "busy", "idle", "stuck", "failed", "terminating", "overdue"];

/// What may limit a pool.
const LIMITS: [&str; 8] =
    ["AtMax", "AtMin", "Backoff", "BusyProtected", "MaxPending", "QuotaExceeded", "RateLimited", "Unschedulable"];

/// What is counted of one decision.
#[derive(Clone, Copy, Debug, Default)]
pub struct PoolNumbers {
    /// Starting, busy, idle, stuck, failed, terminating, overdue.
    pub pods: [i32; 7],
    /// How many there should be.
    pub desired: i32,
    /// How many jobs wait.
    pub queued: i32,
    /// What limits the pool.
    pub limited: Option<&'static str>,
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
        inner.turn_seconds.observe(took);
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

    #[test]
    fn every_metric_of_pools_is_documented_and_every_documented_one_exists() {
        let (metrics, pools) = Metrics::with_pools();
        for limited in LIMITS {
            let numbers = PoolNumbers { limited: Some(limited), ..PoolNumbers::default() };
            pools.decided(&("ci".into(), "linux".into()), &numbers, Duration::ZERO);
        }
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
}
