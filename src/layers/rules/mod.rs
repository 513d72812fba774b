//! Guard rails as they are written: what a step patch, or a layer of an untrusted namespace, may change.
//!
//! Here is what `rules` of a step-rules ConfigMap says, and the two tables that belong to it: what is allowed where no
//! rule set says otherwise ([`builtin`]), and which fields give privileges ([`privileged`]). What a layer really changed
//! is compared with it in `guard`.

pub mod builtin;
mod parse;
mod pattern;
pub mod privileged;

use super::UnionList;
use crate::{schema::Quantity, value::Value};

pub use pattern::{Index, Items, Membership, Pattern, Step};

/// What a step may change: one step-rules ConfigMap, or the built-in list.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    /// The paths of its own that it allows.
    pub allow: Vec<Pattern>,
    /// Whether the built-in list is allowed too: `allow` is left out, or holds `@builtin`.
    pub builtin: bool,
    /// Which images may be set (globs); any where it doesn't say.
    pub images: Option<Vec<String>>,
    /// Which Secrets variables and volumes may read (globs); any but the CI system's where it doesn't say.
    pub secrets: Option<Vec<String>>,
    /// The most that may be set at a path.
    pub limits: Vec<Limit>,
    /// Whether containers may be added.
    pub containers: Containers,
    /// Lists that the step's items are added to.
    pub union_lists: Vec<UnionList>,
    /// What happens to a change that isn't allowed.
    pub on_violation: OnViolation,
    /// Whether paths in `allow` may give privileges.
    pub privileged: bool,
    /// Who may give privileges at all, where it isn't as the flag says.
    pub privileged_from: Option<PrivilegedFrom>,
}

/// The most that may be set at a path.
#[derive(Clone, Debug)]
pub struct Limit {
    /// Where.
    pub path: Pattern,
    /// How much.
    pub most: Quantity,
    /// The same as it was written.
    pub text: String,
    /// The same as it stands in a pod.
    pub value: Value<'static>,
}

/// Whether containers may be added.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Containers {
    /// They may, as far as what is in them may be set.
    #[default]
    Add,
    /// They may not.
    No,
}

/// What happens to a change that isn't allowed.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum OnViolation {
    /// An amount above its limit is set to the limit, with a warning; anything else is refused.
    Clamp,
    /// The whole patch is refused.
    #[default]
    Deny,
    /// It is put back as it was, with a warning.
    Drop,
}

/// Who may give a pod its privileges.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum PrivilegedFrom {
    /// Anyone: the pod's author, the CI system, a step whose rules allow it.
    #[default]
    Anyone,
    /// Layers of the cluster's admin, and of namespaces that are trusted.
    LayersOnly,
}

impl Rules {
    /// What holds where no rule set fits: the built-in list.
    pub fn built_in() -> Self {
        Self { builtin: true, ..Self::default() }
    }

    /// The paths that it allows, as people read them.
    pub fn allowed(&self) -> impl Iterator<Item = &str> {
        let builtin = self.builtin.then_some("the built-in list");
        self.allow.iter().map(Pattern::as_str).chain(builtin)
    }
}

#[cfg(test)]
mod tests;
