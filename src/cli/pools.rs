use std::{path::PathBuf, time::Duration};

use kube::{Api, Client, api::ListParams};

use super::{
    report::{CliError, Outcome, print},
    start,
};
use crate::{
    cluster,
    pool::api::{AgentPool, condition},
};

/// How often `--watch` looks: people don't read faster.
const LOOK_AGAIN: Duration = Duration::from_secs(2);

/// Flags of `pools`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  podlayer pools -A\n  podlayer pools -n ci linux    # one pool, and why")]
pub(super) struct Args {
    /// One pool, with all that there is to say about it.
    name: Option<String>,
    /// The namespace; else that of the kubeconfig.
    #[arg(short, long, value_name = "NAME")]
    namespace: Option<String>,
    /// Pools of all namespaces.
    #[arg(short = 'A', long, conflicts_with_all = ["name", "namespace"])]
    all_namespaces: bool,
    /// Show them again every 2 seconds.
    #[arg(short, long)]
    watch: bool,
    /// How it is printed.
    #[arg(short, long, value_name = "FORMAT", default_value = "text", value_parser = ["text", "json"])]
    output: String,
    /// The cluster; else KUBECONFIG, else the one that podlayer runs in.
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
}

/// Runs `pools`.
pub(super) fn run(args: Args) -> Result<Outcome, CliError> {
    start::ask(show(args))
}

async fn show(args: Args) -> Result<Outcome, CliError> {
    let client = cluster::client(args.kubeconfig.as_deref(), None).await;
    let client = client.map_err(|error| CliError::because("failed to reach the cluster", error))?;
    loop {
        let pools = read(&client, &args).await?;
        let text = if args.output == "json" {
            serde_json::to_string_pretty(&pools).map_err(|error| CliError::because("failed to write JSON", error))?
                + "\n"
        } else if args.name.is_some() {
            pools.iter().map(one).collect()
        } else {
            table(&pools)
        };
        print(&text)?;
        if !args.watch {
            return Ok(Outcome::Clean);
        }
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}

async fn read(client: &Client, args: &Args) -> Result<Vec<AgentPool>, CliError> {
    let api: Api<AgentPool> = match &args.namespace {
        _ if args.all_namespaces => Api::all(client.clone()),
        Some(namespace) => Api::namespaced(client.clone(), namespace),
        None => Api::default_namespaced(client.clone()),
    };
    let fail = |error| CliError::because("failed to read pools", error);
    match &args.name {
        Some(name) => Ok(vec![api.get(name).await.map_err(fail)?]),
        None => Ok(api.list(&ListParams::default()).await.map_err(fail)?.items),
    }
}

const HEAD: [&str; 11] =
    ["NAMESPACE", "NAME", "MODE", "DESIRED", "IDLE", "BUSY", "STARTING", "QUEUED", "STUCK", "READY", "WHY"];

/// A table whose columns are as wide as what is in them.
fn table(pools: &[AgentPool]) -> String {
    if pools.is_empty() {
        return "no pools\n".into();
    }
    let row = |pool: &AgentPool| {
        let status = pool.status.clone().unwrap_or_default();
        let ready = status.conditions.iter().find(|c| c.kind == condition::READY).map(|c| c.status.clone());
        [
            pool.metadata.namespace.clone().unwrap_or_default(),
            pool.metadata.name.clone().unwrap_or_default(),
            format!("{:?}", pool.spec.mode),
            status.desired.to_string(),
            status.idle.to_string(),
            status.busy.to_string(),
            status.starting.to_string(),
            status.queued.to_string(),
            status.stuck.to_string(),
            ready.unwrap_or_else(|| "Unknown".into()),
            status.last_decision.map_or_else(|| "no controller has seen it".into(), |last| last.reason),
        ]
    };
    let rows: Vec<[String; 11]> = std::iter::once(HEAD.map(str::to_owned)).chain(pools.iter().map(row)).collect();
    let width = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..HEAD.len()).map(width).collect();
    let line = |row: &[String; 11]| {
        let cells: Vec<String> = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}")).collect();
        format!("{}\n", cells.join("  ").trim_end())
    };
    rows.iter().map(line).collect()
}

/// One pool in whole sentences.
fn one(pool: &AgentPool) -> String {
    let mut text = table(std::slice::from_ref(pool));
    let Some(status) = &pool.status else { return text };
    if let Some(last) = &status.last_decision {
        let inputs = &last.inputs;
        text.push_str(&format!(
            "\n{}: {}\nfrom minIdle {}, max {}, replicas {}, queued {}, busy {}\n",
            last.reason, last.message, inputs.min_idle, inputs.max, inputs.replicas, status.queued, status.busy
        ));
    }
    if let Some(schedule) = &status.active_schedule {
        text.push_str(&format!("schedule {schedule} is on\n"));
    }
    for condition in &status.conditions {
        text.push_str(&format!(
            "{}={} {}: {}\n",
            condition.kind, condition.status, condition.reason, condition.message
        ));
    }
    text
}
