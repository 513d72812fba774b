//! What is wrong with an installation: looked at through the API server, with the rights of whoever asks, changing nothing.
//!
//! ```text
//! observe ── asks the API server ──▶ Facts ── judge (pure) ──▶ findings, each with the command that mends it
//! ```

mod facts;
mod finding;
mod judge;
mod observe;
mod probe;
mod replicas;

pub use finding::{Code, Finding, Severity, TABLE};
pub use observe::{Ask, Away};

use kube::Client;

/// Looks at everything.
///
/// # Errors
/// [`Away`] when the API server can't be reached at all. What may not be read is a finding.
pub async fn examine(client: &Client, ask: &Ask) -> Result<Vec<Finding>, Away> {
    let facts = observe::observe(client, ask).await?;
    Ok(judge::judge(&facts))
}
