use std::path::{Path, PathBuf};

use clap::Subcommand;

use super::{
    files,
    policy::PolicyArgs,
    recorded::Recorded,
    report::{CliError, Outcome, note, print},
};
use crate::{
    import::{self, ImportError, Imported},
    layers::{Scope, Snapshot, manifest},
    lint,
    value::Position,
};

/// Flags of `import`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "What it becomes is printed; what can't carry over, or works in another way, is told on stderr with its \
                        line.\n\nExamples:\n  podlayer import agent-stack-k8s values.yaml > layers.yaml\n  podlayer import \
                        agent-stack-k8s values.yaml --verify -f jobs/ --presets buildkite\n  podlayer import kyverno \
                        policy.yaml > layers.yaml\n  podlayer import azure-pool pool.yaml --max 20 > pool-new.yaml\n\nExit codes: 0 all of it carried over, 1 something to look at, 2 usage \
                        or an unreadable file."
)]
pub(super) struct Args {
    #[command(subcommand)]
    from: From,
}

#[derive(Debug, Subcommand)]
enum From {
    /// The configuration of Buildkite's agent-stack-k8s, or the Helm values that hold it.
    #[command(name = "agent-stack-k8s")]
    AgentStack(Box<AgentStack>),
    /// Policies of Kyverno that mutate pods.
    Kyverno(Kyverno),
    /// An AzurePipelinesPool of k8s-poolprovider, to an AgentPool.
    #[command(name = "azure-pool")]
    AzurePool(AzurePool),
}

#[derive(Debug, clap::Args)]
struct AgentStack {
    /// The configuration.
    file: PathBuf,
    /// Print no layers, but compare them with the old controller's own patch on Jobs, one by one.
    #[arg(long, requires = "jobs")]
    verify: bool,
    /// Jobs as the old controller makes them without its own patch; files or folders.
    #[arg(short = 'f', long = "file", value_name = "PATH", requires = "verify")]
    jobs: Vec<PathBuf>,
    #[command(flatten)]
    policy: PolicyArgs,
}

#[derive(Debug, clap::Args)]
struct Kyverno {
    /// The policies.
    file: PathBuf,
    /// podlayer's own namespace.
    #[arg(long, value_name = "NAME", default_value = crate::names::NAMESPACE, env = "PODLAYER_NAMESPACE")]
    own_namespace: String,
}

#[derive(Debug, clap::Args)]
struct AzurePool {
    /// The resource, as a file or as kubectl get -o yaml prints it; `-` is stdin.
    file: PathBuf,
    /// How many agents there may be: the pool's target size in Azure DevOps.
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(i64).range(0..=2000))]
    max: Option<i64>,
}

/// Flags of `convert`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  podlayer convert .buildkite/pipeline.yml > new.yml\n\nEverything else in the file stays \
                        as it is written. What is wrong with the patches, as podlayer lint finds it, is told on \
                        stderr.\n\nExit codes: 0 all of it moved, 1 something to look at on stderr, 2 usage or \
                        an unreadable file."
)]
pub(super) struct Convert {
    /// The pipeline; `-` is stdin.
    file: PathBuf,
}

/// Runs `convert`.
pub(super) fn convert(args: &Convert) -> Result<Outcome, CliError> {
    let (text, file) = files::text_of(&args.file)?;
    let (out, imported) = import::convert(&text).map_err(unreadable(&file))?;
    tell(&imported, &file);
    let wrong = wrong_patches(&text, &file);
    if out == text && imported.remarks.is_empty() {
        note(&format!("{}: no plugin has a podSpecPatch, nothing is moved", Path::new(&file).display()));
    }
    print(&out)?;
    Ok(if wrong { Outcome::Findings } else { outcome(&imported) })
}

/// Tells what the API server will refuse once the patches stand in annotations, and says whether there is such.
fn wrong_patches(text: &str, file: &str) -> bool {
    let scope = Scope { own_namespace: crate::names::NAMESPACE };
    let mut findings = lint::lint(lint::Source { text, file, stem: file, named: true }, scope, &[]);
    // A `$` that stands alone is doubled on the way.
    findings.retain(|finding| finding.severity == lint::Severity::Error && finding.code != lint::codes::UNESCAPED.name);
    lint::text(&findings).lines().for_each(note);
    !findings.is_empty()
}

/// Runs `import`.
pub(super) fn run(args: &Args) -> Result<Outcome, CliError> {
    match &args.from {
        From::AgentStack(args) => agent_stack(args),
        From::Kyverno(Kyverno { file, own_namespace }) => {
            let (text, file) = files::text_of(file)?;
            let imported = import::kyverno(&text).map_err(unreadable(&file))?;
            tell(&imported, &file);
            print(&checked(&imported, own_namespace)?.0)?;
            Ok(outcome(&imported))
        }
        From::AzurePool(AzurePool { file, max }) => {
            let (text, file) = files::text_of(file)?;
            let imported = import::azure_pool(&text, *max).map_err(unreadable(&file))?;
            told(&imported.remarks, &file);
            print(&imported.to_yaml())?;
            Ok(if imported.remarks.is_empty() { Outcome::Clean } else { Outcome::Findings })
        }
    }
}

fn agent_stack(args: &AgentStack) -> Result<Outcome, CliError> {
    let policy = args.policy.policy();
    let (text, file) = files::text_of(&args.file)?;
    let imported = import::agent_stack(&text).map_err(unreadable(&file))?;
    tell(&imported, &file);
    let (yaml, snapshot) = checked(&imported, &policy.own_namespace)?;
    if !args.verify {
        print(&yaml)?;
        return Ok(outcome(&imported));
    }
    let mut recorded = Recorded::default();
    recorded.read_files(&args.jobs)?;
    let (mut out, mut same) = (String::new(), 0);
    for (subject, object) in &recorded.objects {
        let pod = object.pod_text()?;
        let namespace = object.namespace_or(None);
        let parity = import::parity(subject, &object.pod(&pod)?, &namespace, &text, &snapshot, &policy);
        let parity = parity.map_err(unreadable(&file))?;
        same += usize::from(parity.is_same());
        out.push_str(&parity.to_text());
    }
    out.push_str(&format!("{same} of {} the same\n", recorded.objects.len()));
    print(&out)?;
    Ok(if same == recorded.objects.len() { Outcome::Clean } else { Outcome::Findings })
}

/// The manifests, read back as the webhook will read them.
fn checked(imported: &Imported, own_namespace: &str) -> Result<(String, Snapshot), CliError> {
    let yaml = imported.to_yaml(own_namespace);
    let read = manifest::read(&yaml, "the imported layers", "imported", Scope { own_namespace });
    let layers = read.map_err(|error| CliError::because(format!("what was imported is no layer:\n{yaml}"), error))?;
    let snapshot = Snapshot::build(layers.into_iter().map(std::sync::Arc::new));
    Ok((yaml, snapshot.map_err(|error| CliError::because("failed to put the layers together", error))?))
}

fn tell(imported: &Imported, file: &str) {
    told(&imported.remarks, file);
}

fn told(remarks: &[(Position, String)], file: &str) {
    for (Position { line, column }, text) in remarks {
        note(&format!("{}:{line}:{column}: {text}", Path::new(file).display()));
    }
}

fn outcome(imported: &Imported) -> Outcome {
    if imported.remarks.is_empty() { Outcome::Clean } else { Outcome::Findings }
}

fn unreadable(file: &str) -> impl FnOnce(ImportError) -> CliError {
    let what = format!("failed to read {file}");
    move |error| CliError::because(what, error)
}
