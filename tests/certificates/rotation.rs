//! CAs and leaves that last for seconds.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use k8s_openapi::api::{
    admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration},
    core::v1::Secret,
};
use kube::{Api, Client};
use podlayer::certs::lifetimes::Lifetimes;
use podlayer::certs::managed::{Managed, ObjectNames};
use podlayer::server::{Drain, Limits, bind, serve, server_config};
use podlayer::telemetry::Metrics;
use podlayer::{cluster, names};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};
use tokio_rustls::TlsConnector;

use crate::controlplane::ControlPlane;
use crate::installation::{Installation, KINDS};

/// A rotation each ten seconds, and leaves that are renewed each five. Certificates know whole seconds only, and a busy
/// machine may stop for one.
const LIFETIMES: Lifetimes = Lifetimes {
    ca: Duration::from_secs(15),
    leaf: Duration::from_secs(8),
    skew: Duration::from_secs(1),
    settle: Duration::from_secs(1),
    propagation: Duration::from_millis(200),
};
const POLL: Duration = Duration::from_millis(200);
/// Only against tests that hang.
const HANG: Duration = Duration::from_secs(90);

/// A replica, behind a listener of its own.
struct Replica {
    address: SocketAddr,
    trusted: watch::Receiver<bool>,
    metrics: Metrics,
    tasks: JoinSet<()>,
}

impl Replica {
    async fn start(client: &Client, installation: &Installation<'_>) -> Self {
        let objects = ObjectNames {
            namespace: installation.own.clone(),
            secret: names::CA_SECRET.to_owned(),
            mutating: installation.name.clone(),
            validating: installation.name.clone(),
        };
        let metrics = Metrics::new();
        let dns_names = vec![server_name(installation)];
        let managed = Managed::new(client, &objects, dns_names, LIFETIMES, POLL, metrics.clone()).unwrap();
        let trusted = managed.trusted();
        let listener = bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).await.unwrap();
        let address = listener.local_addr().unwrap();
        let tls = server_config(managed.serving()).unwrap();
        let mut tasks = JoinSet::new();
        let served = serve(listener, tls, Router::new(), Limits::default(), Drain::new(), metrics.clone());
        tasks.spawn(async move { served.await.unwrap() });
        tasks.spawn(async move { managed.run().await });
        Self { address, trusted, metrics, tasks }
    }

    async fn until_trusted(&mut self) {
        timeout(HANG, self.trusted.wait_for(|trusted| *trusted)).await.expect("it is never trusted").unwrap();
    }

    /// A handshake as of a caller that trusts the CAs in this PEM.
    async fn handshake(&self, name: &str, bundle: &[u8]) -> std::io::Result<()> {
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(bundle) {
            roots.add(certificate.unwrap()).unwrap();
        }
        let config = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let tcp = TcpStream::connect(self.address).await?;
        let name = ServerName::try_from(name.to_owned()).unwrap();
        TlsConnector::from(Arc::new(config)).connect(name, tcp).await.map(|_| ())
    }
}

/// What API servers are to trust, as they read it themselves.
struct Bundles {
    mutating: Api<MutatingWebhookConfiguration>,
    validating: Api<ValidatingWebhookConfiguration>,
    name: String,
}

impl Bundles {
    async fn read(&self) -> Vec<Vec<u8>> {
        let mutating = self.mutating.get(&self.name).await.unwrap().webhooks.unwrap();
        let validating = self.validating.get(&self.name).await.unwrap().webhooks.unwrap();
        let configs = mutating.into_iter().map(|hook| hook.client_config);
        let configs = configs.chain(validating.into_iter().map(|hook| hook.client_config));
        configs.map(|config| config.ca_bundle.map(|bundle| bundle.0).unwrap_or_default()).collect()
    }
}

fn server_name(installation: &Installation<'_>) -> String {
    format!("podlayer.{}.svc", installation.own)
}

async fn client(plane: &ControlPlane) -> Client {
    // Another test of this process may have been first.
    let _ = rustls::crypto::ring::default_provider().install_default();
    cluster::client(Some(Path::new(plane.kubeconfig())), None).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_rotations_of_three_replicas_fail_no_handshake() {
    let plane = ControlPlane::shared();
    let installation = Installation::new(plane, 443);
    let client = client(plane).await;
    let mut replicas = Vec::new();
    for _ in 0..3 {
        replicas.push(Replica::start(&client, &installation).await);
    }
    // Nothing is served before the CA is in the configurations, and that is a clean failure.
    assert!(replicas[0].handshake("a.example", b"").await.is_err());
    for replica in &mut replicas {
        replica.until_trusted().await;
    }

    let name = server_name(&installation);
    let bundles = Bundles {
        mutating: Api::all(client.clone()),
        validating: Api::all(client.clone()),
        name: installation.name.clone(),
    };
    let secrets: Api<Secret> = Api::namespaced(client.clone(), &installation.own);
    let (mut authorities, mut handshakes, mut most) = (BTreeSet::new(), 0, 0);
    let start = Instant::now();
    while authorities.len() < 4 {
        assert!(start.elapsed() < HANG, "rotations have ended after {}", authorities.len());
        let secret = secrets.get(names::CA_SECRET).await.unwrap().data.unwrap();
        authorities.insert(secret["current.crt"].0.clone());
        let found = bundles.read().await;
        assert_eq!(found.len(), 3);
        for bundle in &found {
            most = most.max(CertificateDer::pem_slice_iter(bundle).count());
            for (place, replica) in replicas.iter().enumerate() {
                let shaken = replica.handshake(&name, bundle).await;
                assert!(shaken.is_ok(), "replica {place}, handshake {handshakes}: {shaken:?}");
                handshakes += 1;
                assert!(*replica.trusted.borrow(), "replica {place} is trusted all the time");
            }
        }
        sleep(Duration::from_millis(30)).await;
    }
    assert!(handshakes > 500, "only {handshakes}");
    // The current one, the next, and up to two before, for a rotation takes little longer than a leaf lasts.
    assert!((2..=4).contains(&most), "up to {most} CAs at once");
    for replica in &replicas {
        let text = replica.metrics.text();
        for line in [
            "podlayer_ca_bundle_in_sync 1",
            "podlayer_certificate_expiry_timestamp_seconds{certificate=\"ca\"}",
            "podlayer_certificate_expiry_timestamp_seconds{certificate=\"serving\"}",
        ] {
            assert!(text.lines().any(|found| found.starts_with(line)), "{line} is missing in\n{text}");
        }
    }
    owns_bundles_only(&installation);
}

/// podlayer's field manager has applied `caBundle` of each entry, and nothing else.
fn owns_bundles_only(installation: &Installation<'_>) {
    for (kind, entries) in KINDS.into_iter().zip([&["jobs", "pods"][..], &["jobs"]]) {
        let configuration = installation.configuration(kind);
        let managers = configuration["metadata"]["managedFields"].as_array().unwrap();
        let ours: Vec<&Value> = managers.iter().filter(|found| found["manager"] != "helm").collect();
        assert_eq!(ours.len(), 1, "{kind}: {managers:?}");
        assert_eq!(ours[0]["manager"], names::FIELD_MANAGER_CA_BUNDLE);
        assert_eq!(ours[0]["operation"], "Apply");
        let entry = json!({".": {}, "f:name": {}, "f:clientConfig": {"f:caBundle": {}}});
        let want: serde_json::Map<String, Value> =
            entries.iter().map(|name| (format!("k:{{\"name\":\"{name}.podlayer.dev\"}}"), entry.clone())).collect();
        assert_eq!(ours[0]["fieldsV1"], json!({"f:webhooks": want}), "{kind}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_upgrade_keeps_the_bundle_and_what_takes_it_away_is_repaired() {
    let plane = ControlPlane::shared();
    let installation = Installation::new(plane, 443);
    let client = client(plane).await;
    let mut replica = Replica::start(&client, &installation).await;
    replica.until_trusted().await;
    let before = installation.bundles();
    assert!(!before[0].is_empty() && before.iter().all(|bundle| *bundle == before[0]), "{before:?}");
    installation.apply();
    assert_eq!(installation.bundles(), before, "a server-side apply without caBundle leaves it");

    let whole = |bundles: &[String]| !bundles[0].is_empty() && bundles.iter().all(|bundle| *bundle == bundles[0]);
    installation.replace();
    until(|| whole(&installation.bundles()), "the bundle is repaired").await;
    // Emptied, the Secret is filled anew, and the CA before is trusted until its leaves have ended.
    let emptied = plane.kubectl(&[
        "patch",
        "secret",
        names::CA_SECRET,
        "-n",
        &installation.own,
        "--type=json",
        "-p",
        r#"[{"op": "remove", "path": "/data"}]"#,
    ]);
    assert!(emptied.ok, "{}", emptied.stderr);
    let data = || plane.get_json(&["secret", names::CA_SECRET, "-n", &installation.own])["data"].clone();
    until(|| data()["current.key"].is_string() && data()["previous.crt"].is_string(), "a new CA").await;
    // Deleted, it is missed and told, and serving goes on.
    let deleted = plane.kubectl(&["delete", "secret", names::CA_SECRET, "-n", &installation.own]);
    assert!(deleted.ok, "{}", deleted.stderr);
    let failed = "podlayer_certificate_reloads_total{result=\"failed\"} 0";
    until(|| !replica.metrics.text().contains(failed), "the look that finds no Secret").await;
    assert!(*replica.trusted.borrow());
    replica.tasks.abort_all();
}

async fn until(so: impl Fn() -> bool, what: &str) {
    let start = Instant::now();
    while !so() {
        assert!(start.elapsed() < HANG, "this never came: {what}");
        sleep(Duration::from_millis(50)).await;
    }
}
