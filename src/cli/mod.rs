//! The command line: one file per subcommand, wiring only.

mod certs;
mod conformance;
mod controller;
mod crd;
mod demo;
mod files;
mod lint;
mod loopback;
mod object;
mod policy;
mod pools;
mod render;
mod report;
mod webhook;

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

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
    /// Show on loopback what podlayer does, without a cluster.
    Demo(demo::Args),
    /// Print a Pod, Job, CronJob or pod template as podlayer would make it.
    Render(render::Args),
    /// Look for mistakes in layers, and in the step patches of pods and Jobs.
    Lint(lint::Args),
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
}

#[derive(Debug, clap::Args)]
struct Completions {
    /// The shell.
    shell: clap_complete::Shell,
}

impl Cli {
    /// Runs the command; says how the process ends.
    pub fn run(self) -> ExitCode {
        let outcome = match self.command {
            Command::Webhook(args) => webhook::run(*args),
            Command::Controller(args) => controller::run(*args),
            Command::Pools(args) => pools::run(args),
            Command::Demo(args) => demo::run(&args),
            Command::Render(args) => render::run(&args),
            Command::Lint(args) => lint::run(&args),
            Command::Crd => crd::run(),
            Command::Certs(args) => certs::run(&args),
            Command::Conformance(args) => conformance::run(&args),
            Command::Completions(Completions { shell }) => {
                let mut script = Vec::new();
                clap_complete::generate(shell, &mut Self::command(), "podlayer", &mut script);
                report::print_bytes(&script)
            }
            Command::Version => report::print(&format!("podlayer {}\n", env!("CARGO_PKG_VERSION"))),
        };
        report::exit_code(outcome)
    }
}
