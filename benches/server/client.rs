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
        let head = format!(
            "POST /mutate?timeout=2s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        self.stream.write_all(&[head.as_bytes(), body].concat()).await?;
        loop {
            if let Some((status, length)) = whole(&self.kept) {
                self.kept.drain(..length);
                return Ok(status);
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
    let head = std::str::from_utf8(&bytes[..end]).ok()?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    let length = head.lines().find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse().ok());
    let all = end + length.unwrap_or(0usize);
    (bytes.len() >= all).then_some((status, all))
}
