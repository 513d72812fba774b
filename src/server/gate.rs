use std::sync::Arc;
use std::time::Instant;

use axum::Router;
use axum::body::{Body, Bytes, HttpBody};
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, Method};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use http_body_util::BodyExt;

use super::budget::{Held, Peer, What};
use super::deadline::Deadline;
use super::limits::Limits;
use super::refusal::Refusal;
use crate::telemetry::{Metrics, Reason};

/// When the head of a request had come: an extension of every request that a handler sees. The caller's time, such as an
/// API server's `?timeout=`, began no later.
#[derive(Clone, Copy, Debug)]
pub struct Arrived(pub Instant);

/// Gives a router its answers to a path (404) and a method (405) that it doesn't have. `serves` lists what it has:
/// `"POST /mutate, POST /validate"`.
///
/// Wrap a router when all its routes are in it.
pub fn with_fallbacks(router: Router, serves: &'static str) -> Router {
    router
        .fallback(async move |request: Request| Refusal::Path { path: path(&request), serves }.into_response())
        .method_not_allowed_fallback(async move |request: Request| {
            let method = request.method().as_str().chars().take(MAX_QUOTED).collect();
            Refusal::Method { method, path: path(&request), serves }.into_response()
        })
}

/// Puts what every request passes in front of the handlers of a router, and of nothing else: a request for a path that
/// isn't there is told so whatever its body.
pub(super) fn guarded(router: Router, limits: &Limits, metrics: &Metrics) -> Router {
    if !router.has_routes() {
        return router;
    }
    let gate = Arc::new(Gate { limits: limits.clone(), metrics: metrics.clone() });
    router
        .route_layer(middleware::from_fn_with_state(gate, pass))
        // The gate has read the body; axum's own limit of 2 MB for extractors would refuse half of what it let through.
        .layer(DefaultBodyLimit::disable())
}

const MAX_QUOTED: usize = 100;

struct Gate {
    limits: Limits,
    metrics: Metrics,
}

async fn pass(State(gate): State<Arc<Gate>>, request: Request, next: Next) -> Response {
    let arrived = request.extensions().get().map_or_else(Instant::now, |Arrived(at)| *at);
    let deadline = Deadline::of(request.uri(), arrived, &gate.limits);
    match gate.answer(request, next, deadline).await {
        Ok(response) => response,
        Err(refusal) => {
            match refusal {
                Refusal::TooLate(_) => gate.metrics.rejected(Reason::Deadline),
                Refusal::BodySlow(_) => gate.metrics.rejected(Reason::BodyTimeout),
                Refusal::BodyTooLarge(_) => gate.metrics.rejected(Reason::TooLarge),
                Refusal::TooManyBytes | Refusal::TooManyCalls => gate.metrics.rejected(Reason::Overload),
                _ => {}
            }
            refusal.into_response()
        }
    }
}

impl Gate {
    /// What the handler answers within the caller's time.
    async fn answer(&self, request: Request, next: Next, deadline: Deadline) -> Result<Response, Refusal> {
        let (request, _held) = self.admit(request, deadline).await?;
        let late = || Refusal::TooLate(deadline.allowed);
        if deadline.at <= Instant::now() {
            // Nobody would hear the answer any more: the work is spared for those who still wait.
            return Err(late());
        }
        tokio::time::timeout_at(deadline.at.into(), next.run(request)).await.map_err(|_| late())
    }

    /// The request with its whole body, and its holds on the budget.
    ///
    /// A call is counted only once its body is here: those who send theirs byte by byte use up no calls, and of the bytes
    /// only what they have sent.
    async fn admit(&self, request: Request, deadline: Deadline) -> Result<(Request, Option<[Held; 2]>), Refusal> {
        if request.method() == Method::POST {
            check_content_type(request.headers())?;
        }
        // Every connection brings its peer; a router that is called without one, in a test, has no budget to keep.
        let peer = request.extensions().get::<Arc<Peer>>().cloned();
        let (parts, body) = request.into_parts();
        let mut bytes_held = peer.as_ref().map(|peer| peer.hold(What::Bytes));
        let read = self.read(body, bytes_held.as_mut());
        let body = tokio::time::timeout_at(deadline.at.into(), read)
            .await
            .map_err(|_| Refusal::BodySlow(deadline.allowed))??;
        let held = match (peer, bytes_held) {
            (Some(peer), Some(bytes_held)) => {
                let mut call_held = peer.hold(What::Calls);
                if !call_held.more(1) {
                    return Err(Refusal::TooManyCalls);
                }
                Some([bytes_held, call_held])
            }
            _ => None,
        };
        Ok((Request::from_parts(parts, Body::from(body)), held))
    }

    async fn read(&self, mut body: Body, mut held: Option<&mut Held>) -> Result<Bytes, Refusal> {
        let limit = self.limits.body_bytes;
        let announced = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
        if announced > limit {
            return Err(Refusal::BodyTooLarge(limit));
        }
        let mut first = Bytes::new();
        let mut all = Vec::new();
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|_| Refusal::BodyBroken)?;
            // Trailers say nothing to any handler.
            let Ok(data) = frame.into_data() else { continue };
            let length = first.len().max(all.len()) + data.len();
            if length > limit {
                return Err(Refusal::BodyTooLarge(limit));
            }
            if held.as_mut().is_some_and(|held| !held.more(data.len())) {
                return Err(Refusal::TooManyBytes);
            }
            if length == data.len() {
                first = data;
                continue;
            }
            if all.is_empty() {
                // As announced, but not more than twice what has come: who announces much and sends little gets little.
                all.reserve(announced.min(2 * length).max(length));
                all.extend_from_slice(&first);
            }
            all.extend_from_slice(&data);
        }
        // Most bodies come whole in the buffer with their head, and are handed on from there.
        Ok(if all.is_empty() { first } else { all.into() })
    }
}

fn check_content_type(headers: &HeaderMap) -> Result<(), Refusal> {
    let Some(value) = headers.get(CONTENT_TYPE) else { return Err(Refusal::ContentType(None)) };
    let text = String::from_utf8_lossy(value.as_bytes());
    let essence = text.split(';').next().unwrap_or_default().trim();
    if essence.eq_ignore_ascii_case("application/json") {
        return Ok(());
    }
    Err(Refusal::ContentType(Some(text.chars().take(MAX_QUOTED).collect())))
}

fn path(request: &Request) -> String {
    request.uri().path().chars().take(MAX_QUOTED).collect()
}
