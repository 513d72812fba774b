//! Pools on a real API server and scheduler, with nodes that kwok plays: how soon demand becomes pods, how many writes an
//! agent's life costs, what the controller needs.
//!
//! `cargo bench --bench pools` measures and writes `target/bench/pools.md`, with the raw data in `target/bench/pools/`; one
//! or more of `demand`, `ramp`, `life` and `watched` after `--` measures only that; with `PODLAYER_BENCH_OTHER=PROGRAM`, `watched`
//! compares this build with another by turns. `cargo bench --bench pools -- --soak MINUTES` instead
//! gives work to pools for so long while leaders are killed, and fails if anything happens that must not.
//!
//! kwok has neither node nor image start: what is shown is what is decided, scheduled and written.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program for people at a terminal")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a benchmark stops at the first surprise")]

mod demand;
mod life;
mod place;
mod ramp;
mod report;
mod requests;
mod watched;

#[path = "../../tests/support/controlplane.rs"]
mod controlplane;
#[path = "../../tests/support/kwok.rs"]
mod kwok;
#[path = "../../tests/support/pools/mod.rs"]
mod pools;

use std::{env, process::ExitCode, time::Duration};

use place::Place;
use pools::soak::{Plan, soak};
use report::Report;

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    if !arguments.iter().any(|argument| argument == "--bench") {
        return ExitCode::SUCCESS;
    }
    let soaks = arguments.iter().skip_while(|argument| *argument != "--soak").nth(1);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    match soaks {
        Some(minutes) => runtime.block_on(soak_for(minutes.parse().expect("--soak needs a number of minutes"))),
        None => runtime.block_on(measure(&arguments)),
    }
}

async fn measure(arguments: &[String]) -> ExitCode {
    let place = Place::new().await;
    let asked = |part: &str| {
        let parts = ["demand", "ramp", "life", "watched"];
        let some = arguments.iter().any(|argument| parts.contains(&argument.as_str()));
        !some || arguments.iter().any(|argument| argument == part)
    };
    let mut report = Report::new();
    if asked("demand") {
        demand::measure(&place, &mut report).await;
    }
    if asked("ramp") {
        ramp::measure(&place, &mut report).await;
    }
    if asked("life") {
        life::measure(&place, &mut report).await;
    }
    if asked("watched") {
        watched::measure(&place, &mut report).await;
    }
    report.write("pools.md");
    ExitCode::SUCCESS
}

async fn soak_for(minutes: u64) -> ExitCode {
    let place = Place::new().await;
    place.node("soak-small", 8);
    let namespace = place.namespace("soak");
    let seed = std::time::UNIX_EPOCH.elapsed().map_or(1, |time| time.as_secs());
    let plan = Plan {
        length: Duration::from_secs(minutes * 60),
        kill_after: [2_000, 60_000],
        count_every: Duration::from_secs(30),
        nodes: ["bench".into(), "soak-small".into()],
        seed,
    };
    let outcome = soak(&place.client, place.plane.kubeconfig(), &namespace, plan).await;
    let mut report = Report::new();
    report.soak(&outcome, seed);
    report.write("pools-soak.md");
    if outcome.violations.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
