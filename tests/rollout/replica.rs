//! Replicas of one installation.

use std::{
    fs::File,
    net::{Ipv4Addr, SocketAddr},
    path::Path,
    process::{Child, Command, Stdio},
};

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::json;

use crate::controlplane::{ControlPlane, free_port};

/// What the replicas share: a certificate and podlayer's own namespace, with one layer in it.
pub(crate) struct Installation {
    folder: tempfile::TempDir,
    namespace: String,
}

/// One process; ended when dropped.
pub(crate) struct Replica {
    child: Child,
    pub(crate) address: SocketAddr,
    pub(crate) admin: SocketAddr,
}

fn binary() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_podlayer"))
}

impl Installation {
    pub(crate) fn new(plane: &ControlPlane) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let made = Command::new(binary()).args(["certs", "--out"]).arg(folder.path()).output().unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let namespace = plane.namespace("podlayer");
        let layer = json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "base", "namespace": namespace, "labels": {"podlayer.dev/layer": "default"}},
            "data": {"podSpecPatch": "containers: [{name: a, env: [{name: LAYER, value: base}]}]"}});
        plane.apply(&layer.to_string());
        Self { folder, namespace }
    }

    /// Registers (again) what stands at an address for all opted-in pods.
    pub(crate) fn register(&self, plane: &ControlPlane, address: SocketAddr, failure_policy: &str) {
        let ca = std::fs::read(self.folder.path().join("ca.crt")).unwrap();
        let hook = json!({
            "name": "pods.podlayer.dev", "admissionReviewVersions": ["v1"], "sideEffects": "None", "timeoutSeconds": 2,
            "failurePolicy": failure_policy, "reinvocationPolicy": "Never",
            "clientConfig": {"url": format!("https://{address}/mutate"), "caBundle": STANDARD.encode(ca)},
            "objectSelector": {"matchLabels": {"podlayer.dev/enabled": "true"}},
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}],
        });
        let configuration = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration",
            "metadata": {"name": "zz-podlayer"}, "webhooks": [hook]});
        plane.apply(&configuration.to_string());
    }
}

impl Replica {
    pub(crate) fn start(plane: &ControlPlane, installation: &Installation) -> Self {
        let (address, admin) = (free_port(), free_port());
        let [address, admin] = [address, admin].map(|port| SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
        let file = |name: &str| installation.folder.path().join(name);
        let child = Command::new(binary())
            .args(["webhook", "--own-namespace", &installation.namespace, "--kubeconfig", plane.kubeconfig()])
            .args(["--addr", &address.to_string(), "--admin-addr", &admin.to_string()])
            .arg("--tls-cert")
            .arg(file("tls.crt"))
            .arg("--tls-key")
            .arg(file("tls.key"))
            .stderr(File::create(file(&format!("log-{}", address.port()))).unwrap())
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        Self { child, address, admin }
    }

    /// Tells it to end, as the kubelet does, and lets it: it goes when it has drained, or with the test.
    pub(crate) fn terminate(self) {
        let told = Command::new("kill").args(["-TERM", &self.child.id().to_string()]).status().unwrap();
        assert!(told.success());
        std::thread::spawn(move || {
            let mut replica = self;
            let _ = replica.child.wait();
        });
    }

    /// `kill -9`
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
    }
}

impl Drop for Replica {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
