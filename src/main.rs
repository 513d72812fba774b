//! The podlayer program.

use std::process::ExitCode;

use clap::Parser;
use podlayer::cli::Cli;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    Cli::parse().run()
}
