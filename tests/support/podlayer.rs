//! The real `podlayer webhook`, as a process, registered with a real API server.

#![allow(dead_code, reason = "each test binary uses its own part of the harness")]
#![allow(clippy::print_stderr, reason = "what the webhook logged is shown where a test fails")]

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use serde_json::{Value, json};

use crate::controlplane::{ControlPlane, free_port, http_get, wait_until};

/// A running webhook; ended when dropped.
pub(crate) struct Webhook {
    child: Option<Child>,
    folder: tempfile::TempDir,
    /// `https://127.0.0.1:PORT`
    pub(crate) url: String,
    admin: u16,
    /// podlayer's own namespace in this test.
    pub(crate) own: String,
    log: PathBuf,
}

impl Webhook {
    /// Starts it with a namespace of its own, ready.
    pub(crate) fn start(plane: &ControlPlane, more: &[&str]) -> Self {
        Self::start_in(plane, &plane.namespace("podlayer"), more)
    }

    /// Starts a replica for a namespace that is there, ready.
    pub(crate) fn start_in(plane: &ControlPlane, own: &str, more: &[&str]) -> Self {
        let webhook = Self::spawn(own, plane.kubeconfig(), more);
        webhook.wait_ready();
        webhook
    }

    /// Starts a replica and waits for nothing.
    pub(crate) fn spawn(own: &str, kubeconfig: &str, more: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let certs = folder.path().join("certs");
        let made = Command::new(binary()).args(["certs", "--out"]).arg(&certs).output().unwrap();
        assert!(made.status.success(), "podlayer certs: {}", String::from_utf8_lossy(&made.stderr));
        let (port, admin) = (free_port(), free_port());
        let log = folder.path().join("log");
        let child = Command::new(binary())
            .arg("webhook")
            .args(["--kubeconfig", kubeconfig, "--own-namespace", own, "--addr", &format!("127.0.0.1:{port}")])
            .args(["--admin-addr", &format!("127.0.0.1:{admin}"), "--log-filter", "podlayer=debug,info"])
            .arg("--tls-cert")
            .arg(certs.join("tls.crt"))
            .arg("--tls-key")
            .arg(certs.join("tls.key"))
            .args(more)
            .stderr(std::fs::File::create(&log).unwrap())
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        let url = format!("https://127.0.0.1:{port}");
        Self { child: Some(child), folder, url, admin, own: own.to_owned(), log }
    }

    pub(crate) fn wait_ready(&self) {
        wait_until(Duration::from_secs(60), "podlayer to be ready", || self.get("/readyz").starts_with("HTTP/1.1 200"));
    }

    /// Registers it for the pods, Jobs and layers of one namespace and waits until the API server calls it.
    pub(crate) fn register(&self, plane: &ControlPlane, namespace: &str, failure_policy: &str) {
        self.register_with(plane, namespace, failure_policy, &[]);
    }

    /// The same, also for pods and Jobs that carry one of these labels.
    pub(crate) fn register_with(&self, plane: &ControlPlane, namespace: &str, failure_policy: &str, labels: &[&str]) {
        self.configure_with(plane, namespace, failure_policy, labels);
        let probe = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "probe", "namespace": namespace,
            "labels": {"podlayer.dev/enabled": "true"}}, "spec": {"containers": [{"name": "a", "image": "b"}]}});
        wait_until(Duration::from_secs(30), "the API server to call podlayer", || {
            let made = plane.kubectl_in(&["create", "--dry-run=server", "-o", "json", "-f", "-"], &probe.to_string());
            made.ok && made.stdout.contains("podlayer.dev/applied")
        });
    }

    /// Registers it and waits for nothing.
    pub(crate) fn configure(&self, plane: &ControlPlane, namespace: &str, failure_policy: &str) {
        self.configure_with(plane, namespace, failure_policy, &[]);
    }

    fn configure_with(&self, plane: &ControlPlane, namespace: &str, failure_policy: &str, labels: &[&str]) {
        let ca = std::fs::read(self.folder.path().join("certs/ca.crt")).unwrap();
        let client = |path: &str| json!({"url": format!("{}{path}", self.url), "caBundle": base64(&ca)});
        let selector = |name: &str| json!({"matchLabels": {"kubernetes.io/metadata.name": name}});
        let hook = |name: &str,
                    path: &str,
                    group: &str,
                    resource: &str,
                    operations: &[&str],
                    namespace: &str,
                    condition: &str| {
            json!({
                "name": format!("{name}.podlayer.dev"), "clientConfig": client(path),
                "admissionReviewVersions": ["v1"], "sideEffects": "None", "timeoutSeconds": 5,
                "failurePolicy": failure_policy, "matchPolicy": "Equivalent", "namespaceSelector": selector(namespace),
                "matchConditions": [{"name": "opted-in", "expression": condition}],
                "rules": [{"apiGroups": [group], "apiVersions": ["v1"], "operations": operations, "resources": [resource]}],
            })
        };
        let opted_in = |metadata: &str| {
            let label = |label: &&str| format!(" || {metadata}.?labels[?'{label}'].hasValue()");
            let others: String = labels.iter().map(label).collect();
            format!("{metadata}.?labels[?'podlayer.dev/enabled'].orValue('') == 'true'{others}")
        };
        let pod = &opted_in("object.metadata");
        let job = &opted_in("object.spec.template.metadata");
        let layer = "object.metadata.?labels[?'podlayer.dev/layer'].hasValue()";
        let never = |mut hook: Value| {
            hook["reinvocationPolicy"] = json!("Never");
            hook
        };
        let configuration = |kind: &str, hooks: Value| {
            json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind,
                   "metadata": {"name": format!("zz-podlayer-{namespace}")}, "webhooks": hooks})
        };
        let create = &["CREATE"][..];
        plane.apply(
            &configuration(
                "MutatingWebhookConfiguration",
                json!([
                    never(hook("pods", "/mutate", "", "pods", create, namespace, pod)),
                    never(hook("jobs", "/mutate", "batch", "jobs", create, namespace, job)),
                ]),
            )
            .to_string(),
        );
        plane.apply(
            &configuration(
                "ValidatingWebhookConfiguration",
                json!([
                    hook("jobs", "/validate", "batch", "jobs", create, namespace, job),
                    hook("layers", "/validate", "", "configmaps", &["CREATE", "UPDATE"], &self.own, layer),
                ]),
            )
            .to_string(),
        );
    }

    /// Takes the registration away again.
    pub(crate) fn unregister(plane: &ControlPlane, namespace: &str) {
        let name = format!("zz-podlayer-{namespace}");
        plane.kubectl(&["delete", "mutatingwebhookconfiguration,validatingwebhookconfiguration", &name]);
    }

    /// Writes a layer and waits until it is in force.
    pub(crate) fn layer(&self, plane: &ControlPlane, name: &str, labels: &Value, data: &BTreeMap<&str, &str>) {
        let map = self.config_map(name, labels, data);
        plane.apply(&map.to_string());
    }

    /// A layer's ConfigMap.
    pub(crate) fn config_map(&self, name: &str, labels: &Value, data: &BTreeMap<&str, &str>) -> Value {
        json!({"apiVersion": "v1", "kind": "ConfigMap",
               "metadata": {"name": name, "namespace": self.own, "labels": labels}, "data": data})
    }

    /// Waits until a layer stands as wanted on the admin port: `good`, `stale`, `bad`.
    pub(crate) fn wait_for(&self, name: &str, state: &str) {
        let source = format!("ConfigMap {}/{name}", self.own);
        wait_until(Duration::from_secs(30), &format!("{source} to be {state}"), || {
            let layers = self.layers()["layers"].as_array().cloned().unwrap_or_default();
            layers.iter().any(|layer| layer["source"] == source.as_str() && layer["state"] == state)
        });
    }

    /// What the admin port says about the layers; null if it says nothing.
    pub(crate) fn layers(&self) -> Value {
        let body = self.get("/layers");
        let json = body.split("\r\n\r\n").nth(1).and_then(|body| serde_json::from_str::<Value>(body).ok());
        json.unwrap_or_default()
    }

    /// What the admin port answers, head and body.
    pub(crate) fn get(&self, path: &str) -> String {
        http_get(self.admin, path)
    }

    /// One number out of the metrics.
    pub(crate) fn metric(&self, line_start: &str) -> f64 {
        let text = self.get("/metrics");
        let line = text.lines().find(|line| line.starts_with(line_start));
        line.and_then(|line| line.rsplit(' ').next()?.parse().ok()).unwrap_or_default()
    }

    /// What it logged so far.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Tells it twice to stop, as somebody does who won't wait for open connections; gives whether it ended well.
    pub(crate) fn stop(&mut self) -> bool {
        let Some(mut child) = self.child.take() else { return true };
        wait_until(Duration::from_secs(60), "podlayer to end", || {
            let told = Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap();
            assert!(told.success());
            child.try_wait().unwrap().is_some()
        });
        child.wait().unwrap().success()
    }
}

impl Drop for Webhook {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
        if std::thread::panicking() {
            eprintln!("podlayer's log:\n{}", self.log());
        }
    }
}

/// The podlayer program that this test run built.
pub(crate) fn binary() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_podlayer"))
}

pub(crate) fn base64(bytes: &[u8]) -> String {
    use base64::Engine;
    base64::engine::general_purpose::STANDARD.encode(bytes)
}
