use std::path::PathBuf;

use clap::ValueEnum;

use super::{
    files, policy,
    report::{CliError, Outcome, note, print},
};
use crate::{
    layers::{Scope, complaint::Printable},
    lint::{self, Source},
    names, presets,
    value::Position,
};

/// Flags of `lint`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  podlayer lint layers/ job.yaml .buildkite/pipeline.yml\n  podlayer lint -o github \
                  layers/\n\nWhat is neither a layer nor brings a step patch is passed over, with a note on stderr \
                  where the file was named. The items of a List, as kubectl get -o yaml prints it, count as files of their \
                  own. Each finding ends with its \
                  code; docs/lint.md says what it means.\n\nExit codes: 0 nothing found, 1 findings, 2 usage or an \
                  unreadable file."
)]
pub(super) struct Args {
    /// Files or folders: layers, bare patches, and whatever brings a step patch: Pods, Jobs, workflows, pipelines.
    #[arg(required_unless_present = "codes", value_name = "FILE")]
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
    /// Print docs/lint.md.
    #[arg(long, hide = true)]
    codes: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Output {
    /// One line for each finding: file:line:column: severity: text [code].
    Text,
    /// A list of findings.
    Json,
    /// SARIF 2.1.0, for code hosts.
    Sarif,
    /// Commands for GitHub Actions, shown at the lines of a pull request.
    Github,
}

/// Runs `lint`.
pub(super) fn run(args: &Args) -> Result<Outcome, CliError> {
    let scope = Scope { own_namespace: &args.own_namespace };
    let presets: Vec<_> = args.presets.iter().filter_map(|name| presets::named(name)).collect();
    if args.codes {
        return print(&lint::codes::markdown());
    }
    let mut findings = Vec::new();
    for (path, text) in files::texts(&args.files)? {
        let (file, stem, named) = (path.display().to_string(), files::stem(&path), args.files.contains(&path));
        let report = lint::report(Source { text: &text, file: &file, stem: &stem, named }, scope, &presets);
        for (Position { line, column }, text) in &report.passed_over {
            note(&format!("{}:{line}:{column}: note: {text}", Printable(&file)));
        }
        findings.extend(report.findings);
    }
    print(&match args.output {
        Output::Text => lint::text(&findings),
        Output::Sarif => lint::sarif(&findings),
        Output::Github => lint::github(&findings),
        Output::Json => {
            let json = serde_json::to_string_pretty(&findings)
                .map_err(|error| CliError::because("failed to print the findings", error))?;
            format!("{json}\n")
        }
    })?;
    Ok(if findings.is_empty() { Outcome::Clean } else { Outcome::Findings })
}
