//! What all calls of a replica share.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use futures::StreamExt;
use k8s_openapi::api::core::v1::Secret;
use kube::{
    Api, Client, Resource,
    runtime::{
        WatchStreamExt,
        events::{Event, EventType, Recorder},
        reflector::{self, ObjectRef, Store},
        watcher,
    },
};
use tokio::{
    sync::Semaphore,
    time::{Instant, timeout},
};

use super::{SharedSecret, callback::Callbacks, desk::Desk, rate::Rate};
use crate::{
    cluster::event_note,
    pool::{Key, api::AgentPool},
    telemetry::AzureMetrics,
};

/// How long a Secret is believed. What is taken out of it is refused so soon.
const BELIEVED: Duration = Duration::from_secs(5);
/// How long it is believed if a signature doesn't fit: a new one may have come. A flood of wrong signatures reads it once
/// a second.
const DOUBTED: Duration = Duration::from_secs(1);
/// How long the API server may take for one object.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);
/// How often new pools are given a desk.
const DESKS_EVERY: Duration = Duration::from_secs(1);
/// How many agents are made at once: as many writes are under way, too few to be throttled.
const AT_ONCE: usize = 32;
/// How often the same is told by an event.
const TOLD_EVERY: Duration = Duration::from_secs(60);

/// How calls are answered.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Namespaces whose pools are served.
    pub namespaces: Vec<String>,
    /// The pool of `/acquire` and `/release`.
    pub default_pool: Option<Key>,
    /// Calls a second for each pool, before anything else is looked at.
    pub calls_per_second: u32,
    /// How often each replica looks for agents that shouldn't be.
    pub look_every: Duration,
    /// Which hosts may be called back.
    pub callbacks: Callbacks,
}

/// Answers the calls of Azure Pipelines.
pub struct Service {
    pub(super) client: Client,
    pub(super) metrics: AzureMetrics,
    pub(super) settings: Settings,
    pub(super) rate: Rate,
    pub(super) making: Semaphore,
    recorder: Recorder,
    stores: HashMap<String, Store<AgentPool>>,
    desks: Mutex<HashMap<Key, (String, Desk)>>,
    secrets: Mutex<HashMap<Key, Arc<tokio::sync::Mutex<Option<Believed>>>>>,
    told: Mutex<HashMap<(Key, &'static str), Instant>>,
}

struct Believed {
    read: Instant,
    /// The Secret's name and keys.
    of: (String, Vec<String>),
    secrets: Vec<SharedSecret>,
}

/// Why a pool's shared secret can't be had.
#[derive(Debug, thiserror::Error)]
pub(super) enum NoSecret {
    #[error("failed to read the Secret {0}")]
    Api(String, #[source] kube::Error),
    #[error("failed to read the Secret {0}: no answer")]
    Timeout(String),
    #[error("the Secret {0} is not usable: {1}")]
    Unusable(String, String),
}

impl Service {
    /// Watches the pools. The future keeps that up, and ends only if it can't.
    pub fn start(
        client: Client,
        settings: Settings,
        recorder: Recorder,
        metrics: AzureMetrics,
    ) -> (Arc<Self>, impl Future<Output = ()> + Send) {
        let mut stores = HashMap::new();
        let mut streams = Vec::new();
        for namespace in &settings.namespaces {
            let (store, writer) = reflector::store();
            let api: Api<AgentPool> = Api::namespaced(client.clone(), namespace);
            streams
                .push(reflector::reflector(writer, watcher(api, watcher::Config::default()).default_backoff()).boxed());
            stores.insert(namespace.clone(), store);
        }
        let service = Arc::new(Self {
            rate: Rate::new(settings.calls_per_second),
            making: Semaphore::new(AT_ONCE),
            client,
            metrics,
            settings,
            recorder,
            stores,
            desks: Mutex::default(),
            secrets: Mutex::default(),
            told: Mutex::default(),
        });
        let running = Arc::clone(&service);
        let keep = async move {
            let mut events = futures::stream::select_all(streams);
            let mut tick = tokio::time::interval(DESKS_EVERY);
            loop {
                tokio::select! {
                    event = events.next() => match event {
                        Some(Ok(_)) => {}
                        Some(Err(error)) => tracing::warn!(error = %error, "the watch of the pools failed, trying again"),
                        None => return,
                    },
                    _ = tick.tick() => running.open_desks(),
                }
            }
        };
        (service, keep)
    }

    /// Waits until all pools are known.
    pub async fn ready(&self) {
        for store in self.stores.values() {
            // An error means that the watch is gone, which ends the process anyway.
            let _ = store.wait_until_ready().await;
        }
    }

    /// A pool that is Azure Pipelines'.
    pub(super) fn pool(&self, key: &Key) -> Option<Arc<AgentPool>> {
        let store = self.stores.get(&key.0)?;
        store.get(&ObjectRef::new(&key.1).within(&key.0)).filter(|pool| pool.spec.azure.is_some())
    }

    /// All pools of a namespace.
    pub(super) fn pools(&self, namespace: &str) -> Vec<Arc<AgentPool>> {
        self.stores.get(namespace).map(Store::state).unwrap_or_default()
    }

    /// The desk of a pool.
    pub(super) fn desk(self: &Arc<Self>, pool: &AgentPool) -> Desk {
        let (key, uid) = (pool.key(), pool.metadata.uid.clone().unwrap_or_default());
        let mut desks = self.desks.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((of, desk)) = desks.get(&key)
            && *of == uid
            && !desk.is_closed()
        {
            return desk.clone();
        }
        let desk = Desk::open(Arc::clone(self), key.clone(), uid.clone(), self.settings.look_every);
        desks.insert(key, (uid, desk.clone()));
        desk
    }

    fn open_desks(self: &Arc<Self>) {
        let pools: Vec<_> =
            self.stores.values().flat_map(Store::state).filter(|pool| pool.spec.azure.is_some()).collect();
        for pool in &pools {
            self.desk(pool);
        }
        let there = |of: &Key| pools.iter().any(|pool| pool.key() == *of);
        self.desks.lock().unwrap_or_else(PoisonError::into_inner).retain(|key, _| there(key));
        self.secrets.lock().unwrap_or_else(PoisonError::into_inner).retain(|key, _| there(key));
    }

    /// The shared secrets of a pool. After a signature that didn't fit, they are read again sooner.
    pub(super) async fn secrets(&self, pool: &AgentPool, doubted: bool) -> Result<Vec<SharedSecret>, NoSecret> {
        let Some(azure) = &pool.spec.azure else { return Ok(Vec::new()) };
        let of = (azure.secret_name.clone(), azure.keys().into_iter().map(str::to_owned).collect::<Vec<_>>());
        let cell =
            Arc::clone(self.secrets.lock().unwrap_or_else(PoisonError::into_inner).entry(pool.key()).or_default());
        // One reads, the others wait for it.
        let mut believed = cell.lock().await;
        let for_so_long = if doubted { DOUBTED } else { BELIEVED };
        if let Some(believed) = believed.as_ref().filter(|b| b.of == of && b.read.elapsed() < for_so_long) {
            return Ok(believed.secrets.clone());
        }
        *believed = None;
        let namespace = pool.meta().namespace.as_deref().unwrap_or_default();
        let name = format!("{namespace}/{}", of.0);
        let api: Api<Secret> = Api::namespaced(self.client.clone(), namespace);
        let read = timeout(PATIENCE, api.get_opt(&of.0)).await;
        let found = read.map_err(|_| NoSecret::Timeout(name.clone()))?;
        let found = found.map_err(|error| NoSecret::Api(name.clone(), error))?;
        let Some(found) = found else { return Err(NoSecret::Unusable(name, "there is none of that name".into())) };
        let data = found.data.unwrap_or_default();
        let mut problems = Vec::new();
        let mut secrets = Vec::new();
        for key in &of.1 {
            match data.get(key).map(|value| SharedSecret::new(&value.0)) {
                Some(Ok(secret)) => secrets.push(secret),
                Some(Err(error)) => problems.push(format!("{key}: {error}")),
                // The second one, while the secret isn't being changed.
                None => problems.push(format!("{key} is missing")),
            }
        }
        if secrets.is_empty() {
            return Err(NoSecret::Unusable(name, problems.join(", ")));
        }
        *believed = Some(Believed { read: Instant::now(), of, secrets: secrets.clone() });
        Ok(secrets)
    }

    /// Tells something of a pool by an event: the same at most once a minute.
    pub(super) async fn tell(&self, pool: &AgentPool, warning: bool, reason: &'static str, note: String) {
        let now = Instant::now();
        {
            let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
            told.retain(|_, at| now.duration_since(*at) < TOLD_EVERY);
            if told.contains_key(&(pool.key(), reason)) {
                return;
            }
            told.insert((pool.key(), reason), now);
        }
        let type_ = if warning { EventType::Warning } else { EventType::Normal };
        let note = Some(event_note(&note));
        let event = Event { type_, reason: reason.into(), note, action: "Answer".into(), secondary: None };
        match timeout(PATIENCE, self.recorder.publish(&event, &pool.object_ref(&()))).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::debug!(error = %error, "an event can't be written"),
            Err(_) => tracing::debug!("an event can't be written: no answer"),
        }
    }
}
