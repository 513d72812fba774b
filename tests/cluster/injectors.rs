//! Other webhooks that change pods, before and after podlayer.

use std::{
    collections::BTreeMap,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    time::Duration,
};

use ::podlayer::{
    certs::{
        dev::Authority,
        serving::{Pair, Serving},
    },
    server::{self, Drain, Limits},
    telemetry::Metrics,
};
use axum::{Json, Router, routing::post};
use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

use crate::{
    controlplane::{ControlPlane, wait_until},
    layers::annotation,
    podlayer::Webhook,
};

/// A webhook that adds a container to every pod, as those of service meshes do.
struct Injector {
    runtime: tokio::runtime::Runtime,
    configuration: String,
}

impl Injector {
    /// Registers it for a namespace; `order` is what its configuration's name starts with, and so its turn.
    fn start(plane: &ControlPlane, namespace: &str, order: &str, container: &'static str) -> Self {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let authority = Authority::new(time::OffsetDateTime::now_utc()).unwrap();
        let here = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let leaf = authority.leaf(&["localhost".into()], &[here], time::OffsetDateTime::now_utc()).unwrap();
        let pair = Pair::from_pem(leaf.certificate.as_bytes(), leaf.key.as_bytes()).unwrap();
        let port = runtime.block_on(async {
            let listener = server::bind(SocketAddr::from((here, 0))).await.unwrap();
            let port = listener.local_addr().unwrap().port();
            let metrics = Metrics::new();
            let tls = server::server_config(Serving::new(pair, metrics.clone())).unwrap();
            let router = Router::new()
                .route("/", post(move |Json(review): Json<Value>| async move { inject(&review, container) }));
            tokio::spawn(server::serve(listener, tls, router, Limits::default(), Drain::new(), metrics));
            port
        });
        let configuration = format!("{order}-{namespace}");
        let hook = json!({
            "name": "inject.example.com", "admissionReviewVersions": ["v1"], "sideEffects": "None", "failurePolicy": "Fail",
            "clientConfig": {"url": format!("https://127.0.0.1:{port}/"), "caBundle": STANDARD.encode(authority.certificate())},
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}}, "reinvocationPolicy": "Never",
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}],
        });
        let configured = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration",
            "metadata": {"name": configuration}, "webhooks": [hook]});
        plane.apply(&configured.to_string());
        Self { runtime, configuration }
    }

    fn stop(self, plane: &ControlPlane) {
        plane.kubectl(&["delete", "mutatingwebhookconfiguration", &self.configuration]);
        self.runtime.shutdown_background();
    }
}

fn inject(review: &Value, container: &str) -> Json<Value> {
    let patch = json!([{"op": "add", "path": "/spec/containers/-", "value": {"name": container, "image": "proxy:1"}}]);
    Json(json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": {
        "uid": review["request"]["uid"], "allowed": true, "patchType": "JSONPatch", "patch": STANDARD.encode(patch.to_string())}}))
}

fn names(list: &Value) -> Vec<&str> {
    list.as_array().into_iter().flatten().filter_map(|item| item["name"].as_str()).collect()
}

#[test]
fn what_other_injectors_add_stays_and_podlayer_is_called_once() {
    let plane = ControlPlane::shared();
    let webhook = Webhook::start(plane, &[]);
    let namespace = plane.namespace("mesh");
    webhook.register(plane, &namespace, "Fail");
    let patch = "tolerations: [{key: ci, operator: Exists}]\ncontainers:\n- name: a\n  volumeMounts:\n  - $patch: replace\n  \
                 - {name: work, mountPath: /work}\n- name: early\n  env: [{name: SEEN, value: 'yes'}]\n- name: late\n  env: \
                 [{name: SEEN, value: 'yes'}]\n";
    webhook.layer(plane, "base", &json!({"podlayer.dev/layer": "default"}), &BTreeMap::from([("podSpecPatch", patch)]));
    webhook.wait_for("base", "good");
    let early = Injector::start(plane, &namespace, "aa", "early");
    let late = Injector::start(plane, &namespace, "zzz", "late");
    let pod = json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "p", "namespace": namespace, "labels": {"podlayer.dev/enabled": "true"}},
        "spec": {"volumes": [{"name": "work", "emptyDir": {}}], "containers": [{"name": "a", "image": "b:1"}]}});
    // A pod, and how often podlayer was called for it.
    let make = || {
        let calls = || {
            webhook.metric("podlayer_decisions_total{outcome=\"patched\"}")
                + webhook.metric("podlayer_decisions_total{outcome=\"unchanged\"}")
        };
        let before = calls();
        let made = plane.kubectl_in(&["create", "--dry-run=server", "-o", "json", "-f", "-"], &pod.to_string());
        assert!(made.ok, "{}", made.stderr);
        (serde_json::from_str::<Value>(&made.stdout).unwrap(), calls() - before)
    };
    let container = |pod: &Value, name: &str| {
        pod["spec"]["containers"]
            .as_array()
            .unwrap()
            .iter()
            .find(|one| one["name"] == name)
            .cloned()
            .unwrap_or_default()
    };
    let tolerations = |pod: &Value| {
        let list = pod["spec"]["tolerations"].as_array().unwrap();
        list.iter().map(|one| one["key"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    wait_until(Duration::from_secs(30), "both injectors to be called", || {
        let containers = make().0["spec"]["containers"].clone();
        ["early", "late"].iter().all(|name| names(&containers).contains(name))
    });

    // Never: what came before is seen, what comes after stays, and the API server's own plugins run once more at the end.
    let (made, calls) = make();
    assert!((calls - 1.0).abs() < 0.5, "called {calls} times");
    assert_eq!(names(&made["spec"]["containers"]), ["a", "early", "late"]);
    assert_eq!(container(&made, "early")["env"], json!([{"name": "SEEN", "value": "yes"}]));
    assert_eq!(container(&made, "late")["env"], Value::Null);
    assert_eq!(annotation(&made, "podlayer.dev/applied")["layers"], json!(["default/base"]));
    assert_eq!(tolerations(&made), ["ci", "node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"]);
    let mounts = container(&made, "a")["volumeMounts"].clone();
    assert!(mounts[0]["name"] == "work" && names(&mounts).len() == 2, "the token's mount came back: {mounts}");

    // IfNeeded: called again for what came after, with the documented price.
    let again = json!([{"op": "replace", "path": "/webhooks/0/reinvocationPolicy", "value": "IfNeeded"}]);
    let name = format!("zz-podlayer-{namespace}");
    let patched =
        plane.kubectl(&["patch", "mutatingwebhookconfiguration", &name, "--type=json", "-p", &again.to_string()]);
    assert!(patched.ok, "{}", patched.stderr);
    wait_until(Duration::from_secs(30), "the second call", || (make().1 - 2.0).abs() < 0.5);
    let (made, _) = make();
    assert_eq!(names(&made["spec"]["containers"]), ["a", "early", "late"]);
    assert_eq!(container(&made, "late")["env"], json!([{"name": "SEEN", "value": "yes"}]));
    assert_eq!(tolerations(&made), ["ci"], "the default ones are gone");
    assert_eq!(names(&container(&made, "a")["volumeMounts"]), ["work"], "the token's mount is gone");

    early.stop(plane);
    late.stop(plane);
    Webhook::unregister(plane, &namespace);
}
