//! What one decision costs, from the bytes of a pod to those of its patch, beside what people would write today.
//!
//! `cargo bench` measures podlayer and the Go peer (`benches/peer`) by turns, so that whatever else the machine does
//! hits both alike, and fails where they don't make the same pod. Without `--bench` (`cargo test --benches`) only that
//! is looked at. It needs Go; what it prints is also in `target/bench/decide.md`.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program for people at a terminal")]

mod clock;
mod outcome;
mod peer;
mod review;
mod stack;

use std::{
    env,
    error::Error,
    fmt::Write,
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
};

use clock::{Series, TURNS, decisions_in_a_turn, turns};
use outcome::Outcome;
use peer::{Mode, Peer};
use review::Review;
use stack::Stack;

/// How many layers the pods get.
const LAYERS: [usize; 5] = [0, 1, 4, 16, 64];
/// Recorded pods, small to large.
const REVIEWS: [&str; 4] = ["4k", "16k", "64k", "1500env"];
/// Pods times layers that the Go program is asked about, in bytes: beyond that one of its decisions takes ten seconds.
const MOST_FOR_THE_PEER: usize = 8 << 20;
/// Environment variables of the pods that show how the cost grows.
const GROWTH: [usize; 4] = [500, 1000, 2000, 4000];
/// By how much an item of the longest list may cost more than one of the shortest. Half of it is what caches do to
/// eight times the memory; were the work quadratic, it would be eight times.
const MOST_GROWTH: f64 = 3.0;

// As in the program.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let measured = env::args().any(|argument| argument == "--bench");
    match run(measured) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn run(measured: bool) -> Result<(), Box<dyn Error>> {
    let folder = target_folder().join("bench");
    fs::create_dir_all(&folder).map_err(|error| format!("can't make {}: {error}", folder.display()))?;
    let mut peer = Peer::start(&folder)?;
    let reviews: Vec<Review> = REVIEWS.iter().map(|name| Review::recorded(name, &folder)).collect::<Result<_, _>>()?;
    let stacks: Vec<Stack> = LAYERS.iter().map(|count| Stack::of(*count, &folder)).collect::<Result<_, _>>()?;

    let sizes = compare(&reviews, &stacks, &mut peer)?;
    println!("podlayer and the Go peer make the same pods.");
    if !measured {
        return Ok(());
    }
    let mut report = Report::default();
    report.line(format_args!(
        "Microseconds for one decision, from the pod's bytes to the patch's: the median of {} to {} turns and their \
         range. Go is a webhook on controller-runtime's libraries; tuned, the best that those give.\n",
        TURNS[0], TURNS[1]
    ));
    measure(&reviews, &stacks, &mut peer, &mut report)?;
    drop(peer);
    let recorded = stacks.iter().find(|stack| stack.is_recorded()).ok_or("no stack is the recorded one")?;
    report.line(format_args!(
        "\nThe patches for {} layers; podlayer's has its stamp and its trail in it.\n\n{sizes}",
        recorded.count
    ));
    measure_growth(recorded, &folder, &mut report)?;
    let path = folder.join("decide.md");
    fs::write(&path, report.text).map_err(|error| format!("can't write {}: {error}", path.display()))?;
    Ok(())
}

/// Fails unless both sides make the same pod of every review with every stack, and the one on record where there is
/// one. Gives the sizes of the patches with as many layers as were recorded.
fn compare(reviews: &[Review], stacks: &[Stack], peer: &mut Peer) -> Result<String, Box<dyn Error>> {
    let mut sizes = String::from("| review | podlayer | Go |\n|---|---:|---:|");
    for review in reviews {
        for stack in stacks.iter().filter(|stack| is_for_the_peer(review, stack)) {
            let own = Outcome::of(review, &review.decide(&stack.snapshot)?)?;
            let raw = Outcome::of(review, &peer.patch(review, stack, Mode::Raw)?)?;
            let tuned = Outcome::of(review, &peer.patch(review, stack, Mode::Tuned)?)?;
            own.must_be(&raw.pod, review, stack, "the Go peer")?;
            own.must_be(&tuned.pod, review, stack, "the tuned Go peer")?;
            if stack.is_recorded() {
                own.must_be(&review.expected()?, review, stack, "tests/data/reviews/expected")?;
                write!(sizes, "\n| {} | {own} | {raw} |", review.name)?;
            }
        }
    }
    Ok(sizes)
}

/// One row for each review and stack.
fn measure(reviews: &[Review], stacks: &[Stack], peer: &mut Peer, report: &mut Report) -> Result<(), Box<dyn Error>> {
    report.line(format_args!("| review | layers | podlayer | Go | Go, tuned | Go ÷ podlayer | tuned ÷ podlayer |"));
    report.line(format_args!("|---|---:|---:|---:|---:|---:|---:|"));
    for review in reviews {
        for stack in stacks {
            if !is_for_the_peer(review, stack) {
                let once = review.time(&stack.snapshot, 1)?;
                let mut own = Series::default();
                for _ in 0..turns(&[once]) {
                    own.push(review.time(&stack.snapshot, decisions_in_a_turn(once))?);
                }
                report.line(format_args!("| {} | {} | {own} | | | | |", review.name, stack.count));
                continue;
            }
            let (mut own, mut raw, mut tuned) = (Series::default(), Series::default(), Series::default());
            // The first decision of each isn't counted: it warms up and says how many fill a turn, and how many turns
            // there is time for.
            let once = [
                review.time(&stack.snapshot, 1)?,
                peer.time(review, stack, Mode::Raw, 1)?,
                peer.time(review, stack, Mode::Tuned, 1)?,
            ];
            let counts = once.map(decisions_in_a_turn);
            for _ in 0..turns(&once) {
                own.push(review.time(&stack.snapshot, counts[0])?);
                raw.push(peer.time(review, stack, Mode::Raw, counts[1])?);
                tuned.push(peer.time(review, stack, Mode::Tuned, counts[2])?);
            }
            report.line(format_args!(
                "| {} | {} | {own} | {raw} | {tuned} | {:.1} | {:.1} |",
                review.name,
                stack.count,
                raw.median() / own.median(),
                tuned.median() / own.median(),
            ));
        }
    }
    Ok(())
}

fn is_for_the_peer(review: &Review, stack: &Stack) -> bool {
    review.object.len() * stack.count <= MOST_FOR_THE_PEER
}

/// What an item of a long list costs; fails if it is more the longer the list.
fn measure_growth(stack: &Stack, folder: &Path, report: &mut Report) -> Result<(), Box<dyn Error>> {
    report.line(format_args!("\nA pod with so many environment variables, {} layers.\n", stack.count));
    report.line(format_args!("| variables | podlayer | nanoseconds a variable |"));
    report.line(format_args!("|---:|---:|---:|"));
    let reviews: Vec<Review> =
        GROWTH.iter().map(|count| Review::with_variables(*count, folder)).collect::<Result<_, _>>()?;
    let mut all = vec![Series::default(); reviews.len()];
    for _ in 0..TURNS[1] {
        for (review, series) in reviews.iter().zip(&mut all) {
            let count = decisions_in_a_turn(review.time(&stack.snapshot, 1)?);
            series.push(review.time(&stack.snapshot, count)?);
        }
    }
    let mut each = Vec::new();
    for (count, series) in GROWTH.iter().zip(&all) {
        let one = series.median() / *count as f64;
        report.line(format_args!("| {count} | {series} | {one:.0} |"));
        each.push(one);
    }
    match each[..] {
        [first, .., last] if last > MOST_GROWTH * first => {
            Err(format!("a variable costs {last:.0} ns in the longest list and {first:.0} ns in the shortest").into())
        }
        _ => Ok(()),
    }
}

/// What is printed at once and written down at the end.
#[derive(Default)]
struct Report {
    text: String,
}

impl Report {
    fn line(&mut self, line: std::fmt::Arguments<'_>) {
        println!("{line}");
        self.text.push_str(&format!("{line}\n"));
    }
}

/// Where cargo builds: the folder that it gives to benches is in it.
fn target_folder() -> PathBuf {
    let own = Path::new(env!("CARGO_TARGET_TMPDIR"));
    own.parent().unwrap_or(own).to_owned()
}
