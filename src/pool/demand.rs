//! What pools need, for whoever asks over HTTP: KEDA's metrics-api, and people.

use std::sync::Arc;

use axum::{
    Json, Router,
    extract::{Path, State},
    http::StatusCode,
    response::{IntoResponse, Response},
    routing::get,
};
use jiff::Timestamp;
use serde::Serialize;

use super::{
    api::{AgentPool, Key},
    core::Core,
    size::View,
    task::Shared,
};
use crate::names;

/// One pool's demand. Two numbers for two kinds of consumers: what scales a number of workers needs those at work in it
/// (`inFlight`), what starts a worker for each job must not have them in it (`queued`).
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Demand {
    queued: i32,
    starting: i32,
    busy: i32,
    idle: i32,
    stuck: i32,
    terminating: i32,
    desired: i32,
    max: i32,
    in_flight: i32,
    observed_at: String,
    /// Always true: what isn't complete is answered by 503, and never by a 0 that is none.
    complete: bool,
}

/// `GET /v1/pools/{namespace}/{name}`. Every replica answers it, the leader or not.
pub fn router(shared: Arc<Shared>) -> Router {
    Router::new().route(&format!("{}/{{namespace}}/{{name}}", names::PATH_POOLS), get(demand)).with_state(shared)
}

async fn demand(State(shared): State<Arc<Shared>>, Path(key): Path<Key>) -> Response {
    let now = Timestamp::now();
    let unknown = |text: &str| (StatusCode::SERVICE_UNAVAILABLE, format!("{text}\n")).into_response();
    match shared.world.view(&key.0) {
        View::Unsynced => return unknown("not everything was listed yet: ask again"),
        View::Stale => return unknown("the API server is not heard: what is known may be old, ask again"),
        View::Fresh => {}
    }
    let Some(pool) = shared.world.pool(&key) else {
        let text = format!("there is no AgentPool {}/{}, or its namespace is not in --pool-namespaces\n", key.0, key.1);
        return (StatusCode::NOT_FOUND, text).into_response();
    };
    Json(look(&shared, &pool, &key, now)).into_response()
}

fn look(shared: &Shared, pool: &AgentPool, key: &Key, now: Timestamp) -> Demand {
    let (seen, _) = shared.look(pool, key, now);
    let decision = Core::default().look(&pool.spec, &seen, now);
    let counts = decision.counts;
    Demand {
        queued: counts.queued,
        starting: counts.starting,
        busy: counts.busy,
        idle: counts.idle,
        stuck: counts.stuck,
        terminating: counts.terminating,
        desired: decision.desired,
        max: decision.max,
        in_flight: counts.queued + counts.busy,
        observed_at: now.to_string(),
        complete: true,
    }
}
