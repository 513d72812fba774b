//! The ConfigMap in which the replicas keep the last good versions of bad layers, so that a restart of all of them loses
//! none. What stands in it and what must change is [`crate::layers::last_good`]'s to say.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::{Read, Write},
    sync::Arc,
    time::Duration,
};

use flate2::{Compression, read::GzDecoder, write::GzEncoder};
use k8s_openapi::{ByteString, api::core::v1::ConfigMap};
use kube::{Api, Client, api::PostParams};
use tokio::{
    sync::{mpsc, watch},
    time::{sleep, timeout},
};

use crate::{
    layers::{
        LayerSource,
        last_good::{Key, MOST_BYTES, Wanted, changes, from_text, slot, to_text},
    },
    telemetry::{KeepFailure, KeptIn, Metrics},
};

/// How long one answer of the API server may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// How often a write is tried again that another replica's came before.
const TRIES: u32 = 5;

/// After how long something that couldn't be kept or found is looked at again.
const AGAIN: Duration = Duration::from_secs(30);

/// The longest text that an entry may unpack to: the largest ConfigMap with every character escaped.
const LONGEST: u64 = 8 << 20;

/// The shared ConfigMap.
pub(super) struct Store {
    api: Api<ConfigMap>,
    name: String,
    metrics: Metrics,
    /// What was said last about it, so that it is said once.
    told: String,
    /// The entries that were said to be damaged.
    damaged: Vec<String>,
}

/// Why the ConfigMap couldn't be read or written.
#[derive(Debug, thiserror::Error)]
enum StoreError {
    #[error("there is no ConfigMap of this name")]
    Absent,
    #[error("other replicas wrote it each time")]
    Contended,
    #[error("it is not allowed (get and update on the ConfigMap by its name are needed)")]
    Forbidden,
    #[error(transparent)]
    Other(kube::Error),
    #[error("the API server gave no answer")]
    Silent,
}

/// The ConfigMap as it was read: its readable entries, and the slots of those that aren't.
struct Contents {
    config_map: ConfigMap,
    kept: BTreeMap<String, LayerSource>,
    damaged: Vec<String>,
}

/// How one look at the ConfigMap ended.
#[derive(Default)]
struct Synced {
    /// Versions for bad layers that have none here.
    found: Vec<LayerSource>,
    /// Layers whose last good version doesn't fit.
    too_large: BTreeSet<Key>,
    /// How many versions the ConfigMap holds of those wanted.
    kept: usize,
}

impl Store {
    pub(super) fn new(client: Client, namespace: &str, name: &str, metrics: Metrics) -> Self {
        Self {
            api: Api::namespaced(client, namespace),
            name: name.to_owned(),
            metrics,
            told: String::new(),
            damaged: Vec::new(),
        }
    }

    /// All that was kept, for a process that starts. Tried again for a while where the API server has no answer: without
    /// them, bad layers would not be in force.
    pub(super) async fn load(&mut self) -> Vec<LayerSource> {
        for try_ in 1..=TRIES {
            match self.read().await {
                Ok(read) => return read.kept.into_values().collect(),
                Err(error @ (StoreError::Absent | StoreError::Forbidden)) => {
                    self.complain(&error);
                    break;
                }
                Err(error) => {
                    self.complain(&error);
                    sleep(Duration::from_millis(200) * try_).await;
                }
            }
        }
        Vec::new()
    }

    /// Keeps what is wanted, whenever that changes, until nobody wants anything any more. Versions that others kept of
    /// layers that have none here go to `found`; layers whose version doesn't fit to `too_large`.
    pub(super) async fn keep(
        mut self,
        mut wanted: watch::Receiver<Wanted>,
        found: mpsc::Sender<Vec<LayerSource>>,
        too_large: watch::Sender<BTreeSet<Key>>,
    ) {
        let mut settled = BTreeMap::new();
        loop {
            let now = wanted.borrow_and_update().clone();
            let mut again = !now.lost.is_empty();
            match self.sync(&now, &settled).await {
                Ok(synced) => {
                    self.told.clear();
                    self.metrics.last_good(KeptIn::ConfigMap, synced.kept);
                    self.metrics.last_good(KeptIn::Memory, now.keep.len() - synced.kept);
                    settled = now.keep;
                    settled.retain(|key, _| !synced.too_large.contains(key));
                    again |= !synced.too_large.is_empty();
                    let new = synced.too_large.difference(&too_large.borrow()).count();
                    (0..new).for_each(|_| self.metrics.last_good_failed(KeepFailure::TooLarge));
                    too_large.send_if_modified(|before| {
                        *before = synced.too_large;
                        new > 0
                    });
                    if !synced.found.is_empty() && found.send(synced.found).await.is_err() {
                        return;
                    }
                }
                Err(error) => {
                    self.metrics.last_good(KeptIn::Memory, now.keep.len());
                    self.metrics.last_good(KeptIn::ConfigMap, 0);
                    // Nothing to keep and nothing to take away is no reason to complain.
                    if now != Wanted::default() {
                        self.complain(&error);
                        again = true;
                    }
                }
            }
            let changed = async {
                if again {
                    // Elapsed or not: either is a reason to look.
                    timeout(AGAIN, wanted.changed()).await.unwrap_or(Ok(()))
                } else {
                    wanted.changed().await
                }
            };
            if changed.await.is_err() {
                return;
            }
        }
    }

    /// Brings the ConfigMap in agreement with what is wanted.
    async fn sync(&mut self, wanted: &Wanted, settled: &BTreeMap<Key, Arc<LayerSource>>) -> Result<Synced, StoreError> {
        for try_ in 0..TRIES {
            let read = self.read().await?;
            let lost: BTreeSet<String> = wanted.lost.iter().map(slot).collect();
            let is_lost = |slot: &str| lost.contains(slot);
            let found = read.kept.iter().filter(|(slot, _)| is_lost(slot)).map(|(_, source)| source.clone()).collect();
            let todo = changes(&read.kept, wanted, settled);
            let mut synced = Synced { found, ..Synced::default() };
            let mut config_map = read.config_map;
            let mut data = config_map.binary_data.take().unwrap_or_default();
            let before = data.clone();
            data.retain(|slot, _| !todo.remove.contains(slot));
            for key in &todo.put {
                let Some(source) = wanted.keep.get(key) else { continue };
                let entry = pack(&to_text(source));
                let slot = slot(key);
                let others: usize = data
                    .iter()
                    .filter(|(other, _)| **other != slot)
                    .map(|(slot, entry)| slot.len() + entry.0.len())
                    .sum();
                if others + slot.len() + entry.len() > MOST_BYTES {
                    // An older version of it must not come into force in its place.
                    data.remove(&slot);
                    synced.too_large.insert(key.clone());
                } else {
                    data.insert(slot, ByteString(entry));
                }
            }
            synced.kept = wanted.keep.keys().filter(|key| data.contains_key(&slot(key))).count();
            if data == before {
                return Ok(synced);
            }
            config_map.binary_data = Some(data);
            // With the resourceVersion that was read: another replica's write in between makes this one fail.
            let written = timeout(PATIENCE, self.api.replace(&self.name, &PostParams::default(), &config_map)).await;
            match written {
                Ok(Ok(_)) => {
                    let (written, removed) = (todo.put.len() - synced.too_large.len(), todo.remove.len());
                    tracing::info!(written, removed, "last good versions of layers kept");
                    return Ok(synced);
                }
                Ok(Err(kube::Error::Api(status))) if status.code == 409 => {
                    tracing::debug!("another replica wrote the last good versions, looking again");
                    sleep(Duration::from_millis(50) * (try_ + 1)).await;
                }
                Ok(Err(error)) => return Err(StoreError::of(error)),
                Err(_) => return Err(StoreError::Silent),
            }
        }
        Err(StoreError::Contended)
    }

    async fn read(&mut self) -> Result<Contents, StoreError> {
        let config_map = timeout(PATIENCE, self.api.get(&self.name)).await;
        let config_map = config_map.map_err(|_| StoreError::Silent)?.map_err(StoreError::of)?;
        let mut read = Contents { kept: BTreeMap::new(), damaged: Vec::new(), config_map };
        for (slot, entry) in read.config_map.binary_data.iter().flatten() {
            match unpack(&entry.0).map(|text| from_text(slot, &text)) {
                Some(Ok(source)) => _ = read.kept.insert(slot.clone(), source),
                Some(Err(_)) | None => read.damaged.push(slot.clone()),
            }
        }
        if read.damaged != self.damaged {
            for slot in read.damaged.iter().filter(|slot| !self.damaged.contains(slot)) {
                self.metrics.last_good_failed(KeepFailure::Damaged);
                tracing::warn!(config_map = %self.name, entry = slot, "a kept version of a layer is damaged and ignored");
            }
            self.damaged.clone_from(&read.damaged);
        }
        Ok(read)
    }

    /// Counts a failure, and tells it where it is another than the last.
    fn complain(&mut self, error: &StoreError) {
        self.metrics.last_good_failed(match error {
            StoreError::Absent => KeepFailure::Absent,
            StoreError::Forbidden => KeepFailure::Forbidden,
            StoreError::Contended | StoreError::Other(_) | StoreError::Silent => KeepFailure::Unreachable,
        });
        let text = error.to_string();
        if self.told != text {
            tracing::warn!(
                config_map = %self.name, problem = text,
                "last good versions of layers are kept in memory only, a restart loses them"
            );
            self.told = text;
        }
    }
}

impl StoreError {
    fn of(error: kube::Error) -> Self {
        match error {
            kube::Error::Api(status) if status.code == 404 => Self::Absent,
            kube::Error::Api(status) if status.code == 403 => Self::Forbidden,
            error => Self::Other(error),
        }
    }
}

/// The same bytes for the same text: gzip's header has no time.
fn pack(text: &str) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    // INVARIANT: a Vec takes whatever is written into it.
    let written = encoder.write_all(text.as_bytes());
    written.and_then(|()| encoder.finish()).unwrap_or_default()
}

fn unpack(bytes: &[u8]) -> Option<String> {
    let mut text = String::new();
    GzDecoder::new(bytes).take(LONGEST).read_to_string(&mut text).ok()?;
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_packed_is_unpacked_and_nonsense_and_bombs_are_nothing() {
        let text = "a: é\n".repeat(1000);
        assert_eq!(unpack(&pack(&text)).as_deref(), Some(text.as_str()));
        assert_eq!(pack(&text), pack(&text));
        assert!(pack(&text).len() < text.len() / 10);
        assert_eq!(unpack(b"nonsense"), None);
        assert_eq!(unpack(&[]), None);
        let whole = pack(&text);
        assert_eq!(unpack(&whole[..whole.len() / 2]), None);
        let bomb = pack(&" ".repeat(LONGEST as usize * 2));
        assert!(unpack(&bomb).is_none_or(|text| text.len() as u64 <= LONGEST));
    }
}
