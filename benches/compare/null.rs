//! The floor under every webhook in Rust: the same libraries as podlayer's, and no work but reading the uid.

use std::{borrow::Cow, error::Error, io, net::SocketAddr, path::Path, sync::Arc};

use axum::{
    Router,
    body::Bytes,
    extract::DefaultBodyLimit,
    http::{StatusCode, header},
    response::{IntoResponse, Response},
    routing::post,
};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use rustls::{
    ServerConfig,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
};
use serde::Deserialize;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

#[derive(Deserialize)]
struct Review<'r> {
    #[serde(borrow)]
    request: Request<'r>,
}

#[derive(Deserialize)]
struct Request<'r> {
    #[serde(borrow)]
    uid: Cow<'r, str>,
}

/// Serves until it is killed, with the certificate in a folder.
pub(crate) fn serve(address: SocketAddr, folder: &Path) -> Result<(), Box<dyn Error>> {
    let certificates = CertificateDer::pem_file_iter(folder.join("tls.crt"))?.collect::<Result<Vec<_>, _>>()?;
    let key = PrivateKeyDer::from_pem_file(folder.join("tls.key"))?;
    let mut tls = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(certificates, key)?;
    tls.alpn_protocols = vec![b"http/1.1".to_vec()];
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    Ok(runtime.block_on(accept(address, TlsAcceptor::from(Arc::new(tls))))?)
}

async fn accept(address: SocketAddr, tls: TlsAcceptor) -> io::Result<()> {
    let router = Router::new().route("/mutate", post(answer)).layer(DefaultBodyLimit::disable());
    let listener = TcpListener::bind(address).await?;
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let (tls, router) = (tls.clone(), router.clone());
        tokio::spawn(async move {
            // A caller who goes is no error of the server's.
            let Ok(stream) = tls.accept(stream).await else { return };
            let mut server = hyper::server::conn::http1::Builder::new();
            let served = server
                .timer(TokioTimer::new())
                .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
            let _ = served.await;
        });
    }
}

async fn answer(body: Bytes) -> Response {
    match serde_json::from_slice::<Review<'_>>(&body) {
        Ok(Review { request }) => {
            let answer = format!(
                r#"{{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":{{"uid":"{}","allowed":true}}}}"#,
                request.uid
            );
            ([(header::CONTENT_TYPE, "application/json")], answer).into_response()
        }
        Err(error) => (StatusCode::BAD_REQUEST, error.to_string()).into_response(),
    }
}
