use std::{sync::Arc, time::Duration};

use prometheus_client::{
    metrics::{counter::Counter, family::Family},
    registry::Registry,
};

use super::{
    histogram::Histogram,
    labels::{AzureOutcome, AzureReaped, AzureRoute},
};

type Labels = Vec<(&'static str, &'static str)>;

/// The metrics of the calls of Azure Pipelines. All values of all labels are known when podlayer is built.
#[derive(Clone, Debug, Default)]
pub struct AzureMetrics(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    requests: Family<Labels, Counter>,
    seconds: Histogram,
    reaped: Family<Labels, Counter>,
    conflicts: Counter,
    callbacks: Family<Labels, Counter>,
}

impl AzureMetrics {
    /// Registers them, at 0.
    pub(super) fn register(&self, registry: &mut Registry) {
        let inner = &self.0;
        for route in AzureRoute::ALL {
            for outcome in AzureOutcome::ALL {
                let _ = inner.requests.get_or_create(&request(*route, *outcome));
            }
        }
        for why in AzureReaped::ALL {
            let _ = inner.reaped.get_or_create(&vec![("reason", why.as_str())]);
        }
        for result in [true, false] {
            let _ = inner.callbacks.get_or_create(&callback(result));
        }
        registry.register("azure_requests", "Calls by route and how they ended", inner.requests.clone());
        registry.register("azure_request_seconds", "One call, its writes included", inner.seconds.clone());
        registry.register("azure_reaped", "Agents taken away without a release, by reason", inner.reaped.clone());
        registry.register("azure_conflicts", "Writes that another replica came before", inner.conflicts.clone());
        registry.register("azure_callbacks", "Calls back to Azure DevOps by result", inner.callbacks.clone());
    }

    /// A call was answered.
    pub fn answered(&self, route: AzureRoute, outcome: AzureOutcome, took: Duration) {
        self.0.requests.get_or_create(&request(route, outcome)).inc();
        self.0.seconds.observe(took);
    }

    /// An agent was taken away without a release.
    pub fn reaped(&self, why: AzureReaped) {
        self.0.reaped.get_or_create(&vec![("reason", why.as_str())]).inc();
    }

    /// Another replica changed a pool's ledger first.
    pub fn conflict(&self) {
        self.0.conflicts.inc();
    }

    /// Azure DevOps was called back.
    pub fn called_back(&self, well: bool) {
        self.0.callbacks.get_or_create(&callback(well)).inc();
    }
}

fn request(route: AzureRoute, outcome: AzureOutcome) -> Labels {
    vec![("route", route.as_str()), ("outcome", outcome.as_str())]
}

fn callback(well: bool) -> Labels {
    vec![("result", if well { "done" } else { "failed" })]
}

#[cfg(test)]
mod tests {
    use crate::telemetry::Metrics;

    #[test]
    fn every_metric_of_azure_pipelines_and_each_value_of_its_labels_is_documented() {
        let text = Metrics::with_azure().0.text();
        let page = include_str!("../../docs/azure.md");
        let ours = text.lines().filter(|line| line.contains("podlayer_azure_"));
        let mut named = 0;
        for line in ours {
            if let Some(name) = line.strip_prefix("# TYPE ").and_then(|rest| rest.split(' ').next()) {
                assert!(page.contains(&format!("`{name}")), "{name} isn't in docs/azure.md");
                named += 1;
            } else if !line.starts_with('#') && !line.contains("_bucket") {
                for value in line.split('"').skip(1).step_by(2) {
                    assert!(page.contains(&format!("`{value}`")), "{value} of {line} isn't in docs/azure.md");
                }
            }
        }
        assert_eq!(named, 5);
    }
}
