//! Webhooks side by side over TLS: podlayer, what people would write in Go, and servers that do nothing.
//!
//! `cargo bench --bench compare` (`-- --help` for less or more of it). Each round measures every server once, so that what
//! else the machine does hits all alike; medians and ranges are over rounds. With two cores or more the servers have the
//! first for themselves, one at a time, and the callers the second. Tables: `target/bench/compare.md`; every round:
//! `compare.tsv` beside it.

#[path = "../server/client.rs"]
mod client;
#[path = "../common/mod.rs"]
mod common;
mod load;
mod null;
mod server;

use std::{
    collections::BTreeMap,
    env,
    error::Error,
    path::Path,
    process::{self, Command, ExitCode},
    sync::Arc,
    thread,
    time::Duration,
};

use clap::Parser;
use common::{
    machine::machine,
    report::{Report, review},
    run::end,
    spread::Spread,
};
use load::Load;
use server::{Ground, Kind, SERVE_NULL, Server};
use tokio::time::sleep;

// As in the program.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Servers side by side.
#[derive(Parser)]
struct Args {
    /// Which servers.
    #[arg(long, value_delimiter = ',', default_values_t = Kind::ALL, value_enum)]
    servers: Vec<Kind>,
    /// Which recorded reviews: 4k, 16k, 64k, 1500env.
    #[arg(long, value_delimiter = ',', default_values = ["4k", "16k", "64k", "1500env"])]
    reviews: Vec<String>,
    /// On how many connections, each with one call at a time.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 8, 32])]
    connections: Vec<u32>,
    /// Fixed rates, calls a second; 0 for none.
    #[arg(long, value_delimiter = ',', default_values_t = [100, 1000])]
    rates: Vec<u32>,
    /// How many rounds.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// How long each server has in each round, in seconds.
    #[arg(long, default_value_t = 2.0)]
    seconds: f64,
    /// Let servers and callers run on all cores.
    #[arg(long)]
    unpinned: bool,
    /// What cargo says to every benchmark.
    #[arg(long, hide = true)]
    bench: bool,
}

/// What one server cost in the rounds of one row.
#[derive(Default)]
struct Row {
    calls: Spread,
    p50: Spread,
    p99: Spread,
    cpu: Spread,
    peak: u64,
    failed: usize,
    unmade: usize,
}

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().collect();
    let done = match arguments.get(1..4) {
        Some([word, address, folder]) if word == SERVE_NULL => {
            address.parse().map_err(Into::into).and_then(|address| null::serve(address, Path::new(folder)))
        }
        // Without --bench (`cargo test --benches`) nothing is measured.
        _ if !arguments.iter().any(|argument| argument == "--bench" || argument == "--help") => Ok(()),
        _ => start(&Args::parse()),
    };
    end(done)
}

fn start(args: &Args) -> Result<(), Box<dyn Error>> {
    // Built on all cores, and they are counted, before this process has but one.
    server::build(&args.servers)?;
    let machine = machine();
    let pinned = !args.unpinned && thread::available_parallelism()?.get() > 1;
    if pinned {
        // Before there are threads: they inherit it.
        let done = Command::new("taskset").args(["-cp", "1", &process::id().to_string()]).output();
        if !done.is_ok_and(|output| output.status.success()) {
            return Err(
                "taskset can't give the callers a core of their own: install util-linux, or say --unpinned".into()
            );
        }
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(run(args, &machine, pinned.then_some(0)))
}

async fn run(args: &Args, machine: &str, core: Option<usize>) -> Result<(), Box<dyn Error>> {
    let columns = [
        "review",
        "load",
        "connections",
        "round",
        "server",
        "answered",
        "seconds",
        "p50_us",
        "p99_us",
        "worst_us",
        "failed",
        "unmade",
        "cpu_s",
        "peak_kib",
    ];
    let mut report = Report::new("compare", &columns)?;
    let ground = Ground::new(core)?;
    let mut servers = Vec::new();
    let first = review("4k")?;
    for kind in &args.servers {
        servers.push(Arc::new(ground.serve(*kind, &first).await?));
    }
    let apart = if core.is_some() { "servers on the first core, callers on the second" } else { "all cores for all" };
    report.line(format_args!(
        "{machine}\n\n{} rounds of {} s for each server by turns, {apart}. Median and range over rounds.\n",
        args.rounds, args.seconds
    ));
    report.line(format_args!("| server | resident memory after one call, MiB |\n|---|---:|"));
    for server in &servers {
        report.line(format_args!("| {} | {:.1} |", server.kind.name(), server.idle as f64 / 1024.0));
    }
    let rates = args.rates.iter().filter(|rate| **rate > 0).map(|rate| Load::Rate(*rate));
    for load in [Load::Kept, Load::Cold].into_iter().chain(rates) {
        report.line(format_args!("\n{}\n", title(load)));
        report.line(format_args!(
            "| review | connections | server | calls/s | p50 ms | p99 ms | CPU s per 1,000 calls | × podlayer's | most \
             memory, MiB | failed | too late |\n|---|---:|---|---:|---:|---:|---:|---:|---:|---:|---:|"
        ));
        for name in &args.reviews {
            let body: Arc<[u8]> = review(name)?.into();
            for connections in &args.connections {
                place(args, &servers, load, name, &body, *connections, &mut report).await?;
                // A long run that is ended early has left what it had.
                report.write()?;
            }
        }
    }
    report.write()
}

fn title(load: Load) -> String {
    match load {
        Load::Kept => "As many calls as each server answers, on kept connections.".into(),
        Load::Cold => {
            "As many calls as each server answers, a new connection with a whole TLS handshake for each.".into()
        }
        Load::Rate(rate) => format!(
            "{rate} calls a second on kept connections, measured from when a call was due. Too late: calls that were \
             never made since the server was behind by the round's length; they count with what they had waited."
        ),
    }
}

/// One place of the tables: all servers, all rounds.
async fn place(
    args: &Args,
    servers: &[Arc<Server>],
    load: Load,
    name: &str,
    body: &Arc<[u8]>,
    connections: u32,
    report: &mut Report,
) -> Result<(), Box<dyn Error>> {
    let length = Duration::from_secs_f64(args.seconds);
    let mut rows: BTreeMap<usize, Row> = BTreeMap::new();
    for round in 0..=args.rounds {
        for (at, server) in servers.iter().enumerate() {
            let process = &server.process;
            process.forget_peak()?;
            let before = process.cpu()?;
            // The first round is short and isn't counted: it warms up.
            let length = if round == 0 { length.min(Duration::from_millis(300)) } else { length };
            let (calls, taken) = load.run(server, body, connections, length).await?;
            // What it does after its last answer is its calls' as well, and mustn't fall into the next server's time.
            let spent = quiet(server).await?.saturating_sub(before);
            if round == 0 {
                continue;
            }
            let peak = process.peak()?;
            let row = rows.entry(at).or_default();
            row.calls.push(calls.answered() as f64 / taken.as_secs_f64());
            row.p50.push(calls.at(0.5) as f64 / 1e3);
            row.p99.push(calls.at(0.99) as f64 / 1e3);
            row.cpu.push(spent.as_secs_f64() * 1e3 / calls.answered().max(1) as f64);
            row.peak = row.peak.max(peak);
            row.failed += calls.failed;
            row.unmade += calls.unmade;
            report.raw(&[
                &name,
                &load.name(),
                &connections,
                &round,
                &server.kind.name(),
                &calls.answered(),
                &format_args!("{:.3}", taken.as_secs_f64()),
                &calls.at(0.5),
                &calls.at(0.99),
                &calls.at(1.0),
                &calls.failed,
                &calls.unmade,
                &format_args!("{:.2}", spent.as_secs_f64()),
                &peak,
            ]);
        }
    }
    let own = servers.iter().position(|server| server.kind == Kind::Podlayer);
    let own = own.and_then(|at| rows.get(&at)).map_or(f64::NAN, |row| row.cpu.median());
    for (at, row) in &rows {
        report.line(format_args!(
            "| {name} | {connections} | {} | {} | {} | {} | {} | {:.2} | {:.0} | {} | {} |",
            servers[*at].kind.name(),
            row.calls,
            row.p50,
            row.p99,
            row.cpu,
            row.cpu.median() / own,
            row.peak as f64 / 1024.0,
            row.failed,
            row.unmade,
        ));
    }
    Ok(())
}

/// Waits until a server does nothing any more; gives its CPU time then.
async fn quiet(server: &Server) -> Result<Duration, Box<dyn Error>> {
    let mut last = server.process.cpu()?;
    loop {
        sleep(Duration::from_millis(60)).await;
        let now = server.process.cpu()?;
        if now == last {
            return Ok(now);
        }
        last = now;
    }
}
