//! The program, with the rights that a chart gives it, behind a Service.

use std::{
    io::{Read, Write},
    net::TcpStream,
    process::{Child, Command, Stdio},
    time::Duration,
};

use serde_json::{Value, json};

use crate::{
    controlplane::{ControlPlane, free_port, wait_until},
    installation::Installation,
};

/// A running `podlayer webhook`; ended when dropped.
struct Program {
    child: Child,
    admin: u16,
    folder: tempfile::TempDir,
}

impl Program {
    fn start(plane: &ControlPlane, installation: &Installation<'_>, address: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let kubeconfig = folder.path().join("kubeconfig");
        std::fs::write(&kubeconfig, janes_kubeconfig(plane)).unwrap();
        let admin = free_port();
        let child = Command::new(env!("CARGO_BIN_EXE_podlayer"))
            .arg("webhook")
            .arg("--kubeconfig")
            .arg(&kubeconfig)
            .args(["--own-namespace", &installation.own, "--webhook-configuration", &installation.name])
            .args(["--addr", address, "--admin-addr", &format!("127.0.0.1:{admin}")])
            .stderr(std::fs::File::create(folder.path().join("log")).unwrap())
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        Self { child, admin, folder }
    }

    fn get(&self, path: &str) -> String {
        let Ok(mut stream) = TcpStream::connect(("127.0.0.1", self.admin)) else { return String::new() };
        let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        let mut answer = String::new();
        let _ = stream.write_all(request.as_bytes()).and_then(|()| stream.read_to_string(&mut answer));
        answer
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }
}

impl Drop for Program {
    #[allow(clippy::print_stderr, reason = "what the program logged is shown where a test fails")]
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("podlayer's log:\n{}", self.log());
        }
    }
}

/// Jane may do nothing but what a test allows her.
fn janes_kubeconfig(plane: &ControlPlane) -> String {
    json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "jane",
        "contexts": [{"name": "jane", "context": {"cluster": "plane", "user": "jane"}}],
        "clusters": [{"name": "plane", "cluster": {"server": plane.server(), "certificate-authority": plane.ca()}}],
        "users": [{"name": "jane", "user": {"token": plane.jane_token()}}],
    })
    .to_string()
}

/// The rights of `docs/certificates.md`, and the one to watch layers.
fn allow(plane: &ControlPlane, installation: &Installation<'_>) {
    let (own, name) = (&installation.own, &installation.name);
    let rbac = "rbac.authorization.k8s.io";
    let subjects = json!([{"apiGroup": rbac, "kind": "User", "name": "jane"}]);
    let role = json!([
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "watch"]},
        {"apiGroups": [""], "resources": ["secrets"], "resourceNames": ["podlayer-ca"], "verbs": ["get", "update"]},
    ]);
    let cluster_role = json!([{
        "apiGroups": ["admissionregistration.k8s.io"], "resourceNames": [name], "verbs": ["get", "patch"],
        "resources": ["mutatingwebhookconfigurations", "validatingwebhookconfigurations"],
    }]);
    let version = format!("{rbac}/v1");
    let list = json!({"apiVersion": "v1", "kind": "List", "items": [
        {"apiVersion": version, "kind": "Role", "metadata": {"name": "podlayer", "namespace": own}, "rules": role},
        {"apiVersion": version, "kind": "RoleBinding", "metadata": {"name": "podlayer", "namespace": own},
         "roleRef": {"apiGroup": rbac, "kind": "Role", "name": "podlayer"}, "subjects": subjects},
        {"apiVersion": version, "kind": "ClusterRole", "metadata": {"name": name}, "rules": cluster_role},
        {"apiVersion": version, "kind": "ClusterRoleBinding", "metadata": {"name": name},
         "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": name}, "subjects": subjects},
    ]});
    plane.apply(&list.to_string());
}

#[test]
fn the_program_gets_itself_trusted_and_called_with_no_more_rights_than_it_says() {
    let plane = ControlPlane::shared();
    let port = free_port();
    let installation = Installation::new(plane, port);
    let own = installation.own.clone();
    // No pods stand behind it: in this control plane its address is one of this machine's.
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "podlayer", "namespace": own},
                         "spec": {"ports": [{"port": port}]}});
    plane.apply(&service.to_string());
    let service = plane.get_json(&["service", "podlayer", "-n", &own]);
    let address = format!("{}:{port}", service["spec"]["clusterIP"].as_str().unwrap());

    let program = Program::start(plane, &installation, &address);
    wait_until(Duration::from_secs(30), "the program to say that it may not", || {
        let log = program.log();
        log.contains("failed to get the MutatingWebhookConfiguration") && log.contains("forbidden")
    });
    let answer = program.get("/readyz");
    assert!(answer.starts_with("HTTP/1.1 503"), "{answer}");
    assert!(answer.contains("certificate: the webhook configurations don't trust it yet"), "{answer}");
    allow(plane, &installation);
    wait_until(Duration::from_secs(60), "the program to be ready", || {
        program.get("/readyz").starts_with("HTTP/1.1 200")
    });

    let pod = json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "a", "namespace": installation.jobs, "labels": {"podlayer.dev/enabled": "true"}},
        "spec": {"containers": [{"name": "a", "image": "b:1"}]}});
    // The first call already, for who is ready is trusted.
    let made = plane.kubectl_in(&["create", "-o", "json", "-f", "-"], &pod.to_string());
    assert!(made.ok, "{}", made.stderr);
    let made: Value = serde_json::from_str(&made.stdout).unwrap();
    let stamp = made["metadata"]["annotations"]["podlayer.dev/applied"].clone();
    assert!(stamp.as_str().is_some_and(|stamp| stamp.starts_with("{\"v\":1")), "{stamp}");
    let metrics = program.get("/metrics");
    assert!(metrics.contains("\npodlayer_ca_bundle_in_sync 1\n"), "{metrics}");
    assert!(metrics.contains("expiry_timestamp_seconds{certificate=\"ca\"}"), "{metrics}");
    for secret in ["PRIVATE", "BEGIN"] {
        assert!(!program.log().contains(secret), "{}", program.log());
    }
}
