//! What podlayer tells its operator: the log on stderr and the metrics.
//!
//! Neither ever holds a value out of a pod: names, paths, layers and counts only.

pub mod labels;
pub mod log;
pub mod metrics;

mod azure;
mod histogram;
mod pools;

pub use azure::AzureMetrics;
pub use labels::{
    AzureOutcome, AzureReaped, AzureRoute, CertificateUse, Decision, KeepFailure, KeptIn, LayerState, Outcome, Reason,
    Reload, RequestPath,
};
pub use metrics::Metrics;
pub use pools::{PoolMetrics, PoolNumbers};
