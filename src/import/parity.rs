//! Whether the imported layers do to a Job what the old controller's patch did.

use super::{ImportError, agent_stack::controller_patch};
use crate::{
    admission::{Pod, Policy, trace},
    explain::{
        Explanation,
        effect::{Change, compare},
    },
    layers::{LayerId, Snapshot, complaint::Printable},
    merge,
    schema::POD,
    value::{Path, Segment, Value},
};

/// One Job, patched in both ways.
#[derive(Debug)]
pub struct Parity {
    /// What it is.
    pub subject: String,
    /// What is different, `before` with the old controller and `after` with podlayer; and why, where that is known.
    pub differences: Vec<(Change, Option<String>)>,
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
    let new = trace(pod, namespace, snapshot, policy, |trace| {
        if let Some(denial) = trace.denial {
            return Err(denial.message.clone());
        }
        let of = |pod: &Value<'_>| pod.get("spec").map(Value::borrowed).map(Value::into_owned).unwrap_or_default();
        let explanation = Explanation::of(trace);
        let changes = compare(&of(&old), &of(trace.after)).into_iter().map(|mut change| {
            change.layer = explanation.layer_of(&change.path).unwrap_or_default().to_owned();
            let skipped = trace.skipped.first().map(|skip| format!("podlayer leaves {} out: {}", skip.layer, skip.why));
            let why = why(&change, trace.before).or(skipped);
            (change, why)
        });
        Ok(changes.collect())
    });
    match new {
        None => result.failure = Some("podlayer has nothing to do with it: is it a Job of agent-stack-k8s?".into()),
        Some(Err(denial)) => result.failure = Some(format!("podlayer refuses the pod: {denial}")),
        Some(Ok(differences)) => result.differences = differences,
    }
    Ok(result)
}

/// Why the two differ in a field.
fn why(change: &Change, original: &Value<'_>) -> Option<String> {
    if change.layer == LayerId::STEP.to_string() || change.layer.starts_with("class/") {
        return Some(format!("of {}, which the old controller does not know", change.layer));
    }
    let path = Path::parse(&change.path).ok()?;
    let [_, Segment::Field(list), Segment::Item { key, value }, rest @ ..] = path.segments() else { return None };
    let item = [
        Segment::Field("spec".into()),
        Segment::Field(list.clone()),
        Segment::Item { key: key.clone(), value: value.clone() },
    ];
    let mut container = Path::root();
    item.into_iter().for_each(|segment| container.push(segment));
    if container.find(original).is_none() {
        let text = format!(
            "the pod has no {value}: the old controller adds it without an image, which the API server refuses; podlayer leaves it out"
        );
        return change.after.is_none().then_some(text);
    }
    match rest {
        [Segment::Field(field), ..] if field == "command" || field == "args" => Some(format!(
            "{field} of {value} was left out: the old controller folds it into BUILDKITE_COMMAND before the Job is made"
        )),
        _ => None,
    }
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
        for (Change { path, before, after, .. }, why) in &self.differences {
            let shown = |value: &Option<String>| Printable(value.as_deref().unwrap_or("(nothing)")).to_string();
            let why = why.as_deref().unwrap_or("not explained");
            out.push_str(&format!("  {path}: old controller {}, podlayer {}: {why}\n", shown(before), shown(after)));
        }
        out
    }
}
