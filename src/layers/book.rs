use std::{collections::BTreeMap, sync::Arc};

use serde::Serialize;

use super::{
    Cause, Complaint, Layer, LayerId, LayerSource, Mode, ParseError, Place, Scope, Snapshot, SnapshotError,
    last_good::{Key, Wanted, essence},
    parse,
    source::Packed,
};

/// The layers that were seen last, each with its last good version: what a snapshot is made of.
///
/// A version that can't be read doesn't end its layer: the last good one stays in force until a good one comes or the
/// source goes. Half a layer is never used.
#[derive(Clone, Debug)]
pub struct Book {
    own_namespace: String,
    expected: Vec<String>,
    entries: BTreeMap<Key, Entry>,
}

#[derive(Clone, Debug)]
struct Entry {
    source: Arc<Packed>,
    good: Option<Good>,
    problem: Option<Arc<ParseError>>,
}

/// A version that can be read, with the text that it was read from.
#[derive(Clone, Debug)]
struct Good {
    layer: Arc<Layer>,
    source: Arc<Packed>,
}

/// How one layer stands.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// It can't be read and never could: not in force.
    Bad,
    /// Its newest version is in force.
    Good,
    /// It is expected and not there.
    Missing,
    /// Its newest version can't be read; an older one is in force.
    Stale,
}

/// One layer as people are told about it.
#[derive(Clone, Debug, Serialize)]
pub struct Standing {
    /// `ConfigMap podlayer/base`.
    pub source: String,
    /// `default/base`; empty for a layer that was never good.
    pub layer: String,
    /// The namespace that it is for, where it isn't the cluster's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// How it stands.
    pub state: State,
    /// Whether it is tried only and changes no pod (`mode: Audit`).
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub audit: bool,
    /// Twelve digits of the hash of the version in force; empty where none is.
    pub hash: String,
    /// What is wrong with its newest version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

impl Standing {
    /// A layer in force, whatever is wrong with a newer version of it.
    pub fn in_force(source: String, layer: &Layer, problem: Option<String>) -> Self {
        Self {
            source,
            layer: layer.id.to_string(),
            namespace: layer.namespace.clone(),
            state: if problem.is_none() { State::Good } else { State::Stale },
            audit: layer.options.mode == Mode::Audit,
            hash: layer.digest.iter().take(6).map(|byte| format!("{byte:02x}")).collect(),
            problem,
        }
    }

    /// A layer of which no version is in force.
    pub fn absent(source: String, state: State, problem: Option<String>) -> Self {
        Self { source, layer: String::new(), namespace: None, state, audit: false, hash: String::new(), problem }
    }

    /// What a layer's use is counted under: its name, for a namespace's own layer with the namespace.
    pub fn key(layer: &LayerId, namespace: Option<&str>) -> String {
        match namespace {
            Some(namespace) => format!("{namespace} {layer}"),
            None => layer.to_string(),
        }
    }

    /// The key of this one.
    pub fn own_key(&self) -> String {
        match &self.namespace {
            Some(namespace) => format!("{namespace} {}", self.layer),
            None => self.layer.clone(),
        }
    }
}

/// How many layers a namespace other than podlayer's own may have; the cluster's admin didn't write them.
const MOST_LAYERS: usize = 20;
/// How many bytes they may hold together.
const MOST_BYTES: usize = 256 << 10;

impl Book {
    /// An empty one.
    pub fn new(own_namespace: impl Into<String>) -> Self {
        Self { own_namespace: own_namespace.into(), expected: Vec::new(), entries: BTreeMap::new() }
    }

    /// Names ConfigMaps of podlayer's own namespace that must be there: one that isn't is told as missing.
    pub fn expect(&mut self, names: Vec<String>) {
        self.expected = names;
    }

    /// Takes in a new version of a layer.
    ///
    /// # Errors
    /// What is wrong with it; the last good version stays.
    pub fn put(&mut self, source: LayerSource) -> Result<(), Arc<ParseError>> {
        let key = (source.namespace.clone(), source.name.clone());
        let packed = Packed::of(&source);
        if let Some(entry) = self.entries.get(&key).filter(|entry| *entry.source == packed) {
            // Seen before: a relist brings everything again.
            return entry.problem.clone().map_or(Ok(()), Err);
        }
        let good = self.entries.get(&key).and_then(|entry| entry.good.clone());
        let parsed = parse(&source, Scope { own_namespace: &self.own_namespace });
        let fits = self.room_for(&source, packed.size);
        let source = Arc::new(packed);
        let entry = match fits.and(parsed) {
            Ok(layer) => {
                let good = Good { layer: Arc::new(layer), source: Arc::clone(&source) };
                Entry { source, good: Some(good), problem: None }
            }
            Err(error) => Entry { source, good, problem: Some(Arc::new(error)) },
        };
        let outcome = entry.problem.clone().map_or(Ok(()), Err);
        self.entries.insert(key, entry);
        outcome
    }

    /// Whether this version was taken in before.
    pub fn has(&self, source: &LayerSource) -> bool {
        let key = (source.namespace.clone(), source.name.clone());
        self.entries.get(&key).is_some_and(|entry| *entry.source == Packed::of(source))
    }

    /// Puts the version that somebody kept in force for a layer that is bad and has none. Says whether it did: not for
    /// a layer that is good, gone, or has a good version of its own.
    ///
    /// # Errors
    /// What this podlayer finds wrong with the kept version, which another one could read.
    pub fn recall(&mut self, kept: LayerSource) -> Result<bool, ParseError> {
        let key = (kept.namespace.clone(), kept.name.clone());
        let scope = Scope { own_namespace: &self.own_namespace };
        let entry = self.entries.get_mut(&key).filter(|entry| entry.problem.is_some() && entry.good.is_none());
        let Some(entry) = entry else { return Ok(false) };
        let layer = parse(&kept, scope)?;
        entry.good = Some(Good { layer: Arc::new(layer), source: Arc::new(Packed::of(&kept)) });
        Ok(true)
    }

    /// What must be kept for a restart.
    pub fn wanted(&self) -> Wanted {
        let mut wanted = Wanted::default();
        for (key, entry) in self.entries.iter().filter(|(_, entry)| entry.problem.is_some()) {
            match &entry.good {
                Some(good) => _ = wanted.keep.insert(key.clone(), Arc::new(essence(&good.source.unpack()))),
                None => _ = wanted.lost.insert(key.clone()),
            }
        }
        wanted
    }

    /// How one layer stands.
    pub fn state(&self, key: &Key) -> Option<State> {
        self.entries.get(key).map(Entry::state)
    }

    /// Whether a layer fits beside the others of its namespace.
    fn room_for(&self, source: &LayerSource, size: usize) -> Result<(), ParseError> {
        if source.namespace.is_empty() || source.namespace == self.own_namespace {
            return Ok(());
        }
        let is_other = |(namespace, name): &Key| *namespace == source.namespace && *name != source.name;
        let others = self.entries.iter().filter(|(key, _)| is_other(key));
        let (count, bytes) =
            others.fold((1, size), |(count, bytes), (_, other)| (count + 1, bytes + other.source.size));
        if count <= MOST_LAYERS && bytes <= MOST_BYTES {
            return Ok(());
        }
        let cause = format!(
            "namespace {:?} has {count} layers of {bytes} bytes, at most {MOST_LAYERS} of {MOST_BYTES} bytes are read",
            source.namespace
        );
        let place = Place::ConfigMap { title: source.title(), key: None };
        Err(ParseError(vec![Complaint { cause: Cause::Config(cause), place, at: None }]))
    }

    /// Ends a layer.
    pub fn remove(&mut self, namespace: &str, name: &str) {
        self.entries.remove(&(namespace.to_owned(), name.to_owned()));
    }

    /// Ends every layer whose source isn't among these: what a complete list says by leaving out.
    pub fn retain(&mut self, keep: impl Fn(&str, &str) -> bool) {
        self.entries.retain(|(namespace, name), _| keep(namespace, name));
    }

    /// All good versions as one snapshot.
    ///
    /// # Errors
    /// As [`Snapshot::build`]; can't happen for ConfigMaps, whose names are unique.
    pub fn snapshot(&self) -> Result<Snapshot, SnapshotError> {
        Snapshot::build(
            self.entries.values().filter_map(|entry| entry.good.as_ref()).map(|good| Arc::clone(&good.layer)),
        )
    }

    /// How every layer stands, those that are expected and missing last.
    pub fn standings(&self) -> Vec<Standing> {
        let standing = |((namespace, name), entry): (&Key, &Entry)| {
            let title = LayerSource::title_of(namespace, name);
            let problem = entry.problem.as_ref().map(ToString::to_string);
            match &entry.good {
                Some(good) => Standing::in_force(title, &good.layer, problem),
                None => Standing::absent(title, State::Bad, problem),
            }
        };
        let missing = self.missing().map(|name| {
            let problem = "it is expected (--expect-layers) and there is no such layer".to_owned();
            Standing::absent(LayerSource::title_of(&self.own_namespace, name), State::Missing, Some(problem))
        });
        self.entries.iter().map(standing).chain(missing).collect()
    }

    /// The expected layers that aren't there.
    fn missing(&self) -> impl Iterator<Item = &str> {
        let is_there = |name: &str| {
            self.entries.keys().any(|(namespace, known)| known == name && *namespace == self.own_namespace)
        };
        self.expected.iter().map(String::as_str).filter(move |name| !is_there(name))
    }
}

impl Entry {
    fn state(&self) -> State {
        match (&self.good, &self.problem) {
            (_, None) => State::Good,
            (Some(_), Some(_)) => State::Stale,
            (None, Some(_)) => State::Bad,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(patch: &str) -> LayerSource {
        LayerSource {
            namespace: "podlayer".into(),
            name: "base".into(),
            labels: [("podlayer.dev/layer".into(), "default".into())].into(),
            data: [("podSpecPatch".into(), patch.into())].into(),
            ..LayerSource::default()
        }
    }

    #[test]
    fn a_bad_version_leaves_the_last_good_one_in_force_and_deletion_ends_it() {
        let mut book = Book::new("podlayer");
        assert!(book.put(source("llamas: true")).is_err());
        assert_eq!(book.standings()[0].state, State::Bad);
        assert_eq!(book.snapshot().unwrap().layers().count(), 0);
        book.put(source("hostNetwork: true")).unwrap();
        assert!(book.put(source("llamas: true")).is_err());
        assert!(book.put(source("llamas: true")).is_err(), "the same version again is still bad");
        assert_eq!(book.standings()[0].state, State::Stale);
        assert_eq!(book.snapshot().unwrap().layers().count(), 1);
        book.remove("podlayer", "base");
        assert_eq!(book.snapshot().unwrap().layers().count(), 0);
    }

    #[test]
    fn a_kept_version_comes_into_force_for_a_bad_layer_without_one_and_for_no_other() {
        let mut book = Book::new("podlayer");
        let kept = || source("hostNetwork: true");
        assert!(!book.recall(kept()).unwrap(), "the layer is gone");
        assert!(book.put(source("llamas: true")).is_err());
        assert_eq!(book.wanted().lost.len(), 1);
        assert!(book.recall(source("alpacas: true")).is_err(), "this podlayer can't read what another could");
        assert!(book.recall(kept()).unwrap());
        assert_eq!((book.standings()[0].state, book.snapshot().unwrap().layers().count()), (State::Stale, 1));
        assert_eq!(book.wanted().keep.values().next().unwrap().data["podSpecPatch"], "hostNetwork: true");
        assert!(!book.recall(source("hostPID: true")).unwrap(), "it has one now");
        book.put(source("hostIPC: true")).unwrap();
        assert!(!book.recall(kept()).unwrap(), "it is good");
        assert_eq!(book.wanted(), Wanted::default());
    }

    #[test]
    fn a_change_of_one_layer_reads_no_other_again() {
        let mut book = Book::new("podlayer");
        let named = |name: usize, text: &str| LayerSource { name: name.to_string(), ..source(text) };
        (0..9).for_each(|name| book.put(named(name, "hostNetwork: true")).unwrap());
        let before = book.snapshot().unwrap();
        book.put(named(4, "hostPID: true")).unwrap();
        // A relist brings the others, too.
        (0..4).for_each(|name| book.put(named(name, "hostNetwork: true")).unwrap());
        let after = book.snapshot().unwrap();
        let same = before.layers().zip(after.layers()).map(|(before, after)| Arc::ptr_eq(before, after));
        assert_eq!(same.collect::<Vec<_>>(), (0..9).map(|name| name != 4).collect::<Vec<_>>());
    }

    #[test]
    fn an_expected_layer_that_is_not_there_is_told() {
        let mut book = Book::new("podlayer");
        book.expect(vec!["base".into(), "other".into()]);
        book.put(source("hostNetwork: true")).unwrap();
        let standings = book.standings();
        assert_eq!(standings.len(), 2);
        assert_eq!((standings[1].source.as_str(), standings[1].state), ("ConfigMap podlayer/other", State::Missing));
        assert_eq!(standings[0].hash.len(), 12);
    }

    #[test]
    fn the_hash_of_a_snapshot_is_that_of_its_layers_whatever_order_they_came_in() {
        let named = |name: &str, order: &str| {
            let mut source = LayerSource { name: name.into(), ..source("hostNetwork: true") };
            source.labels.insert("podlayer.dev/order".into(), order.into());
            source
        };
        let hash = |sources: &[LayerSource]| {
            let mut book = Book::new("podlayer");
            sources.iter().for_each(|source| book.put(source.clone()).unwrap());
            book.snapshot().unwrap().hash().to_owned()
        };
        let both = hash(&[named("a", "1"), named("b", "2")]);
        assert_eq!(both, hash(&[named("b", "2"), named("a", "1")]));
        for other in [hash(&[named("a", "1")]), hash(&[named("a", "1"), named("b", "0")]), hash(&[])] {
            assert_ne!(both, other);
        }
    }

    #[test]
    fn a_namespace_of_its_own_layers_is_capped() {
        let mut book = Book::new("podlayer");
        let named = |name: String| LayerSource { namespace: "team".into(), name, ..source("hostNetwork: true") };
        for at in 0..MOST_LAYERS {
            book.put(named(format!("l{at}"))).unwrap();
        }
        let error = book.put(named("more".into())).unwrap_err();
        assert!(error.to_string().starts_with("namespace \"team\" has 21 layers"), "{error}");
        let large = LayerSource { namespace: "other".into(), ..source(&format!("# {}", "x".repeat(MOST_BYTES))) };
        assert!(book.put(large).is_err());
    }
}
