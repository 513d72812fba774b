use std::{path::PathBuf, time::Duration};

use clap::ValueEnum;

use super::{
    report::{CliError, Outcome, print},
    start,
};
use crate::{
    cluster,
    doctor::{Ask, Finding, Severity, examine},
    names,
};

/// How long looking may take in all: a few dozen answers, of which each replica's may take five seconds.
const PATIENCE: Duration = Duration::from_secs(120);

/// Flags of `doctor`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Looks through the API server, with your own rights, and changes nothing. Each finding comes with the \
                        command that mends it or shows what to mend; docs/troubleshooting.md says more about each.\n\n\
                        Exit codes: 0 nothing to mend, 1 findings, 2 the API server can't be reached."
)]
pub(super) struct Args {
    /// podlayer's namespace.
    #[arg(short, long, value_name = "NAME", default_value = names::NAMESPACE, env = "PODLAYER_NAMESPACE")]
    namespace: String,
    /// The cluster to look at; else KUBECONFIG, else the one that podlayer runs in.
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Name of the webhook configurations.
    #[arg(long, value_name = "NAME", default_value = names::WEBHOOK_CONFIGURATION)]
    webhook_configuration: String,
    /// The namespace in which a pod is tried, in a dry run.
    #[arg(long, value_name = "NAME", default_value = "default")]
    probe_namespace: String,
    /// How findings are printed.
    #[arg(short, long, value_enum, default_value = "text")]
    output: Output,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Output {
    /// A paragraph for each finding.
    Text,
    /// A list of findings.
    Json,
}

/// Runs `doctor`.
pub(super) fn run(args: Args) -> Result<Outcome, CliError> {
    let findings = start::ask(async {
        let client = cluster::client(args.kubeconfig.as_deref(), None).await;
        let client = client.map_err(|error| CliError::because("failed to reach the cluster", error))?;
        let ask = Ask {
            namespace: args.namespace,
            configuration: args.webhook_configuration,
            probe_namespace: args.probe_namespace,
        };
        let examined = tokio::time::timeout(PATIENCE, examine(&client, &ask)).await;
        let examined =
            examined.map_err(|_| CliError::new(format!("the API server gave no answer within {PATIENCE:?}")))?;
        examined.map_err(|error| CliError::because("failed to look at the cluster", error))
    })?;
    let text = match args.output {
        Output::Json => {
            let json = serde_json::to_string_pretty(&findings);
            json.map_err(|error| CliError::because("failed to print the findings", error))? + "\n"
        }
        Output::Text => text(&findings),
    };
    print(&text)?;
    let any = findings.iter().any(|finding| finding.severity != Severity::Info);
    Ok(if any { Outcome::Findings } else { Outcome::Clean })
}

fn text(findings: &[Finding]) -> String {
    let mut text = String::new();
    for finding in findings {
        let (severity, code) = (finding.severity.as_str(), finding.code.as_str());
        text.push_str(&format!(
            "{severity} {code}: {}\n  fix: {}\n",
            printable(&finding.text),
            printable(&finding.fix)
        ));
    }
    if findings.iter().all(|finding| finding.severity == Severity::Info) {
        text.push_str("nothing to mend\n");
    }
    text
}

/// What others wrote, with its control characters escaped.
fn printable(text: &str) -> String {
    crate::layers::complaint::Printable(text).to_string()
}
