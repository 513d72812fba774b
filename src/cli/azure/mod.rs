//! `podlayer azure`: agents for Azure Pipelines.

mod register;
mod serve;
mod setup;
mod unregister;

use super::report::{CliError, Outcome};

/// Flags of `azure`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "The protocol is a private preview of its vendor: registration may not be available to everyone."
)]
pub(super) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Answer the calls of Azure Pipelines for agents.
    Serve(Box<serve::Args>),
    /// Install what a pool needs, and make it reachable.
    Setup(Box<setup::Args>),
    /// Register the endpoint and a pool with Azure DevOps.
    Register(Box<register::Args>),
    /// Take the pool, and the endpoint with it, out of Azure DevOps.
    Unregister(unregister::Args),
}

/// Runs `azure`.
pub(super) fn run(args: Args) -> Result<Outcome, CliError> {
    match args.command {
        Command::Serve(args) => serve::run(*args),
        Command::Setup(args) => setup::run(*args),
        Command::Register(args) => register::run(*args),
        Command::Unregister(args) => unregister::run(args),
    }
}
