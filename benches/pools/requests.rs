//! What the API server itself counts of the controller's requests: FlowSchemas sort them by who asks for what, and it
//! counts what it dispatches of each.

use std::collections::BTreeMap;

use kube::Client;
use serde_json::json;

use crate::controlplane::ControlPlane;

/// Name, verbs, API group, resource. The first that fits counts.
const KINDS: &[(&str, &[&str], &str, &str)] = &[
    ("lease", &["create", "update", "patch"], "coordination.k8s.io", "leases"),
    ("status", &["patch", "update"], "podlayer.dev", "agentpools/status"),
    ("create-pod", &["create"], "", "pods"),
    ("patch-pod", &["patch", "update"], "", "pods"),
    ("delete-pod", &["delete"], "", "pods"),
    ("event", &["create", "patch"], "events.k8s.io", "events"),
    ("other-write", &["create", "update", "patch", "delete", "deletecollection"], "*", "*"),
    ("read", &["*"], "*", "*"),
];

/// Has the API server count the requests of a namespace's account `controller` by kind.
pub(crate) fn tell_apart(plane: &ControlPlane, namespace: &str) {
    let schemas = KINDS.iter().enumerate().map(|(number, (name, verbs, group, resource))| {
        json!({"apiVersion": "flowcontrol.apiserver.k8s.io/v1", "kind": "FlowSchema",
        "metadata": {"name": format!("{namespace}.{name}")},
        "spec": {
            // Where requests of service accounts go anyway.
            "priorityLevelConfiguration": {"name": "workload-low"},
            "matchingPrecedence": 100 + number, "distinguisherMethod": {"type": "ByUser"},
            "rules": [{
                "subjects": [{"kind": "ServiceAccount",
                              "serviceAccount": {"name": "controller", "namespace": namespace}}],
                "resourceRules": [{"verbs": verbs, "apiGroups": [group], "resources": [resource],
                                   "namespaces": ["*"], "clusterScope": true}],
            }],
        }})
    });
    let schemas: Vec<_> = schemas.collect();
    plane.apply(&json!({"apiVersion": "v1", "kind": "List", "items": schemas}).to_string());
    // The API server takes note of them within a second or so.
    std::thread::sleep(std::time::Duration::from_secs(3));
}

/// How many of each kind it has dispatched.
pub(crate) async fn counted(client: &Client, namespace: &str) -> BTreeMap<String, u64> {
    let request = hyper::Request::get("/metrics").body(Vec::new()).unwrap();
    let text = client.request_text(request).await.unwrap();
    let mut counts = BTreeMap::new();
    for line in text.lines().filter(|line| line.starts_with("apiserver_flowcontrol_dispatched_requests_total{")) {
        let schema = line.split("flow_schema=\"").nth(1).and_then(|rest| rest.split('"').next()).unwrap_or_default();
        if let Some(kind) = schema.strip_prefix(namespace).and_then(|rest| rest.strip_prefix('.')) {
            let count = line.rsplit(' ').next().and_then(|count| count.parse::<f64>().ok()).unwrap_or_default();
            *counts.entry(kind.to_owned()).or_default() += count as u64;
        }
    }
    counts
}

/// What came between two counts.
pub(crate) fn between(before: &BTreeMap<String, u64>, after: &BTreeMap<String, u64>) -> BTreeMap<String, u64> {
    let grew = |(kind, count): (&String, &u64)| (kind.clone(), count - before.get(kind).copied().unwrap_or_default());
    after.iter().map(grew).collect()
}
