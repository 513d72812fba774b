//! A pod that is opted in, made in a dry run: the whole way from the API server to podlayer and back.

use kube::{
    Client,
    api::PostParams,
    client::Body,
    core::{Request, response::Status},
};
use serde_json::{Value, json};

use super::facts::{Probe, Seen};
use crate::names;

/// As little as every policy lets through: what the restricted Pod Security Standard and resource quotas ask for.
fn pod() -> Value {
    let resources = json!({"cpu": "1m", "memory": "1Mi"});
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"generateName": "podlayer-doctor-", "labels": {names::ENABLED: names::ENABLED_VALUE}},
        "spec": {
            "restartPolicy": "Never",
            "automountServiceAccountToken": false,
            "securityContext": {"runAsNonRoot": true, "runAsUser": 65534, "seccompProfile": {"type": "RuntimeDefault"}},
            "containers": [{
                "name": "probe", "image": "podlayer.invalid/probe",
                "resources": {"requests": resources, "limits": resources},
                "securityContext": {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}},
            }],
        },
    })
}

pub(super) async fn run(client: &Client, namespace: &str) -> Seen<Probe> {
    let params = PostParams { dry_run: true, ..PostParams::default() };
    let request = Request::new(format!("/api/v1/namespaces/{namespace}/pods"));
    let request = request.create(&params, pod().to_string().into_bytes()).map_err(|error| error.to_string())?;
    // Not through the typed client, which keeps the warnings to itself.
    let response = client.send(request.map(Body::from)).await.map_err(|error| error.to_string())?;
    let warnings = response.headers().get_all("warning").iter().filter_map(|value| value.to_str().ok());
    let warnings = warnings.map(|value| value.trim_start_matches("299 - ").trim_matches('"').to_owned()).collect();
    let is_success = response.status().is_success();
    let body = response.into_body().collect_bytes().await.map_err(|error| error.to_string())?;
    if !is_success {
        let status: Status = serde_json::from_slice(&body).map_err(|error| error.to_string())?;
        let webhook = status.message.contains("webhook") || status.message.contains("podlayer");
        // Not podlayer's doing: a missing right, a quota, a namespace that isn't there.
        return if webhook { Ok(Probe::Refused(status.message)) } else { Err(status.message) };
    }
    let made: Value = serde_json::from_slice(&body).map_err(|error| error.to_string())?;
    let stamp = made["metadata"]["annotations"][names::APPLIED].as_str().map(str::to_owned);
    Ok(Probe::Made { stamp, warnings })
}
