//! Whether the webhook degrades: a great many mixed calls from a great many namespaces, with a thousand layers, one of
//! which changes every second. Memory, descriptors and waiting times each time a tenth is done; fails where memory or
//! descriptors grow.
//!
//! `cargo bench --bench endurance -- --calls 1000000`. What is printed is also in `target/bench/endurance.md`.

#[path = "../server/client.rs"]
mod client;
#[path = "../common/mod.rs"]
mod common;
mod layers;
mod mixture;

use std::{
    env,
    error::Error,
    fs::{self, File},
    net::{Ipv4Addr, SocketAddr},
    process::ExitCode,
    sync::Arc,
    time::{Duration, Instant},
};

use clap::Parser;
use client::{Client, tcp, tls};
use common::{
    latencies::Latencies,
    machine::machine,
    process::{Process, certificate, free, podlayer, trust},
    report::Report,
    run::{end, runtime},
};
use layers::Changes;
use mixture::Mixture;
use rustls::ClientConfig;
use tokio::{task::JoinSet, time::sleep};

// As in the program.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// So many calls a connection is kept for: some stay, others come and go all the time.
const CALLS_OF_A_CONNECTION: u32 = 500;
/// By how much memory may grow from the second tenth to the last: what an allocator's pages come and go by.
const MOST_GROWTH: f64 = 1.15;
/// Descriptors that may be open at the end and weren't at the start: a poll of the layers may be under way.
const MOST_DESCRIPTORS: usize = 4;

/// Whether the webhook degrades.
#[derive(Parser)]
struct Args {
    /// How many calls in all.
    #[arg(long, default_value_t = 100_000)]
    calls: u32,
    /// How many layers.
    #[arg(long, default_value_t = 1000)]
    layers: u32,
    /// From how many namespaces the pods are.
    #[arg(long, default_value_t = 10_000)]
    namespaces: u32,
    /// How many callers, each with a connection.
    #[arg(long, default_value_t = 8)]
    connections: u32,
    /// How long a version of the changing layer lasts, in seconds.
    #[arg(long, default_value_t = 1.0)]
    change: f64,
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
    end(runtime().and_then(|runtime| runtime.block_on(run(&args))))
}

/// What is known when a tenth is done.
struct Tenth {
    resident: u64,
    p99: u64,
}

async fn run(args: &Args) -> Result<(), Box<dyn Error>> {
    let columns = [
        "calls",
        "seconds",
        "resident_kib",
        "descriptors",
        "threads",
        "p50_us",
        "p99_us",
        "worst_us",
        "cpu_s",
        "changes",
    ];
    let mut report = Report::new("endurance", &columns)?;
    let folder = tempfile::tempdir()?;
    certificate(folder.path())?;
    let texts = folder.path().join("layers");
    fs::create_dir(&texts)?;
    layers::write(&texts, args.layers)?;
    let address = free()?;
    let mut command = podlayer();
    command.args(["webhook", "--log-filter", "error", "--addr", &address.to_string()]);
    command.args(["--admin-addr", &free()?.to_string(), "--layers"]).arg(&texts);
    command.arg("--tls-cert").arg(folder.path().join("tls.crt")).arg("--tls-key").arg(folder.path().join("tls.key"));
    let mut process = Process::start(command, File::create(folder.path().join("log"))?, None)?;
    let trusted = trust(folder.path())?;
    for turn in 0.. {
        if connect(address, &trusted).await.is_ok() {
            break;
        }
        if turn > 400 || process.ended()?.is_some() {
            return Err(fs::read_to_string(folder.path().join("log"))?.into());
        }
        sleep(Duration::from_millis(50)).await;
    }
    let mixture = Arc::new(Mixture::of(args.namespaces)?);
    sleep(Duration::from_secs(1)).await;
    let (idle, descriptors) = (process.resident()?, process.descriptors()?);
    let changes = Changes::start(texts, Duration::from_secs_f64(args.change))?;
    report.line(format_args!(
        "{}\n\n{} mixed calls (4 KiB to 200 KiB, not opted in, refused, unreadable) from {} namespaces on {} connections, \
         each kept for {CALLS_OF_A_CONNECTION} calls; {} layers, one of which changes every {} s.\n",
        machine(),
        args.calls,
        args.namespaces,
        args.connections,
        args.layers,
        args.change
    ));
    report.line(format_args!(
        "| calls | seconds | resident KiB | descriptors | threads | p50 µs | p99 µs | CPU s per 1,000 calls | changes |\n\
         |---:|---:|---:|---:|---:|---:|---:|---:|---:|\n| 0 | 0 | {idle} | {descriptors} | {} | | | | 0 |",
        process.threads()?
    ));
    let start = Instant::now();
    let mut tenths = Vec::new();
    let each = args.calls / 10;
    for tenth in 0..10 {
        let before = process.cpu()?;
        let calls = ask(address, &trusted, &mixture, tenth * each, each, args.connections).await?;
        let spent = (process.cpu()? - before).as_secs_f64();
        let resident = process.resident()?;
        if calls.failed > 0 {
            return Err(format!("{} calls weren't answered as they should be", calls.failed).into());
        }
        let (open, threads, seconds) = (process.descriptors()?, process.threads()?, start.elapsed().as_secs_f64());
        let done = (tenth + 1) * each;
        report.line(format_args!(
            "| {done} | {seconds:.0} | {resident} | {open} | {threads} | {} | {} | {:.3} | {} |",
            calls.at(0.5),
            calls.at(0.99),
            spent * 1e3 / f64::from(each.max(1)),
            changes.made()
        ));
        let [middle, high, worst] = [0.5, 0.99, 1.0].map(|part| calls.at(part));
        report.raw(&[&done, &seconds, &resident, &open, &threads, &middle, &high, &worst, &spent, &changes.made()]);
        report.write()?;
        tenths.push(Tenth { resident, p99: high });
    }
    changes.stop().await?;
    // Connections that their callers have closed are gone soon.
    sleep(Duration::from_secs(2)).await;
    judge(&tenths, descriptors, process.descriptors()?, &mut report)
}

/// Says how flat it was; fails where something grew that must not.
fn judge(tenths: &[Tenth], before: usize, after: usize, report: &mut Report) -> Result<(), Box<dyn Error>> {
    let most = |part: &[Tenth], of: fn(&Tenth) -> u64| part.iter().map(of).max().unwrap_or_default() as f64;
    let (early, late) = tenths.split_at(tenths.len() / 2);
    let growth = |of| most(late, of) / most(early.get(1..).unwrap_or_default(), of);
    let (memory, wait) = (growth(|tenth| tenth.resident), growth(|tenth| tenth.p99));
    report.line(format_args!(
        "\nThe second half's most against that of the second to fifth tenth: memory {memory:.2}, p99 {wait:.2}. \
         Descriptors: {before} before, {after} after."
    ));
    report.write()?;
    if memory > MOST_GROWTH {
        return Err(format!("memory grows: {memory:.2} times").into());
    }
    if after > before + MOST_DESCRIPTORS {
        return Err(format!("descriptors leak: {before} before, {after} after").into());
    }
    Ok(())
}

async fn connect(address: SocketAddr, config: &Arc<ClientConfig>) -> std::io::Result<Client> {
    let stream = tcp(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), address).await?;
    Ok(Client::new(tls(stream, config, "localhost").await?))
}

/// Makes calls as fast as they are answered.
async fn ask(
    address: SocketAddr,
    config: &Arc<ClientConfig>,
    mixture: &Arc<Mixture>,
    first: u32,
    count: u32,
    connections: u32,
) -> Result<Latencies, Box<dyn Error>> {
    let mut workers = JoinSet::new();
    for worker in 0..connections {
        let (config, mixture) = (config.clone(), mixture.clone());
        workers.spawn(async move {
            let mut latencies = Latencies::default();
            let mut kept = None;
            for number in (first + worker..first + count).step_by(connections as usize) {
                let (body, status) = mixture.call(number);
                let start = Instant::now();
                let answer = async {
                    let client = match &mut kept {
                        Some(client) => client,
                        none => none.insert(connect(address, &config).await?),
                    };
                    client.post(&body).await
                };
                match answer.await {
                    Ok(answered) if answered == status => latencies.push(start.elapsed()),
                    _ => {
                        latencies.failed += 1;
                        kept = None;
                    }
                }
                // Not all at the same time.
                if (number / connections + worker * 61).is_multiple_of(CALLS_OF_A_CONNECTION) || status != 200 {
                    kept = None;
                }
            }
            latencies
        });
    }
    Ok(Latencies::together(workers.join_all().await))
}
