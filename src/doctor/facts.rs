//! What was seen of an installation: plain data.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use serde::Deserialize;

/// What was seen, or why it couldn't be looked at.
pub(super) type Seen<T> = Result<T, String>;

pub(super) type Labels = BTreeMap<String, String>;

#[derive(Debug)]
pub(super) struct Facts {
    /// Seconds since 1970.
    pub(super) now: i64,
    /// podlayer's namespace.
    pub(super) namespace: String,
    /// The name of the webhook configurations.
    pub(super) configuration: String,
    pub(super) mutating: Seen<Option<Configuration>>,
    pub(super) validating: Seen<Option<Configuration>>,
    /// The labels of podlayer's namespace, of kube-system and of the probe's, by name.
    pub(super) namespaces: BTreeMap<String, Seen<Labels>>,
    pub(super) probe_namespace: String,
    /// `None` if there was nothing to try.
    pub(super) probe: Option<Seen<Probe>>,
    /// The Services that the entries name, with their replicas.
    pub(super) services: Vec<Service>,
    /// Layers that can't be read, as they are written now.
    pub(super) layers: Seen<Vec<(String, String)>>,
    pub(super) pods: Seen<Pods>,
    pub(super) jobs: Seen<Vec<RefusedJob>>,
    /// Of pods that podlayer decided; none where Events can't be read, which `jobs` tells.
    pub(super) lost_secrets: Vec<LostSecrets>,
}

#[derive(Debug, Default)]
pub(super) struct Configuration {
    /// When it was made, in seconds since 1970.
    pub(super) since: i64,
    pub(super) hooks: Vec<Hook>,
}

#[derive(Debug, Default)]
pub(super) struct Hook {
    pub(super) name: String,
    /// `pods`, `jobs`, `configmaps`.
    pub(super) resources: Vec<String>,
    /// Namespace and name of the Service; `None` where it is reached by URL.
    pub(super) service: Option<(String, String)>,
    pub(super) ca_bundle: Vec<u8>,
    pub(super) fails_open: bool,
    pub(super) namespaces: Option<LabelSelector>,
    /// Whether anything but the namespace says which objects it is asked about.
    pub(super) has_condition: bool,
}

#[derive(Debug)]
pub(super) enum Probe {
    /// The pod would be made; with its stamp, if it has one, and the API server's warnings.
    Made { stamp: Option<String>, warnings: Vec<String> },
    /// The pod would not be made.
    Refused(String),
}

#[derive(Debug)]
pub(super) struct Service {
    pub(super) namespace: String,
    pub(super) name: String,
    /// `None` where there is no such Service.
    pub(super) replicas: Seen<Option<Vec<Replica>>>,
}

#[derive(Debug)]
pub(super) struct Replica {
    pub(super) pod: String,
    pub(super) ready: bool,
    /// What its admin port tells, as far as it could be reached.
    pub(super) page: Seen<Page>,
    /// When the certificate that it serves ends, in seconds since 1970.
    pub(super) certificate_ends: Option<i64>,
}

/// What `/layers` holds.
#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct Page {
    pub(super) version: String,
    pub(super) snapshot: Option<InForce>,
    pub(super) layers: Vec<Line>,
}

#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct InForce {
    pub(super) hash: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct Line {
    pub(super) source: String,
    pub(super) state: String,
    #[serde(default)]
    pub(super) problem: String,
}

/// The opted-in pods that lack the stamp, and those that stand in podlayer's own namespace.
#[derive(Debug, Default)]
pub(super) struct Pods {
    /// Namespace, name, and when it was made.
    pub(super) unstamped: Vec<(String, String, i64)>,
    /// Names.
    pub(super) own: Vec<String>,
}

/// Secrets that a pod's `imagePullSecrets` name and the kubelet didn't find.
#[derive(Debug)]
pub(super) struct LostSecrets {
    pub(super) namespace: String,
    pub(super) pod: String,
    /// As the kubelet lists them: `a, b`.
    pub(super) secrets: String,
}

#[derive(Debug)]
pub(super) struct RefusedJob {
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) message: String,
}
