//! The podlayer program.

use std::process::ExitCode;

use podlayer::cli::Cli;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    Cli::from_command_line().run()
}
