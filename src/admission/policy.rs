use crate::{
    layers::{Facts, Mode},
    names, presets,
};

/// All that flags decide; rules are layers and live in the snapshot.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Policy {
    /// podlayer's own namespace: layers there are the cluster's.
    pub own_namespace: String,
    /// The image of the default container where the pod names none.
    pub default_image: Option<String>,
    /// What happens to a pod whose step patch can't be applied.
    pub on_step_error: OnStepError,
    /// Whether pods are changed at all.
    pub mode: Mode,
    /// How much of the trail is written on the pod.
    pub provenance: Provenance,
    /// What is changed.
    pub mutate: Mutate,
    /// The presets whose pods are opted in without a label of podlayer's, sorted.
    pub presets: Vec<String>,
}

/// What happens to a pod whose step patch can't be applied.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum OnStepError {
    /// It is refused, with the reason.
    #[default]
    Deny,
    /// It is made without the step patch, with a warning and a stamp that says so.
    Ignore,
}

/// How much of the trail is written on the pod.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Provenance {
    /// 1 KiB of it.
    #[default]
    Compact,
    /// 8 KiB of it.
    Full,
    /// Nothing.
    Off,
}

/// What is changed.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Mutate {
    /// Pods, and the templates of Jobs when those are created (for quota systems that read Jobs).
    JobsAndPods,
    /// Pods; on Jobs only the default container is added.
    #[default]
    Pods,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            own_namespace: names::NAMESPACE.into(),
            default_image: None,
            on_step_error: OnStepError::default(),
            mode: Mode::default(),
            provenance: Provenance::default(),
            mutate: Mutate::default(),
            presets: Vec::new(),
        }
    }
}

impl Policy {
    /// Whether a pod asks for its layers: by podlayer's own label, or as one of a preset that opts in.
    pub fn admits(&self, facts: &Facts<'_>) -> bool {
        let selects = |name: &String| presets::named(name).is_some_and(|preset| preset.selects(|key| facts.label(key)));
        facts.label(names::ENABLED) == Some(names::ENABLED_VALUE) || self.presets.iter().any(selects)
    }
}

impl Provenance {
    /// How long the annotation may get, in bytes.
    pub fn bytes(self) -> usize {
        match self {
            Self::Compact => 1 << 10,
            Self::Full => 8 << 10,
            Self::Off => 0,
        }
    }
}
