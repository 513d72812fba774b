//! Calls back to Azure DevOps, to say that an agent won't come. Where to is said by the call that asked for the agent, so
//! only hosts of Azure DevOps are called, over TLS, and no redirect is followed: who signs calls shall not thereby reach
//! whatever this process can reach.

use std::{sync::Arc, time::Duration};

use axum::{
    body::Body,
    http::{
        Method, Request, Uri,
        header::{AUTHORIZATION, CONNECTION, CONTENT_TYPE, HOST},
        uri::InvalidUri,
    },
};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::{
    ClientConfig, RootCertStore,
    crypto::ring,
    pki_types::{CertificateDer, InvalidDnsNameError, ServerName, pem::PemObject},
};
use serde_json::json;
use tokio::{net::TcpStream, time::timeout};
use tokio_rustls::TlsConnector;

/// How long one may take. Nothing waits for it.
const PATIENCE: Duration = Duration::from_secs(10);
/// Azure DevOps' own host, and the ending of the older ones.
const HOST_OF_ALL: &str = "dev.azure.com";
const ENDING: &str = ".visualstudio.com";

/// How to call back.
#[derive(Clone, Debug)]
pub struct Callbacks {
    /// Hosts that may be called too, with their ports if they aren't 443.
    hosts: Vec<String>,
    tls: Arc<ClientConfig>,
}

/// Why a call back failed. None of them quotes what was sent.
#[derive(Debug, thiserror::Error)]
pub enum CallbackError {
    /// The certificates of `--callback-ca` can't be read.
    #[error("the certificates for calls back can't be read: PEM is needed")]
    Authority(#[source] rustls::pki_types::pem::Error),
    /// Not all of them can be used.
    #[error("the certificates for calls back can't be used")]
    Certificate(#[source] rustls::Error),
    /// The host can't be reached.
    #[error("the host can't be reached")]
    Connect(#[source] std::io::Error),
    /// The host isn't one that is called.
    #[error("only hosts of Azure DevOps are called, over https")]
    Host,
    /// It isn't HTTP what it answers.
    #[error("the host doesn't speak HTTP")]
    Http(#[source] hyper::Error),
    /// The host's name is none.
    #[error("the host has no name")]
    Name(#[source] InvalidDnsNameError),
    /// The request can't be made.
    #[error("the request can't be made")]
    Request(#[source] axum::http::Error),
    /// It answered something else than success.
    #[error("the host answered {0}")]
    Status(u16),
    /// It took too long.
    #[error("no answer within {PATIENCE:?}")]
    Timeout,
    /// The URL is none.
    #[error("the URL can't be read")]
    Url(#[source] InvalidUri),
}

impl Callbacks {
    /// For Azure DevOps and these hosts, whose certificates are signed by a public authority or one of these (PEM).
    ///
    /// # Errors
    /// [`CallbackError::Authority`], [`CallbackError::Certificate`].
    pub fn new(hosts: Vec<String>, authorities: Option<&[u8]>) -> Result<Self, CallbackError> {
        let mut roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
        for certificate in CertificateDer::pem_slice_iter(authorities.unwrap_or_default()) {
            roots.add(certificate.map_err(CallbackError::Authority)?).map_err(CallbackError::Certificate)?;
        }
        let tls = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(CallbackError::Certificate)?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Self { hosts: hosts.iter().map(|host| host.to_ascii_lowercase()).collect(), tls: Arc::new(tls) })
    }

    /// Whether a URL may be called.
    pub(super) fn allows(&self, url: &str) -> bool {
        self.target(url).is_ok()
    }

    /// Posts a message.
    pub(super) async fn post(&self, url: &str, token: Option<&str>, message: &str) -> Result<(), CallbackError> {
        timeout(PATIENCE, self.send(url, token, message)).await.map_err(|_| CallbackError::Timeout)?
    }

    fn target(&self, url: &str) -> Result<(Uri, String, u16), CallbackError> {
        let uri: Uri = url.parse().map_err(CallbackError::Url)?;
        let authority = uri.authority().ok_or(CallbackError::Host)?.as_str().to_ascii_lowercase();
        let host = uri.host().unwrap_or_default().to_ascii_lowercase();
        let port = uri.port_u16().unwrap_or(443);
        let theirs = host == HOST_OF_ALL || host.strip_suffix(ENDING).is_some_and(|name| !name.is_empty());
        let named = self.hosts.iter().any(|named| *named == authority || (*named == host && port == 443));
        let allowed =
            uri.scheme_str() == Some("https") && !authority.contains('@') && (named || (theirs && port == 443));
        allowed.then_some((uri, host, port)).ok_or(CallbackError::Host)
    }

    async fn send(&self, url: &str, token: Option<&str>, message: &str) -> Result<(), CallbackError> {
        let (uri, host, port) = self.target(url)?;
        let tcp = TcpStream::connect((host.as_str(), port)).await.map_err(CallbackError::Connect)?;
        let name = ServerName::try_from(host.clone()).map_err(CallbackError::Name)?;
        let tls = TlsConnector::from(Arc::clone(&self.tls)).connect(name, tcp).await.map_err(CallbackError::Connect)?;
        let (mut sender, connection) = http1::handshake(TokioIo::new(tls)).await.map_err(CallbackError::Http)?;
        // It ends with the answer, and its error is the sender's too.
        let driver = tokio::spawn(connection);
        let path = uri.path_and_query().map_or("/", |path| path.as_str());
        let mut request = Request::builder()
            .method(Method::POST)
            .uri(path)
            .header(HOST, if port == 443 { host } else { format!("{host}:{port}") })
            .header(CONTENT_TYPE, "application/json")
            .header(CONNECTION, "close");
        if let Some(token) = token {
            request = request.header(AUTHORIZATION, format!("Bearer {token}"));
        }
        let body = Body::from(json!({"message": message}).to_string());
        let answer = sender.send_request(request.body(body).map_err(CallbackError::Request)?).await;
        driver.abort();
        match answer.map_err(CallbackError::Http)?.status() {
            status if status.is_success() => Ok(()),
            status => Err(CallbackError::Status(status.as_u16())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_hosts_of_azure_devops_and_those_that_are_named_are_called() {
        let callbacks = Callbacks::new(vec!["Tfs.example.com".into(), "localhost:8443".into()], None).unwrap();
        for (url, allowed) in [
            ("https://dev.azure.com/org/_apis/x?y=z", true),
            ("https://DEV.azure.com/org", true),
            ("https://dev.azure.com:443/org", true),
            ("https://org.visualstudio.com/x", true),
            ("https://tfs.example.com/x", true),
            ("https://localhost:8443/x", true),
            ("http://dev.azure.com/org", false),
            ("https://dev.azure.com:8443/org", false),
            ("https://dev.azure.com@evil.example/org", false),
            ("https://dev.azure.com.evil.example/org", false),
            ("https://.visualstudio.com/", false),
            ("https://evilvisualstudio.com/", false),
            ("https://visualstudio.com.evil.example/", false),
            ("https://169.254.169.254/latest/meta-data", false),
            ("https://localhost:8444/x", false),
            ("https://localhost/x", false),
            ("https://kubernetes.default.svc/api", false),
            ("file:///etc/passwd", false),
            ("/relative", false),
            ("", false),
        ] {
            assert_eq!(callbacks.allows(url), allowed, "{url}");
        }
    }
}
