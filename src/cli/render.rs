use std::path::PathBuf;

use clap::ValueEnum;

use super::{
    explain::{self, Form},
    files::{self, LayerFiles},
    object::Object,
    policy::PolicyArgs,
    report::{CliError, Outcome, note, print},
};
use crate::admission::Verdict;

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
    /// The namespace that the pod is made in, in the place of the one that the file names.
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
    /// One line for each field that a layer asserts, as `explain -f FILE`.
    Explain,
    /// A page, as `explain -f FILE -o html`.
    Html,
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
    let namespace = object.namespace_or(args.namespace.as_deref());
    let form = match args.output {
        Output::Explain => Some(Form::Text),
        Output::Html => Some(Form::Html),
        _ => None,
    };
    if let Some(form) = form {
        return explain::of_file(&object, &name, &namespace, &snapshot, &policy, form);
    }

    let decision = object.decide(&namespace, &snapshot, &policy)?;
    decision.warnings.iter().for_each(|warning| note(&format!("warning: {warning}")));
    match &decision.verdict {
        Verdict::Denied(denial) => {
            note(&denial.message);
            return Ok(Outcome::Findings);
        }
        Verdict::Untouched => {
            note(&explain::not_opted_in(&object, &name, &namespace)?);
        }
        Verdict::Allowed => {}
    }
    let out = match args.output {
        Output::Patch => format!("{}\n", decision.patch.as_deref().unwrap_or("[]")),
        _ => {
            object.apply(&decision)?;
            let fail = |error: String| CliError::new(format!("failed to print the object: {error}"));
            match args.output {
                Output::Json => {
                    let text = serde_json::to_string_pretty(&object.json).map_err(|error| fail(error.to_string()))?;
                    format!("{text}\n")
                }
                _ => object.to_yaml()?,
            }
        }
    };
    print(&out)
}
