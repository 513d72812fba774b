use std::error::Error;

use axum::http::{Method, Request, header};
use http_body_util::BodyExt;
use kube::{
    Client,
    client::Body,
    config::{Config, KubeConfigOptions, Kubeconfig},
};
use serde_json::Value;

/// The API server, asked in its own words: no types, so that reading answers costs the caller little.
#[derive(Clone)]
pub(crate) struct Api(Client);

impl Api {
    pub(crate) async fn connect(kubeconfig: &str) -> Result<Self, Box<dyn Error>> {
        // Only an embedding program could have set another.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let config = Kubeconfig::read_from(kubeconfig)?;
        let config = Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await?;
        Ok(Self(Client::try_from(config)?))
    }

    /// Makes an object from JSON; gives what the API server made of it.
    pub(crate) async fn create(&self, path: &str, object: Vec<u8>) -> kube::Result<String> {
        self.ask(Method::POST, path, "application/json", object).await
    }

    /// Changes an object by a merge patch.
    pub(crate) async fn patch(&self, path: &str, patch: &Value) -> kube::Result<String> {
        self.ask(Method::PATCH, path, "application/merge-patch+json", patch.to_string().into_bytes()).await
    }

    pub(crate) async fn get(&self, path: &str) -> kube::Result<String> {
        self.ask(Method::GET, path, "application/json", Vec::new()).await
    }

    pub(crate) async fn delete(&self, path: &str) -> kube::Result<String> {
        self.ask(Method::DELETE, path, "application/json", Vec::new()).await
    }

    /// How many bytes an object has in the form in which it is stored.
    pub(crate) async fn stored_bytes(&self, path: &str) -> Result<usize, Box<dyn Error>> {
        let accepted = "application/vnd.kubernetes.protobuf";
        let request = Request::get(path).header(header::ACCEPT, accepted).body(Body::empty())?;
        let answer = self.0.send(request).await?;
        if !answer.status().is_success() {
            return Err(format!("GET {path}: {}", answer.status()).into());
        }
        Ok(answer.into_body().collect().await?.to_bytes().len())
    }

    async fn ask(&self, method: Method, path: &str, kind: &str, body: Vec<u8>) -> kube::Result<String> {
        let request = Request::builder().method(method).uri(path).header(header::CONTENT_TYPE, kind).body(body);
        self.0.request_text(request.map_err(kube::Error::HttpError)?).await
    }
}
