use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use prometheus_client::encoding::{EncodeMetric, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;

/// Upper bounds in nanoseconds, 50 µs to 1 s: a decision should take 0.1 ms, a call over a kept-alive connection 0.2 ms,
/// and what takes more than a second is lost for the caller whatever it was.
const BOUNDS: [u64; 14] = [
    50_000,
    100_000,
    250_000,
    500_000,
    1_000_000,
    2_500_000,
    5_000_000,
    10_000_000,
    25_000_000,
    50_000_000,
    100_000_000,
    250_000_000,
    500_000_000,
    1_000_000_000,
];
const NANOSECONDS: f64 = 1e9;

/// A histogram of durations without a lock: the one of the metrics crate takes a mutex for each observation, which all
/// connections would share.
///
/// Its parts are read one by one, so a scrape may see a call in the buckets that isn't in the sum yet.
#[derive(Clone, Debug, Default)]
pub(super) struct Histogram(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    /// One for each bound and one for what is above the last.
    buckets: [AtomicU64; BOUNDS.len() + 1],
    nanoseconds: AtomicU64,
}

impl Histogram {
    /// Counts one duration.
    pub(super) fn observe(&self, took: Duration) {
        let took = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        let bucket = BOUNDS.partition_point(|bound| *bound < took);
        self.0.buckets[bucket].fetch_add(1, Ordering::Relaxed);
        self.0.nanoseconds.fetch_add(took, Ordering::Relaxed);
    }
}

impl EncodeMetric for Histogram {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> fmt::Result {
        let counts = self.0.buckets.each_ref().map(|bucket| bucket.load(Ordering::Relaxed));
        let bounds = BOUNDS.iter().map(|bound| *bound as f64 / NANOSECONDS).chain([f64::INFINITY]);
        let buckets: Vec<(f64, u64)> = bounds.zip(counts).collect();
        let sum = self.0.nanoseconds.load(Ordering::Relaxed) as f64 / NANOSECONDS;
        encoder.encode_histogram::<NoLabelSet>(sum, counts.iter().sum(), &buckets, None)
    }

    fn metric_type(&self) -> MetricType {
        MetricType::Histogram
    }
}
