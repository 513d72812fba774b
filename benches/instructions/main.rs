//! The work of one decision, for a profiler: `decide` on a recorded pod, so many times, and nothing else.
//!
//! `valgrind --tool=callgrind target/release/deps/instructions-* REVIEW LAYERS TIMES`
#![allow(clippy::print_stderr, reason = "a program for people at a terminal")]

#[path = "../decide/review.rs"]
#[allow(dead_code, reason = "the other benchmark's part of it")]
mod review;
#[path = "../decide/stack.rs"]
#[allow(dead_code, reason = "the other benchmark's part of it")]
mod stack;

use std::{env, error::Error, hint::black_box, process::ExitCode};

use review::Review;
use stack::Stack;

// As in the program.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = env::args().skip(1).filter(|argument| !argument.starts_with("--")).collect();
    let argument = |at: usize, default: &str| arguments.get(at).map_or_else(|| default.to_owned(), Clone::clone);
    let folder = tempfile::tempdir()?;
    let review = Review::recorded(&argument(0, "16k"), folder.path())?;
    let stack = Stack::of(argument(1, "4").parse()?, folder.path())?;
    for _ in 0..argument(2, "1").parse::<u32>()? {
        black_box(black_box(&review).decide(&stack.snapshot)?);
    }
    Ok(())
}
