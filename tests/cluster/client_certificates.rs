//! An API server that is configured to show a certificate is served by a podlayer that asks for one.

use std::time::Duration;

use rcgen::{BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};
use serde_json::json;

use crate::{
    controlplane::{ControlPlane, wait_until},
    podlayer::Webhook,
};

#[test]
fn the_api_server_shows_the_certificate_that_podlayer_asks_for() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let mut ca = CertificateParams::new(Vec::new()).unwrap();
    ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let ca_key = KeyPair::generate().unwrap();
    std::fs::write(path("ca.crt"), ca.self_signed(&ca_key).unwrap().pem()).unwrap();
    let mut caller = CertificateParams::new(vec!["apiserver".to_owned()]).unwrap();
    caller.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    let key = KeyPair::generate().unwrap();
    std::fs::write(path("client.crt"), caller.signed_by(&key, &Issuer::new(ca, ca_key)).unwrap().pem()).unwrap();
    std::fs::write(path("client.key"), key.serialize_pem()).unwrap();

    // As docs/client-certificates.md says it, but for every webhook: the port isn't known yet.
    let user =
        json!({"name": "*", "user": {"client-certificate": path("client.crt"), "client-key": path("client.key")}});
    let kubeconfig = json!({"apiVersion": "v1", "kind": "Config", "users": [user]});
    std::fs::write(path("webhooks.kubeconfig"), kubeconfig.to_string()).unwrap();
    let plugin = |name: &str| {
        json!({"name": name, "configuration": {"apiVersion": "apiserver.config.k8s.io/v1", "kind": "WebhookAdmissionConfiguration",
               "kubeConfigFile": path("webhooks.kubeconfig")}})
    };
    let admission = json!({"apiVersion": "apiserver.config.k8s.io/v1", "kind": "AdmissionConfiguration",
        "plugins": [plugin("MutatingAdmissionWebhook"), plugin("ValidatingAdmissionWebhook")]});
    std::fs::write(path("admission.yaml"), admission.to_string()).unwrap();

    let plane = ControlPlane::start_with(&["--admission-control-config-file", &path("admission.yaml")]);
    let webhook = Webhook::start(&plane, &["--client-ca", &path("ca.crt")]);
    let namespace = plane.namespace("ci");
    // Waits until a pod comes back with its stamp.
    webhook.register(&plane, &namespace, "Fail");
    assert_eq!(webhook.metric("podlayer_rejected_total{reason=\"handshake\"}"), 0.0);

    // Another API server, which shows nothing, is turned away.
    let stranger = ControlPlane::shared();
    let elsewhere = stranger.namespace("ci");
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": elsewhere,
        "labels": {"podlayer.dev/enabled": "true"}}, "spec": {"containers": [{"name": "a", "image": "b"}]}});
    webhook.configure(stranger, &elsewhere, "Fail");
    wait_until(Duration::from_secs(30), "the stranger to be turned away", || {
        let refused = stranger.kubectl_in(&["create", "--dry-run=server", "-f", "-"], &pod.to_string());
        refused.stderr.contains("failed calling webhook") && refused.stderr.contains("certificate required")
    });
    assert!(webhook.metric("podlayer_rejected_total{reason=\"handshake\"}") >= 1.0);
    Webhook::unregister(stranger, &elsewhere);
}
