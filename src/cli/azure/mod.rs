//! `podlayer azure`: agents for Azure Pipelines.

mod serve;

use super::report::{CliError, Outcome};

/// Flags of `azure`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Answer the calls of Azure Pipelines for agents.
    Serve(Box<serve::Args>),
}

/// Runs `azure`.
pub(super) fn run(args: Args) -> Result<Outcome, CliError> {
    match args.command {
        Command::Serve(args) => serve::run(*args),
    }
}
