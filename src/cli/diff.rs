use std::path::PathBuf;

use clap::ValueEnum;

use super::{
    cluster::ClusterArgs,
    files::LayerFiles,
    policy::PolicyArgs,
    recorded::Recorded,
    report::{CliError, Outcome, note, print},
};
use crate::{
    cluster,
    explain::effect::{Summary, effect},
    layers::Snapshot,
};

/// Flags of `diff`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  podlayer diff --layers layers/\n  podlayer diff --layers new/ --against old/ -f jobs/\n  \
                  podlayer diff --layers layers/ --audit-log audit.log\n\nExit codes: 0 no pod would be different, 1 some \
                  would, 2 usage or failure."
)]
pub(super) struct Args {
    /// The layers as they are to be; files or folders.
    #[arg(long, value_name = "PATH", required = true)]
    layers: Vec<PathBuf>,
    /// The layers as they are; else the cluster's.
    #[arg(long, value_name = "PATH")]
    against: Vec<PathBuf>,
    /// Pods and Jobs in files or folders; else the cluster's.
    #[arg(short, long, value_name = "PATH")]
    file: Vec<PathBuf>,
    /// Recorded AdmissionReviews, or audit events of an API server at level Request: one JSON object a line.
    #[arg(long, value_name = "FILE")]
    audit_log: Vec<PathBuf>,
    /// Only pods and Jobs of this namespace; for files, the namespace of what names none.
    #[arg(short, long, value_name = "NAME")]
    namespace: Option<String>,
    /// How many of the cluster's newest Jobs and pods to look at.
    #[arg(long, value_name = "N", default_value_t = 500)]
    last: usize,
    /// What to print.
    #[arg(short, long, value_enum, default_value = "text")]
    output: Output,
    #[command(flatten)]
    cluster: ClusterArgs,
    #[command(flatten)]
    policy: PolicyArgs,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Output {
    /// Refusals, then one line for each field and layer.
    Text,
    /// Every change of every pod.
    Json,
}

/// Runs `diff`.
pub(super) fn run(args: &Args) -> Result<Outcome, CliError> {
    let policy = args.policy.policy();
    let read = |paths: &[PathBuf]| LayerFiles::read(paths, &policy.own_namespace)?.snapshot();
    let new = read(&args.layers)?;
    let from_files = !args.file.is_empty() || !args.audit_log.is_empty();
    let mut recorded = Recorded::default();
    recorded.read_files(&args.file)?;
    recorded.read_log(&args.audit_log)?;
    let old: Snapshot = if !args.against.is_empty() && from_files {
        read(&args.against)?
    } else {
        let of_files = if args.against.is_empty() { None } else { Some(read(&args.against)?) };
        args.cluster.with(async |client| {
            if !from_files {
                let found = cluster::recent(&client, args.namespace.as_deref(), args.last).await;
                let found = found.map_err(|error| CliError::because("failed to list Jobs and pods", error))?;
                found.into_iter().for_each(|object| recorded.add(object, "cluster"));
            }
            match of_files {
                Some(old) => Ok(old),
                None => {
                    let (old, notes) = args.cluster.layers(&client, &policy).await?;
                    notes.iter().for_each(|text| note(text));
                    Ok(old)
                }
            }
        })?
    };
    if recorded.without_object > 0 {
        note(&format!(
            "{} creations were recorded without their object: audit pods and jobs at level Request",
            recorded.without_object
        ));
    }
    let (mut effects, mut not_opted_in) = (Vec::new(), 0);
    for (subject, object) in &recorded.objects {
        let text = object.pod_text()?;
        let pod = object.pod(&text)?;
        let namespace = object.namespace_or(None);
        let namespace =
            if object.namespace.is_some() { namespace } else { object.namespace_or(args.namespace.as_deref()) };
        if !policy.admits(&pod.facts(&namespace)) {
            not_opted_in += 1;
            continue;
        }
        effects.extend(effect(subject, &pod, &namespace, (&old, &new), &policy));
    }
    let summary = Summary::new(recorded.objects.len(), not_opted_in, effects);
    print(&match args.output {
        Output::Text => summary.to_text(),
        Output::Json => {
            let json = serde_json::to_string_pretty(&summary);
            json.map_err(|error| CliError::because("failed to print the differences", error))? + "\n"
        }
    })?;
    Ok(if summary.effects.is_empty() { Outcome::Clean } else { Outcome::Findings })
}
