//! Only callers with a certificate of the named CA are served, where there is one.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;

use podlayer::certs::clients::Clients;
use podlayer::certs::serving::Serving;
use podlayer::server::{Drain, bind, serve, server_config_for_known, with_fallbacks};
use podlayer::telemetry::Metrics;
use rcgen::{BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};
use rustls::ClientConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::support::{SERVES, Served, local_authority, local_pair, measuring, patient};

/// A CA of callers, such as an operator has.
struct CallerCa(Issuer<'static, KeyPair>, String);

impl CallerCa {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        Self(Issuer::new(params, key), pem)
    }

    fn caller(&self, purpose: ExtendedKeyUsagePurpose) -> (CertificateDer<'static>, PrivateKeyDer<'static>) {
        let mut params = CertificateParams::new(vec!["apiserver".to_owned()]).unwrap();
        params.extended_key_usages = vec![purpose];
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.0).unwrap();
        (certificate.der().clone(), PrivateKeyDer::from_pem_slice(key.serialize_pem().as_bytes()).unwrap())
    }
}

async fn served(file: &Path) -> (Served, Arc<Clients>) {
    let (authority, roots) = local_authority();
    let metrics = Metrics::new();
    let serving = Serving::new(local_pair(&authority), metrics.clone());
    let clients = Clients::load(file.to_owned()).unwrap();
    let tls = server_config_for_known(serving, clients.clone()).unwrap();
    let listener = bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).await.unwrap();
    let (address, drain) = (listener.local_addr().unwrap(), Drain::new());
    let router = with_fallbacks(measuring(), SERVES);
    let task = tokio::spawn(serve(listener, tls, router, patient(), drain.clone(), metrics.clone()));
    (Served { address, drain, metrics, roots, task }, clients)
}

/// Whether a caller with this certificate gets an answer. With TLS 1.3 the caller's handshake is over before the server
/// has looked at the certificate, so only the answer tells.
async fn is_served(served: &Served, caller: Option<(CertificateDer<'static>, PrivateKeyDer<'static>)>) -> bool {
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(Arc::clone(&served.roots));
    let config = match caller {
        Some((certificate, key)) => builder.with_client_auth_cert(vec![certificate], key).unwrap(),
        None => builder.with_no_client_auth(),
    };
    let Ok(mut client) = served.connect_with(served.tcp().await, config).await else { return false };
    client.send_post("/mutate", b"{}").await;
    client.try_answer().await.is_some_and(|answer| answer.status == 200)
}

#[tokio::test]
async fn callers_without_a_certificate_of_the_ca_are_turned_away_and_a_new_ca_counts_for_the_next() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("ca.crt");
    let [ours, other] = [CallerCa::new(), CallerCa::new()];
    std::fs::write(&file, &ours.1).unwrap();
    let (served, clients) = served(&file).await;
    let client = || ExtendedKeyUsagePurpose::ClientAuth;
    assert!(is_served(&served, Some(ours.caller(client()))).await);
    assert!(!is_served(&served, None).await);
    assert!(!is_served(&served, Some(other.caller(client()))).await);
    assert!(
        !is_served(&served, Some(ours.caller(ExtendedKeyUsagePurpose::ServerAuth))).await,
        "a server's is no caller's"
    );
    served.until_metric("podlayer_rejected_total{reason=\"handshake\"} 3").await;

    assert!(!clients.look().unwrap(), "nothing has changed");
    std::fs::write(&file, format!("{}{}", ours.1, other.1)).unwrap();
    assert!(clients.look().unwrap());
    for ca in [&ours, &other] {
        assert!(is_served(&served, Some(ca.caller(client()))).await, "both count while a CA is replaced");
    }
    for broken in ["", "-----BEGIN CERTIFICATE-----\nbm9uc2Vuc2U=\n-----END CERTIFICATE-----\n", &ours.1[..200]] {
        std::fs::write(&file, broken).unwrap();
        assert!(clients.look().is_err(), "{broken}");
        assert!(is_served(&served, Some(other.caller(client()))).await, "the CAs before still count");
    }
    std::fs::remove_file(&file).unwrap();
    assert!(clients.look().unwrap_err().to_string().contains("can't be read"));
    assert!(Clients::load(file).is_err(), "the first load fails at once");
}
