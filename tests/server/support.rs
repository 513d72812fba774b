//! A webhook server on a free port, and a client that does no more than it is told: it never retries, and shows each byte.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::routing::post;
use podlayer::certs::dev::Authority;
use podlayer::certs::serving::{Pair, Serving};
use podlayer::server::{Drain, Limits, ServeError, bind, serve, server_config, with_fallbacks};
use podlayer::telemetry::Metrics;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use time::OffsetDateTime;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinHandle;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// Only against tests that hang: far longer than anything here takes on a busy machine.
pub(crate) const HANG: Duration = Duration::from_secs(60);

pub(crate) const SERVES: &str = "POST /mutate, POST /validate";

pub(crate) struct Served {
    pub(crate) address: SocketAddr,
    pub(crate) drain: Drain,
    pub(crate) metrics: Metrics,
    pub(crate) roots: Arc<RootCertStore>,
    pub(crate) task: JoinHandle<Result<(), ServeError>>,
}

/// Limits under which nothing happens by time alone within a test, but for what it sets itself.
pub(crate) fn patient() -> Limits {
    Limits {
        handshake: HANG,
        head: HANG,
        idle: HANG,
        body: HANG,
        call: HANG,
        linger: HANG,
        drain: HANG,
        settle: Duration::ZERO,
        ..Limits::default()
    }
}

/// What answers with the length of the body that it got.
pub(crate) fn measuring() -> Router {
    let length = async |body: Bytes| body.len().to_string();
    Router::new().route("/mutate", post(length)).route("/validate", post(length))
}

pub(crate) fn local_authority() -> (Authority, Arc<RootCertStore>) {
    let authority = Authority::new(OffsetDateTime::now_utc()).unwrap();
    let roots = roots(&authority);
    (authority, roots)
}

pub(crate) fn roots(authority: &Authority) -> Arc<RootCertStore> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(authority.certificate().as_bytes()).unwrap()).unwrap();
    Arc::new(roots)
}

pub(crate) fn local_pair(authority: &Authority) -> Pair {
    let leaf = authority
        .leaf(&["localhost".to_owned()], &[IpAddr::V4(Ipv4Addr::LOCALHOST)], OffsetDateTime::now_utc())
        .unwrap();
    Pair::from_pem(leaf.certificate.as_bytes(), leaf.key.as_bytes()).unwrap()
}

impl Served {
    pub(crate) async fn start(router: Router, limits: Limits) -> Self {
        let (authority, roots) = local_authority();
        let metrics = Metrics::new();
        let serving = Serving::new(local_pair(&authority), metrics.clone());
        Self::start_with(serving, roots, router, limits, metrics).await
    }

    pub(crate) async fn start_with(
        serving: Arc<Serving>,
        roots: Arc<RootCertStore>,
        router: Router,
        limits: Limits,
        metrics: Metrics,
    ) -> Self {
        let listener = bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).await.unwrap();
        let address = listener.local_addr().unwrap();
        let drain = Drain::new();
        let tls = server_config(serving).unwrap();
        let router = with_fallbacks(router, SERVES);
        let task = tokio::spawn(serve(listener, tls, router, limits, drain.clone(), metrics.clone()));
        Self { address, drain, metrics, roots, task }
    }

    pub(crate) async fn tcp(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    pub(crate) async fn connect(&self) -> Client {
        self.connect_with(self.tcp().await, self.client_config()).await.unwrap()
    }

    /// A connection that seems to come from another machine.
    pub(crate) async fn connect_from(&self, from: Ipv4Addr) -> Client {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind(SocketAddr::from((from, 0))).unwrap();
        let tcp = socket.connect(self.address).await.unwrap();
        self.connect_with(tcp, self.client_config()).await.unwrap()
    }

    pub(crate) async fn connect_with(&self, tcp: TcpStream, config: ClientConfig) -> std::io::Result<Client> {
        tcp.set_nodelay(true).unwrap();
        let name = ServerName::try_from("localhost").unwrap();
        let stream = within(TlsConnector::from(Arc::new(config)).connect(name, tcp)).await?;
        Ok(Client::over(stream))
    }

    pub(crate) fn client_config(&self) -> ClientConfig {
        ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(Arc::clone(&self.roots))
            .with_no_client_auth()
    }

    /// Waits until the metrics hold this line.
    pub(crate) async fn until_metric(&self, line: &str) {
        until(|| self.metrics.text().lines().any(|found| found == line), line).await;
    }

    pub(crate) async fn ended(self) {
        within(self.task).await.unwrap().unwrap();
    }
}

pub(crate) struct Client {
    pub(crate) stream: TlsStream<TcpStream>,
    /// What came after the answer that was read last.
    kept: Vec<u8>,
}

#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Client {
    pub(crate) fn over(stream: TlsStream<TcpStream>) -> Self {
        Self { stream, kept: Vec::new() }
    }

    /// Posts JSON and reads the answer.
    pub(crate) async fn post(&mut self, path: &str, body: &[u8]) -> Answer {
        self.send_post(path, body).await;
        self.answer().await
    }

    pub(crate) async fn send_post(&mut self, path: &str, body: &[u8]) {
        let length = body.len();
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n"
        );
        self.send(head.as_bytes()).await;
        self.send(body).await;
    }

    /// A server that answers before it has read everything may make this fail; the answer tells.
    pub(crate) async fn send(&mut self, bytes: &[u8]) {
        let _ = self.stream.write_all(bytes).await;
        let _ = self.stream.flush().await;
    }

    pub(crate) async fn answer(&mut self) -> Answer {
        self.try_answer().await.expect("the connection ended before an answer")
    }

    /// `None` when the connection ends before a whole answer.
    pub(crate) async fn try_answer(&mut self) -> Option<Answer> {
        loop {
            if let Some((answer, used)) = Answer::parse(&self.kept) {
                self.kept.drain(..used);
                return Some(answer);
            }
            let mut buffer = [0; 4096];
            match within(self.stream.read(&mut buffer)).await {
                Ok(0) | Err(_) => return None,
                Ok(length) => self.kept.extend_from_slice(&buffer[..length]),
            }
        }
    }

    /// Whether the server has ended the connection without another byte; waits for it.
    pub(crate) async fn is_ended(&mut self) -> bool {
        self.kept.is_empty() && matches!(within(self.stream.read(&mut [0; 16])).await, Ok(0) | Err(_))
    }

    pub(crate) async fn close(mut self) {
        let _ = self.stream.shutdown().await;
    }
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head
            .lines()
            .filter_map(|line| line.split_once(": "))
            .find_map(|(found, value)| found.eq_ignore_ascii_case(name).then_some(value))
    }

    pub(crate) fn closes(&self) -> bool {
        self.header("connection") == Some("close")
    }

    fn parse(bytes: &[u8]) -> Option<(Self, usize)> {
        let end = bytes.windows(4).position(|window| window == b"\r\n\r\n")? + 4;
        let head = std::str::from_utf8(&bytes[..end]).unwrap().to_owned();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        let mut answer = Self { status, head, body: String::new() };
        let length: usize = answer.header("content-length").map_or(0, |length| length.parse().unwrap());
        let body = bytes.get(end..end + length)?;
        answer.body = String::from_utf8(body.to_vec()).unwrap();
        Some((answer, end + length))
    }
}

pub(crate) async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(HANG, future).await.expect("this hangs")
}

/// Waits until something is so.
pub(crate) async fn until(so: impl Fn() -> bool, what: &str) {
    let start = tokio::time::Instant::now();
    while !so() {
        assert!(start.elapsed() < HANG, "this never came: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
