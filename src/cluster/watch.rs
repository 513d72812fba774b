//! The layer ConfigMaps, watched: each event makes a new snapshot, which takes the old one's place as a whole.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use futures::{StreamExt, stream::select_all};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, Client,
    runtime::{WatchStreamExt, watcher},
};
use tokio::sync::watch;

use crate::{
    layers::{Book, LayerSource, Snapshot, Standing, State},
    names,
    telemetry::{LayerState, Metrics},
};

/// What the watch hands out, each part replaced as a whole.
#[derive(Debug)]
pub struct Watched {
    /// The layers in force; `None` until every namespace was listed once.
    pub snapshot: watch::Sender<Option<Arc<Snapshot>>>,
    /// How every layer stands, for people.
    pub standings: watch::Sender<Vec<Standing>>,
}

/// Watches the layers of some namespaces until `watched` has no readers left. A lost connection is taken up again with
/// growing pauses; meanwhile the last snapshot stays in force.
pub async fn watch_layers(
    client: Client,
    own_namespace: String,
    layer_namespaces: Vec<String>,
    watched: Watched,
    metrics: Metrics,
) {
    let mut namespaces = vec![own_namespace.clone()];
    namespaces.extend(layer_namespaces.into_iter().filter(|namespace| *namespace != own_namespace));
    let streams = namespaces.iter().map(|namespace| {
        let api: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
        let config = watcher::Config::default().labels(names::LAYER);
        let namespace = namespace.clone();
        watcher(api, config).default_backoff().map(move |event| (namespace.clone(), event)).boxed()
    });
    let mut events = select_all(streams);
    let mut book = Book::new(own_namespace);
    let mut unlisted: HashSet<String> = namespaces.into_iter().collect();
    let mut listing: HashMap<String, HashSet<String>> = HashMap::new();
    while let Some((namespace, event)) = events.next().await {
        match event {
            Ok(watcher::Event::Init) => _ = listing.insert(namespace, HashSet::new()),
            Ok(watcher::Event::InitApply(config_map)) => {
                let source = source_of(config_map);
                listing.entry(namespace).or_default().insert(source.name.clone());
                put(&mut book, source);
                // The whole comes with InitDone; until then what was there before stays in force.
                continue;
            }
            Ok(watcher::Event::InitDone) => {
                let listed = listing.remove(&namespace).unwrap_or_default();
                book.retain(|other, name| other != namespace || listed.contains(name));
                unlisted.remove(&namespace);
            }
            Ok(watcher::Event::Apply(config_map)) => put(&mut book, source_of(config_map)),
            Ok(watcher::Event::Delete(config_map)) => {
                let source = source_of(config_map);
                tracing::info!(layer = %source.title(), "layer ended");
                book.remove(&source.namespace, &source.name);
            }
            Err(error) => {
                tracing::warn!(namespace, error = %error, "watching layers failed, trying again");
                continue;
            }
        }
        if !unlisted.is_empty() {
            // Some namespace was never listed: what was seen so far is not the whole.
            continue;
        }
        tell(&book, &watched, &metrics);
        match book.snapshot() {
            Ok(snapshot) => _ = watched.snapshot.send_replace(Some(Arc::new(snapshot))),
            Err(error) => tracing::error!(error = %error, "layers don't make a snapshot, the last one stays"),
        }
    }
}

/// Tells people how the layers stand, and counts them.
fn tell(book: &Book, watched: &Watched, metrics: &Metrics) {
    let standings = book.standings();
    for (state, label) in
        [(State::Bad, LayerState::Bad), (State::Good, LayerState::Good), (State::Stale, LayerState::Stale)]
    {
        metrics.layers(label, standings.iter().filter(|standing| standing.state == state).count());
    }
    watched.standings.send_replace(standings);
}

fn put(book: &mut Book, source: LayerSource) {
    let title = source.title();
    match book.put(source) {
        Ok(()) => tracing::info!(layer = %title, "layer read"),
        Err(error) => {
            tracing::warn!(layer = %title, problem = %error, "layer can't be read, its last good version stays")
        }
    }
}

pub(super) fn source_of(config_map: ConfigMap) -> LayerSource {
    LayerSource {
        namespace: config_map.metadata.namespace.unwrap_or_default(),
        name: config_map.metadata.name.unwrap_or_default(),
        labels: config_map.metadata.labels.unwrap_or_default(),
        data: config_map.data.unwrap_or_default(),
        binary_keys: config_map.binary_data.unwrap_or_default().into_keys().collect(),
    }
}
