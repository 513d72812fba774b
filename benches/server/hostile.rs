//! Clients that nobody wants, all of them bounded in number and pace, each from an address of its own kind.

use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use rustls::ClientConfig;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWriteExt},
    task::JoinSet,
    time::sleep,
};

use crate::{
    client::{tcp, tls},
    process::Webhook,
};

/// What they do, for the report.
pub(crate) const WHAT: &str = "500 stalled handshakes, 50 endless bodies, 50 heads that come byte by byte, and all the \
                               time, each ten times a second, broken TLS, HTTP/2 prefaces and handshakes for another name";

/// They stop when dropped.
pub(crate) struct Clients(JoinSet<()>);

impl Clients {
    pub(crate) fn start(webhook: &Webhook) -> Self {
        let mut all = JoinSet::new();
        let (to, config) = (webhook.address, &webhook.tls);
        for at in 0..500 {
            all.spawn(forever(Duration::from_millis(100 + at), move || stalled(to)));
        }
        for _ in 0..50 {
            let config = config.clone();
            all.spawn(forever(Duration::from_millis(100), move || endless_body(to, config.clone())));
            let config = webhook.tls.clone();
            all.spawn(forever(Duration::from_millis(100), move || slow_head(to, config.clone())));
        }
        let pace = Duration::from_millis(100);
        all.spawn(forever(pace, move || broken(to)));
        let other = config.clone();
        all.spawn(forever(pace, move || preface(to, other.clone())));
        let other = config.clone();
        all.spawn(forever(pace, move || wrong_name(to, other.clone())));
        Self(all)
    }

    pub(crate) fn stop(mut self) {
        self.0.abort_all();
    }
}

/// Again and again; what the server does to them is no error.
async fn forever<F: Future<Output = io::Result<()>>>(pause: Duration, once: impl Fn() -> F) {
    loop {
        let _ = once().await;
        sleep(pause).await;
    }
}

fn from(kind: u8) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::new(127, 0, 9, kind), 0))
}

/// Waits until the server has enough of it.
async fn until_closed(mut stream: impl AsyncRead + Unpin) -> io::Result<()> {
    while stream.read(&mut [0; 1024]).await? > 0 {}
    Ok(())
}

async fn stalled(to: SocketAddr) -> io::Result<()> {
    until_closed(tcp(from(1), to).await?).await
}

async fn endless_body(to: SocketAddr, config: Arc<ClientConfig>) -> io::Result<()> {
    let mut stream = tls(tcp(from(2), to).await?, &config, "localhost").await?;
    let head =
        "POST /mutate HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n";
    stream.write_all(head.as_bytes()).await?;
    loop {
        stream.write_all(b"10\r\n                \r\n").await?;
        sleep(Duration::from_millis(50)).await;
    }
}

async fn slow_head(to: SocketAddr, config: Arc<ClientConfig>) -> io::Result<()> {
    let mut stream = tls(tcp(from(3), to).await?, &config, "localhost").await?;
    for byte in "POST /mutate HTTP/1.1\r\nX-Slow: ".bytes().chain(std::iter::repeat(b'x')) {
        stream.write_all(&[byte]).await?;
        sleep(Duration::from_millis(100)).await;
    }
    Ok(())
}

async fn broken(to: SocketAddr) -> io::Result<()> {
    let mut stream = tcp(from(4), to).await?;
    stream.write_all(&[0x16, 3, 1, 0x40, 0, 1, 2, 3, 0xff, 0xff]).await?;
    until_closed(stream).await
}

async fn preface(to: SocketAddr, config: Arc<ClientConfig>) -> io::Result<()> {
    let mut stream = tls(tcp(from(5), to).await?, &config, "localhost").await?;
    stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await?;
    until_closed(stream).await
}

async fn wrong_name(to: SocketAddr, config: Arc<ClientConfig>) -> io::Result<()> {
    tls(tcp(from(6), to).await?, &config, "another.example").await.map(drop)
}
