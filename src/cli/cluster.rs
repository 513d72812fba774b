//! How commands that people run reach a cluster, and what they ask of it.

use std::path::PathBuf;

use kube::Client;
use serde_json::Value as Json;

use super::{object::Object, report::CliError, start};
use crate::{admission::Policy, cluster, explain, layers::Snapshot, names};

/// The flags of kubectl that say which cluster.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Cluster")]
pub(super) struct ClusterArgs {
    /// The kubeconfig; else KUBECONFIG, else ~/.kube/config, else the cluster that podlayer runs in.
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig, in the place of its current one.
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
    /// Namespaces whose own layers apply to their pods, as the webhook was told.
    #[arg(long, value_name = "NAME,…", value_delimiter = ',', env = "PODLAYER_LAYER_NAMESPACES")]
    layer_namespaces: Vec<String>,
}

/// A pod of the cluster, as it was before its layers as far as that is known.
pub(super) struct Found {
    /// A Job, or a Pod.
    pub original: Json,
    /// Its namespace.
    pub namespace: String,
    /// The layers.
    pub snapshot: Snapshot,
    /// What to know about the answer.
    pub notes: Vec<String>,
    /// Refusals on record.
    pub refusals: Vec<String>,
}

impl ClusterArgs {
    /// Runs a task with a client.
    ///
    /// # Errors
    /// No cluster, or what the task says.
    pub(super) fn with<T>(&self, task: impl AsyncFnOnce(Client) -> Result<T, CliError>) -> Result<T, CliError> {
        start::ask(async {
            let client = cluster::client(self.kubeconfig.as_deref(), self.context.as_deref()).await;
            task(client.map_err(|error| CliError::because("failed to reach the cluster", error))?).await
        })
    }

    /// The cluster's layers, and remarks about those that can't be read.
    pub(super) async fn layers(&self, client: &Client, policy: &Policy) -> Result<(Snapshot, Vec<String>), CliError> {
        let found = cluster::layers(client, &policy.own_namespace, &self.layer_namespaces).await;
        let (snapshot, problems) = found.map_err(|error| CliError::because("failed to read the layers", error))?;
        let remark = |problem| {
            format!("a layer can't be read and is left out, the webhook may have an older version of it: {problem}")
        };
        Ok((snapshot, problems.into_iter().map(remark).collect()))
    }

    /// Finds a pod, or a Job by `job/NAME`, with its layers.
    pub(super) fn look_up(
        &self,
        name: &str,
        namespace: Option<&str>,
        layers: Option<Snapshot>,
        policy: &Policy,
    ) -> Result<Found, CliError> {
        let fail = |error| CliError::because(format!("failed to look up {name}"), error);
        self.with(async |client| {
            let namespace = namespace.unwrap_or_else(|| client.default_namespace()).to_owned();
            let (snapshot, mut notes) = match layers {
                Some(snapshot) => (snapshot, Vec::new()),
                None => self.layers(&client, policy).await?,
            };
            let (kind, name) = name.split_once('/').unwrap_or(("pod", name));
            let pod = match kind {
                "pod" | "pods" | "po" => Some(cluster::pod(&client, &namespace, name).await.map_err(fail)?),
                "job" | "jobs" => None,
                other => return Err(CliError::new(format!("{other}/{name}: write a pod's name, or job/NAME"))),
            };
            let job = match &pod {
                Some(pod) => explain::job_of(pod),
                None => Some(name),
            };
            let job = match job {
                Some(job) => match cluster::job(&client, &namespace, job).await {
                    Ok(found) => Some((job, found)),
                    Err(error) if pod.is_some() => {
                        notes.push(format!("the Job {job} that made the pod can't be read: {error}"));
                        None
                    }
                    Err(error) => return Err(fail(error)),
                },
                None => None,
            };
            let refusals = match &job {
                Some((job, _)) => cluster::refusals(&client, &namespace, job).await.unwrap_or_else(|error| {
                    notes.push(format!("refusals of its pods are not known: {error}"));
                    Vec::new()
                }),
                None => Vec::new(),
            };
            let original = match (job, &pod) {
                (Some((job, found)), _) => {
                    notes.extend(explain::of_template(job, &found));
                    found
                }
                (None, Some(pod)) => {
                    notes.push(explain::UNKNOWN_ORIGINAL.to_owned());
                    pod.clone()
                }
                (None, None) => return Err(CliError::new(format!("{name}: neither a pod nor a Job"))),
            };
            if let Some(pod) = &pod {
                let mut now = Object::of_json(original.clone(), name)?;
                let decision = now.decide(&namespace, &snapshot, policy)?;
                now.apply(&decision)?;
                let stamp = pod.pointer("/metadata/annotations").and_then(|all| all.get(names::APPLIED)?.as_str());
                notes.extend(explain::compare_stamps(stamp, now.stamp()));
            }
            Ok(Found { original, namespace, snapshot, notes, refusals })
        })
    }
}
