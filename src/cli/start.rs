//! How commands start that wait for something.

use std::{num::NonZero, thread};

use tokio::runtime::Builder;

use super::report::CliError;
use crate::telemetry::log::{self, Format};

/// The flags of the log that every server has.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct LogArgs {
    /// How the log is written: text or json.
    #[arg(long, value_name = "FORMAT", default_value = "text", env = "PODLAYER_LOG_FORMAT")]
    log_format: Format,
    /// What is logged, such as debug or "info,podlayer::server=debug"; else RUST_LOG, else info.
    #[arg(long, value_name = "FILTER")]
    log_filter: Option<String>,
}

/// At most how many threads a server's tasks run on. Each has its share of the allocator's memory, so that on a node of
/// 64 cores without a limit most of the memory would be shares that hardly anything is done in. One core answers some
/// 4,000 calls a second, and a cluster that starts 5,000 pods a minute makes 83.
const MOST_THREADS: usize = 4;

/// How many threads there are for work that blocks, besides one for each of the tasks' threads that may have handed its
/// work to them (large reviews): files of certificates that are read again, and names that are looked up.
const MORE_BLOCKING: usize = 2;

/// Starts the log, and runs a server on as many threads as there are cores, but no more than four.
pub(super) fn serve<T>(log: &LogArgs, task: impl Future<Output = Result<T, CliError>>) -> Result<T, CliError> {
    log::init(log.log_format, log.log_filter.as_deref())
        .map_err(|error| CliError::because("failed to start the log", error))?;
    run(threads(), task)
}

/// Runs what has servers in it and no log.
pub(super) fn show<T>(task: impl Future<Output = Result<T, CliError>>) -> Result<T, CliError> {
    run(threads(), task)
}

fn threads() -> Builder {
    let threads = thread::available_parallelism().map_or(1, NonZero::get).min(MOST_THREADS);
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(threads).max_blocking_threads(threads + MORE_BLOCKING);
    builder
}

/// Asks something of others, on this thread.
pub(super) fn ask<T>(task: impl Future<Output = Result<T, CliError>>) -> Result<T, CliError> {
    run(Builder::new_current_thread(), task)
}

fn run<T>(mut builder: Builder, task: impl Future<Output = Result<T, CliError>>) -> Result<T, CliError> {
    // kube asks for the process's default; only an embedding program could have set another, and none embeds this.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let runtime = builder.enable_all().build();
    runtime.map_err(|error| CliError::because("failed to start the runtime", error))?.block_on(task)
}
