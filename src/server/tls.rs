//! How the webhook speaks TLS.

use std::sync::Arc;

use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{NoClientAuth, NoServerSessionStorage, ResolvesServerCert};
use rustls::version::{TLS12, TLS13};

/// TLS 1.2 and 1.3 with ring, and HTTP/1.1 as the only protocol: an API server that reaches a webhook by URL offers HTTP/2
/// first, and would speak it if it were taken.
///
/// No session is resumed: a resumed one is not shown the certificate, so it would outlive a renewal, and API servers
/// resume none.
///
/// # Errors
/// When ring lacks a cipher suite for one of the two versions, which would be a bad build.
pub fn server_config(certificate: Arc<dyn ResolvesServerCert>) -> Result<Arc<ServerConfig>, rustls::Error> {
    server_config_for_known(certificate, Arc::new(NoClientAuth))
}

/// As [`server_config`], for callers only whose certificate this verifier accepts.
///
/// # Errors
/// As [`server_config`].
pub fn server_config_for_known(
    certificate: Arc<dyn ResolvesServerCert>,
    callers: Arc<dyn ClientCertVerifier>,
) -> Result<Arc<ServerConfig>, rustls::Error> {
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(&[&TLS13, &TLS12])?
        .with_client_cert_verifier(callers)
        .with_cert_resolver(certificate);
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(Arc::new(config))
}
