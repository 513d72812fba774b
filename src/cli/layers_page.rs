//! What the admin port tells at `/layers`: how each layer stands and how often it was used. No contents of layers or pods.

use std::sync::Arc;

use axum::{Json, Router, routing::get};
use serde::Serialize;
use tokio::sync::watch;

use crate::{
    layers::{Snapshot, Standing},
    names,
    telemetry::Metrics,
};

#[derive(Serialize)]
struct Page {
    version: &'static str,
    /// None until the layers were read.
    snapshot: Option<InForce>,
    layers: Vec<Line>,
}

#[derive(Serialize)]
struct InForce {
    /// The same on every replica that has the same layers.
    hash: String,
    /// How long they have been in force.
    age_seconds: u64,
}

#[derive(Serialize)]
struct Line {
    #[serde(flatten)]
    standing: Standing,
    /// In how many decisions of this process it took part.
    used: u64,
}

/// The page as a router for the admin port.
pub(super) fn router(
    standings: watch::Receiver<Vec<Standing>>,
    snapshots: watch::Receiver<Option<Arc<Snapshot>>>,
    metrics: Metrics,
) -> Router {
    let page = move || async move {
        let snapshot = snapshots.borrow().clone();
        let standings = standings.borrow().clone();
        Json(page(standings, snapshot.as_deref(), &metrics))
    };
    Router::new().route(names::PATH_LAYERS, get(page))
}

fn page(standings: Vec<Standing>, snapshot: Option<&Snapshot>, metrics: &Metrics) -> Page {
    let keys: Vec<String> = standings.iter().map(Standing::own_key).collect();
    let uses = metrics.layer_uses(|layer| keys.iter().any(|key| key == layer));
    let used = |key: &String| uses.get(key).copied().unwrap_or_default();
    Page {
        version: env!("CARGO_PKG_VERSION"),
        snapshot: snapshot.map(|snapshot| InForce {
            hash: snapshot.hash().to_owned(),
            age_seconds: metrics.snapshot_age().map(|age| age.as_secs()).unwrap_or_default(),
        }),
        layers: standings.into_iter().zip(&keys).map(|(standing, key)| Line { standing, used: used(key) }).collect(),
    }
}
