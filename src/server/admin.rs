//! The port for probes, scrapers and people: plain HTTP.

use axum::Router;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use axum::routing::get;
use tokio::net::TcpListener;

use super::drain::Drain;
use super::gate::with_fallbacks;
use super::health::Readiness;
use super::limits::Limits;
use super::listener::{ServeError, Site, listen};
use crate::names::{PATH_LIVE, PATH_METRICS, PATH_READY};
use crate::telemetry::Metrics;

/// Serves `/readyz`, `/livez` and `/metrics`, and `/layers` from the caller's router, until the future is dropped: the
/// webhook ends first, and probes must hear meanwhile that it does.
///
/// # Errors
/// [`ServeError::Accept`] when the socket can't be listened on any more.
pub async fn serve_admin(
    listener: TcpListener,
    readiness: Readiness,
    layers: Router,
    limits: Limits,
    metrics: Metrics,
) -> Result<(), ServeError> {
    let router = router(readiness, metrics.clone()).merge(layers);
    let router = with_fallbacks(router, "GET /readyz, GET /livez, GET /metrics, GET /layers");
    listen(listener, Site::new(None, router, limits, Drain::new(), metrics)).await
}

fn router(readiness: Readiness, metrics: Metrics) -> Router {
    let ready = async move || match readiness.reasons() {
        reasons if reasons.is_empty() => (StatusCode::OK, "ok\n".to_owned()),
        reasons => (StatusCode::SERVICE_UNAVAILABLE, reasons.join("\n") + "\n"),
    };
    let text = async move || ([(CONTENT_TYPE, Metrics::CONTENT_TYPE)], metrics.text()).into_response();
    Router::new()
        .route(PATH_READY, get(ready))
        // A task that ends unexpectedly ends the process, so a process that answers at all is alive.
        .route(PATH_LIVE, get(async || "ok\n"))
        .route(PATH_METRICS, get(text))
}
