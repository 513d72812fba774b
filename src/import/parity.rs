//! Whether the imported layers do to a Job what the old controller's patch did.

use super::{ImportError, agent_stack::controller_patch};
use crate::{
    admission::{Pod, Policy, trace},
    explain::effect::{Change, compare},
    layers::{Snapshot, complaint::Printable},
    merge,
    schema::POD,
    value::Value,
};

/// One Job, patched in both ways.
#[derive(Debug)]
pub struct Parity {
    /// What it is.
    pub subject: String,
    /// What is different: `before` is the old controller's, `after` podlayer's.
    pub differences: Vec<Change>,
    /// Why there is nothing to compare.
    pub failure: Option<String>,
}

/// Compares the two on a Job as the old controller makes it without its own patch.
///
/// # Errors
/// [`ImportError`] for a configuration that can't be read.
pub fn parity(
    subject: &str,
    pod: &Pod<'_>,
    namespace: &str,
    configuration: &str,
    snapshot: &Snapshot,
    policy: &Policy,
) -> Result<Parity, ImportError> {
    let mut result = Parity { subject: subject.to_owned(), differences: Vec::new(), failure: None };
    let mut old = pod.value.clone();
    if let (Some(patch), Some(spec)) =
        (controller_patch(configuration)?, old.as_object_mut().and_then(|map| map.get_mut("spec")))
        && let Err(error) = merge::apply(spec, patch, POD.pod_spec(), merge::Mode::Strict)
    {
        result.failure = Some(format!("the old controller refuses the pod: {error}"));
        return Ok(result);
    }
    let new = trace(pod, namespace, snapshot, policy, |trace| match trace.denial {
        Some(denial) => Err(denial.message.clone()),
        None => Ok(compare(old.get("spec").unwrap_or(&Value::Null), trace.after.get("spec").unwrap_or(&Value::Null))),
    });
    match new {
        None => result.failure = Some("podlayer has nothing to do with it: is it a Job of agent-stack-k8s?".into()),
        Some(Err(denial)) => result.failure = Some(format!("podlayer refuses the pod: {denial}")),
        Some(Ok(differences)) => result.differences = differences,
    }
    Ok(result)
}

impl Parity {
    /// Whether both make the same pod.
    pub fn is_same(&self) -> bool {
        self.failure.is_none() && self.differences.is_empty()
    }

    /// A line for the Job, and one for each difference.
    pub fn to_text(&self) -> String {
        let verdict = match (&self.failure, self.differences.len()) {
            (Some(failure), _) => failure.replace('\n', "; "),
            (None, 0) => "same".to_owned(),
            (None, count) => format!("{count} different"),
        };
        let mut out = format!("{}: {}\n", Printable(&self.subject), Printable(&verdict));
        for Change { path, before, after, .. } in &self.differences {
            let shown = |value: &Option<String>| Printable(value.as_deref().unwrap_or("(nothing)")).to_string();
            out.push_str(&format!("  {path}: old controller {}, podlayer {}\n", shown(before), shown(after)));
        }
        out
    }
}
