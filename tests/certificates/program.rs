//! The program, with the rights that a chart gives it, behind a Service.

use std::time::Duration;

use serde_json::{Value, json};

use crate::{
    controlplane::{ControlPlane, free_port, wait_until},
    installation::Installation,
    process::{Program, kubeconfig},
};

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

    // Jane may do nothing but what a test allows her.
    let kubeconfig = kubeconfig(plane, plane.jane_token());
    let names = ["--own-namespace", &own, "--webhook-configuration", &installation.name, "--addr", &address];
    let program = Program::start(&kubeconfig, &names);
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
