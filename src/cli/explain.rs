use std::path::PathBuf;

use clap::ValueEnum;

use super::{
    cluster::ClusterArgs,
    files::{self, LayerFiles},
    object::Object,
    policy::PolicyArgs,
    report::{CliError, Outcome, note, print},
};
use crate::{
    admission::{Policy, trace},
    explain::Explanation,
    layers::Snapshot,
    names, presets,
};

/// Flags of `explain`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  podlayer explain -f job.yaml --layers layers/\n  podlayer explain job/build-1 -n ci\n  \
                  podlayer explain build-1-x7k2p -n ci -o html > why.html\n\nWhat it replaced is exact where the pod's \
                  original is known: a file, or the template of the Job that made it. A pod that nobody's Job made is \
                  explained from what it is now, and says so.\n\nExit codes: 0 explained, 1 the pod would be refused, 2 \
                  usage or failure."
)]
pub(super) struct Args {
    /// A pod of the cluster, or a Job as job/NAME.
    #[arg(value_name = "POD|job/NAME", required_unless_present = "file", conflicts_with = "file")]
    name: Option<String>,
    /// A Pod, Job, CronJob or pod template in a file; `-` is stdin.
    #[arg(short, long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Layers in files or folders, in the place of the cluster's.
    #[arg(long, value_name = "PATH")]
    layers: Vec<PathBuf>,
    /// What to print.
    #[arg(short, long, value_enum, default_value = "text")]
    output: Form,
    /// The namespace of the pod.
    #[arg(short, long, value_name = "NAME")]
    namespace: Option<String>,
    #[command(flatten)]
    cluster: ClusterArgs,
    #[command(flatten)]
    policy: PolicyArgs,
}

/// How an explanation is printed.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub(super) enum Form {
    /// One line for each field that a layer asserts: path, value, layer, position, what it replaced.
    Text,
    /// The pod, with a comment for each such field.
    Yaml,
    /// All of it as JSON.
    Json,
    /// A page: each row of the pod in the colour of its layer.
    Html,
}

/// Runs `explain`.
pub(super) fn run(args: &Args) -> Result<Outcome, CliError> {
    let policy = args.policy.policy();
    if let Some(file) = &args.file {
        let (text, name) = files::text_of(file)?;
        let object = Object::read(&text, &name)?;
        let snapshot = LayerFiles::read(&args.layers, &policy.own_namespace)?.snapshot()?;
        let namespace = object.namespace_or(args.namespace.as_deref());
        return of_file(&object, &name, &namespace, &snapshot, &policy, args.output);
    }
    let name = args.name.as_deref().unwrap_or_default();
    let layers = match args.layers.as_slice() {
        [] => None,
        paths => Some(LayerFiles::read(paths, &policy.own_namespace)?.snapshot()?),
    };
    let found = args.cluster.look_up(name, args.namespace.as_deref(), layers, &policy)?;
    let object = Object::of_json(found.original, name)?;
    let explanation = explanation(&object, name, &found.namespace, &found.snapshot, &policy)?;
    let Some(mut explanation) = explanation else {
        note(&not_opted_in(&object, name, &found.namespace)?);
        return Ok(Outcome::Clean);
    };
    explanation.notes.extend(found.notes);
    explanation.refusals = found.refusals;
    let outcome = if explanation.denial.is_some() { Outcome::Findings } else { Outcome::Clean };
    print(&form(&explanation, args.output)?)?;
    Ok(outcome)
}

/// Explains an object out of a file, with the very bytes for `render` and `explain`. A refusal goes to stderr and leaves
/// stdout empty.
pub(super) fn of_file(
    object: &Object,
    name: &str,
    namespace: &str,
    snapshot: &Snapshot,
    policy: &Policy,
    output: Form,
) -> Result<Outcome, CliError> {
    match explanation(object, name, namespace, snapshot, policy)? {
        None => {
            note(&not_opted_in(object, name, namespace)?);
            Ok(Outcome::Clean)
        }
        Some(Explanation { denial: Some(denial), .. }) => {
            note(&denial);
            Ok(Outcome::Findings)
        }
        Some(explanation) => print(&form(&explanation, output)?),
    }
}

/// What to say of an object that podlayer has nothing to do with.
pub(super) fn not_opted_in(object: &Object, name: &str, namespace: &str) -> Result<String, CliError> {
    let text = object.pod_text()?;
    let pod = object.pod(&text)?;
    let facts = pod.facts(namespace);
    let preset = presets::of(|key| facts.label(key));
    // The last one is for whatever opts in by itself.
    let hint = match preset.selects(|key| facts.label(key)) {
        true => format!(", or name its CI system: --presets {}", preset.name),
        false => String::new(),
    };
    Ok(format!("{name} is not opted in: it lacks the label {}: \"true\"{hint}", names::ENABLED))
}

fn explanation(
    object: &Object,
    name: &str,
    namespace: &str,
    snapshot: &Snapshot,
    policy: &Policy,
) -> Result<Option<Explanation>, CliError> {
    let text = object.pod_text()?;
    let explanation = trace(&object.pod(&text)?, namespace, snapshot, policy, Explanation::of);
    Ok(explanation.map(|mut explanation| {
        explanation.subject = name.to_owned();
        explanation
    }))
}

fn form(explanation: &Explanation, output: Form) -> Result<String, CliError> {
    Ok(match output {
        Form::Text => explanation.to_text(),
        Form::Yaml => explanation.to_yaml(),
        Form::Html => explanation.to_html(),
        Form::Json => {
            let json = serde_json::to_string_pretty(explanation);
            json.map_err(|error| CliError::because("failed to print the explanation", error))? + "\n"
        }
    })
}
