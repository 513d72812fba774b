//! The routes, and what each call passes before it is read: rate, pool, signature.

use std::{sync::Arc, time::Instant};

use axum::{
    Router,
    body::Bytes,
    extract::{Path, State},
    http::HeaderMap,
    response::{IntoResponse, Response},
    routing::{get, post},
};

use super::{
    acquire, bind, definitions, parallelism, release,
    reply::Reply,
    service::Service,
    signature::{SignatureError, verify},
    status,
};
use crate::{
    names,
    pool::{Key, api::AgentPool},
    telemetry::{AzureOutcome, AzureRoute, log::with_causes},
};

/// What is served here, for whoever calls something else.
pub const SERVES: &str = "POST /v1/pools/NAMESPACE/NAME/{acquire,release,status,parallelism}, GET \
                          /v1/pools/NAMESPACE/NAME/definitions, POST /acquire, POST /release";

/// The longest part of a header that is logged.
const LOGGED: usize = 80;

type Shared = State<Arc<Service>>;

/// The routes. It is for a server that reads bodies within its limits before it calls a handler.
pub fn router(service: Arc<Service>) -> Router {
    let at = |path: &str| format!("{}/{{namespace}}/{{name}}{path}", names::PATH_POOLS);
    let pool = |route: AzureRoute| {
        post(move |State(service): Shared, Path(key): Path<Key>, headers: HeaderMap, body: Bytes| {
            call(service, route, Some(key), headers, body, None)
        })
    };
    let default = |route: AzureRoute| {
        post(move |State(service): Shared, headers: HeaderMap, body: Bytes| {
            let key = service.settings.default_pool.clone();
            call(service, route, key, headers, body, None)
        })
    };
    let list = get(|State(service): Shared, Path(key): Path<Key>, headers: HeaderMap, body: Bytes| {
        call(service, AzureRoute::Definitions, Some(key), headers, body, None)
    });
    let one = get(
        |State(service): Shared,
         Path((namespace, name, id)): Path<(String, String, String)>,
         headers: HeaderMap,
         body: Bytes| {
            call(service, AzureRoute::Definitions, Some((namespace, name)), headers, body, Some(id))
        },
    );
    Router::new()
        .route(&at(names::PATH_ACQUIRE), pool(AzureRoute::Acquire))
        .route(&at(names::PATH_RELEASE), pool(AzureRoute::Release))
        .route(&at(names::PATH_STATUS), pool(AzureRoute::Status))
        .route(&at(names::PATH_PARALLELISM), pool(AzureRoute::Parallelism))
        .route(&at(names::PATH_DEFINITIONS), list)
        .route(&at(&format!("{}/{{id}}", names::PATH_DEFINITIONS)), one)
        .route(names::PATH_ACQUIRE, default(AzureRoute::Acquire))
        .route(names::PATH_RELEASE, default(AzureRoute::Release))
        .with_state(service)
}

/// Answers, counts and logs one call. Of what it brought, the log has its path and what it belongs to, nothing else.
async fn call(
    service: Arc<Service>,
    route: AzureRoute,
    key: Option<Key>,
    headers: HeaderMap,
    body: Bytes,
    id: Option<String>,
) -> Response {
    let began = Instant::now();
    let metrics = service.metrics.clone();
    let orchestration: String = headers
        .get(names::AZURE_ORCHESTRATION)
        .map(|value| String::from_utf8_lossy(value.as_bytes()).chars().take(LOGGED).collect())
        .unwrap_or_default();
    let named = key.as_ref().map(|(namespace, name)| format!("{namespace}/{name}")).unwrap_or_default();
    let named: String = named.chars().take(LOGGED).collect();
    // On its own, so that a caller who leaves doesn't stop it between two writes.
    let answered =
        tokio::spawn(async move { answer(&service, route, key, &headers, &body, id.as_deref()).await }).await;
    let reply = answered.unwrap_or_else(|_| Reply::unavailable("a bug in podlayer: its log says where"));
    metrics.answered(route, reply.outcome, began.elapsed());
    let agent = reply.agent.map(|agent| agent.to_string()).unwrap_or_default();
    let millis = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
    let (route, outcome) = (route.as_str(), reply.outcome.as_str());
    let status = reply.status();
    if reply.outcome == AzureOutcome::Overload {
        // A flood shall not become one of the log.
        tracing::debug!(route, pool = named, orchestration, status, outcome, millis, "answered");
    } else {
        tracing::info!(route, pool = named, agent, orchestration, status, outcome, millis, "answered");
    }
    reply.into_response()
}

async fn answer(
    service: &Arc<Service>,
    route: AzureRoute,
    key: Option<Key>,
    headers: &HeaderMap,
    body: &Bytes,
    id: Option<&str>,
) -> Reply {
    let pool = key.as_ref().and_then(|key| service.pool(key));
    if !service.rate.allows(pool.is_some().then_some(key).flatten(), Instant::now()) {
        return Reply::overload();
    }
    // Whether there is such a pool is nobody's business who can't sign for it.
    let Some(pool) = pool else { return Reply::forbidden(&SignatureError::Wrong) };
    if let Err(reply) = check(service, &pool, headers, body).await {
        return reply;
    }
    let others = service.pools(pool.metadata.namespace.as_deref().unwrap_or_default());
    if let Err(error) = bind::check_secret(&pool, others.iter().map(AsRef::as_ref)) {
        service.tell(&pool, true, "AzureSecretShared", error.to_string()).await;
        return Reply::forbidden(&error);
    }
    match route {
        AzureRoute::Acquire => acquire::acquire(service, &pool, body).await,
        AzureRoute::Definitions => definitions::definitions(&pool, id),
        AzureRoute::Parallelism => parallelism::parallelism(&pool),
        AzureRoute::Release => release::release(service, &pool, body).await,
        AzureRoute::Status => status::status(service, &pool, body).await,
    }
}

/// Whether the call is signed by who shares the pool's secret.
async fn check(service: &Service, pool: &AgentPool, headers: &HeaderMap, body: &[u8]) -> Result<(), Reply> {
    let signature = headers.get(names::AZURE_SIGNATURE).map(axum::http::HeaderValue::as_bytes);
    for doubted in [false, true] {
        let secrets = match service.secrets(pool, doubted).await {
            Ok(secrets) => secrets,
            Err(error) => {
                tracing::warn!(error = %with_causes(&error), "calls can't be checked");
                service.tell(pool, true, "AzureSecretUnusable", error.to_string()).await;
                return Err(Reply::unavailable("this pool's secret can't be read; its AgentPool's events say why"));
            }
        };
        match verify(&secrets, signature, body) {
            Ok(()) => return Ok(()),
            // It may have been changed a moment ago.
            Err(SignatureError::Wrong) if !doubted => {}
            Err(error) => return Err(Reply::forbidden(&error)),
        }
    }
    Err(Reply::forbidden(&SignatureError::Wrong))
}
