use clap::builder::{PossibleValuesParser, TypedValueParser};

use crate::{
    admission::{Mutate, OnStepError, Policy, Provenance},
    layers::Mode,
    names, presets,
};

/// The flags that every command that decides has; together they are the [`Policy`].
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Policy")]
pub(super) struct PolicyArgs {
    /// podlayer's own namespace: layers in it are for the whole cluster.
    #[arg(long, value_name = "NAME", default_value = names::NAMESPACE, env = "PODLAYER_NAMESPACE")]
    own_namespace: String,
    /// Image of the default container, for pods without containers that name none.
    #[arg(long, value_name = "IMAGE", env = "PODLAYER_DEFAULT_IMAGE")]
    default_image: Option<String>,
    /// What happens to a pod whose step patch can't be applied.
    #[arg(long, default_value = "Deny", env = "PODLAYER_ON_STEP_ERROR", value_parser = on_step_error())]
    on_step_error: OnStepError,
    /// Audit: decide and tell, but leave pods as they are, but for the stamp.
    #[arg(long, default_value = "Enforce", env = "PODLAYER_MODE", value_parser = mode())]
    mode: Mode,
    /// How much of the record of which layer set which field is written on the pod.
    #[arg(long, default_value = "Compact", env = "PODLAYER_PROVENANCE", value_parser = provenance())]
    provenance: Provenance,
    /// What is changed; on Jobs, Pods adds the default container only.
    #[arg(long, default_value = "Pods", env = "PODLAYER_MUTATE", value_parser = mutate())]
    mutate: Mutate,
    /// CI systems whose pods get layers without a label of podlayer's (see podlayer presets).
    #[arg(long, value_name = "NAME,…", value_delimiter = ',', env = "PODLAYER_PRESETS", value_parser = preset())]
    presets: Vec<String>,
}

impl PolicyArgs {
    /// The policy that the flags say.
    pub(super) fn policy(&self) -> Policy {
        let Self { own_namespace, default_image, on_step_error, mode, provenance, mutate, mut presets } = self.clone();
        presets.sort_unstable();
        presets.dedup();
        Policy { own_namespace, default_image, on_step_error, mode, provenance, mutate, presets }
    }
}

fn words<T: Copy + Send + Sync + 'static>(choices: &'static [(&'static str, T)]) -> impl TypedValueParser<Value = T> {
    // INVARIANT: clap let through one of the words, and the first stands for all of them.
    PossibleValuesParser::new(choices.iter().map(|(word, _)| *word))
        .map(move |word| choices.iter().find(|(known, _)| *known == word).map_or(choices[0].1, |(_, choice)| *choice))
}

pub(super) fn preset() -> impl TypedValueParser<Value = String> {
    PossibleValuesParser::new(presets::all().iter().map(|preset| preset.name.as_str()))
}

fn on_step_error() -> impl TypedValueParser<Value = OnStepError> {
    words(&[("Deny", OnStepError::Deny), ("Ignore", OnStepError::Ignore)])
}

fn mode() -> impl TypedValueParser<Value = Mode> {
    words(&[("Enforce", Mode::Enforce), ("Audit", Mode::Audit)])
}

fn provenance() -> impl TypedValueParser<Value = Provenance> {
    words(&[("Compact", Provenance::Compact), ("Full", Provenance::Full), ("Off", Provenance::Off)])
}

fn mutate() -> impl TypedValueParser<Value = Mutate> {
    words(&[("Pods", Mutate::Pods), ("JobsAndPods", Mutate::JobsAndPods)])
}
