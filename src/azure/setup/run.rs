use std::path::Path;

use kube::Client;

use super::{
    cluster::{Cluster, ClusterError},
    dns::{self, DnsError},
    options::Dns,
    plan::{Plan, Release, Step},
    tools::{ToolError, Tools},
};
use crate::names;

/// Why a set-up stopped. What was done stays, and is found when it is run again.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// In the cluster.
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    /// With the name.
    #[error(transparent)]
    Dns(#[from] DnsError),
    /// With helm.
    #[error("failed to install the chart {chart}")]
    Helm {
        /// Which.
        chart: &'static str,
        /// Why.
        #[source]
        source: ToolError,
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
                say(&format!("address: {}", address.escape_debug()));
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
    let file = folder.join(release.values_file());
    let ran = tools.helm.output(&release.arguments(&file.display().to_string()));
    ran.map(drop).map_err(|source| RunError::Helm { chart: release.name, source })
}
