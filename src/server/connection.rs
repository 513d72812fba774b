use std::convert::Infallible;
use std::future::poll_fn;
use std::io;
use std::panic::AssertUnwindSafe;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use axum::body::{Body, Bytes, HttpBody};
use axum::http::header::CONNECTION;
use axum::http::{HeaderValue, Request, Response};
use axum::response::IntoResponse;
use futures::FutureExt;
use hyper::body::{Frame, Incoming, SizeHint};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use rustls::AlertDescription;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::time::{sleep_until, timeout};
use tokio_rustls::TlsAcceptor;
use tower::ServiceExt;

use super::budget::Peer;
use super::clock::{Clock, Phase};
use super::gate::Arrived;
use super::listener::Site;
use super::refusal::{PLAIN_HTTP, Refusal};
use super::wire::{Stream, Wire};
use crate::telemetry::{Reason, RequestPath, metrics};

/// Serves one connection from its first byte to its last.
pub(super) async fn run(tcp: TcpStream, peer: Arc<Peer>, site: Arc<Site>) {
    // Without it an answer of two packets may wait 40 ms for the peer to acknowledge the first. Not worth ending for.
    let _ = tcp.set_nodelay(true);
    let Some(tls) = &site.tls else { return speak(Stream::Plain(tcp), peer, &site).await };
    let _open = site.metrics.connection();
    let stream = match timeout(site.limits.handshake, handshake(tcp, tls, &site)).await {
        Ok(Ok(Some(stream))) => stream,
        Ok(Ok(None)) => return,
        Ok(Err(error)) => {
            site.metrics.rejected(Reason::Handshake);
            return tell_failed_handshake(&error, &site);
        }
        Err(_) => return site.metrics.rejected(Reason::HandshakeTimeout),
    };
    speak(stream, peer, &site).await;
}

/// `None` is a peer that left before it said anything, as the probes of load balancers do, or one that spoke plain HTTP
/// and was told not to.
async fn handshake(tcp: TcpStream, tls: &TlsAcceptor, site: &Site) -> io::Result<Option<Stream>> {
    let mut first = [0];
    if tcp.peek(&mut first).await? == 0 {
        return Ok(None);
    }
    if first[0].is_ascii_alphabetic() {
        site.metrics.rejected(Reason::Handshake);
        let mut stream = Stream::Plain(tcp);
        stream.write_all(PLAIN_HTTP).await?;
        stream.close(site.limits.linger).await;
        return Ok(None);
    }
    Ok(Some(Stream::Tls(Box::new(tls.accept(tcp).await?))))
}

/// Most failures are somebody who tries the port. One is the operator's: the caller doesn't trust the certificate, and so
/// no pod passes here.
fn tell_failed_handshake(error: &io::Error, site: &Site) {
    let distrusted = matches!(
        error.get_ref().and_then(|inner| inner.downcast_ref()),
        Some(rustls::Error::AlertReceived(
            AlertDescription::BadCertificate
                | AlertDescription::CertificateExpired
                | AlertDescription::CertificateUnknown
                | AlertDescription::UnknownCA,
        ))
    );
    if distrusted && site.distrust.is_due() {
        tracing::warn!(
            %error,
            "a caller doesn't trust our certificate; does the caBundle of the webhook configuration hold the CA that signed it?"
        );
    } else {
        tracing::debug!(%error, "failed TLS handshake");
    }
}

/// Something worth telling, but not for each of a thousand calls.
#[derive(Debug, Default)]
pub(super) struct Seldom(Mutex<Option<Instant>>);

impl Seldom {
    const PAUSE: Duration = Duration::from_secs(60);

    fn is_due(&self) -> bool {
        let mut told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let due = told.is_none_or(|at| at.elapsed() >= Self::PAUSE);
        if due {
            *told = Some(Instant::now());
        }
        due
    }
}

async fn speak(stream: Stream, peer: Arc<Peer>, site: &Arc<Site>) {
    let clock = Arc::new(Clock::new(&site.limits));
    let wire = Wire::new(stream, Arc::clone(&clock));
    let service = service_fn(|request: Request<Incoming>| {
        clock.enter(Phase::Call);
        // Here and not in the future, which is never polled when the caller has left already.
        let counted = site.tls.is_some().then(|| site.metrics.request(RequestPath::of(request.uri().path())));
        answer(request, Arc::clone(&peer), Arc::clone(site), counted, IdleAfter(Arc::clone(&clock)))
    });
    let connection = http1::Builder::new()
        // It would begin to count when the connection falls idle; the clock counts from the first byte.
        .header_read_timeout(None)
        .max_buf_size(site.limits.head_bytes.max(LEAST_BUFFER))
        .serve_connection(TokioIo::new(wire), service)
        .without_shutdown();
    let mut connection = pin!(connection);
    let mut alarm = pin!(sleep_until(clock.deadline()));
    // Everything that moves the clock happens while the connection is polled, so that is when to look at it. A deadline
    // that moves away leaves the alarm as it is: it rings early and is set anew, once in ten seconds and not at each call.
    let ended = poll_fn(|context| {
        if let Poll::Ready(ended) = connection.as_mut().poll(context) {
            return Poll::Ready(Some(ended));
        }
        if clock.deadline() < alarm.deadline() {
            alarm.as_mut().reset(clock.deadline());
        }
        while alarm.as_mut().poll(context).is_ready() {
            if clock.deadline() > tokio::time::Instant::now() {
                alarm.as_mut().reset(clock.deadline());
            } else if clock.phase() == Phase::Idle && site.drain.started() {
                // The drain's own limit holds now.
                alarm.as_mut().reset(tokio::time::Instant::now() + site.limits.drain.max(Duration::from_secs(1)));
            } else {
                return Poll::Ready(None);
            }
        }
        Poll::Pending
    })
    .await;
    match ended {
        Some(Ok(parts)) => Stream::from(parts.io.into_inner()).close(site.limits.linger).await,
        Some(Err(error)) => tracing::debug!(%error, "connection ended"),
        None => match clock.phase() {
            Phase::Call => site.metrics.rejected(Reason::CallTimeout),
            Phase::Head => site.metrics.rejected(Reason::HeadTimeout),
            Phase::Idle => {}
        },
    }
}

async fn answer(
    request: Request<Incoming>,
    peer: Arc<Peer>,
    site: Arc<Site>,
    counted: Option<metrics::Request>,
    end: IdleAfter,
) -> Result<Response<Answer>, Infallible> {
    let mut request = request.map(Body::new);
    request.extensions_mut().insert(Arrived(Instant::now()));
    request.extensions_mut().insert(peer);
    let router = site.router.clone();
    let handled = AssertUnwindSafe(async { router.oneshot(request).await }).catch_unwind().await;
    let mut response = match handled {
        Ok(Ok(response)) => response,
        Ok(Err(never)) => match never {},
        Err(_) => {
            site.metrics.panicked();
            Refusal::Panicked.into_response()
        }
    };
    if site.drain.started() {
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    if let Some(counted) = counted {
        counted.answered(response.status().as_u16());
    }
    Ok(response.map(|body| Answer { body, _end: end }))
}

/// What hyper insists on.
const LEAST_BUFFER: usize = 8 << 10;

/// The body of an answer; its connection is idle when it has been sent.
struct Answer {
    body: Body,
    _end: IdleAfter,
}

struct IdleAfter(Arc<Clock>);

impl Drop for IdleAfter {
    fn drop(&mut self) {
        self.0.enter(Phase::Idle);
    }
}

impl HttpBody for Answer {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
