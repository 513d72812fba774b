//! Accepting connections, and stopping.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use futures::FutureExt;
use rustls::ServerConfig;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};
use tokio_rustls::TlsAcceptor;

use super::budget::Budget;
use super::connection::{self, Seldom};
use super::drain::Drain;
use super::gate::guarded;
use super::limits::Limits;
use crate::telemetry::{Metrics, Reason};

/// Why a server can't start or go on.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The listening socket is broken.
    #[error("no connection can be accepted any more")]
    Accept(#[source] io::Error),
    /// The address can't be had.
    #[error("the address {address} can't be listened on")]
    Bind {
        /// The address.
        address: SocketAddr,
        /// Why.
        #[source]
        source: io::Error,
    },
}

/// Takes an address to listen on; with port 0 the system chooses one.
///
/// # Errors
/// [`ServeError::Bind`].
pub async fn bind(address: SocketAddr) -> Result<TcpListener, ServeError> {
    TcpListener::bind(address).await.map_err(|source| ServeError::Bind { address, source })
}

/// Serves a router over HTTPS until `drain` has started and every caller has been served to its end, or
/// [`Limits::drain`] has passed since.
///
/// Dropping the future ends all connections at once.
///
/// # Errors
/// [`ServeError::Accept`] when the socket can't be listened on any more. A lack of file descriptors is waited out.
pub async fn serve(
    listener: TcpListener,
    tls: Arc<ServerConfig>,
    router: Router,
    limits: Limits,
    drain: Drain,
    metrics: Metrics,
) -> Result<(), ServeError> {
    listen(listener, Site::new(Some(tls.into()), router, limits, drain, metrics)).await
}

/// As [`serve`], over plain HTTP: behind something that ends TLS.
///
/// # Errors
/// As [`serve`].
pub async fn serve_plain(
    listener: TcpListener,
    router: Router,
    limits: Limits,
    drain: Drain,
    metrics: Metrics,
) -> Result<(), ServeError> {
    listen(listener, Site::new(None, router, limits, drain, metrics)).await
}

/// What all connections of one listener share.
pub(super) struct Site {
    pub(super) tls: Option<TlsAcceptor>,
    pub(super) router: Router,
    pub(super) limits: Limits,
    pub(super) drain: Drain,
    pub(super) metrics: Metrics,
    pub(super) distrust: Seldom,
    budget: Arc<Budget>,
}

impl Site {
    pub(super) fn new(
        tls: Option<TlsAcceptor>,
        router: Router,
        limits: Limits,
        drain: Drain,
        metrics: Metrics,
    ) -> Arc<Self> {
        let router = guarded(router, &limits, &metrics);
        Arc::new(Self {
            tls,
            router,
            budget: Budget::new(&limits),
            limits,
            drain,
            metrics,
            distrust: Seldom::default(),
        })
    }
}

pub(super) async fn listen(listener: TcpListener, site: Arc<Site>) -> Result<(), ServeError> {
    let mut connections = JoinSet::new();
    let mut pause = Pause::default();
    let mut stop: Option<Stop> = None;
    loop {
        let now = Instant::now();
        if stop.as_ref().is_some_and(|stop| stop.settled <= now) && connections.is_empty() {
            // A connection that the system has taken already is a caller like any other.
            match listener.accept().now_or_never() {
                Some(Ok((tcp, from))) => open(tcp, from, &site, &mut connections),
                _ => break,
            }
        }
        let wake = stop.as_ref().map_or(now, |stop| if stop.settled > now { stop.settled } else { stop.end });
        tokio::select! {
            accepted = listener.accept(), if pause.until.is_none() => match accepted {
                Ok((tcp, from)) => {
                    pause = Pause::default();
                    open(tcp, from, &site, &mut connections);
                }
                Err(error) if is_over(&error) => return Err(ServeError::Accept(error)),
                Err(error) => {
                    site.metrics.rejected(Reason::Accept);
                    pause.after(&error);
                }
            },
            () = sleep_until(pause.until.unwrap_or(now)), if pause.until.is_some() => pause.until = None,
            Some(ended) = connections.join_next() => if ended.is_err() {
                // Panics of handlers are caught nearer to them. Only this connection is lost.
                site.metrics.panicked();
            },
            () = site.drain.wait(), if stop.is_none() => {
                tracing::info!(connections = connections.len(), "draining");
                stop = Some(Stop { settled: now + site.limits.settle, end: now + site.limits.drain });
            }
            () = sleep_until(wake), if stop.is_some() => if stop.as_ref().is_some_and(|stop| stop.end <= Instant::now()) {
                break;
            },
        }
    }
    tracing::info!(connections = connections.len(), "drained");
    connections.shutdown().await;
    Ok(())
}

/// When a drain may and must end.
struct Stop {
    settled: Instant,
    end: Instant,
}

/// The rest that accepting takes after an error, doubled with each one in a row: an error such as a lack of file
/// descriptors leaves the connection waiting, so the next try would come at once and fail at once.
#[derive(Default)]
struct Pause {
    until: Option<Instant>,
    length: Duration,
}

impl Pause {
    const FIRST: Duration = Duration::from_millis(10);
    /// Short against the second or two that callers wait before they try again.
    const LONGEST: Duration = Duration::from_secs(1);

    fn after(&mut self, error: &io::Error) {
        // Told when it begins and when it has become serious; the metric counts the rest.
        if self.length < Self::LONGEST {
            tracing::warn!(%error, "a connection couldn't be accepted; trying again");
        }
        self.length = (self.length * 2).clamp(Self::FIRST, Self::LONGEST);
        self.until = Some(Instant::now() + self.length);
    }
}

fn open(tcp: TcpStream, from: SocketAddr, site: &Arc<Site>, connections: &mut JoinSet<()>) {
    match site.budget.connect(from.ip()) {
        Some(peer) => {
            connections.spawn(connection::run(tcp, peer, Arc::clone(site)));
        }
        None => site.metrics.rejected(Reason::Connections),
    }
}

/// Whether no accept can ever succeed again on this socket. Everything else is the fault of one connection, or passes.
fn is_over(error: &io::Error) -> bool {
    // EBADF, EFAULT and EINVAL, the same numbers on every Unix: it isn't a socket, or doesn't listen.
    matches!(error.raw_os_error(), Some(9 | 14 | 22))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lack_of_file_descriptors_is_waited_out_with_longer_and_longer_pauses() {
        // EMFILE, ENFILE and ECONNABORTED as Linux numbers them.
        for number in [24, 23, 103] {
            assert!(!is_over(&io::Error::from_raw_os_error(number)));
        }
        let mut pause = Pause::default();
        let mut lengths = Vec::new();
        for _ in 0..10 {
            pause.after(&io::Error::from_raw_os_error(24));
            lengths.push(pause.length.as_millis());
        }
        assert_eq!(lengths, [10, 20, 40, 80, 160, 320, 640, 1000, 1000, 1000]);
    }

    #[test]
    fn a_socket_that_does_not_listen_ends_the_server() {
        assert!(is_over(&io::Error::from_raw_os_error(22)));
    }
}
