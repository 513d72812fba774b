use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, Client,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

use super::until;

/// The label of job pods, whose value is the name of their pool.
pub(crate) const JOB: &str = "ci";

/// A pool whose job pods carry its name in the label [`JOB`].
pub(crate) fn pool(namespace: &str, name: &str, spec: &Value) -> Value {
    let mut whole = json!({"jobSelector": {"matchLabels": {JOB: name}}, "scaleDown": {"delaySeconds": 0}});
    for (key, value) in spec.as_object().unwrap() {
        whole[key] = value.clone();
    }
    json!({"apiVersion": "podlayer.dev/v1alpha1", "kind": "AgentPool",
           "metadata": {"name": name, "namespace": namespace}, "spec": whole})
}

/// What a pool's pods are made from: one container of one CPU on nodes with this label.
pub(crate) fn template(node: &str) -> Value {
    json!({"spec": {"nodeSelector": {"test-node": node}, "terminationGracePeriodSeconds": 0,
           "containers": [{"name": "agent", "image": "agent:1", "resources": {"requests": {"cpu": "1"}}}]}})
}

/// A job pod of a pool, for a node with this label; `none` is no node's.
pub(crate) fn job(pool: &str, name: &str, node: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {JOB: pool}},
           "spec": {"nodeSelector": {"test-node": node}, "terminationGracePeriodSeconds": 0,
                    "containers": [{"name": "job", "image": "job:1", "resources": {"requests": {"cpu": "1"}}}]}})
}

/// A job pod as agent-stack-k8s makes it, on a node, or held back.
pub(crate) fn real_job(pool: &str, name: &str, node: Option<&str>) -> Value {
    let mut pod: Value = serde_yaml::from_str(include_str!("../../data/jobs/buildkite/plain-step-pod.yaml")).unwrap();
    let metadata = &mut pod["metadata"];
    (metadata["name"], metadata["labels"][JOB]) = (json!(name), json!(pool));
    for key in ["namespace", "uid", "resourceVersion", "ownerReferences", "generateName", "creationTimestamp"] {
        metadata.as_object_mut().unwrap().remove(key);
    }
    match node {
        Some(node) => pod["spec"]["nodeName"] = json!(node),
        None => pod["spec"]["schedulingGates"] = json!([{"name": "test/held"}]),
    }
    pod.as_object_mut().unwrap().remove("status");
    pod
}

/// Makes a pod.
pub(crate) async fn make(pods: &Api<Pod>, pod: &Value) -> kube::Result<Pod> {
    let pod: Pod = serde_json::from_value(pod.clone()).unwrap();
    pods.create(&PostParams::default(), &pod).await
}

/// Deletes a pod at once; one that isn't there is fine.
pub(crate) async fn delete(pods: &Api<Pod>, name: &str) {
    let params = DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() };
    match pods.delete(name, &params).await {
        Err(kube::Error::Api(status)) if status.code == 404 => {}
        answer => _ = answer.unwrap(),
    }
}

/// Deletes all pods with a label, in one call if the machine is quick enough for it.
pub(crate) async fn delete_all(pods: &Api<Pod>, selector: &str) {
    let params = DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() };
    let list = ListParams::default().labels(selector);
    // The API server gives a call one minute, and goes on from where it was with the next.
    until("pods to be deleted", async || pods.delete_collection(&params, &list).await.ok()).await;
}

/// Changes a pod; with a version, only if it is still that one.
pub(crate) async fn change(pods: &Api<Pod>, name: &str, version: Option<&str>, mut patch: Value) -> kube::Result<Pod> {
    if let Some(version) = version {
        patch["metadata"]["resourceVersion"] = json!(version);
    }
    pods.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await
}

/// The pods of a namespace.
pub(crate) fn pods(client: &Client, namespace: &str) -> Api<Pod> {
    Api::namespaced(client.clone(), namespace)
}
