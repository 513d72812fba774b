use std::path::PathBuf;

use clap::ValueEnum;

use super::{
    files::{self, LayerFiles},
    object::Object,
    policy::PolicyArgs,
    report::{CliError, Outcome, note, print},
};
use crate::{
    admission::{Verdict, trace},
    explain::Explanation,
    names, presets,
};

/// Flags of `render`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  podlayer render -f job.yaml --layers layers/\n  podlayer render -f pod.yaml \
                        --layers layers/ --step step.yaml -o explain\n\nExit codes: 0 allowed, 1 denied (the text is on \
                        stderr, stdout stays empty), 2 usage or an unreadable file.")]
pub(super) struct Args {
    /// The Pod, Job, CronJob or pod template; `-` is stdin.
    #[arg(short, long, value_name = "FILE")]
    file: PathBuf,
    /// Layers: ConfigMap manifests, or bare patches as defaults in the order of their file names; a file or a folder.
    #[arg(long, value_name = "PATH")]
    layers: Vec<PathBuf>,
    /// A step patch, in the place of the annotation.
    #[arg(long, value_name = "FILE")]
    step: Option<PathBuf>,
    /// What to print.
    #[arg(short, long, value_enum, default_value = "yaml")]
    output: Output,
    /// The namespace that the pod is made in, if the file names none.
    #[arg(short, long, value_name = "NAME")]
    namespace: Option<String>,
    #[command(flatten)]
    policy: PolicyArgs,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Output {
    /// The object with its layers, as YAML.
    Yaml,
    /// The object with its layers, as JSON.
    Json,
    /// The RFC 6902 patch alone, as JSON.
    Patch,
    /// One line for each field that a layer set: value, layer, position, what it replaced.
    Explain,
}

/// Runs `render`.
pub(super) fn run(args: &Args) -> Result<Outcome, CliError> {
    let policy = args.policy.policy();
    let (text, name) = files::text_of(&args.file)?;
    let mut object = Object::read(&text, &name)?;
    if let Some(step) = &args.step {
        object.set_step(&files::text_of(step)?.0)?;
    }
    let snapshot = LayerFiles::read(&args.layers, &policy.own_namespace)?.snapshot()?;
    let namespace = args.namespace.clone().or_else(|| object.namespace.clone()).unwrap_or_else(|| "default".into());

    let decision = object.decide(&namespace, &snapshot, &policy)?;
    decision.warnings.iter().for_each(|warning| note(&format!("warning: {warning}")));
    match &decision.verdict {
        Verdict::Denied(denial) => {
            note(&denial.message);
            return Ok(Outcome::Findings);
        }
        Verdict::Untouched => {
            let text = object.pod_text()?;
            let pod = object.pod(&text)?;
            let facts = pod.facts(&namespace);
            let preset = presets::of(|key| facts.label(key));
            // The last one is for whatever opts in by itself.
            let hint = match preset.selects(|key| facts.label(key)) {
                true => format!(", or name its CI system: --presets {}", preset.name),
                false => String::new(),
            };
            note(&format!("{name} is not opted in: it lacks the label {}: \"true\"{hint}", names::ENABLED));
        }
        Verdict::Allowed => {}
    }
    let out = match args.output {
        Output::Explain => {
            let text = object.pod_text()?;
            let explanation = trace(&object.pod(&text)?, &namespace, &snapshot, &policy, Explanation::of);
            explanation.map(|explanation| explanation.to_text()).unwrap_or_default()
        }
        Output::Patch => format!("{}\n", decision.patch.as_deref().unwrap_or("[]")),
        Output::Json | Output::Yaml => {
            object.apply(&decision)?;
            let fail = |error: String| CliError::new(format!("failed to print the object: {error}"));
            match args.output {
                Output::Json => {
                    let text = serde_json::to_string_pretty(&object.json).map_err(|error| fail(error.to_string()))?;
                    format!("{text}\n")
                }
                _ => serde_yaml::to_string(&object.json).map_err(|error| fail(error.to_string()))?,
            }
        }
    };
    print(&out)
}
