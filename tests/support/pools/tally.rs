//! Counts that don't come from the controller.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use futures::StreamExt;
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject, Patch, PatchParams},
    core::GroupVersionKind,
    runtime::{WatchStreamExt, watcher},
};
use serde_json::Value;
use tokio::task::JoinHandle;

use super::objects::JOB;

/// How often the pools of a namespace were written; ends when dropped.
pub(crate) struct StatusWrites(Arc<AtomicU64>, JoinHandle<()>);

/// Counts the changes of pools that a watch tells: their specs don't change, so each is a write of a status.
pub(crate) fn status_writes(client: &Client, namespace: &str) -> StatusWrites {
    let count = Arc::new(AtomicU64::new(0));
    let (told, api) = (count.clone(), agent_pools(client, namespace));
    let task = tokio::spawn(async move {
        let mut events = watcher(api, watcher::Config::default()).default_backoff().boxed();
        while let Some(event) = events.next().await {
            if matches!(event, Ok(watcher::Event::Apply(_))) {
                told.fetch_add(1, Ordering::Relaxed);
            }
        }
    });
    StatusWrites(count, task)
}

impl StatusWrites {
    pub(crate) fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Drop for StatusWrites {
    fn drop(&mut self) {
        self.1.abort();
    }
}

/// Makes a pool or changes it.
pub(crate) async fn apply(client: &Client, pool: &Value) {
    let text = |key: &str| pool["metadata"][key].as_str().unwrap().to_owned();
    let api = agent_pools(client, &text("namespace"));
    api.patch(&text("name"), &PatchParams::apply("test").force(), &Patch::Apply(pool)).await.unwrap();
}

fn agent_pools(client: &Client, namespace: &str) -> Api<DynamicObject> {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("podlayer.dev", "v1alpha1", "AgentPool"));
    Api::namespaced_with(client.clone(), namespace, &resource)
}

/// What `GET /v1/pools` should say of a pool with these pods in its namespace.
pub(crate) fn counts(pods: &[Pod], pool: &str, is_headroom: bool) -> Vec<(&'static str, i64)> {
    let label = |pod: &Pod, key: &str| pod.metadata.labels.as_ref().and_then(|labels| labels.get(key)).cloned();
    let is_going = |pod: &Pod| pod.metadata.deletion_timestamp.is_some();
    let phase = |pod: &Pod| pod.status.as_ref().and_then(|status| status.phase.clone()).unwrap_or_default();
    let on_node = |pod: &Pod| pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some());
    let own: Vec<&Pod> = pods.iter().filter(|pod| label(pod, podlayer::names::POOL).as_deref() == Some(pool)).collect();
    let jobs: Vec<&Pod> = pods.iter().filter(|pod| label(pod, JOB).as_deref() == Some(pool)).collect();
    let count =
        |of: &[&Pod], so: &dyn Fn(&Pod) -> bool| i64::try_from(of.iter().filter(|pod| so(pod)).count()).unwrap();
    let stays = |pod: &Pod| !is_going(pod);
    let is_busy = |pod: &Pod| label(pod, podlayer::names::POOL_BUSY).is_some();
    let is_draining = |pod: &Pod| label(pod, podlayer::names::POOL_DRAINING).is_some();
    let runs = |pod: &Pod| stays(pod) && phase(pod) == "Running";
    let busy = if is_headroom {
        count(&jobs, &|pod| stays(pod) && on_node(pod))
    } else {
        count(&own, &|pod| runs(pod) && is_busy(pod))
    };
    vec![
        ("queued", count(&jobs, &|pod| stays(pod) && !on_node(pod))),
        ("starting", count(&own, &|pod| stays(pod) && phase(pod) == "Pending")),
        ("busy", busy),
        ("idle", count(&own, &|pod| runs(pod) && !is_busy(pod) && !is_draining(pod))),
        ("terminating", count(&own, &is_going)),
    ]
}
