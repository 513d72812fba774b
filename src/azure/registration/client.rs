use std::{error::Error, sync::Arc, time::Duration};

use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::{
    Method, Request, StatusCode,
    body::Bytes,
    header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderValue, USER_AGENT},
};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::{
    client::legacy::{Client as Http, connect::HttpConnector},
    rt::TokioExecutor,
};
use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, pem, pem::PemObject},
};
use serde::{Serialize, de::DeserializeOwned};

use super::{Organization, Pat};
use crate::{azure::SharedSecret, layers::complaint::Printable};

/// The largest answer that is read: the list of an organisation's pools has a few hundred bytes for each.
const MAX_ANSWER: usize = 8 << 20;
/// After these a call that only reads is made again, if the service said that it is busy or broken.
const AGAIN_AFTER: [Duration; 2] = [Duration::from_millis(250), Duration::from_secs(1)];
/// So much of what the service says of a failure is shown.
const SHOWN: usize = 300;

/// Calls Azure DevOps with a PAT. It follows no redirect: the PAT is for one host.
pub struct Client {
    organization: Organization,
    pat: Pat,
    authorization: HeaderValue,
    http: Http<HttpsConnector<HttpConnector>, Full<Bytes>>,
    timeout: Duration,
}

/// Why there is no client.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The file of authorities isn't PEM.
    #[error("the file of certificate authorities isn't whole PEM")]
    AuthorityPem(#[source] pem::Error),
    /// It has no certificate, or one that can't be an authority.
    #[error("the file of certificate authorities has no certificate that can be one")]
    NoAuthority,
    /// TLS can't be set up.
    #[error("failed to set up TLS")]
    Tls(#[source] rustls::Error),
}

/// A call that failed.
#[derive(Debug, thiserror::Error)]
#[error("failed to {act}")]
pub struct CallError {
    act: &'static str,
    #[source]
    refusal: Refusal,
}

/// Why a call failed.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    /// Nobody was reached, or the connection broke.
    #[error("Azure DevOps can't be reached")]
    Connection(#[source] Box<dyn Error + Send + Sync>),
    /// No right.
    #[error(
        "the PAT may not do this (403): it needs the scope Agent Pools (read and manage), and its owner must be an \
             administrator of the organisation's agent pools{0}"
    )]
    Forbidden(String),
    /// An answer that can't be read.
    #[error("Azure DevOps gave an answer that isn't the expected JSON")]
    Json(#[source] serde_json::Error),
    /// Too large an answer.
    #[error("the answer is larger than 8 MiB")]
    Large,
    /// Nothing is there.
    #[error(
        "there is nothing at this URI (404): the organisation's name is wrong, or agent clouds, a private preview, \
             aren't available to it{0}"
    )]
    NotFound(String),
    /// Sent elsewhere.
    #[error(
        "Azure DevOps answered with a redirect ({0}), which isn't followed with a PAT: the PAT isn't accepted, or \
             --uri is an old address"
    )]
    Redirect(StatusCode),
    /// A page for people.
    #[error(
        "Azure DevOps answered with a page to sign in at: the PAT is wrong, has expired or is another \
             organisation's"
    )]
    SignIn,
    /// Another status.
    #[error("Azure DevOps answered {status}{said}; what was made so far is found when this is run again")]
    Status {
        /// The status.
        status: StatusCode,
        /// What it said.
        said: String,
    },
    /// No answer in time.
    #[error("Azure DevOps gave no answer within {0:?}; what was made so far is found when this is run again")]
    Timeout(Duration),
    /// A wrong PAT.
    #[error("Azure DevOps doesn't accept the PAT (401): it is wrong, has expired or is another organisation's")]
    Unauthorized,
}

impl CallError {
    /// Whether somebody else made it first.
    pub(super) fn is_conflict(&self) -> bool {
        matches!(self.refusal, Refusal::Status { status: StatusCode::CONFLICT, .. })
    }
}

impl Client {
    /// A client that trusts the system's certificate authorities and those of a PEM text. Each call may take so long.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn new(
        organization: Organization,
        pat: Pat,
        authorities: Option<&[u8]>,
        timeout: Duration,
    ) -> Result<Self, ClientError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let tls = ClientConfig::builder_with_provider(provider);
        let tls = tls.with_safe_default_protocol_versions().map_err(ClientError::Tls)?;
        let tls = tls.with_root_certificates(trusted(authorities)?).with_no_client_auth();
        let connector = HttpsConnectorBuilder::new().with_tls_config(tls).https_or_http().enable_http1().build();
        let http = Http::builder(TokioExecutor::new()).build(connector);
        // A PAT is ASCII, so this doesn't happen; without it the service says 401.
        let authorization = pat.header().unwrap_or_else(|| HeaderValue::from_static(""));
        Ok(Self { organization, pat, authorization, http, timeout })
    }

    /// The organisation.
    pub fn organization(&self) -> &Organization {
        &self.organization
    }

    /// Reads something.
    pub(super) async fn get<T: DeserializeOwned>(&self, act: &'static str, path: &str) -> Result<T, CallError> {
        let mut waits = AGAIN_AFTER.into_iter();
        loop {
            let refusal = match self.call(Method::GET, path, Bytes::new(), None).await {
                Ok(answer) => return read(act, &answer),
                Err(refusal) => refusal,
            };
            let again = matches!(refusal, Refusal::Status { status, .. }
                if status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS);
            match waits.next() {
                Some(wait) if again => tokio::time::sleep(wait).await,
                _ => return Err(CallError { act, refusal }),
            }
        }
    }

    /// Makes something. What of the body is secret isn't shown, should the service repeat it.
    pub(super) async fn post<T: DeserializeOwned>(
        &self,
        act: &'static str,
        path: &str,
        body: &impl Serialize,
        secret: Option<&SharedSecret>,
    ) -> Result<T, CallError> {
        read(act, &self.send(act, Method::POST, path, body, secret).await?)
    }

    /// Changes something.
    pub(super) async fn patch(&self, act: &'static str, path: &str, body: &impl Serialize) -> Result<(), CallError> {
        self.send(act, Method::PATCH, path, body, None).await.map(drop)
    }

    /// Deletes something. That it is gone already is as good.
    pub(super) async fn delete(&self, act: &'static str, path: &str) -> Result<(), CallError> {
        match self.call(Method::DELETE, path, Bytes::new(), None).await {
            Ok(_) | Err(Refusal::NotFound(_)) => Ok(()),
            Err(refusal) => Err(CallError { act, refusal }),
        }
    }

    async fn send(
        &self,
        act: &'static str,
        method: Method,
        path: &str,
        body: &impl Serialize,
        secret: Option<&SharedSecret>,
    ) -> Result<Bytes, CallError> {
        let body = serde_json::to_vec(body).map_err(|error| CallError { act, refusal: Refusal::Json(error) })?;
        self.call(method, path, body.into(), secret).await.map_err(|refusal| CallError { act, refusal })
    }

    async fn call(
        &self,
        method: Method,
        path: &str,
        body: Bytes,
        secret: Option<&SharedSecret>,
    ) -> Result<Bytes, Refusal> {
        let call = self.call_in_any_time(method, path, body, secret);
        tokio::time::timeout(self.timeout, call).await.unwrap_or(Err(Refusal::Timeout(self.timeout)))
    }

    async fn call_in_any_time(
        &self,
        method: Method,
        path: &str,
        body: Bytes,
        secret: Option<&SharedSecret>,
    ) -> Result<Bytes, Refusal> {
        let request = Request::builder()
            .method(method)
            .uri(self.organization.call(path))
            .header(AUTHORIZATION, self.authorization.clone())
            .header(ACCEPT, "application/json")
            .header(CONTENT_TYPE, "application/json")
            .header(USER_AGENT, concat!("podlayer/", env!("CARGO_PKG_VERSION")))
            .body(Full::new(body));
        let request = request.map_err(|error| Refusal::Connection(error.into()))?;
        let answer = self.http.request(request).await.map_err(|error| Refusal::Connection(error.into()))?;
        let status = answer.status();
        if status.is_redirection() {
            return Err(Refusal::Redirect(status));
        }
        let kind = answer.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        let is_page = kind.starts_with("text/html");
        let body = Limited::new(answer.into_body(), MAX_ANSWER).collect().await.map_err(|error| {
            if error.is::<LengthLimitError>() { Refusal::Large } else { Refusal::Connection(error) }
        })?;
        let body = body.to_bytes();
        let said = || self.said(&body, secret);
        match status {
            // The service's way to say that it doesn't know the caller.
            StatusCode::NON_AUTHORITATIVE_INFORMATION => Err(Refusal::SignIn),
            _ if status.is_success() && is_page => Err(Refusal::SignIn),
            _ if status.is_success() => Ok(body),
            StatusCode::UNAUTHORIZED => Err(Refusal::Unauthorized),
            StatusCode::FORBIDDEN => Err(Refusal::Forbidden(said())),
            StatusCode::NOT_FOUND => Err(Refusal::NotFound(said())),
            _ => Err(Refusal::Status { status, said: said() }),
        }
    }

    /// What the service says of a failure, ready to stand behind ours.
    fn said(&self, body: &[u8], secret: Option<&SharedSecret>) -> String {
        #[derive(serde::Deserialize)]
        struct Failure {
            message: String,
        }
        let Ok(Failure { message }) = serde_json::from_slice(body) else { return String::new() };
        let mut message = self.pat.removed_from(&message);
        if let Some(secret) = secret.map(SharedSecret::text) {
            // As it is, and as it stands in the JSON that was sent.
            let quoted = serde_json::Value::from(secret).to_string();
            message = message.replace(quoted.trim_matches('"'), "…").replace(secret, "…");
        }
        let shown: String = message.chars().take(SHOWN).collect();
        format!(": {}", Printable(&shown))
    }
}

fn read<T: DeserializeOwned>(act: &'static str, answer: &[u8]) -> Result<T, CallError> {
    serde_json::from_slice(answer).map_err(|error| CallError { act, refusal: Refusal::Json(error) })
}

fn trusted(authorities: Option<&[u8]>) -> Result<RootCertStore, ClientError> {
    let mut roots = RootCertStore::empty();
    // Those that can't be read are left out, as everywhere.
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if roots.is_empty() {
        // As in podlayer's image.
        roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
    }
    if let Some(pem) = authorities {
        let more: Vec<CertificateDer<'static>> =
            CertificateDer::pem_slice_iter(pem).collect::<Result<_, _>>().map_err(ClientError::AuthorityPem)?;
        if roots.add_parsable_certificates(more).0 == 0 {
            return Err(ClientError::NoAuthority);
        }
    }
    Ok(roots)
}
