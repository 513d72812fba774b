use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::Arc,
};

use sha2::{Digest, Sha256};

use super::{Facts, Kind, Layer, LayerId};
use crate::{names, presets, schema::nearest};

/// All layers as of one moment. Never changes; a new one takes its place as a whole.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    defaults: Vec<Arc<Layer>>,
    namespace_defaults: HashMap<String, Vec<Arc<Layer>>>,
    classes: BTreeMap<String, Arc<Layer>>,
    namespace_classes: HashMap<String, BTreeMap<String, Arc<Layer>>>,
    reads_metadata: bool,
    hash: String,
    rules: Vec<Arc<Layer>>,
}

/// Why layers don't make a snapshot.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    /// Two layers of one kind have one name (two files; ConfigMaps can't).
    #[error("two layers are called {id}: {first} and {second}")]
    SameName {
        /// Their name.
        id: LayerId,
        /// Where one comes from.
        first: String,
        /// Where the other comes from.
        second: String,
    },
}

/// A class that a pod asked for in vain.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Unresolved {
    /// There is one, but its `match` doesn't fit the pod.
    #[error("class {name:?} is not for this pod: its match does not fit, annotation {}", names::CLASSES)]
    NotForThisPod {
        /// Its name.
        name: String,
    },
    /// There is none.
    #[error("unknown class {name:?}{hint} annotation {}", names::CLASSES)]
    Unknown {
        /// The name that the pod gave.
        name: String,
        /// The nearest name, ready to print.
        hint: String,
    },
}

/// How many classes asked for in vain are told at once; each costs a search for the nearest name.
const MOST_UNRESOLVED: usize = 5;

impl Snapshot {
    /// Puts layers in order, whatever order they come in.
    ///
    /// # Errors
    /// [`SnapshotError`] if two of them have one name.
    pub fn build(layers: impl IntoIterator<Item = Arc<Layer>>) -> Result<Self, SnapshotError> {
        let mut sorted: Vec<Arc<Layer>> = layers.into_iter().collect();
        sorted.sort_by(|a, b| key(a).cmp(&key(b)));
        unique(&sorted)?;
        let mut snapshot = Self {
            hash: hash(&sorted),
            reads_metadata: sorted.iter().any(|l| l.id.kind != Kind::StepRules && l.selector.reads_metadata()),
            ..Self::default()
        };
        for layer in sorted {
            let namespace = layer.namespace.clone().unwrap_or_default();
            let name = layer.id.name.clone();
            match layer.id.kind {
                Kind::Default => snapshot.defaults.push(layer),
                Kind::NamespaceDefault => snapshot.namespace_defaults.entry(namespace).or_default().push(layer),
                Kind::Class => _ = snapshot.classes.insert(name, layer),
                Kind::NamespaceClass => {
                    snapshot.namespace_classes.entry(namespace).or_default().insert(name, layer);
                }
                Kind::StepRules => snapshot.rules.push(layer),
                // A step patch belongs to its pod; nothing loads one.
                Kind::Step => {}
            }
        }
        Ok(snapshot)
    }

    /// The layers that apply to a pod, in order, without its step patch; and what it asked for in vain.
    pub fn resolve(&self, facts: &Facts<'_>) -> (Vec<&Layer>, Vec<Unresolved>) {
        let fits = |layer: &&Arc<Layer>| layer.selector.matches(facts);
        let system = self.system_class(facts).and_then(Result::ok);
        let of_namespace = self.namespace_defaults.get(facts.namespace);
        let defaults = self.defaults.iter().chain(of_namespace.into_iter().flatten());
        let mut stack: Vec<&Layer> = defaults.filter(fits).map(AsRef::as_ref).collect();

        let mut unresolved = Vec::new();
        let own = self.namespace_classes.get(facts.namespace);
        stack.extend(system);
        for name in asked(facts) {
            if system.is_some_and(|system| system.id.name == name) {
                continue;
            }
            match self.classes.get(name).or_else(|| own?.get(name)) {
                Some(class) if fits(&class) => stack.push(class),
                _ if unresolved.len() >= MOST_UNRESOLVED => break,
                Some(_) => unresolved.push(Unresolved::NotForThisPod { name: name.to_owned() }),
                None => {
                    let known = self.classes.keys().chain(own.into_iter().flat_map(BTreeMap::keys));
                    let hint = match nearest(name, known.map(String::as_str)) {
                        Some(near) => format!(", did you mean {near:?}?"),
                        None => String::from(","),
                    };
                    unresolved.push(Unresolved::Unknown { name: name.to_owned(), hint });
                }
            }
        }
        (stack, unresolved)
    }

    /// The class that the CI system's own label names, where there is none for this pod: no mistake of anybody's.
    pub fn unknown_class<'f>(&self, facts: &Facts<'f>) -> Option<&'f str> {
        self.system_class(facts)?.err()
    }

    /// The class that the CI system's own label names, or the name where there is no such class for the pod.
    fn system_class<'f>(&self, facts: &Facts<'f>) -> Option<Result<&Layer, &'f str>> {
        let source = presets::of(|key| facts.label(key)).class.as_ref()?;
        let name = facts.label(&source.label).filter(|name| !name.is_empty())?;
        let own = || self.namespace_classes.get(facts.namespace)?.get(name);
        let class = self.classes.get(name).or_else(own).filter(|class| class.selector.matches(facts));
        Some(class.map(AsRef::as_ref).ok_or(name))
    }

    /// The rule set for a pod: the first by order and name whose `match` fits. None: what is built in holds.
    pub fn rules(&self, facts: &Facts<'_>) -> Option<&Layer> {
        self.rules.iter().find(|set| set.selector.matches(facts)).map(AsRef::as_ref)
    }

    /// Every layer, in the order of their tiers, and the rule sets.
    pub fn layers(&self) -> impl Iterator<Item = &Arc<Layer>> {
        let namespaced = self.namespace_defaults.values().flatten();
        let classes = self.classes.values().chain(self.namespace_classes.values().flat_map(BTreeMap::values));
        self.defaults.iter().chain(namespaced).chain(classes).chain(&self.rules)
    }

    /// Twelve hexadecimal digits that are the same for all replicas with the same layers, and for no others.
    pub fn hash(&self) -> &str {
        &self.hash
    }

    /// Whether any layer's `match` looks at labels or annotations, which layers can change.
    pub fn reads_metadata(&self) -> bool {
        self.reads_metadata
    }
}

/// What layers are sorted by.
fn key(layer: &Layer) -> (Kind, Option<&str>, i64, &str) {
    (layer.id.kind, layer.namespace.as_deref(), layer.order, &layer.id.name)
}

fn unique(layers: &[Arc<Layer>]) -> Result<(), SnapshotError> {
    let mut seen: HashMap<(&LayerId, Option<&str>), &str> = HashMap::with_capacity(layers.len());
    for layer in layers {
        if let Some(first) = seen.insert((&layer.id, layer.namespace.as_deref()), &layer.title) {
            let (first, second) = (first.to_owned(), layer.title.clone());
            return Err(SnapshotError::SameName { id: layer.id.clone(), first, second });
        }
    }
    Ok(())
}

fn hash(sorted: &[Arc<Layer>]) -> String {
    let mut hash = Sha256::new();
    for layer in sorted {
        hash.update(layer.digest);
        // Which pods it is for and in which place; its digest is about what it does.
        hash.update(format!("{} {:?}\n", layer.order, layer.selector));
    }
    hash.finalize().iter().take(6).map(|byte| format!("{byte:02x}")).collect()
}

/// The names in the classes annotation: once each, blanks ignored.
fn asked<'f>(facts: &Facts<'f>) -> Vec<&'f str> {
    let mut seen = HashSet::new();
    let all = facts.annotation(names::CLASSES).unwrap_or_default().split(',').map(str::trim);
    all.filter(|name| !name.is_empty() && seen.insert(*name)).collect()
}
