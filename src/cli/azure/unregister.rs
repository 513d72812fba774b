use super::register::{ServiceArgs, pool_name};
use crate::{
    azure::registration::{self, Unregistered},
    cli::{
        report::{CliError, Outcome},
        start,
    },
};

/// Flags of `azure unregister`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Deletes the pool of this name and the agent cloud that it is on, unless another pool is on it too. A \
                        pool with agents that somebody installed is left alone. Nothing in the cluster is changed.\n\nExit \
                        codes: 0 neither is there any more, 2 usage or failure."
)]
pub(super) struct Args {
    #[command(flatten)]
    service: ServiceArgs,
    /// The pool's name in Azure DevOps.
    #[arg(long, value_name = "NAME", value_parser = pool_name)]
    pool: String,
}

/// Runs `azure unregister`.
pub(super) fn run(args: Args) -> Result<Outcome, CliError> {
    let Args { service, pool } = args;
    let client = service.client(service.organization()?)?;
    let done = start::ask(async {
        let failed = |error| CliError::because(format!("failed to unregister {pool}"), error);
        registration::unregister(&client, &pool).await.map_err(failed)
    })?;
    service.print(&done, &text(&pool, &done))
}

fn text(name: &str, Unregistered { pool, agent_cloud, kept_for }: &Unregistered) -> String {
    let line = |what: &str, id: &Option<i64>| match id {
        Some(id) => format!("{what} {id}: deleted\n"),
        None => format!("{what}: none named {name}\n"),
    };
    let cloud = if kept_for.is_empty() {
        line("agent cloud", agent_cloud)
    } else {
        format!("agent cloud: kept, for it has other pools: {}\n", kept_for.join(", "))
    };
    line("pool", pool) + &cloud
}
