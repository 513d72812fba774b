//! The podlayer program.

use std::process::ExitCode;

use clap::Parser;
use podlayer::cli::Cli;

fn main() -> ExitCode {
    Cli::parse().run()
}
