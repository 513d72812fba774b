//! A client that calls the webhook as an API server does: HTTPS with the webhook's CA, HTTP/1.1.

use std::{net::SocketAddr, sync::Arc};

use axum::body::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::{Request, header};
use hyper_util::rt::TokioIo;
use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, ServerName, pem::PemObject},
};
use serde_json::Value as Json;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::report::CliError;

/// A client of one address.
pub(super) struct Loopback {
    address: SocketAddr,
    tls: TlsConnector,
}

impl Loopback {
    /// A client that trusts one CA.
    pub(super) fn new(address: SocketAddr, ca: &str) -> Result<Self, CliError> {
        let fail = |error: Box<dyn std::error::Error + Send + Sync>| CliError::because("failed to trust the CA", error);
        let ca = CertificateDer::from_pem_slice(ca.as_bytes()).map_err(|error| fail(error.into()))?;
        let mut roots = RootCertStore::empty();
        roots.add(ca).map_err(|error| fail(error.into()))?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| fail(error.into()))?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Self { address, tls: TlsConnector::from(Arc::new(config)) })
    }

    /// Posts JSON and reads the JSON that comes back.
    pub(super) async fn post(&self, path: &str, body: &[u8]) -> Result<Json, CliError> {
        let fail =
            |error: Box<dyn std::error::Error + Send + Sync>| CliError::because("failed to call the webhook", error);
        let stream = TcpStream::connect(self.address).await.map_err(|error| fail(error.into()))?;
        let name = ServerName::from(self.address.ip());
        let stream = self.tls.connect(name, stream).await.map_err(|error| fail(error.into()))?;
        let handshake = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await;
        let (mut sender, connection) = handshake.map_err(|error| fail(error.into()))?;
        // Ends with the sender; what goes wrong in it is told by the answer.
        tokio::spawn(async move { _ = connection.await });
        let request = Request::post(path)
            .header(header::HOST, self.address.to_string())
            .header(header::CONTENT_TYPE, "application/json")
            .body(Full::new(Bytes::copy_from_slice(body)))
            .map_err(|error| fail(error.into()))?;
        let answer = sender.send_request(request).await.map_err(|error| fail(error.into()))?;
        let bytes = answer.into_body().collect().await.map_err(|error| fail(error.into()))?.to_bytes();
        serde_json::from_slice(&bytes).map_err(|error| fail(error.into()))
    }
}
