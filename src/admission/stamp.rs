//! The stamp: the annotation that says what was applied, the same on every replica and at every repetition.

use serde::Serialize;
use sha2::{Digest, Sha256};

use super::Policy;
use crate::layers::{Layer, LayerId};

/// How much of a reason goes into a stamp, in characters.
const LONGEST_WHY: usize = 200;

/// What `podlayer.dev/applied` holds.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Stamp {
    v: u8,
    stack: String,
    layers: Vec<LayerId>,
    skipped: Vec<Skipped>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    audit: bool,
}

/// A layer that was left out.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct Skipped {
    /// The layer.
    pub layer: LayerId,
    /// Why.
    pub why: String,
}

impl Stamp {
    /// Describes a stack.
    pub(super) fn of(
        stack: &[&Layer],
        rules: Option<&Layer>,
        skipped: Vec<Skipped>,
        policy: &Policy,
        audit: bool,
    ) -> Self {
        let mut hash = Sha256::new();
        for layer in stack.iter().copied().chain(rules) {
            hash.update(layer.digest);
        }
        hash.update(format!("{policy:?}"));
        let digest: [u8; 32] = hash.finalize().into();
        Self {
            v: 1,
            stack: digest.iter().take(6).map(|byte| format!("{byte:02x}")).collect(),
            layers: stack.iter().map(|layer| layer.id.clone()).collect(),
            skipped,
            audit,
        }
    }

    /// What stands on a pod whose decision was lost to a fault of podlayer's own.
    pub(super) fn of_fault() -> Self {
        let why = "podlayer failed on this pod, please report it".into();
        let skipped = vec![Skipped { layer: LayerId::STEP, why }];
        Self { v: 1, stack: String::new(), layers: Vec::new(), skipped, audit: false }
    }

    /// As it stands in the annotation.
    pub(super) fn to_json(&self) -> String {
        // INVARIANT: strings and numbers only, which serde_json can't refuse.
        #[allow(clippy::expect_used)]
        serde_json::to_string(self).expect("a stamp is JSON")
    }
}

impl Skipped {
    /// A layer and the reason, cut to what an annotation can hold.
    pub(super) fn new(layer: LayerId, why: &str) -> Self {
        Self { layer, why: cut(why, LONGEST_WHY) }
    }
}

/// The first characters of a text.
pub(super) fn cut(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    text.chars().take(most - 1).chain(['…']).collect()
}
