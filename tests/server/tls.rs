use std::sync::Arc;
use std::time::Duration;

use podlayer::server::Limits;
use rustls::RootCertStore;
use rustls::client::WantsClientCert;
use rustls::crypto::ring;
use rustls::pki_types::UnixTime;
use rustls::time_provider::TimeProvider;
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, ConfigBuilder, ProtocolVersion};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::support::{Client, Served, measuring, patient, within};

async fn connect_offering(served: &Served, protocols: &[&str]) -> std::io::Result<Client> {
    let mut config = served.client_config();
    config.alpn_protocols = protocols.iter().map(|protocol| protocol.as_bytes().to_vec()).collect();
    served.connect_with(served.tcp().await, config).await
}

#[tokio::test]
async fn http_1_1_is_chosen_even_when_http_2_is_offered_first() {
    let served = Served::start(measuring(), patient()).await;
    let mut client = connect_offering(&served, &["h2", "http/1.1"]).await.unwrap();
    assert_eq!(client.stream.get_ref().1.alpn_protocol(), Some(&b"http/1.1"[..]));
    assert_eq!(client.post("/mutate?timeout=7s", b"{}").await.status, 200);
}

#[tokio::test]
async fn who_offers_no_protocol_is_served_and_who_offers_only_http_2_is_not() {
    let served = Served::start(measuring(), patient()).await;
    let mut client = connect_offering(&served, &[]).await.unwrap();
    assert_eq!(client.post("/mutate", b"{}").await.status, 200);
    assert!(connect_offering(&served, &["h2"]).await.is_err());
    served.until_metric("podlayer_rejected_total{reason=\"handshake\"} 1").await;
}

#[tokio::test]
async fn tls_1_2_and_1_3_are_spoken() {
    let served = Served::start(measuring(), patient()).await;
    for (version, number) in [(&TLS12, ProtocolVersion::TLSv1_2), (&TLS13, ProtocolVersion::TLSv1_3)] {
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_protocol_versions(&[version])
            .unwrap()
            .with_root_certificates(Arc::clone(&served.roots))
            .with_no_client_auth();
        let mut client = served.connect_with(served.tcp().await, config).await.unwrap();
        assert_eq!(client.stream.get_ref().1.protocol_version(), Some(number));
        assert_eq!(client.post("/mutate", b"{}").await.status, 200);
    }
}

#[tokio::test]
async fn a_caller_whose_clock_is_four_minutes_behind_trusts_the_certificate() {
    #[derive(Debug)]
    struct Behind;
    impl TimeProvider for Behind {
        fn current_time(&self) -> Option<UnixTime> {
            let now = Duration::from_secs(UnixTime::now().as_secs());
            Some(UnixTime::since_unix_epoch(now - Duration::from_secs(4 * 60)))
        }
    }
    let served = Served::start(measuring(), patient()).await;
    let builder: ConfigBuilder<ClientConfig, WantsClientCert> =
        ClientConfig::builder_with_details(Arc::new(ring::default_provider()), Arc::new(Behind))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(Arc::clone(&served.roots));
    assert!(served.connect_with(served.tcp().await, builder.with_no_client_auth()).await.is_ok());
}

#[tokio::test]
async fn a_caller_that_does_not_trust_the_certificate_is_counted() {
    let served = Served::start(measuring(), patient()).await;
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(RootCertStore::empty())
        .with_no_client_auth();
    assert!(served.connect_with(served.tcp().await, config).await.is_err());
    served.until_metric("podlayer_rejected_total{reason=\"handshake\"} 1").await;
}

#[tokio::test]
async fn a_handshake_that_stalls_is_cut_and_holds_up_nobody() {
    let served = Served::start(measuring(), Limits { handshake: Duration::from_secs(2), ..patient() }).await;
    let mut silent = served.tcp().await;
    let mut halfway = served.tcp().await;
    // The beginning of a ClientHello that never goes on.
    halfway.write_all(&[0x16, 0x03, 0x01, 0x02, 0x00, 0x01]).await.unwrap();
    let mut client = served.connect().await;
    assert_eq!(client.post("/mutate", b"{}").await.status, 200);
    for tcp in [&mut silent, &mut halfway] {
        assert!(matches!(within(tcp.read(&mut [0; 16])).await, Ok(0) | Err(_)));
    }
    served.until_metric("podlayer_rejected_total{reason=\"handshake_timeout\"} 2").await;
    assert_eq!(client.post("/mutate", b"{}").await.status, 200, "the limit is the handshake's only");
}

#[tokio::test]
async fn who_speaks_plain_http_is_told_to_use_https() {
    let served = Served::start(measuring(), patient()).await;
    let mut tcp = served.tcp().await;
    tcp.write_all(b"GET /mutate HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
    let mut answer = String::new();
    within(tcp.read_to_string(&mut answer)).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 400 ") && answer.contains("speaks HTTPS"), "{answer}");
}

#[tokio::test]
async fn who_connects_and_leaves_is_no_failure() {
    let served = Served::start(measuring(), patient()).await;
    drop(served.tcp().await);
    served.connect().await.close().await;
    served.until_metric("podlayer_connections 0").await;
    assert!(served.metrics.text().contains("podlayer_rejected_total{reason=\"handshake\"} 0\n"));
}
