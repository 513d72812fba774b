use std::path::Path;

use kube::Client;
use serde_json::Value;

use super::{
    cluster::{Cluster, ClusterError},
    dns::{self, DnsError},
    options::Dns,
    plan::{self, Plan, Release, Step},
    tools::{ToolError, Tools},
    values::{self, OtherDefaultPool},
};
use crate::{layers::complaint::Printable, names};

/// Why a set-up stopped. What was done stays, and is found when it is run again.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// In the cluster.
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    /// With the name.
    #[error(transparent)]
    Dns(#[from] DnsError),
    /// Somebody else's endpoint.
    #[error(transparent)]
    DefaultPool(#[from] OtherDefaultPool),
    /// With helm.
    #[error("failed to install the chart {chart}")]
    Helm {
        /// Which.
        chart: &'static str,
        /// Why.
        #[source]
        source: ToolError,
    },
    /// With a file of values.
    #[error("failed to write {file}")]
    Values {
        /// Which.
        file: String,
        /// Why.
        #[source]
        source: std::io::Error,
    },
}

/// Carries out a plan and says what it does. The files of values are in a folder.
///
/// # Errors
/// [`RunError`], at the first step that fails.
pub async fn run(
    plan: &Plan<'_>,
    client: &Client,
    tools: &Tools,
    folder: &Path,
    say: &mut dyn FnMut(&str),
) -> Result<(), RunError> {
    let options = plan.options();
    let cluster = Cluster { client, plan };
    let pool = &options.pool;
    let mut address = String::new();
    for step in &plan.steps {
        match step {
            Step::Look => {
                cluster.look().await?;
                say(&format!("the cluster has: {}", plan.needs().join("; ")));
            }
            Step::Namespace => {
                let made = cluster.namespace().await?;
                say(&format!("namespace {}: {}", pool.namespace, if made { "made" } else { "was there" }));
            }
            Step::Secret => {
                let written = cluster.secret().await?;
                let (namespace, name, key) = (&pool.namespace, &options.secret_name, names::AZURE_SECRET_KEY);
                let what = if written { "written" } else { "holds it already" };
                say(&format!("Secret {namespace}/{name}, key {key}: {what}"));
            }
            Step::Chart(release) => {
                install(release, tools, folder)?;
                say(&format!("chart {}: installed", release.name));
            }
            Step::Pool if options.pool_file.is_some() => {
                cluster.pool().await?;
                say(&format!("AgentPool {pool}: applied"));
            }
            Step::Pool => {
                if cluster.pool().await? {
                    say(&format!("AgentPool {pool}: is there"));
                } else {
                    say(&format!("AgentPool {pool}: ISN'T THERE, make it (docs/azure-setup.md has one to start from)"));
                }
            }
            Step::Address => {
                address = cluster.address().await?;
                say(&format!("address: {}", Printable(&address)));
            }
            Step::Dns => match (&options.dns, &tools.az) {
                (Dns::Az { .. }, Some(az)) => {
                    dns::by_az(az, options, &address)?;
                    say(&format!("{}: bound to {address} by az", options.dns_name));
                }
                _ => say(&format!("make this record, if it isn't there: {}", dns::record(&options.dns_name, &address))),
            },
            Step::Certificate => {
                cluster.certificate().await?;
                say("certificate: ready");
            }
        }
    }
    say(&plan.next());
    Ok(())
}

fn install(release: &Release, tools: &Tools, folder: &Path) -> Result<(), RunError> {
    let failed = |source| RunError::Helm { chart: release.name, source };
    let file = folder.join(release.values_file());
    if release.shared {
        let listed = tools.helm.output(&release.list()).map_err(failed)?;
        let is_there = serde_json::from_str::<Vec<Value>>(&listed).is_ok_and(|all| !all.is_empty());
        let there = if is_there { tools.helm.output(&release.get_values()).map_err(failed)? } else { String::new() };
        // Without values of its own, it prints `null`.
        let there = serde_json::from_str(&there).unwrap_or_default();
        let values = plan::yaml(&values::joined(&release.values, &there)?);
        let written = std::fs::write(&file, values);
        written.map_err(|source| RunError::Values { file: file.display().to_string(), source })?;
    }
    tools.helm.output(&release.arguments(&file.display().to_string())).map(drop).map_err(failed)
}
