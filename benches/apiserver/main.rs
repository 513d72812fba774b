//! What podlayer costs on a real API server: how long pod creates take with it, without it, and with an admission policy
//! that does what it can of the same work; how soon changed layers are in force on all replicas; what the stamp takes in
//! etcd; and 5,000 pods a minute, really made.
//!
//! `cargo bench --bench apiserver` (`-- --help`). The first run builds a control plane, as the tests do. Rounds take turns.
//! Tables: `target/bench/apiserver.md`; every round: `apiserver.tsv` beside it.

mod api;
#[path = "../common/mod.rs"]
mod common;
#[path = "../../tests/support/controlplane.rs"]
mod controlplane;
mod convergence;
mod creates;
mod histogram;
mod installation;
mod stored;

use std::{collections::BTreeMap, env, error::Error, process::ExitCode, sync::Arc, time::Duration};

use api::Api;
use clap::Parser;
use common::{
    machine::machine,
    report::Report,
    run::{end, runtime},
    spread::Spread,
};
use controlplane::ControlPlane;
use creates::create;
use histogram::Histogram;
use installation::{By, Installation, POLICY, WEBHOOK, bytes};
use serde_json::Value;

// As in the program.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The API server's own word on how long webhooks take.
const OF_WEBHOOKS: &str = "apiserver_admission_webhook_admission_duration_seconds";
/// And policies, for each expression.
const OF_POLICIES: &str = "apiserver_mutating_admission_policy_check_duration_seconds";

/// podlayer on a real API server.
#[derive(Parser)]
struct Args {
    /// Pod creates a second; 0 for none.
    #[arg(long, value_delimiter = ',', default_values_t = [50, 200, 500])]
    rates: Vec<u32>,
    /// How many rounds at each rate.
    #[arg(long, default_value_t = 5)]
    rounds: u32,
    /// How long each of the three has in each round, in seconds.
    #[arg(long, default_value_t = 5.0)]
    seconds: f64,
    /// Store the pods, and delete them after each round, instead of dry runs.
    #[arg(long)]
    real: bool,
    /// How many replicas the changes of layers must reach.
    #[arg(long, default_value_t = 3)]
    replicas: usize,
    /// How many changes of a layer.
    #[arg(long, default_value_t = 30)]
    changes: u32,
    /// How many layers more there are, for pods of other namespaces.
    #[arg(long, default_value_t = 0)]
    layers: u32,
    /// Pods that are really made, at 5,000 a minute.
    #[arg(long, default_value_t = 5000)]
    pods: u32,
    /// What cargo says to every benchmark.
    #[arg(long, hide = true)]
    bench: bool,
}

fn main() -> ExitCode {
    if !env::args().any(|argument| argument == "--bench" || argument == "--help") {
        // `cargo test --benches`
        return ExitCode::SUCCESS;
    }
    let args = Args::parse();
    let plane = ControlPlane::start();
    end(runtime().and_then(|runtime| runtime.block_on(run(&args, &plane))))
}

async fn run(args: &Args, plane: &ControlPlane) -> Result<(), Box<dyn Error>> {
    let columns = ["what", "rate", "round", "by", "made", "failed", "p50_us", "p99_us", "worst_us", "podlayer_cpu_s"];
    let mut report = Report::new("apiserver", &columns)?;
    report.line(format_args!("{}\n", machine()));
    let api = Api::connect(plane.kubeconfig()).await?;
    let mut installation = Installation::new(plane, &api, args.layers).await?;
    installation.start(args.replicas.max(1)).await?;
    installation.register(&api).await?;
    let replica = &installation.replicas[0].process;
    report.line(format_args!(
        "{} replicas, {} layers; memory of one: {:.1} MiB.",
        installation.replicas.len(),
        args.layers + 4,
        replica.resident()? as f64 / 1024.0
    ));
    if args.changes > 0 {
        changes(args, &api, &installation, &mut report).await?;
        report.write()?;
    }
    rates(args, &api, &installation, &mut report).await?;
    stamp(&api, &installation, &mut report).await?;
    if args.pods > 0 {
        report.write()?;
        minute(args, &api, &installation, &mut report).await?;
    }
    report.write()
}

/// How soon a changed ConfigMap is in force everywhere.
async fn changes(
    args: &Args,
    api: &Api,
    installation: &Installation,
    report: &mut Report,
) -> Result<(), Box<dyn Error>> {
    let measured = convergence::converge(api, installation, args.changes).await?;
    report.line(format_args!(
        "\nA changed ConfigMap, {} times: milliseconds from the start of the write.\n\n\
         | | median (range) |\n|---|---:|\n| the write is answered | {} |\n| the first replica has it in force | {} |\n\
         | the last of {} replicas | {} |",
        args.changes,
        measured.written,
        measured.first,
        installation.replicas.len(),
        measured.all
    ));
    for (change, [written, first, all]) in measured.raw.iter().enumerate() {
        for (what, millis) in [("written", written), ("first", first), ("all", all)] {
            let micros = format!("{:.0}", millis * 1e3);
            report.raw(&[&"change", &"", &change, &what, &"", &"", &micros, &"", &"", &""]);
        }
    }
    Ok(())
}

/// What one of the three took in the rounds at one rate.
#[derive(Default)]
struct Row {
    p50: Spread,
    p99: Spread,
    made: usize,
    failed: usize,
    failure: Option<String>,
}

/// Pod creates at fixed rates.
async fn rates(args: &Args, api: &Api, installation: &Installation, report: &mut Report) -> Result<(), Box<dyn Error>> {
    let path = installation.creation(!args.real);
    let length = Duration::from_secs_f64(args.seconds);
    let kind = if args.real { "stored" } else { "dry runs" };
    report.line(format_args!(
        "\nPod creates of the recorded 16 KiB review ({kind}), {} rounds of {} s by turns: milliseconds from when a create \
         was due, median and range over rounds. The last two columns are the API server's own histogram of all rounds.\n",
        args.rounds, args.seconds
    ));
    report.line(format_args!(
        "| creates/s | changed by | p50 | p99 | p99 more than nobody's | made | failed | its share: mean | its share: \
         p99 |\n|---:|---|---:|---:|---:|---:|---:|---:|---:|"
    ));
    let mut pods = Vec::new();
    for by in By::ALL {
        pods.push((by, Arc::new(bytes(&by.pod()?))));
    }
    for rate in args.rates.iter().copied().filter(|rate| *rate > 0) {
        for (_, pod) in &pods {
            create(api, &path, pod, rate, Duration::from_secs(1)).await;
        }
        let before = api.get("/metrics").await?;
        let mut rows: BTreeMap<usize, Row> = BTreeMap::new();
        for round in 1..=args.rounds {
            for (at, (by, pod)) in pods.iter().enumerate() {
                let replica = &installation.replicas[0].process;
                let cpu = replica.cpu()?;
                let made = create(api, &path, pod, rate, length).await;
                let cpu = replica.cpu()? - cpu;
                let row = rows.entry(at).or_default();
                let [middle, high, worst] = [0.5, 0.99, 1.0].map(|part| made.latencies.at(part));
                row.p50.push(middle as f64 / 1e3);
                row.p99.push(high as f64 / 1e3);
                row.made += made.latencies.answered();
                row.failed += made.latencies.failed;
                row.failure = row.failure.take().or(made.failure);
                if *by == By::Podlayer && made.stamped < made.latencies.answered() {
                    return Err(format!("{} pods have no stamp", made.latencies.answered() - made.stamped).into());
                }
                report.raw(&[
                    &kind,
                    &rate,
                    &round,
                    &by.name(),
                    &made.latencies.answered(),
                    &made.latencies.failed,
                    &middle,
                    &high,
                    &worst,
                    &format_args!("{:.2}", cpu.as_secs_f64()),
                ]);
                if args.real {
                    clear(api, installation).await?;
                }
            }
        }
        let after = api.get("/metrics").await?;
        let plain = rows.get(&0).map_or(f64::NAN, |row| row.p99.median());
        for (at, row) in &rows {
            let by = pods[*at].0;
            let (name, label) = match by {
                By::Nobody => ("none", String::new()),
                By::Podlayer => (OF_WEBHOOKS, format!("name=\"{WEBHOOK}\"")),
                By::Policy => (OF_POLICIES, format!("policy=\"{POLICY}\"")),
            };
            let share = Histogram::read(&after, name, &label).since(&Histogram::read(&before, name, &label));
            let share =
                if share.count() > 0.0 { format!("{:.2} | {:.2}", share.mean(), share.at(0.99)) } else { " | ".into() };
            report.line(format_args!(
                "| {rate} | {} | {} | {} | {:.2} | {} | {} | {share} |",
                by.name(),
                row.p50,
                row.p99,
                row.p99.median() - plain,
                row.made,
                row.failed
            ));
            if let Some(failure) = &row.failure {
                report.line(format_args!("\nThe first failure of {}: {failure}\n", by.name()));
            }
        }
        report.write()?;
    }
    report.line(format_args!(
        "\npodlayer's share is one call; the policy's is for each of its two expressions. The policy does what policies can \
         without reading the pod's own patch: no provenance, no guard rails, no list item taken away by name."
    ));
    Ok(())
}

/// Deletes all pods and waits until they are gone.
async fn clear(api: &Api, installation: &Installation) -> Result<(), Box<dyn Error>> {
    let path = installation.creation(false);
    loop {
        api.delete(&format!("{path}?gracePeriodSeconds=0")).await?;
        let list: Value = serde_json::from_str(&api.get(&format!("{path}?limit=1")).await?)?;
        if list["items"].as_array().is_none_or(Vec::is_empty) {
            return Ok(());
        }
    }
}

/// What a pod takes in etcd.
async fn stamp(api: &Api, installation: &Installation, report: &mut Report) -> Result<(), Box<dyn Error>> {
    let sizes = stored::measure(api, installation).await?;
    report.line(format_args!(
        "\nOne pod of the recorded 16 KiB review in etcd, bytes of its protobuf (which is what the API server stores).\n\n\
         | pod | bytes |\n|---|---:|\n| changed by nobody | {} |\n| with podlayer's layers, stamp and provenance | {} |\n\
         | the same without provenance | {} |\n| the same without either | {} |\n| **stamp and provenance** | **{}** |\n\
         | changed by the policy | {} |",
        sizes.without_podlayer,
        sizes.with_podlayer,
        sizes.without_provenance,
        sizes.without_either,
        sizes.with_podlayer.saturating_sub(sizes.without_either),
        sizes.by_policy
    ));
    Ok(())
}

/// 5,000 pods a minute, stored.
async fn minute(
    args: &Args,
    api: &Api,
    installation: &Installation,
    report: &mut Report,
) -> Result<(), Box<dyn Error>> {
    const A_MINUTE: f64 = 5000.0;
    let rate = (A_MINUTE / 60.0).ceil() as u32;
    let length = Duration::from_secs_f64(f64::from(args.pods) / f64::from(rate));
    let replica = &installation.replicas[0].process;
    let (pod, cpu) = (Arc::new(bytes(&By::Podlayer.pod()?)), replica.cpu()?);
    let made = create(api, &installation.creation(false), &pod, rate, length).await;
    let cpu = (replica.cpu()? - cpu).as_secs_f64();
    let [middle, high, worst] = [0.5, 0.99, 1.0].map(|part| made.latencies.at(part));
    let answered = made.latencies.answered();
    report.line(format_args!(
        "\n5,000 pods a minute, stored: {answered} made in {:.0} s, {} failed, {} without stamp; p50 {:.1} ms, p99 {:.1} ms, \
         worst {:.1} ms. podlayer took {cpu:.2} CPU seconds and has {:.1} MiB.",
        length.as_secs_f64(),
        made.latencies.failed,
        answered - made.stamped,
        middle as f64 / 1e3,
        high as f64 / 1e3,
        worst as f64 / 1e3,
        replica.resident()? as f64 / 1024.0
    ));
    if let Some(failure) = made.failure {
        report.line(format_args!("The first failure: {failure}"));
    }
    report.raw(&[
        &"minute",
        &rate,
        &1,
        &By::Podlayer.name(),
        &answered,
        &made.latencies.failed,
        &middle,
        &high,
        &worst,
        &format_args!("{cpu:.2}"),
    ]);
    Ok(())
}
