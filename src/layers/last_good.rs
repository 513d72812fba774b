//! The last good text of a layer that has turned bad, as it is kept across restarts: what stands in the ConfigMap that
//! the replicas share, and which of it must change.
//!
//! An entry holds the parts of the layer's ConfigMap that count, behind the hash of its own text:
//!
//! ```text
//! 9f86d081884c7d65…                                         SHA-256 of the next line
//! {"namespace":"podlayer","name":"base","labels":{…},"data":{…}}
//! ```
//!
//! Whoever holds the ConfigMap compresses the entries (`cluster`), this only makes, reads and compares their texts.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use sha2::{Digest, Sha256};

use super::LayerSource;
use crate::names;

/// Namespace and name of a layer's ConfigMap.
pub type Key = (String, String);

/// What all entries may hold together, compressed: 900 KiB. A ConfigMap may hold 1 MiB, the names of its keys included.
pub const MOST_BYTES: usize = 900 << 10;

/// The longest key that a ConfigMap's data may have (apimachinery, DNS1123SubdomainMaxLength).
const LONGEST_SLOT: usize = 253;

/// What must be kept, as one replica sees it.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Wanted {
    /// The last good version of each layer whose newest is bad.
    pub keep: BTreeMap<Key, Arc<LayerSource>>,
    /// Bad layers without a good version: another replica may have kept one.
    pub lost: BTreeSet<Key>,
}

/// Why an entry can't be used.
#[derive(Debug, thiserror::Error)]
pub enum Damaged {
    /// The text isn't the one that its hash was made of.
    #[error("its hash is not that of its text")]
    Hash,
    /// It isn't a layer's text, or another layer's.
    #[error("it is not the text of the layer that its key names")]
    Text,
}

/// Where a layer's entry stands: `NAMESPACE_NAME`, or where that is too long for a key, `NAMESPACE_` and the hash of the
/// name. No namespace and no name has an underscore.
pub fn slot((namespace, name): &Key) -> String {
    let slot = format!("{namespace}_{name}");
    if slot.len() <= LONGEST_SLOT { slot } else { format!("{namespace}_{}", hash(name)) }
}

/// The parts of a layer's ConfigMap that an entry holds: other labels than podlayer's say nothing to it.
pub fn essence(source: &LayerSource) -> LayerSource {
    let mut essence = source.clone();
    essence.labels.retain(|key, _| key == names::LAYER || key == names::ORDER);
    essence
}

/// An entry's text.
pub fn to_text(source: &LayerSource) -> String {
    // INVARIANT: strings only, which serde_json can't refuse.
    #[allow(clippy::expect_used)]
    let json = serde_json::to_string(&essence(source)).expect("a layer's source is JSON");
    format!("{}\n{json}\n", hash(&json))
}

/// Reads the entry in this slot.
///
/// # Errors
/// [`Damaged`]: such an entry is as good as none.
pub fn from_text(at: &str, text: &str) -> Result<LayerSource, Damaged> {
    let (sum, json) = text.trim_end().split_once('\n').ok_or(Damaged::Hash)?;
    if sum != hash(json) {
        return Err(Damaged::Hash);
    }
    let source: LayerSource = serde_json::from_str(json).map_err(|_| Damaged::Text)?;
    let key = (source.namespace.clone(), source.name.clone());
    if slot(&key) == at { Ok(source) } else { Err(Damaged::Text) }
}

/// What one replica changes in the shared ConfigMap.
#[derive(Debug, Default, Eq, PartialEq)]
pub struct Changes {
    /// Versions to write.
    pub put: Vec<Key>,
    /// Slots whose entry isn't needed any more.
    pub remove: Vec<String>,
}

/// Compares what is kept with what must be.
///
/// Replicas may have seen different last good versions of a layer, one of them having been away for a moment. So that
/// they don't write over each other for ever, a version is written where none is, or once after this replica saw the
/// layer turn bad: `settled` holds the versions that it need not write again.
pub fn changes(
    kept: &BTreeMap<String, LayerSource>,
    wanted: &Wanted,
    settled: &BTreeMap<Key, Arc<LayerSource>>,
) -> Changes {
    let is_missing = |key: &Key, source: &LayerSource| match kept.get(&slot(key)) {
        None => true,
        Some(other) => *other != essence(source) && settled.get(key).is_none_or(|before| **before != *source),
    };
    let put = wanted.keep.iter().filter(|(key, source)| is_missing(key, source)).map(|(key, _)| key.clone());
    let needed: BTreeSet<String> = wanted.keep.keys().chain(&wanted.lost).map(slot).collect();
    let remove = kept.keys().filter(|slot| !needed.contains(*slot)).cloned();
    Changes { put: put.collect(), remove: remove.collect() }
}

fn hash(text: &str) -> String {
    Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(name: &str, patch: &str) -> LayerSource {
        LayerSource {
            namespace: "podlayer".into(),
            name: name.into(),
            labels: [("podlayer.dev/layer".into(), "default".into())].into(),
            data: [("podSpecPatch".into(), patch.into())].into(),
            ..LayerSource::default()
        }
    }

    fn key(name: &str) -> Key {
        ("podlayer".into(), name.into())
    }

    #[test]
    fn an_entry_is_read_back_and_one_byte_off_is_none() {
        let mut before = source("base", "hostNetwork: true\n# é\u{1}\n");
        before.labels.insert("helm.sh/chart".into(), "x".into());
        let text = to_text(&before);
        assert_eq!(from_text("podlayer_base", &text).unwrap(), essence(&before));
        for at in (0..text.len() - 1).filter(|at| text.is_char_boundary(*at)) {
            let mut changed = text.clone().into_bytes();
            changed[at] ^= 1;
            let Ok(changed) = String::from_utf8(changed) else { continue };
            assert!(from_text("podlayer_base", &changed).is_err(), "byte {at}");
        }
        assert!(matches!(from_text("podlayer_other", &text), Err(Damaged::Text)), "an entry in another's place");
        assert!(matches!(from_text("podlayer_base", ""), Err(Damaged::Hash)));
    }

    #[test]
    fn a_slot_is_a_key_that_a_config_map_takes_however_long_the_name() {
        assert_eq!(slot(&key("base.v2")), "podlayer_base.v2");
        let [one, two] = ["a", "b"].map(|end| slot(&key(&format!("{}{end}", "x".repeat(252)))));
        assert_ne!(one, two);
        for slot in [one, two] {
            assert!(slot.len() <= LONGEST_SLOT && slot.starts_with("podlayer_"), "{slot}");
        }
    }

    #[test]
    fn what_is_bad_is_kept_what_is_mended_or_gone_is_not_and_what_is_lost_is_left_for_who_finds_it() {
        let kept = BTreeMap::from([
            ("podlayer_bad".into(), source("bad", "a: 1")),
            ("podlayer_mended".into(), source("mended", "a: 1")),
            ("podlayer_lost".into(), source("lost", "a: 1")),
        ]);
        let keep = [("bad", "a: 1"), ("new", "a: 1")].map(|(name, text)| (key(name), Arc::new(source(name, text))));
        let wanted = Wanted { keep: keep.into(), lost: [key("lost")].into() };
        let found = changes(&kept, &wanted, &BTreeMap::new());
        assert_eq!(found, Changes { put: vec![key("new")], remove: vec!["podlayer_mended".into()] });
    }

    #[test]
    fn replicas_that_saw_different_versions_write_theirs_once_and_not_for_ever() {
        let kept = BTreeMap::from([("podlayer_bad".into(), source("bad", "a: 1"))]);
        let mine = Arc::new(source("bad", "a: 2"));
        let wanted = Wanted { keep: [(key("bad"), mine.clone())].into(), lost: BTreeSet::new() };
        assert_eq!(changes(&kept, &wanted, &BTreeMap::new()).put, [key("bad")]);
        assert_eq!(changes(&kept, &wanted, &[(key("bad"), mine.clone())].into()), Changes::default());
        // It turned bad anew, with another version before it.
        let older = Arc::new(source("bad", "a: 0"));
        assert_eq!(changes(&kept, &wanted, &[(key("bad"), older)].into()).put, [key("bad")]);
        // Somebody deleted the entry.
        assert_eq!(changes(&BTreeMap::new(), &wanted, &[(key("bad"), mine)].into()).put, [key("bad")]);
    }
}
