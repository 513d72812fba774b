//! What the webhook's callers wait, in peace and among hostile clients: the real program on a loopback socket.
//!
//! Calls are due at fixed times, whether or not earlier ones are done, and one whose turn comes while the one before is
//! under way is measured from when it was due: a server that stalls shows in every call that had to wait. The two kinds of rounds take turns. What is printed is also
//! in `target/bench/server.md`.
//!
//! `cargo bench --bench server -- --calls 1000000` instead makes so many calls as fast as they are answered and shows
//! what becomes of the webhook's memory. `-- --throttled` gives the webhook a part of a core only; `-- --flood` has one
//! source send as much as it can. Each takes turns with rounds in peace.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program for people at a terminal")]

mod client;
mod flood;
mod hostile;
mod load;
mod process;
mod throttle;

// As in the program.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

use std::{env, error::Error, fmt::Write, fs, path::Path, process::ExitCode, time::Duration};

use flood::Flood;
use load::{Latencies, saturate, steady};
use process::Webhook;
use throttle::Throttle;

/// Calls a second: some 40,000 pods a minute.
const RATE: u32 = 700;
/// Calls a second beside a flood and of a throttled webhook: a debug build can't answer [`RATE`] even in peace.
const MANY: u32 = if cfg!(debug_assertions) { 40 } else { RATE };
const FEW: u32 = if cfg!(debug_assertions) { 10 } else { 100 };
/// Kept connections of the well-behaved caller.
const CONNECTIONS: u32 = 8;
/// How long a round takes.
const ROUND: Duration = Duration::from_secs(8);
/// How many rounds of each kind.
const ROUNDS: usize = 3;

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().collect();
    if !arguments.iter().any(|argument| argument == "--bench") {
        return ExitCode::SUCCESS;
    }
    let calls = arguments.iter().skip_while(|argument| *argument != "--calls").nth(1);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let has = |flag: &str| arguments.iter().any(|argument| argument == flag);
    let done = runtime.map_err(Into::into).and_then(|runtime| match calls {
        Some(calls) => runtime.block_on(endurance(calls.parse()?)),
        None if has("--throttled") => runtime.block_on(throttled()),
        None if has("--flood") => runtime.block_on(flooded()),
        None => runtime.block_on(run()),
    });
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// Makes so many calls, small and large pods by turns, and shows the memory each time a tenth of them is done.
async fn endurance(calls: u32) -> Result<(), Box<dyn Error>> {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/reviews");
    let reviews = ["4k", "4k", "4k", "16k", "64k"].map(|size| fs::read(data.join(format!("review-{size}.json"))));
    let reviews = reviews.into_iter().collect::<Result<Vec<_>, _>>()?;
    let webhook = Webhook::start().await?;
    println!("| calls | resident KiB | seconds |\n|---:|---:|---:|\n| 0 | {} | 0 |", webhook.resident()?);
    let start = std::time::Instant::now();
    for tenth in 1..=10 {
        let failed = saturate(&webhook, &reviews, calls / 10, CONNECTIONS).await?;
        if failed > 0 {
            return Err(format!("{failed} calls failed").into());
        }
        println!("| {} | {} | {} |", calls / 10 * tenth, webhook.resident()?, start.elapsed().as_secs());
    }
    Ok(())
}

async fn run() -> Result<(), Box<dyn Error>> {
    let review = fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/reviews/review-16k.json"))?;
    let webhook = Webhook::start().await?;
    let idle = webhook.resident()?;
    steady(&webhook, &review, RATE, CONNECTIONS, Duration::from_secs(2)).await?;
    let mut peace = Vec::new();
    let mut hostile = Vec::new();
    let mut largest = 0;
    for _ in 0..ROUNDS {
        peace.push(steady(&webhook, &review, RATE, CONNECTIONS, ROUND).await?);
        let clients = hostile::Clients::start(&webhook);
        tokio::time::sleep(Duration::from_secs(1)).await;
        hostile.push(steady(&webhook, &review, RATE, CONNECTIONS, ROUND).await?);
        largest = largest.max(webhook.resident()?);
        clients.stop();
        // Until the last of them is gone.
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    let mut report = format!(
        "{RATE} calls a second of 16 KiB on {CONNECTIONS} kept TLS connections, four layers, {ROUNDS} rounds of {} s by \
         turns; microseconds from when a call was due. Hostile: {}.\n\n| | p50 | p99 | worst | failed |\n|---|---:|---:|---:|---:|\n",
        ROUND.as_secs(),
        hostile::WHAT
    );
    for (name, rounds) in [("in peace", &peace), ("among hostile clients", &hostile)] {
        let all = Latencies::together(rounds);
        writeln!(report, "| {name} | {} | {} | {} | {} |", all.at(0.5), all.at(0.99), all.at(1.0), all.failed)?;
    }
    let each =
        |rounds: &[Latencies]| rounds.iter().map(|round| round.at(0.99).to_string()).collect::<Vec<_>>().join(", ");
    writeln!(report, "\np99 of each round: in peace {}; among hostile clients {}.", each(&peace), each(&hostile))?;
    writeln!(
        report,
        "Resident memory: {} KiB at the start, {largest} KiB at most, {} KiB at the end.",
        idle,
        webhook.resident()?
    )?;
    write(&report, "server.md")
}

/// What callers wait for a webhook that runs in a part of each tenth of a second only.
async fn throttled() -> Result<(), Box<dyn Error>> {
    let review = fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/reviews/review-16k.json"))?;
    let webhook = Webhook::start().await?;
    steady(&webhook, &review, FEW, CONNECTIONS, Duration::from_secs(2)).await?;
    let mut report = String::from(
        "Calls of 16 KiB on kept TLS connections to a webhook that is stopped for the rest of each 100 ms; milliseconds from \
         when a call was due.\n\n| runs | calls a second | p50 | p99 | worst | later than 2 s, failed, or not made after 5 s |\n\
         |---|---:|---:|---:|---:|---:|\n",
    );
    for runs in [100, 50, 10, 2] {
        for rate in [FEW, MANY] {
            let throttle = if runs < 100 { Some(Throttle::start(&webhook, runs)?) } else { None };
            let calls = steady(&webhook, &review, rate, CONNECTIONS, ROUND).await?;
            drop(throttle);
            // What waits is worked off before the next round.
            tokio::time::sleep(Duration::from_secs(1)).await;
            let at = |part: f64| format!("{:.1}", calls.at(part) as f64 / 1000.0);
            let late = calls.longer_than(2_000_000) + calls.failed;
            let all = calls.count();
            let (p50, p99, worst) = (at(0.5), at(0.99), at(1.0));
            writeln!(report, "| {runs} ms of 100 | {rate} | {p50} | {p99} | {worst} | {late} of {all} |")?;
        }
    }
    write(&report, "throttled.md")
}

/// What a caller waits while another source sends as much as it can.
async fn flooded() -> Result<(), Box<dyn Error>> {
    let review = fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/reviews/review-16k.json"))?;
    let webhook = Webhook::start().await?;
    steady(&webhook, &review, MANY, CONNECTIONS, Duration::from_secs(2)).await?;
    let mut report = format!(
        "{MANY} calls a second of 16 KiB on {CONNECTIONS} kept TLS connections, rounds of {} s; milliseconds from when a call \
         was due. The flood comes from one other address, on so many connections, each as fast as it is answered, and \
         shares the cores with the webhook.\n\n\
         | flood | p50 | p99 | worst | failed | the flood's calls a second: answered | told to come again | connections closed | resident KiB |\n\
         |---|---:|---:|---:|---:|---:|---:|---:|---:|\n",
        ROUND.as_secs()
    );
    for connections in [0, 16, 0, 300, 0, 1500] {
        let flood = Flood::start(&webhook, &review, connections);
        tokio::time::sleep(Duration::from_secs(1)).await;
        let calls = steady(&webhook, &review, MANY, CONNECTIONS, ROUND).await?;
        let resident = webhook.resident()?;
        let counts = flood.stop();
        let per_second = |count: &std::sync::atomic::AtomicU64| {
            count.load(std::sync::atomic::Ordering::Relaxed) / (ROUND.as_secs() + 1)
        };
        let at = |part: f64| format!("{:.1}", calls.at(part) as f64 / 1000.0);
        writeln!(
            report,
            "| {connections} connections | {} | {} | {} | {} | {} | {} | {} | {resident} |",
            at(0.5),
            at(0.99),
            at(1.0),
            calls.failed,
            per_second(&counts.answered),
            per_second(&counts.come_again),
            per_second(&counts.closed),
        )?;
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    write(&report, "flood.md")
}

fn write(report: &str, name: &str) -> Result<(), Box<dyn Error>> {
    print!("{report}");
    let folder = env::var("CARGO_TARGET_DIR").unwrap_or_else(|_| format!("{}/target", env!("CARGO_MANIFEST_DIR")));
    fs::create_dir_all(format!("{folder}/bench"))?;
    fs::write(format!("{folder}/bench/{name}"), report)?;
    Ok(())
}
