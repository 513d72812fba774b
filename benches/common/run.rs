use std::{error::Error, process::ExitCode};

use tokio::runtime::{Builder, Runtime};

/// How a benchmark ends: with what went wrong, if anything did.
#[allow(clippy::print_stderr, reason = "a program for people at a terminal")]
pub(crate) fn end(done: Result<(), Box<dyn Error>>) -> ExitCode {
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// What callers run on: one thread, so that the server that is measured has the other core.
pub(crate) fn runtime() -> Result<Runtime, Box<dyn Error>> {
    Ok(Builder::new_multi_thread().worker_threads(1).enable_all().build()?)
}
