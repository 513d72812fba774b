//! Pods, layers and rule sets as texts.

use std::sync::Arc;

use podlayer::{
    admission::{Decision, Pod, Policy, Verdict, decide_pod},
    layers::{LayerSource, Scope, Snapshot, parse},
};
use serde_json::{Value, json};

/// A plain Job's pod.
pub(crate) fn plain() -> Value {
    json!({
        "metadata": {"generateName": "p-", "labels": {"podlayer.dev/enabled": "true"}, "annotations": {}},
        "spec": {
            "restartPolicy": "Never", "serviceAccountName": "default", "serviceAccount": "default",
            "containers": [{"name": "build", "image": "own:1", "command": ["make"], "resources": {"limits": {"cpu": "1", "memory": "1Gi"}},
                "volumeMounts": [{"name": "kube-api-access-x", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount", "readOnly": true}]}],
            "volumes": [
                {"name": "own", "emptyDir": {}},
                {"name": "node", "hostPath": {"path": "/var/cache"}},
                {"name": "kube-api-access-x", "projected": {"sources": [{"serviceAccountToken": {"path": "token", "expirationSeconds": 3607}}]}}],
        },
    })
}

/// A pod as agent-stack-k8s makes it, cut to what matters.
pub(crate) fn buildkite() -> Value {
    let workspace = json!({"name": "workspace", "mountPath": "/workspace"});
    let token = json!({"name": "BUILDKITE_AGENT_TOKEN", "valueFrom": {"secretKeyRef": {"name": "agent-token", "key": "token"}}});
    json!({
        "metadata": {"generateName": "bk-", "labels": {"podlayer.dev/enabled": "true", "buildkite.com/job-uuid": "u"}, "annotations": {}},
        "spec": {
            "restartPolicy": "Never", "serviceAccountName": "default",
            "initContainers": [{"name": "copy-agent", "image": "agent:1", "command": ["ash"], "volumeMounts": [workspace]}],
            "containers": [
                {"name": "container-0", "image": "own:1", "command": ["tini"], "env": [{"name": "BUILDKITE_COMMAND", "value": "make"}], "volumeMounts": [workspace]},
                {"name": "agent", "image": "agent:1", "args": ["start"], "env": [token], "volumeMounts": [workspace, {"name": "hooks", "mountPath": "/hooks"}]},
                {"name": "checkout", "image": "agent:1", "args": ["bootstrap"], "volumeMounts": [workspace]}],
            "volumes": [{"name": "workspace", "emptyDir": {}}, {"name": "hooks", "configMap": {"name": "hooks"}},
                {"name": "agent-config", "secret": {"secretName": "agent-token"}}],
        },
    })
}

/// A pod with a step patch.
pub(crate) fn with_step(mut pod: Value, step: &str) -> Value {
    pod["metadata"]["annotations"]["podlayer.dev/pod-spec-patch"] = json!(step);
    pod
}

/// A ConfigMap in podlayer's own namespace, or in `namespace` where that isn't empty.
pub(crate) fn source(kind: &str, name: &str, namespace: &str, data: &[(&str, &str)]) -> LayerSource {
    LayerSource {
        namespace: if namespace.is_empty() { "podlayer".into() } else { namespace.into() },
        name: name.into(),
        labels: [("podlayer.dev/layer".to_owned(), kind.to_owned())].into(),
        data: data.iter().map(|(key, text)| ((*key).to_owned(), (*text).to_owned())).collect(),
        ..LayerSource::default()
    }
}

/// A rule set for every pod.
pub(crate) fn rules(text: &str) -> LayerSource {
    source("step-rules", "ci", "", &[("rules", text)])
}

/// A default layer of the cluster's.
pub(crate) fn default(patch: &str) -> LayerSource {
    source("default", "base", "", &[("podSpecPatch", patch)])
}

pub(crate) fn snapshot(sources: &[LayerSource]) -> Snapshot {
    let read = |source: &LayerSource| parse(source, Scope { own_namespace: "podlayer" }).map(Arc::new);
    Snapshot::build(sources.iter().map(|source| read(source).unwrap_or_else(|error| panic!("{error}")))).unwrap()
}

pub(crate) fn decide(pod: &Value, snapshot: &Snapshot, policy: &Policy) -> Decision {
    decide_pod(&Pod::parse(&pod.to_string()).unwrap(), "ci", snapshot, policy)
}

/// The pod as the API server makes it, or why it doesn't.
pub(crate) fn made(pod: &Value, sources: &[LayerSource], policy: &Policy) -> Result<Value, String> {
    let decision = decide(pod, &snapshot(sources), policy);
    assert_eq!(decision.fault, None);
    if let Verdict::Denied(denial) = decision.verdict {
        assert_eq!((denial.code, denial.reason), (422, "Invalid"));
        return Err(denial.message);
    }
    let mut made = pod.clone();
    if let Some(patch) = &decision.patch {
        json_patch::patch(&mut made, &serde_json::from_str::<json_patch::Patch>(patch).unwrap()).unwrap();
    }
    Ok(made)
}
