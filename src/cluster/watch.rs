//! The layer ConfigMaps, watched: each event makes a new snapshot, which takes the old one's place as a whole.

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    sync::Arc,
};

use futures::{StreamExt, stream::select_all};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, Client,
    runtime::{WatchStreamExt, watcher},
};
use tokio::sync::{mpsc, watch};

use super::{
    events::{Events, Reason, Subject},
    last_good::Store,
    openapi,
};
use crate::{
    layers::{
        Book, Complaint, LayerSource, ParseError, Snapshot, Standing, State,
        last_good::{Key, Wanted},
    },
    names,
    telemetry::{KeepFailure, LayerState, Metrics},
};

/// What the watch hands out, each part replaced as a whole.
#[derive(Debug)]
pub struct Watched {
    /// The layers in force; `None` until every namespace was listed once.
    pub snapshot: watch::Sender<Option<Arc<Snapshot>>>,
    /// How every layer stands, for people.
    pub standings: watch::Sender<Vec<Standing>>,
}

/// Which layers are watched, and what else is known of them.
#[derive(Clone, Debug)]
pub struct Layers {
    /// podlayer's own namespace, whose layers are the cluster's.
    pub own_namespace: String,
    /// Namespaces whose layers apply to their pods.
    pub namespaces: Vec<String>,
    /// Layers of the own namespace that must be there.
    pub expected: Vec<String>,
    /// The ConfigMap of the own namespace that keeps last good versions.
    pub last_good: String,
    /// Whether others tell people of bad layers and keep their last good versions: then nothing is written here.
    pub reads_only: bool,
}

impl Watched {
    /// Puts layers in force and tells people how they stand.
    pub fn publish(&self, snapshot: Snapshot, standings: Vec<Standing>, metrics: &Metrics) {
        metrics.snapshot(snapshot.hash());
        self.tell(standings, metrics);
        self.snapshot.send_replace(Some(Arc::new(snapshot)));
    }

    /// Tells people how the layers stand, and counts them.
    pub fn tell(&self, standings: Vec<Standing>, metrics: &Metrics) {
        let count = |state| standings.iter().filter(|standing| standing.state == state).count();
        metrics.layers(LayerState::Bad, count(State::Bad));
        metrics.layers(LayerState::Good, count(State::Good));
        metrics.layers(LayerState::Stale, count(State::Stale));
        metrics.layers_missing(count(State::Missing));
        self.standings.send_replace(standings);
    }
}

/// How many layers the API server is asked for at once at the start: what is read of them is held twice, as text and as
/// objects with all that other programs note in them, until they are layers. A thousand come in a tenth of a second.
const PAGE: u32 = 100;

/// Watches the layers of some namespaces until `watched` has no readers left. A lost connection is taken up again with
/// growing pauses; meanwhile the last snapshot stays in force.
pub async fn watch_layers(client: Client, layers: Layers, watched: Watched, metrics: Metrics) {
    openapi::extend_schema(&client).await;
    let Layers { own_namespace, namespaces: more, expected, last_good, reads_only } = layers;
    let mut namespaces = vec![own_namespace.clone()];
    namespaces.extend(more.into_iter().filter(|namespace| *namespace != own_namespace));
    let streams = namespaces.iter().map(|namespace| {
        let api: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
        let config = watcher::Config::default().labels(names::LAYER).page_size(PAGE);
        let namespace = namespace.clone();
        watcher(api, config).default_backoff().map(move |event| (namespace.clone(), event)).boxed()
    });
    let mut events = select_all(streams);
    let mut store = Some(Store::new(client.clone(), &own_namespace, &last_good, metrics.clone()));
    let (wanted, keep) = watch::channel(Wanted::default());
    let (found, mut kept) = mpsc::channel(1);
    let (unfit, mut too_large) = watch::channel(BTreeSet::new());
    let told = if reads_only { Events::none() } else { Events::start(client) };
    let mut desk = Desk::new(own_namespace, expected, told, metrics);
    let mut unlisted: HashSet<String> = namespaces.into_iter().collect();
    loop {
        let whole = tokio::select! {
            event = events.next() => match event {
                Some((namespace, event)) => desk.take(namespace, event, &mut unlisted),
                None => return,
            },
            Some(versions) = kept.recv() => desk.recall(versions),
            Ok(()) = too_large.changed() => {
                desk.tell_too_large(&too_large.borrow_and_update());
                false
            }
        };
        if !whole || !unlisted.is_empty() {
            // Some namespace was never listed: what was seen so far is not the whole.
            continue;
        }
        let mut store = store.take();
        if let Some(store) = &mut store {
            // Before the first layers come into force: a bad one's last good version is among them.
            let versions = store.load().await;
            desk.recall(versions);
        }
        desk.tell_lost();
        wanted.send_if_modified(|before| {
            let now = desk.book.wanted();
            let new = *before != now;
            *before = now;
            new
        });
        if let Some(store) = store
            && !reads_only
        {
            tokio::spawn(store.keep(keep.clone(), found.clone(), unfit.clone()));
        }
        let standings = desk.book.standings();
        match desk.book.snapshot() {
            Ok(snapshot) => watched.publish(snapshot, standings, &desk.metrics),
            Err(error) => {
                watched.tell(standings, &desk.metrics);
                tracing::error!(error = %error, "layers don't make a snapshot, the last one stays");
            }
        }
    }
}

/// The book of the layers, with those who are told of each change in it.
struct Desk {
    book: Book,
    /// What each layer's ConfigMap is known by.
    subjects: HashMap<Key, Subject>,
    /// The names seen so far in a list that isn't at its end yet, by namespace.
    listing: HashMap<String, HashSet<String>>,
    /// The bad layers without a version that people were told of.
    lost: BTreeSet<Key>,
    events: Events,
    metrics: Metrics,
}

impl Desk {
    fn new(own_namespace: String, expected: Vec<String>, events: Events, metrics: Metrics) -> Self {
        let mut book = Book::new(own_namespace);
        book.expect(expected);
        let (subjects, listing, lost) = (HashMap::new(), HashMap::new(), BTreeSet::new());
        Self { book, subjects, listing, lost, events, metrics }
    }

    /// Takes in one event; says whether the book is whole again after it.
    fn take(
        &mut self,
        namespace: String,
        event: Result<watcher::Event<ConfigMap>, watcher::Error>,
        unlisted: &mut HashSet<String>,
    ) -> bool {
        match event {
            Ok(watcher::Event::Init) => {
                self.listing.insert(namespace, HashSet::new());
                // The whole comes with InitDone; until then what was there before stays in force.
                return false;
            }
            Ok(watcher::Event::InitApply(config_map)) => {
                let (subject, source) = parts(config_map);
                self.listing.entry(namespace).or_default().insert(source.name.clone());
                self.put(subject, source);
                return false;
            }
            Ok(watcher::Event::InitDone) => {
                let listed = self.listing.remove(&namespace).unwrap_or_default();
                let stays = |other: &str, name: &str| other != namespace || listed.contains(name);
                self.book.retain(stays);
                self.subjects.retain(|(namespace, name), _| stays(namespace, name));
                unlisted.remove(&namespace);
            }
            Ok(watcher::Event::Apply(config_map)) => {
                let (subject, source) = parts(config_map);
                self.put(subject, source);
            }
            Ok(watcher::Event::Delete(config_map)) => {
                let (subject, source) = parts(config_map);
                tracing::info!(layer = %source.title(), "layer ended");
                self.subjects.remove(&(subject.namespace, subject.name));
                self.book.remove(&source.namespace, &source.name);
            }
            Err(error) => {
                self.metrics.watch_failed();
                tracing::warn!(namespace, error = %error, "watching layers failed, trying again");
                return false;
            }
        }
        true
    }

    fn put(&mut self, subject: Subject, source: LayerSource) {
        if self.book.has(&source) {
            return;
        }
        let title = source.title();
        let key = (source.namespace.clone(), source.name.clone());
        let before = self.book.state(&key);
        match self.book.put(source) {
            Ok(()) => {
                tracing::info!(layer = %title, "layer read");
                if matches!(before, Some(State::Bad | State::Stale)) {
                    self.events.tell(&subject, Reason::Mended, "the layer can be read again and is in force");
                }
            }
            Err(error) => {
                tracing::warn!(layer = %title, problem = %error, "layer can't be read, its last good version stays");
                self.events.tell(&subject, Reason::Invalid, &note(&error));
            }
        }
        self.subjects.insert(key, subject);
    }

    /// Puts kept versions in force where a bad layer has none; says whether there was one.
    fn recall(&mut self, versions: Vec<LayerSource>) -> bool {
        let mut any = false;
        for version in versions {
            let title = version.title();
            match self.book.recall(version) {
                Ok(true) => {
                    tracing::warn!(layer = %title, "the layer is bad, the version kept before a restart is in force");
                    any = true;
                }
                Ok(false) => {}
                Err(error) => {
                    self.metrics.last_good_failed(KeepFailure::Incompatible);
                    tracing::warn!(layer = %title, problem = %error, "the kept version of a layer can't be read");
                }
            }
        }
        any
    }

    /// Tells of the bad layers that have no version in force.
    fn tell_lost(&mut self) {
        let lost = self.book.wanted().lost;
        for key in lost.difference(&self.lost) {
            tracing::warn!(namespace = key.0, layer = key.1, "the layer is bad and was never good, it is left out");
            if let Some(subject) = self.subjects.get(key) {
                let note = "the layer is bad and no earlier version of it is known: it is left out until it is mended";
                self.events.tell(subject, Reason::LastGoodMissing, note);
            }
        }
        self.lost = lost;
    }

    fn tell_too_large(&self, keys: &BTreeSet<Key>) {
        for key in keys {
            tracing::warn!(
                namespace = key.0,
                layer = key.1,
                "the last good version of the layer doesn't fit, a restart loses it"
            );
            if let Some(subject) = self.subjects.get(key) {
                let note =
                    "the last good version is in force, but too large to be kept: a restart of podlayer loses it";
                self.events.tell(subject, Reason::LastGoodTooLarge, note);
            }
        }
    }
}

/// What is wrong with a layer, for more people than may read the layer.
fn note(error: &ParseError) -> String {
    error.0.iter().map(Complaint::without_values).collect::<Vec<_>>().join("\n")
}

/// A ConfigMap as the one parser of layers takes it.
pub(super) fn source_of(config_map: ConfigMap) -> LayerSource {
    parts(config_map).1
}

fn parts(config_map: ConfigMap) -> (Subject, LayerSource) {
    let metadata = config_map.metadata;
    let (namespace, name) = (metadata.namespace.unwrap_or_default(), metadata.name.unwrap_or_default());
    let subject = Subject {
        namespace: namespace.clone(),
        name: name.clone(),
        uid: metadata.uid.unwrap_or_default(),
        version: metadata.resource_version.unwrap_or_default(),
    };
    let source = LayerSource {
        namespace,
        name,
        labels: metadata.labels.unwrap_or_default(),
        data: config_map.data.unwrap_or_default(),
        binary_keys: config_map.binary_data.unwrap_or_default().into_keys().collect(),
    };
    (subject, source)
}
