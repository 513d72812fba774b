//! The replicas behind a Service, and what each tells on its admin port, through the API server's proxy.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Pod, Service as ServiceObject};
use kube::{
    Api, Client,
    api::{GetParams, ListParams},
    core::Request,
};
use tokio::time::timeout;

use super::{
    facts::{Page, Replica, Seen, Service},
    observe::{there, why},
};
use crate::names;

/// How long a replica may take to answer through the proxy.
const PATIENCE: Duration = Duration::from_secs(5);

pub(super) async fn service(client: &Client, namespace: String, name: String) -> Service {
    let replicas = replicas(client, &namespace, &name).await;
    Service { namespace, name, replicas }
}

async fn replicas(client: &Client, namespace: &str, name: &str) -> Seen<Option<Vec<Replica>>> {
    let found = there(Api::<ServiceObject>::namespaced(client.clone(), namespace).get(name).await)?;
    let Some(service) = found else { return Ok(None) };
    let selector = service.spec.and_then(|spec| spec.selector).unwrap_or_default();
    if selector.is_empty() {
        return Err("the Service selects no pods: podlayer runs elsewhere".into());
    }
    let selector = selector.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(",");
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
    let pods = pods.list(&ListParams::default().labels(&selector)).await.map_err(why)?;
    let mut replicas = Vec::new();
    for pod in pods.items {
        // Those that are going were told to go.
        if pod.metadata.deletion_timestamp.is_none() {
            replicas.push(replica(client, namespace, pod).await);
        }
    }
    Ok(Some(replicas))
}

async fn replica(client: &Client, namespace: &str, pod: Pod) -> Replica {
    let name = pod.metadata.name.clone().unwrap_or_default();
    let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let ready = conditions.into_iter().any(|condition| condition.type_ == "Ready" && condition.status == "True");
    let port = admin_port(&pod);
    let ask = async |page: &str| {
        let path = format!("/api/v1/namespaces/{namespace}/pods/{name}:{port}/proxy");
        let request = Request::new(path).get(page, &GetParams::default()).map_err(|error| error.to_string())?;
        let answer = timeout(PATIENCE, client.request_text(request)).await;
        answer.map_err(|_| "no answer through the API server's proxy".to_owned())?.map_err(why)
    };
    let page: Seen<Page> = match ask(names::PATH_LAYERS.trim_start_matches('/')).await {
        Ok(text) => serde_json::from_str(&text).map_err(|error| format!("it answers something else: {error}")),
        Err(error) => Err(error),
    };
    let metrics = if page.is_ok() { ask(names::PATH_METRICS.trim_start_matches('/')).await.ok() } else { None };
    Replica { pod: name, ready, page, certificate_ends: metrics.as_deref().and_then(certificate_end) }
}

/// The port that the pod calls `admin`, else podlayer's own number.
fn admin_port(pod: &Pod) -> i32 {
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    let ports = containers.flat_map(|container| container.ports.iter().flatten());
    let mut ports = ports.filter(|port| port.name.as_deref() == Some("admin"));
    ports.next().map_or_else(|| i32::from(names::PORT_ADMIN), |port| port.container_port)
}

fn certificate_end(metrics: &str) -> Option<i64> {
    let name = "podlayer_certificate_expiry_timestamp_seconds{certificate=\"serving\"} ";
    metrics.lines().find_map(|line| line.strip_prefix(name))?.parse().ok()
}
