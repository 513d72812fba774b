use std::net::{Ipv4Addr, SocketAddr};

use axum::Router;
use axum::routing::get;
use podlayer::server::{Drain, Limits, Readiness, bind, serve_admin};
use podlayer::telemetry::Metrics;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::within;

struct Admin {
    address: SocketAddr,
    drain: Drain,
    readiness: Readiness,
    metrics: Metrics,
}

impl Admin {
    async fn start() -> Self {
        let drain = Drain::new();
        let readiness = Readiness::new(drain.clone());
        let metrics = Metrics::new();
        let listener = bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).await.unwrap();
        let address = listener.local_addr().unwrap();
        let layers = Router::new().route("/layers", get(async || "default/base\n"));
        tokio::spawn(serve_admin(listener, readiness.clone(), layers, Limits::admin(), metrics.clone()));
        Self { address, drain, readiness, metrics }
    }

    /// Status, head and body of one request on a connection of its own.
    async fn ask(&self, method: &str, path: &str) -> (u16, String, String) {
        let mut tcp = TcpStream::connect(self.address).await.unwrap();
        let request = format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        tcp.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        within(tcp.read_to_string(&mut answer)).await.unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head.split(' ').nth(1).unwrap().parse().unwrap(), head.to_owned(), body.to_owned())
    }

    async fn get(&self, path: &str) -> (u16, String) {
        let (status, _, body) = self.ask("GET", path).await;
        (status, body)
    }
}

#[tokio::test]
async fn readiness_names_what_is_missing_one_a_line() {
    let admin = Admin::start().await;
    assert_eq!(admin.get("/readyz").await, (200, "ok\n".to_owned()));
    let snapshot = admin.readiness.condition("snapshot", "not every layer has been read yet");
    let certificate = admin.readiness.condition("certificate", "the CA isn't published yet");
    assert_eq!(
        admin.get("/readyz").await,
        (503, "snapshot: not every layer has been read yet\ncertificate: the CA isn't published yet\n".to_owned())
    );
    snapshot.set(true);
    certificate.set(true);
    assert_eq!(admin.get("/readyz").await, (200, "ok\n".to_owned()));
    admin.drain.start();
    let (status, text) = admin.get("/readyz").await;
    assert_eq!(status, 503);
    assert!(text.starts_with("stopping: "), "{text}");
    assert_eq!(admin.get("/livez").await, (200, "ok\n".to_owned()), "stopping is no reason to be killed");
}

#[tokio::test]
async fn metrics_are_prometheus_text() {
    let admin = Admin::start().await;
    admin.metrics.panicked();
    let (status, head, body) = admin.ask("GET", "/metrics").await;
    assert_eq!(status, 200);
    assert!(head.to_ascii_lowercase().contains("content-type: text/plain; version=0.0.4; charset=utf-8"), "{head}");
    assert!(body.contains("# TYPE podlayer_panics_total counter\npodlayer_panics_total 1\n"), "{body}");
    // Scrapes and probes are no calls.
    assert!(body.contains("podlayer_requests_total{path=\"other\",outcome=\"answered\"} 0\n"), "{body}");
}

#[tokio::test]
async fn what_the_caller_adds_is_served_beside_and_the_rest_is_told_apart() {
    let admin = Admin::start().await;
    assert_eq!(admin.get("/layers").await, (200, "default/base\n".to_owned()));
    let serves = "GET /readyz, GET /livez, GET /metrics, GET /layers";
    assert_eq!(admin.get("/").await, (404, format!("podlayer: there is nothing at /; served here: {serves}\n")));
    let (status, _, body) = admin.ask("DELETE", "/layers").await;
    assert_eq!((status, body), (405, format!("podlayer: /layers does not take DELETE; served here: {serves}\n")));
}
