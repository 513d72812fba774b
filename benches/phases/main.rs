//! Where the time of one call goes, from the bytes of a review to those of its answer: recorded pods of several sizes with
//! 0 to 64 layers, and a pod of every preset with the layers of its example.
//!
//! `cargo bench --bench phases`. The phases are measured from outside, each as the difference of two ways that share
//! everything else, so that the code that is measured is the code that runs:
//!
//! | phase | what is timed |
//! |---|---|
//! | envelope | `review::parse` |
//! | parse | `Pod::parse` |
//! | resolve | `Snapshot::resolve` |
//! | step | `layers::parse_step` on the pod's annotation |
//! | merge | `admission::trace` without the two before, and without guard: every pass, checks |
//! | guard | `trace` of a pod with a step, less `trace` of the pod whose step is an admin's layer instead, less step |
//! | diff | `decide_pod` less `trace`: stamp, provenance, patch, its proof, its text |
//! | answer | `respond` |

mod case;
#[path = "../common/mod.rs"]
mod common;
#[path = "../decide/review.rs"]
#[allow(dead_code, reason = "the other benchmark's part of it")]
mod review;
#[path = "../decide/stack.rs"]
#[allow(dead_code, reason = "the other benchmark's part of it")]
mod stack;

use std::{
    env,
    error::Error,
    hint::black_box,
    process::ExitCode,
    time::{Duration, Instant},
};

use case::Case;
use common::{machine::machine, report::Report, run::end, spread::Spread};
use podlayer::{
    admission::{Pod, Policy, Verdict, decide_pod, respond, review as envelope, trace},
    layers::{Snapshot, parse_step},
    names, presets,
};

/// How many layers the recorded pods get.
const LAYERS: [usize; 5] = [0, 1, 4, 16, 64];
/// Recorded pods, small to large.
const REVIEWS: [&str; 4] = ["4k", "16k", "64k", "1500env"];
/// The columns.
const PHASES: [&str; 8] = ["envelope", "parse", "resolve", "step", "merge", "guard", "diff", "answer"];
/// What is timed, by turns; the phases are differences of these.
const WAYS: [&str; 9] = ["envelope", "parse", "resolve", "step", "trace", "unguarded", "decide", "answer", "whole"];
/// How many turns each way has at one place.
const TURNS: usize = 41;
/// How long a turn shall take: short, so that on a machine with other work some turns aren't interrupted at all.
const TURN: Duration = Duration::from_millis(2);

// As in the program.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let measured = env::args().any(|argument| argument == "--bench");
    end(run(measured))
}

/// Unless `measured`, only looks whether every pod is decided as it should be.
fn run(measured: bool) -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let mut recorded = Vec::new();
    for name in REVIEWS {
        for count in LAYERS {
            recorded.push(Case::recorded(name, count, folder.path())?);
        }
    }
    let presets = Case::of_presets()?;
    for case in recorded.iter().chain(&presets) {
        must_be_patched(case, &case.review, &case.snapshot)?;
        if let Some((review, snapshot)) = &case.unguarded {
            must_be_patched(case, review, snapshot)?;
        }
    }
    if !measured {
        return Ok(());
    }
    let columns = ["pod", "layers", "bytes", "turn"].into_iter().chain(WAYS);
    let mut report = Report::new("phases", &columns.collect::<Vec<_>>())?;
    report.line(format_args!(
        "{}\n\nMicroseconds of one call by phase, from the least of {TURNS} turns of each way: what the work takes when nobody \
         interrupts it. Whole: median and range. Where the last layer is no step patch there is no guard.\n",
        machine()
    ));
    for (title, cases) in [("review", &recorded), ("preset, as its example has it", &presets)] {
        report.line(format_args!("\n| {title} | layers | bytes | {} | whole |", PHASES.join(" | ")));
        report.line(format_args!("|---|---:|---:|{}", "---:|".repeat(PHASES.len() + 1)));
        for case in cases {
            place(case, &mut report)?;
        }
    }
    report.write()
}

/// Every CI system's pods are opted in.
fn policy() -> Policy {
    Policy { presets: presets::all().iter().map(|preset| preset.name.clone()).collect(), ..Policy::default() }
}

fn must_be_patched(case: &Case, review: &[u8], snapshot: &Snapshot) -> Result<(), Box<dyn Error>> {
    let request = read(review)?;
    let pod = Pod::parse(request.object.unwrap_or_default())?;
    let decision = decide_pod(&pod, &request.namespace, snapshot, &policy());
    match decision.verdict {
        Verdict::Allowed if decision.patch.is_some() && decision.skipped.is_empty() => Ok(()),
        _ => Err(format!("{}: {:?}, left out: {:?}", case.name, decision.verdict, decision.skipped).into()),
    }
}

/// One row: every way by turns.
fn place(case: &Case, report: &mut Report) -> Result<(), Box<dyn Error>> {
    let policy = policy();
    let request = read(&case.review)?;
    let (object, namespace) = (request.object.unwrap_or_default(), request.namespace.as_ref());
    let pod = Pod::parse(object)?;
    let facts = pod.facts(namespace);
    let step = facts.annotation(names::STEP_PATCH);
    let decision = decide_pod(&pod, namespace, &case.snapshot, &policy);
    let whole = || {
        let request = envelope::parse(black_box(&case.review)).ok()?;
        let pod = Pod::parse(request.object?).ok()?;
        let decision = decide_pod(&pod, &request.namespace, &case.snapshot, &policy);
        Some(respond(&request.uid, &decision).len())
    };
    let unguarded = case.unguarded.as_ref().map(|(review, snapshot)| read(review).map(|read| (read, snapshot)));
    let unguarded = unguarded.transpose()?;
    let unguarded = unguarded.as_ref().map(|(request, snapshot)| {
        Pod::parse(request.object.unwrap_or_default()).map(|pod| (pod, request.namespace.as_ref(), *snapshot))
    });
    let unguarded = unguarded.transpose()?;

    let mut ways = vec![Spread::default(); WAYS.len()];
    for turn in 0..=TURNS {
        let taken = [
            time(|| envelope::parse(black_box(&case.review)).is_ok()),
            time(|| Pod::parse(black_box(object)).is_ok()),
            time(|| case.snapshot.resolve(black_box(&facts)).0.len()),
            step.map_or(0.0, |step| time(|| parse_step(black_box(step)).is_ok())),
            time(|| trace(black_box(&pod), namespace, &case.snapshot, &policy, |trace| trace.stack.len())),
            unguarded.as_ref().map_or(0.0, |(pod, namespace, snapshot)| {
                time(|| trace(black_box(pod), namespace, snapshot, &policy, |trace| trace.stack.len()))
            }),
            time(|| decide_pod(black_box(&pod), namespace, &case.snapshot, &policy).warnings.len()),
            time(|| respond(black_box(&request.uid), &decision).len()),
            time(whole),
        ];
        if turn == 0 {
            // It warmed up.
            continue;
        }
        for (way, taken) in ways.iter_mut().zip(taken) {
            way.push(taken);
        }
        let (name, layers) = case.name.split_once(" | ").unwrap_or_default();
        let mut fields = vec![name.to_owned(), layers.into(), case.review.len().to_string(), turn.to_string()];
        fields.extend(taken.iter().map(|taken| format!("{taken:.2}")));
        report.raw(&fields.iter().map(|field| field as &dyn ToString).collect::<Vec<_>>());
    }
    let least: Vec<f64> = ways.iter().map(Spread::least).collect();
    let [parsed, pods, resolved, steps, traced, free, decided, answered, _] = least[..] else { return Ok(()) };
    let guard = if unguarded.is_some() { traced - free - steps } else { 0.0 };
    let phases = [parsed, pods, resolved, steps, traced - resolved - steps - guard, guard, decided - traced, answered];
    let cells: Vec<String> = phases.iter().map(|phase| format!("{phase:.1}")).collect();
    let whole = &ways[WAYS.len() - 1];
    report.line(format_args!("| {} | {} | {} | {whole} |", case.name, case.review.len(), cells.join(" | ")));
    Ok(())
}

fn read(review: &[u8]) -> Result<envelope::Request<'_>, Box<dyn Error>> {
    envelope::parse(review).map_err(|(error, _)| error.into())
}

/// What one of as many as fill a turn takes, in microseconds.
fn time<T>(once: impl Fn() -> T) -> f64 {
    let start = Instant::now();
    black_box(once());
    let once_took = start.elapsed().max(Duration::from_nanos(50));
    let count = u32::try_from(TURN.as_nanos() / once_took.as_nanos()).unwrap_or(1).max(1);
    let start = Instant::now();
    for _ in 0..count {
        black_box(once());
    }
    start.elapsed().as_secs_f64() * 1e6 / f64::from(count)
}
