use std::fmt;

use super::{
    MetadataPatch, Options, Place, Rules, Selector,
    patterns::Pattern,
    trail::{self, Assertion},
};
use crate::value::{Document, Path, Segment, Value};

/// One layer, ready to apply.
#[derive(Clone, Debug)]
pub struct Layer {
    /// Its name in stamps, logs and texts.
    pub id: LayerId,
    /// The namespace it is for, where it isn't the cluster's.
    pub namespace: Option<String>,
    /// Where it comes from, as people name it: `ConfigMap podlayer/base`.
    pub title: String,
    /// Which text its patch stands in; what is wrong with it on some pod is told with it.
    pub place: Place,
    /// Its place among the layers of its kind; ties go by name.
    pub order: i64,
    /// Which pods it is for.
    pub selector: Selector,
    /// How it applies.
    pub options: Options,
    /// The patch of the pod's spec, without the items of `patterns`.
    pub patch: Document,
    /// The items of the patch that are meant for several containers, in the order in which they apply.
    pub patterns: Vec<Pattern>,
    /// The labels and annotations it sets.
    pub metadata: MetadataPatch,
    /// Whether the patch may leave nulls or directives behind, so that a finalise pass must follow.
    pub can_leak: bool,
    /// Whether applying it to its own result can change something again, so that a second pass must look.
    pub idempotent: bool,
    /// What the patch asserts, for the trail; what the patterns assert stands with them.
    pub assertions: Vec<Assertion>,
    /// What a step may change, of step-rules, which change nothing themselves.
    pub rules: Option<Rules>,
    /// SHA-256 of all that decides what the layer does.
    pub digest: [u8; 32],
}

/// Which of the tiers a layer belongs to, in the order they apply.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Kind {
    /// For every matching pod of the cluster.
    Default,
    /// For every matching pod of its namespace.
    NamespaceDefault,
    /// For pods that ask for it.
    Class,
    /// For pods of its namespace that ask for it.
    NamespaceClass,
    /// The pod's own patch.
    Step,
    /// No layer that changes pods: what steps may change in those that it is for.
    StepRules,
}

/// A layer's name as everybody sees it: `default/base`, `class/gpu`, `step`.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct LayerId {
    /// Its tier.
    pub kind: Kind,
    /// The name of its ConfigMap; empty for the step.
    pub name: String,
}

impl Layer {
    /// For each of its assertions, in their order, whether a pod bears it out.
    pub fn borne_out(&self, pod: &Value<'_>) -> Vec<bool> {
        trail::borne_out(self, pod)
    }

    /// The list items that it takes away.
    pub fn deletions(&self) -> impl Iterator<Item = &Assertion> {
        let is_item = |assertion: &&Assertion| matches!(assertion.path.segments().last(), Some(Segment::Item { .. }));
        self.assertions.iter().filter(|assertion| !assertion.set).filter(is_item)
    }

    /// Whether its patterns take list items away.
    pub fn deletes_by_pattern(&self) -> bool {
        let is_item = |assertion: &Assertion| matches!(assertion.path.segments().last(), Some(Segment::Item { .. }));
        self.patterns.iter().flat_map(|pattern| &pattern.assertions).any(|found| !found.set && is_item(found))
    }

    /// Whether it sets something in the list item at a path.
    pub fn sets_in(&self, item: &Path) -> bool {
        self.assertions.iter().any(|assertion| assertion.set && assertion.path.starts_with(item))
    }
}

impl LayerId {
    /// The step patch's name.
    pub const STEP: Self = Self { kind: Kind::Step, name: String::new() };
}

impl Kind {
    /// As it stands in ids.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Class => "class",
            Self::Default => "default",
            Self::NamespaceClass => "namespace-class",
            Self::NamespaceDefault => "namespace-default",
            Self::Step => "step",
            Self::StepRules => "step-rules",
        }
    }

    /// Whether it is one namespace's own.
    pub const fn of_namespace(self) -> bool {
        matches!(self, Self::NamespaceClass | Self::NamespaceDefault)
    }

    /// Whether pods get it only by asking.
    pub const fn is_class(self) -> bool {
        matches!(self, Self::Class | Self::NamespaceClass)
    }
}

impl fmt::Display for LayerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            Kind::Step => f.write_str(Kind::Step.as_str()),
            kind => write!(f, "{}/{}", kind.as_str(), self.name),
        }
    }
}

impl serde::Serialize for LayerId {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
