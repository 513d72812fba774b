use clap::ValueEnum;

use super::report::{CliError, Outcome, print};
use crate::presets;

/// Flags of `presets`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// What to print.
    #[arg(short, long, value_enum, default_value = "text")]
    output: Output,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Output {
    /// One line for each preset: its name and its pods' labels.
    Text,
    /// Names and labels, for webhook configurations.
    Json,
    /// Everything, as docs/presets.md.
    Markdown,
}

/// Runs `presets`.
pub(super) fn run(args: &Args) -> Result<Outcome, CliError> {
    print(&match args.output {
        Output::Text => presets::table(),
        Output::Json => format!("{}\n", presets::json()),
        Output::Markdown => presets::markdown(),
    })
}
