//! The command line: one file per subcommand, wiring only.

mod azure;
mod callers;
mod certs;
mod cluster;
mod conformance;
mod controller;
mod crd;
mod demo;
mod diff;
mod doctor;
mod explain;
mod files;
mod follow;
mod import;
mod layer_args;
mod layers_page;
mod lint;
mod loopback;
mod object;
mod plugin;
mod policy;
mod pools;
mod presets;
mod recorded;
mod render;
mod report;
mod start;
mod webhook;
mod webhook_tls;

use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

pub use report::{CliError, Outcome};

/// Gives labelled Kubernetes CI job pods their layers at admission.
#[derive(Debug, Parser)]
#[command(
    name = "podlayer",
    version,
    about,
    long_about = "Gives labelled Kubernetes CI job pods their layers at admission: cluster defaults and classes from \
                  ConfigMaps, then the step's own patch from an annotation, with exact kubectl strategic-merge \
                  semantics.\n\nStart with `podlayer demo`: it needs no cluster.",
    after_help = "Exit codes: 0 nothing found, 1 findings, a refusal or differences, 2 usage or failure.",
    max_term_width = 100
)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve the admission webhook.
    Webhook(Box<webhook::Args>),
    /// Keep pools of agents, or of headroom, at their size.
    Controller(Box<controller::Args>),
    /// Show pools, and why they have the size that they have.
    Pools(pools::Args),
    /// Agents for Azure Pipelines.
    Azure(azure::Args),
    /// Show on loopback what podlayer does, without a cluster.
    Demo(demo::Args),
    /// Print a Pod, Job, CronJob or pod template as podlayer would make it.
    Render(render::Args),
    /// Say which layer set which field of a pod, and what it replaced.
    Explain(Box<explain::Args>),
    /// Look for mistakes in layers, and in the step patches of pods and Jobs.
    Lint(lint::Args),
    /// Look for what is wrong with an installation, through the API server.
    Doctor(doctor::Args),
    /// Say what a change of the layers would do to recent pods.
    Diff(Box<diff::Args>),
    /// Turn another system's configuration into layers or a pool.
    Import(import::Args),
    /// Move the podSpecPatch of a Buildkite pipeline's steps into the annotation.
    Convert(import::Convert),
    /// Print what podlayer knows of each CI system.
    Presets(presets::Args),
    /// Print the CustomResourceDefinition of pools.
    Crd,
    /// Make certificates for development.
    Certs(certs::Args),
    /// Answer merge and YAML cases, one JSON line each, to compare with kubectl.
    Conformance(conformance::Args),
    /// Print a completion script for a shell.
    Completions(Completions),
    /// Print the version.
    Version,
    /// Answer kubectl's completion.
    #[command(name = "__complete", hide = true)]
    Complete(Complete),
}

#[derive(Debug, clap::Args)]
struct Completions {
    /// The shell.
    shell: clap_complete::Shell,
}

#[derive(Debug, clap::Args)]
struct Complete {
    /// What stands there so far; the last word is the one to complete.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<String>,
}

impl Cli {
    /// Reads the command line; ends the process where that is wrong, or where only help is wanted. Called as
    /// `kubectl-podlayer`, it is a plugin of kubectl.
    pub fn from_command_line() -> Self {
        let command = plugin::called_as(Self::command(), std::env::args_os().next().as_deref());
        let matches = command.get_matches();
        Self::from_arg_matches(&matches).unwrap_or_else(|error| error.exit())
    }

    /// Runs the command; says how the process ends.
    pub fn run(self) -> ExitCode {
        let outcome = match self.command {
            Command::Webhook(args) => webhook::run(*args),
            Command::Controller(args) => controller::run(*args),
            Command::Pools(args) => pools::run(args),
            Command::Azure(args) => azure::run(args),
            Command::Demo(args) => demo::run(&args),
            Command::Render(args) => render::run(&args),
            Command::Explain(args) => explain::run(&args),
            Command::Lint(args) => lint::run(&args),
            Command::Doctor(args) => doctor::run(args),
            Command::Diff(args) => diff::run(&args),
            Command::Import(args) => import::run(&args),
            Command::Convert(args) => import::convert(&args),
            Command::Presets(args) => presets::run(&args),
            Command::Crd => crd::run(),
            Command::Certs(args) => certs::run(&args),
            Command::Conformance(args) => conformance::run(&args),
            Command::Completions(Completions { shell }) => {
                let mut script = Vec::new();
                clap_complete::generate(shell, &mut Self::command(), "podlayer", &mut script);
                report::print_bytes(&script)
            }
            Command::Complete(Complete { words }) => {
                let command = plugin::called_as(Self::command(), std::env::args_os().next().as_deref());
                report::print(&plugin::complete(&command, &words))
            }
            Command::Version => report::print(&format!("podlayer {}\n", env!("CARGO_PKG_VERSION"))),
        };
        report::exit_code(outcome)
    }
}
