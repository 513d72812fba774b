//! The metrics of the webhook, as Prometheus reads them.

use std::collections::HashMap;
use std::fmt;
use std::fmt::Write;
use std::sync::atomic::AtomicI64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue, EncodeMetric, LabelSetEncoder, prometheus_text};
use prometheus_client::metrics::TypedMetric;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::azure::AzureMetrics;
use super::histogram::Histogram;
use super::labels::{CertificateUse, Decision, KeepFailure, KeptIn, LayerState, Outcome, Reason, Reload, RequestPath};
use super::pools::PoolMetrics;

/// Every metric of the process; a clone counts into the same numbers.
///
/// Each series exists from the start with 0, so that a rate over it is right from the first event on. Counting is one
/// atomic addition: the counters are looked up in their families once, here, and not for each call.
#[derive(Clone, Debug)]
pub struct Metrics(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    registry: Registry,
    requests: Vec<Counter>,
    request_seconds: Histogram,
    in_flight: Gauge,
    connections: Gauge,
    rejected: Vec<Counter>,
    reloads: Vec<Counter>,
    /// By label, for a certificate that nobody has loaded must have no expiry rather than one in 1970.
    expiry: Family<Labels<1>, Gauge<i64, AtomicI64>>,
    /// By no label at all, so that it exists only where podlayer writes the bundle.
    bundle_in_sync: Family<Labels<0>, Gauge>,
    panics: Counter,
    layers: Vec<Gauge>,
    missing_layers: Gauge,
    layer_failures: Counter,
    unknown_classes: Counter,
    decisions: Vec<Counter>,
    patch_operations: Counter,
    self_check_failures: Counter,
    snapshot_info: Family<SnapshotHash, Gauge>,
    /// By no label, so that it exists only when there is a snapshot.
    snapshot_made: Family<Labels<0>, Gauge<i64, AtomicI64>>,
    watch_failures: Counter,
    last_good: Vec<Gauge>,
    last_good_failures: Vec<Counter>,
    /// Told on `/layers` and not here: names of layers are no labels, for there is no bound to them.
    layer_uses: Mutex<HashMap<String, u64>>,
}

/// One request from its arrival to its answer. Dropped without [`Request::answered`] it counts as abandoned.
#[derive(Debug)]
pub struct Request {
    metrics: Metrics,
    path: RequestPath,
    arrived: Instant,
    outcome: Outcome,
}

/// One open connection; it is counted until this is dropped.
#[derive(Debug)]
pub struct Connection(Metrics);

impl Metrics {
    /// All metrics at 0.
    pub fn new() -> Self {
        Self::on(Registry::with_prefix("podlayer"))
    }

    /// All metrics at 0, with those of the controller.
    pub fn with_pools() -> (Self, PoolMetrics) {
        let mut registry = Registry::with_prefix("podlayer");
        let pools = PoolMetrics::default();
        pools.register(&mut registry);
        (Self::on(registry), pools)
    }

    /// All metrics at 0, with those of the calls of Azure Pipelines.
    pub fn with_azure() -> (Self, AzureMetrics) {
        let mut registry = Registry::with_prefix("podlayer");
        let azure = AzureMetrics::default();
        azure.register(&mut registry);
        (Self::on(registry), azure)
    }

    fn on(mut registry: Registry) -> Self {
        let requests = RequestPath::ALL
            .iter()
            .flat_map(|path| {
                Outcome::ALL.iter().map(|outcome| [("path", path.as_str()), ("outcome", outcome.as_str())])
            })
            .collect();
        let requests = family(&mut registry, "requests", "Requests by path and how they ended", requests);
        let reasons = each("reason", Reason::ALL.iter().map(|reason| reason.as_str()));
        let rejected =
            family(&mut registry, "rejected", "Connections and requests that no handler got to see", reasons);
        let results = each("result", Reload::ALL.iter().map(|result| result.as_str()));
        let reloads = family(
            &mut registry,
            "certificate_reloads",
            "Looks for a newer certificate that found one or failed",
            results,
        );
        let states = each("state", LayerState::ALL.iter().map(|state| state.as_str()));
        let layers = family(&mut registry, "layers", "Layers by state", states);
        let outcomes = each("outcome", Decision::ALL.iter().map(|outcome| outcome.as_str()));
        let decisions = family(&mut registry, "decisions", "Decisions by outcome", outcomes);

        let request_seconds = Histogram::default();
        let help = "From the end of a request's head to its answer";
        registry.register("request_seconds", help, request_seconds.clone());
        let in_flight = Gauge::default();
        registry.register("requests_in_flight", "Requests that came and are not answered yet", in_flight.clone());
        let connections = Gauge::default();
        registry.register("connections", "Connections open to the webhook", connections.clone());
        let expiry = Family::default();
        let help = "When the certificate ends, in seconds since 1970";
        registry.register("certificate_expiry_timestamp_seconds", help, expiry.clone());
        let bundle_in_sync = Family::default();
        let help = "Whether every entry of the webhook configurations trusts the CAs that it must, and no other";
        registry.register("ca_bundle_in_sync", help, bundle_in_sync.clone());
        let panics = Counter::default();
        registry.register("panics", "Panics caught: each is a bug of podlayer", panics.clone());
        let layer_failures = Counter::default();
        registry.register("layer_failures", "Layers that failed on a pod and were left out", layer_failures.clone());
        let missing_layers = Gauge::default();
        registry.register("layers_missing", "Expected layers that are not there", missing_layers.clone());
        let patch_operations = Counter::default();
        let help = "RFC 6902 operations in the patches that were answered";
        registry.register("patch_operations", help, patch_operations.clone());
        let self_check_failures = Counter::default();
        let help = "Patches that would not have made their result and were held back: each is a bug of podlayer";
        registry.register("self_check_failures", help, self_check_failures.clone());
        let snapshot_info = Family::default();
        let help = "Always 1; the label is the hash of the layers in force, the same on every replica that agrees";
        registry.register("snapshot_info", help, snapshot_info.clone());
        let snapshot_made = Family::default();
        let help = "Since when the layers in force have been so, in seconds since 1970";
        registry.register("snapshot_timestamp_seconds", help, snapshot_made.clone());
        let watch_failures = Counter::default();
        let help = "Times that watching the layers broke off; the last ones stay in force";
        registry.register("watch_failures", help, watch_failures.clone());
        let places = each("place", KeptIn::ALL.iter().map(|place| place.as_str()));
        let help = "Last good versions of bad layers, by where they are kept";
        let last_good = family(&mut registry, "last_good_versions", help, places);
        let reasons = each("reason", KeepFailure::ALL.iter().map(|reason| reason.as_str()));
        let help = "Last good versions that could not be kept or read back";
        let last_good_failures = family(&mut registry, "last_good_failures", help, reasons);
        let unknown_classes = Counter::default();
        let help = "Pods whose CI system's own label names a class that there isn't for them";
        registry.register("unknown_classes", help, unknown_classes.clone());

        Self(Arc::new(Inner {
            registry,
            requests,
            request_seconds,
            in_flight,
            connections,
            rejected,
            reloads,
            expiry,
            bundle_in_sync,
            panics,
            layers,
            missing_layers,
            layer_failures,
            unknown_classes,
            decisions,
            patch_operations,
            self_check_failures,
            snapshot_info,
            snapshot_made,
            watch_failures,
            last_good,
            last_good_failures,
            layer_uses: Mutex::default(),
        }))
    }

    /// A request for `path` has arrived.
    pub fn request(&self, path: RequestPath) -> Request {
        self.0.in_flight.inc();
        Request { metrics: self.clone(), path, arrived: Instant::now(), outcome: Outcome::Abandoned }
    }

    /// A connection was opened.
    pub fn connection(&self) -> Connection {
        self.0.connections.inc();
        Connection(self.clone())
    }

    /// A connection or request was turned away.
    pub fn rejected(&self, reason: Reason) {
        self.0.rejected[reason as usize].inc();
    }

    /// The certificate's source was looked at, and the look mattered.
    pub fn reloaded(&self, result: Reload) {
        self.0.reloads[result as usize].inc();
    }

    /// When a certificate ends, in seconds since 1970.
    pub fn certificate_expires(&self, certificate: CertificateUse, at: i64) {
        self.0.expiry.get_or_create(&Labels([("certificate", certificate.as_str())])).set(at);
    }

    /// Whether the webhook configurations were found to trust what they must.
    pub fn bundle_in_sync(&self, so: bool) {
        self.0.bundle_in_sync.get_or_create(&Labels([])).set(so.into());
    }

    /// A panic was caught.
    pub fn panicked(&self) {
        self.0.panics.inc();
    }

    /// How many layers are in each state, as of the snapshot now in force.
    pub fn layers(&self, state: LayerState, count: usize) {
        self.0.layers[state as usize].set(i64::try_from(count).unwrap_or(i64::MAX));
    }

    /// A layer failed on a pod and was left out.
    pub fn layer_failed(&self) {
        self.0.layer_failures.inc();
    }

    /// The label by which a pod's CI system names classes has one that there isn't for the pod.
    pub fn unknown_class(&self) {
        self.0.unknown_classes.inc();
    }

    /// A decision was made.
    pub fn decided(&self, outcome: Decision) {
        self.0.decisions[outcome as usize].inc();
    }

    /// A patch of so many operations was answered.
    pub fn patched(&self, operations: usize) {
        self.0.patch_operations.inc_by(operations as u64);
    }

    /// A patch was held back because it would not have made its result.
    pub fn self_check_failed(&self) {
        self.0.self_check_failures.inc();
    }

    /// A layer took part in a decision. `layer` is a name out of the snapshot in force, so that their number is bounded.
    pub fn layer_applied(&self, layer: &str) {
        let mut uses = self.uses();
        match uses.get_mut(layer) {
            Some(count) => *count += 1,
            None => _ = uses.insert(layer.to_owned(), 1),
        }
    }

    /// How often each layer took part in a decision since this process started; layers that `keep` doesn't know any more
    /// are forgotten.
    pub fn layer_uses(&self, keep: impl Fn(&str) -> bool) -> HashMap<String, u64> {
        let mut uses = self.uses();
        uses.retain(|layer, _| keep(layer));
        uses.clone()
    }

    fn uses(&self) -> MutexGuard<'_, HashMap<String, u64>> {
        self.0.layer_uses.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Layers with this hash are in force; if other ones were before, from now on.
    pub fn snapshot(&self, hash: &str) {
        let labels = SnapshotHash(hash.to_owned());
        if self.0.snapshot_info.get(&labels).is_none() {
            self.0.snapshot_info.clear();
            self.0.snapshot_info.get_or_create(&labels).set(1);
            self.0.snapshot_made.get_or_create(&Labels([])).set(now());
        }
    }

    /// How long the layers in force have been so; `None` before there were any.
    pub fn snapshot_age(&self) -> Option<Duration> {
        let made = self.0.snapshot_made.get(&Labels([]))?.get();
        Some(Duration::from_secs(u64::try_from(now() - made).unwrap_or_default()))
    }

    /// How many expected layers aren't there.
    pub fn layers_missing(&self, count: usize) {
        self.0.missing_layers.set(i64::try_from(count).unwrap_or(i64::MAX));
    }

    /// Watching the layers broke off.
    pub fn watch_failed(&self) {
        self.0.watch_failures.inc();
    }

    /// How many last good versions are kept in one place.
    pub fn last_good(&self, place: KeptIn, count: usize) {
        self.0.last_good[place as usize].set(i64::try_from(count).unwrap_or(i64::MAX));
    }

    /// A last good version couldn't be kept or read back.
    pub fn last_good_failed(&self, reason: KeepFailure) {
        self.0.last_good_failures[reason as usize].inc();
    }

    /// What to say as the Content-Type of [`Metrics::text`].
    pub const CONTENT_TYPE: &str = prometheus_text::CONTENT_TYPE;

    /// Everything in Prometheus' text format 0.0.4, which every scraper and every person with curl can read.
    pub fn text(&self) -> String {
        let mut text = String::new();
        if prometheus_text::encode(&mut text, &self.0.registry).is_err() {
            // A `String` takes whatever is written into it, so this is a bug in an encoder; half the text would be taken
            // for the whole.
            text.clear();
            let _ = writeln!(text, "# the metrics could not be written");
        }
        text
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl Request {
    /// The answer to this request carries `status`.
    pub fn answered(mut self, status: u16) {
        self.outcome = Outcome::of(status);
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        let inner = &self.metrics.0;
        inner.requests[self.path as usize * Outcome::ALL.len() + self.outcome as usize].inc();
        inner.request_seconds.observe(self.arrived.elapsed());
        inner.in_flight.dec();
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.0.0.connections.dec();
    }
}

/// The labels of one series.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
struct Labels<const N: usize>([(&'static str, &'static str); N]);

impl<const N: usize> EncodeLabelSet for Labels<N> {
    fn encode(&self, encoder: &mut LabelSetEncoder<'_>) -> fmt::Result {
        for (name, value) in self.0 {
            let mut label = encoder.encode_label();
            let mut key = label.encode_label_key()?;
            key.write_str(name)?;
            let mut text = key.encode_label_value()?;
            value.encode(&mut text)?;
            text.finish()?;
        }
        Ok(())
    }
}

/// The one label of `snapshot_info`; only the series of the snapshot in force exists.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
struct SnapshotHash(String);

impl EncodeLabelSet for SnapshotHash {
    fn encode(&self, encoder: &mut LabelSetEncoder<'_>) -> fmt::Result {
        let mut label = encoder.encode_label();
        let mut key = label.encode_label_key()?;
        key.write_str("hash")?;
        let mut text = key.encode_label_value()?;
        self.0.as_str().encode(&mut text)?;
        text.finish()
    }
}

/// Seconds since 1970.
fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| i64::try_from(since.as_secs()).unwrap_or(i64::MAX))
}

fn each(name: &'static str, values: impl Iterator<Item = &'static str>) -> Vec<[(&'static str, &'static str); 1]> {
    values.map(|value| [(name, value)]).collect()
}

/// Registers a family and gives the metrics of its series, in order.
fn family<M, const N: usize>(
    registry: &mut Registry,
    name: &str,
    help: &str,
    series: Vec<[(&'static str, &'static str); N]>,
) -> Vec<M>
where
    M: Clone + Default + EncodeMetric + TypedMetric + fmt::Debug + Send + Sync + 'static,
{
    let family = Family::<Labels<N>, M>::default();
    registry.register(name, help, family.clone());
    series.into_iter().map(|labels| family.get_or_create_owned(&Labels(labels))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_series_but_an_expiry_exists_with_0_before_anything_happened() {
        let text = Metrics::new().text();
        for line in [
            "podlayer_requests_total{path=\"/mutate\",outcome=\"answered\"} 0",
            "podlayer_requests_total{path=\"other\",outcome=\"abandoned\"} 0",
            "podlayer_request_seconds_bucket{le=\"5e-05\"} 0",
            "podlayer_request_seconds_count 0",
            "podlayer_connections 0",
            "podlayer_rejected_total{reason=\"head_timeout\"} 0",
            "podlayer_certificate_reloads_total{result=\"failed\"} 0",
            "podlayer_panics_total 0",
            "podlayer_layers{state=\"stale\"} 0",
            "podlayer_layer_failures_total 0",
            "podlayer_unknown_classes_total 0",
            "podlayer_decisions_total{outcome=\"patched\"} 0",
            "podlayer_requests_in_flight 0",
            "podlayer_self_check_failures_total 0",
            "podlayer_last_good_versions{place=\"memory\"} 0",
            "podlayer_last_good_failures_total{reason=\"damaged\"} 0",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} is missing in\n{text}");
        }
        assert!(!text.contains("expiry_timestamp_seconds{") && !text.contains("\npodlayer_ca_bundle_in_sync"));
    }

    #[test]
    fn each_event_counts_into_its_own_series_only() {
        let metrics = Metrics::new();
        metrics.request(RequestPath::Validate).answered(429);
        drop(metrics.request(RequestPath::Mutate));
        for reason in Reason::ALL {
            metrics.rejected(*reason);
        }
        metrics.layers(LayerState::Bad, 3);
        metrics.decided(Decision::Denied);
        metrics.certificate_expires(CertificateUse::Serving, 42);
        metrics.bundle_in_sync(true);
        let open = metrics.connection();
        let text = metrics.text();
        let more: Vec<&str> = text.lines().filter(|line| !line.starts_with('#') && !line.ends_with(" 0")).collect();
        let want = [
            "podlayer_requests_total{path=\"/mutate\",outcome=\"abandoned\"} 1",
            "podlayer_requests_total{path=\"/validate\",outcome=\"refused\"} 1",
            "podlayer_layers{state=\"bad\"} 3",
            "podlayer_decisions_total{outcome=\"denied\"} 1",
            "podlayer_certificate_expiry_timestamp_seconds{certificate=\"serving\"} 42",
            "podlayer_ca_bundle_in_sync 1",
            "podlayer_connections 1",
            "podlayer_request_seconds_count 2",
        ];
        for line in want {
            assert!(more.contains(&line), "{line} is missing in\n{text}");
        }
        for reason in Reason::ALL {
            let line = format!("podlayer_rejected_total{{reason=\"{}\"}} 1", reason.as_str());
            assert!(more.contains(&line.as_str()), "{line} is missing in\n{text}");
        }
        let counted = |name: &str| more.iter().filter(|line| line.starts_with(name)).count();
        assert_eq!(counted("podlayer_requests_total"), 2);
        assert_eq!(counted("podlayer_layers{"), 1);
        assert_eq!(counted("podlayer_decisions_total"), 1);
        drop(open);
        assert!(metrics.text().contains("\npodlayer_connections 0\n"));
    }

    #[test]
    fn the_snapshot_in_force_has_the_only_series_with_its_hash() {
        let metrics = Metrics::new();
        assert!(!metrics.text().contains("\npodlayer_snapshot_timestamp_seconds "));
        metrics.snapshot("aaaa");
        metrics.snapshot("bbbb");
        let text = metrics.text();
        assert!(text.contains("podlayer_snapshot_info{hash=\"bbbb\"} 1\n") && !text.contains("aaaa"), "{text}");
        assert!(text.contains("\npodlayer_snapshot_timestamp_seconds 1"), "{text}");
    }

    #[test]
    fn uses_of_layers_that_are_gone_are_forgotten() {
        let metrics = Metrics::new();
        for layer in ["default/a", "default/b", "default/a"] {
            metrics.layer_applied(layer);
        }
        assert_eq!(metrics.layer_uses(|layer| layer == "default/a"), HashMap::from([("default/a".to_owned(), 2)]));
        assert_eq!(metrics.layer_uses(|_| true).len(), 1);
    }

    #[test]
    fn every_metric_is_documented_and_every_documented_one_exists() {
        let metrics = Metrics::new();
        metrics.certificate_expires(CertificateUse::Serving, 1);
        metrics.bundle_in_sync(true);
        metrics.snapshot("aaaa");
        let text = metrics.text();
        let typed = text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
        let mut exist: Vec<&str> = typed.filter_map(|rest| rest.split(' ').next()).collect();
        let page = include_str!("../../docs/metrics.md");
        let rows = page.lines().filter_map(|line| line.strip_prefix("| `podlayer_"));
        let mut documented: Vec<String> =
            rows.filter_map(|row| Some(format!("podlayer_{}", row.split(['`', '{']).next()?))).collect();
        exist.sort_unstable();
        documented.sort_unstable();
        assert_eq!(exist, documented);
        // Each value of each label stands there too.
        for line in text.lines().filter(|line| !line.starts_with('#') && !line.contains("_bucket")) {
            let values = line.split('"').skip(1).step_by(2).filter(|value| *value != "aaaa");
            for value in values {
                assert!(page.contains(&format!("`{value}`")), "{value} of {line} isn't in docs/metrics.md");
            }
        }
    }

    #[test]
    fn a_duration_falls_into_the_first_bucket_that_holds_it() {
        let metrics = Metrics::new();
        for micros in [50, 51, 900_000, 5_000_000] {
            metrics.0.request_seconds.observe(Duration::from_micros(micros));
        }
        let text = metrics.text();
        for line in [
            "podlayer_request_seconds_bucket{le=\"5e-05\"} 1",
            "podlayer_request_seconds_bucket{le=\"0.0001\"} 2",
            "podlayer_request_seconds_bucket{le=\"0.5\"} 2",
            "podlayer_request_seconds_bucket{le=\"1\"} 3",
            "podlayer_request_seconds_bucket{le=\"+Inf\"} 4",
            "podlayer_request_seconds_count 4",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} is missing in\n{text}");
        }
    }
}
