use super::report::{CliError, Outcome, print};
use crate::pool::api::crd_yaml;

/// Runs `crd`.
pub(super) fn run() -> Result<Outcome, CliError> {
    print(&crd_yaml().map_err(|error| CliError::because("failed to write the definition", error))?)
}
