use std::path::PathBuf;

use clap::ValueEnum;

use super::{
    files, policy,
    report::{CliError, Outcome, print},
};
use crate::{
    layers::Scope,
    lint::{Severity, lint},
    names, presets,
};

/// Flags of `lint`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  podlayer lint layers/ job.yaml\n  podlayer lint -o json layers/\n\nExit codes: 0 \
                        nothing found, 1 findings, 2 usage or an unreadable file."
)]
pub(super) struct Args {
    /// Files or folders: layers, bare patches, and Pods, Jobs or CronJobs that bring a step patch.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// What to print.
    #[arg(short, long, value_enum, default_value = "text")]
    output: Output,
    /// podlayer's own namespace: layers in it are for the whole cluster.
    #[arg(long, value_name = "NAME", default_value = names::NAMESPACE, env = "PODLAYER_NAMESPACE")]
    own_namespace: String,
    /// CI systems whose traps to look for in layers that don't say by match which one they are for.
    #[arg(long, value_name = "NAME,…", value_delimiter = ',', env = "PODLAYER_PRESETS", value_parser = policy::preset())]
    presets: Vec<String>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Output {
    /// One line for each finding: file:line:column: severity: text.
    Text,
    /// A list of findings.
    Json,
}

/// Runs `lint`.
pub(super) fn run(args: &Args) -> Result<Outcome, CliError> {
    let scope = Scope { own_namespace: &args.own_namespace };
    let presets: Vec<_> = args.presets.iter().filter_map(|name| presets::named(name)).collect();
    let mut findings = Vec::new();
    for (path, text) in files::texts(&args.files)? {
        findings.extend(lint(&text, &path.display().to_string(), &files::stem(&path), scope, &presets));
    }
    match args.output {
        Output::Json => {
            let json = serde_json::to_string_pretty(&findings)
                .map_err(|error| CliError::because("failed to print the findings", error))?;
            print(&format!("{json}\n"))?;
        }
        Output::Text => {
            let line = |finding: &crate::lint::Finding| {
                let severity = match finding.severity {
                    Severity::Error => "error",
                    Severity::Warning => "warning",
                };
                format!("{}:{}:{}: {severity}: {}\n", finding.file, finding.line, finding.column, finding.message)
            };
            print(&findings.iter().map(line).collect::<String>())?;
        }
    }
    Ok(if findings.is_empty() { Outcome::Clean } else { Outcome::Findings })
}
