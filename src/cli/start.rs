//! How commands start that wait for something.

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

/// Starts the log, and runs a server on as many threads as there are cores.
pub(super) fn serve<T>(log: &LogArgs, task: impl Future<Output = Result<T, CliError>>) -> Result<T, CliError> {
    log::init(log.log_format, log.log_filter.as_deref())
        .map_err(|error| CliError::because("failed to start the log", error))?;
    run(Builder::new_multi_thread(), task)
}

/// Runs what has servers in it and no log.
pub(super) fn show<T>(task: impl Future<Output = Result<T, CliError>>) -> Result<T, CliError> {
    run(Builder::new_multi_thread(), task)
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
