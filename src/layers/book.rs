use std::{collections::BTreeMap, sync::Arc};

use serde::Serialize;

use super::{Cause, Complaint, Layer, LayerSource, ParseError, Place, Scope, Snapshot, SnapshotError, parse};

/// The layers that were seen last, each with its last good version: what a snapshot is made of.
///
/// A version that can't be read doesn't end its layer: the last good one stays in force until a good one comes or the
/// source goes. Half a layer is never used.
#[derive(Clone, Debug)]
pub struct Book {
    own_namespace: String,
    entries: BTreeMap<(String, String), Entry>,
}

#[derive(Clone, Debug)]
struct Entry {
    source: LayerSource,
    good: Option<Arc<Layer>>,
    problem: Option<Arc<ParseError>>,
}

/// How one layer stands.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// It can't be read and never could: not in force.
    Bad,
    /// Its newest version is in force.
    Good,
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
    /// How it stands.
    pub state: State,
    /// What is wrong with its newest version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// How many layers a namespace other than podlayer's own may have; the cluster's admin didn't write them.
const MOST_LAYERS: usize = 20;
/// How many bytes they may hold together.
const MOST_BYTES: usize = 256 << 10;

impl Book {
    /// An empty one.
    pub fn new(own_namespace: impl Into<String>) -> Self {
        Self { own_namespace: own_namespace.into(), entries: BTreeMap::new() }
    }

    /// Takes in a new version of a layer.
    ///
    /// # Errors
    /// What is wrong with it; the last good version stays.
    pub fn put(&mut self, source: LayerSource) -> Result<(), Arc<ParseError>> {
        let key = (source.namespace.clone(), source.name.clone());
        if let Some(entry) = self.entries.get(&key).filter(|entry| entry.source == source) {
            // Seen before: a relist brings everything again.
            return entry.problem.clone().map_or(Ok(()), Err);
        }
        let good = self.entries.get(&key).and_then(|entry| entry.good.clone());
        let parsed = parse(&source, Scope { own_namespace: &self.own_namespace });
        let entry = match self.room_for(&source).and(parsed) {
            Ok(layer) => Entry { source, good: Some(Arc::new(layer)), problem: None },
            Err(error) => Entry { source, good, problem: Some(Arc::new(error)) },
        };
        let outcome = entry.problem.clone().map_or(Ok(()), Err);
        self.entries.insert(key, entry);
        outcome
    }

    /// Whether a layer fits beside the others of its namespace.
    fn room_for(&self, source: &LayerSource) -> Result<(), ParseError> {
        if source.namespace.is_empty() || source.namespace == self.own_namespace {
            return Ok(());
        }
        let size = |source: &LayerSource| source.data.values().map(String::len).sum::<usize>();
        let others = self.entries.values().map(|entry| &entry.source);
        let others = others.filter(|other| other.namespace == source.namespace && other.name != source.name);
        let (count, bytes) = others.fold((1, size(source)), |(count, bytes), other| (count + 1, bytes + size(other)));
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
        Snapshot::build(self.entries.values().filter_map(|entry| entry.good.clone()))
    }

    /// How every layer stands.
    pub fn standings(&self) -> Vec<Standing> {
        let standing = |entry: &Entry| Standing {
            source: entry.source.title(),
            layer: entry.good.as_ref().map(|layer| layer.id.to_string()).unwrap_or_default(),
            state: match (&entry.good, &entry.problem) {
                (_, None) => State::Good,
                (Some(_), Some(_)) => State::Stale,
                (None, Some(_)) => State::Bad,
            },
            problem: entry.problem.as_ref().map(ToString::to_string),
        };
        self.entries.values().map(standing).collect()
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
