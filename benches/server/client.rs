//! One connection of a caller that knows no more of HTTP than it needs.

use std::{io, net::SocketAddr, sync::Arc};

use rustls::{ClientConfig, pki_types::ServerName};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpSocket, TcpStream},
};
use tokio_rustls::{TlsConnector, client::TlsStream};

/// A kept connection.
pub(crate) struct Client {
    stream: TlsStream<TcpStream>,
    kept: Vec<u8>,
}

/// A TCP connection from an address of the loopback range, so that the server takes it for that machine's.
pub(crate) async fn tcp(from: SocketAddr, to: SocketAddr) -> io::Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    socket.bind(from)?;
    let stream = socket.connect(to).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// A handshake on it.
pub(crate) async fn tls(stream: TcpStream, tls: &Arc<ClientConfig>, name: &str) -> io::Result<TlsStream<TcpStream>> {
    let name = ServerName::try_from(name.to_owned()).map_err(io::Error::other)?;
    TlsConnector::from(Arc::clone(tls)).connect(name, stream).await
}

impl Client {
    pub(crate) fn new(stream: TlsStream<TcpStream>) -> Self {
        Self { stream, kept: Vec::new() }
    }

    /// Posts a review and reads the whole answer; gives its status.
    pub(crate) async fn post(&mut self, body: &[u8]) -> io::Result<u16> {
        let (status, length) = self.exchange(body).await?;
        self.kept.drain(..length);
        Ok(status)
    }

    /// The same, and gives the answer as it came, with its head.
    #[allow(dead_code, reason = "not every benchmark reads answers")]
    pub(crate) async fn ask(&mut self, body: &[u8]) -> io::Result<(u16, Vec<u8>)> {
        let (status, length) = self.exchange(body).await?;
        Ok((status, self.kept.drain(..length).collect()))
    }

    /// Status and length of the answer, which is all in `kept`.
    async fn exchange(&mut self, body: &[u8]) -> io::Result<(u16, usize)> {
        let head = format!(
            "POST /mutate?timeout=2s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        self.stream.write_all(&[head.as_bytes(), body].concat()).await?;
        loop {
            if let Some(whole) = whole(&self.kept) {
                return Ok(whole);
            }
            if self.stream.read_buf(&mut self.kept).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }
}

/// Status and length of an answer that is all there.
fn whole(bytes: &[u8]) -> Option<(u16, usize)> {
    let end = bytes.windows(4).position(|window| window == b"\r\n\r\n")? + 4;
    let head = std::str::from_utf8(&bytes[..end]).ok()?.to_ascii_lowercase();
    let status = head.split(' ').nth(1)?.parse().ok()?;
    if head.contains("\r\ntransfer-encoding: chunked\r\n") {
        // As Go's server sends everything beyond 2 KiB.
        return Some((status, end + chunks(bytes.get(end..)?)?));
    }
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
    let all = end + length.unwrap_or(0usize);
    (bytes.len() >= all).then_some((status, all))
}

/// The length of a chunked body that is all there; none has a trailer.
fn chunks(bytes: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        let rest = bytes.get(at..)?;
        let line = rest.windows(2).position(|window| window == b"\r\n")?;
        let size = usize::from_str_radix(std::str::from_utf8(&rest[..line]).ok()?.trim(), 16).ok()?;
        at += line + 2 + size + 2;
        if size == 0 {
            return (bytes.len() >= at).then_some(at);
        }
    }
}
