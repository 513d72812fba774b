use std::{error::Error, fmt};

use podlayer::names;
use serde_json::Value;

use crate::{review::Review, stack::Stack};

/// A patch and the pod that it makes.
pub(crate) struct Outcome {
    /// The pod, without podlayer's own annotations.
    pub(crate) pod: Value,
    operations: usize,
    bytes: usize,
}

impl Outcome {
    /// Puts a patch on a pod, as the API server would.
    pub(crate) fn of(review: &Review, patch: &str) -> Result<Self, Box<dyn Error>> {
        let operations: json_patch::Patch = serde_json::from_str(patch)?;
        let mut pod: Value = serde_json::from_str(&review.object)?;
        json_patch::patch(&mut pod, &operations)?;
        if let Some(annotations) = pod.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut) {
            annotations.remove(names::APPLIED);
            annotations.remove(names::PROVENANCE);
        }
        Ok(Self { pod, operations: operations.len(), bytes: patch.len() })
    }

    /// Fails if it isn't this pod.
    pub(crate) fn must_be(
        &self,
        other: &Value,
        review: &Review,
        stack: &Stack,
        whose: &str,
    ) -> Result<(), Box<dyn Error>> {
        if self.pod == *other {
            return Ok(());
        }
        let (path, own, other) = difference(&self.pod, other);
        let (name, count) = (&review.name, stack.count);
        Err(format!("{name} with {count} layers: podlayer's pod has {own} at {path:?}, that of {whose} {other}").into())
    }
}

/// The size of the patch.
impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} operations, {} bytes", self.operations, self.bytes)
    }
}

/// A place where two values that differ do so, as a JSON pointer, and what each has there.
fn difference<'v>(mut one: &'v Value, mut other: &'v Value) -> (String, &'v Value, &'v Value) {
    let mut path = String::new();
    loop {
        let (step, pair) = match (one, other) {
            (Value::Array(ones), Value::Array(others)) => {
                let at = ones.iter().zip(others).position(|(one, other)| one != other);
                let at = at.unwrap_or_else(|| ones.len().min(others.len()));
                (at.to_string(), (ones.get(at), others.get(at)))
            }
            (Value::Object(ones), Value::Object(others)) => {
                let key = ones.keys().chain(others.keys()).find(|key| ones.get(*key) != others.get(*key));
                let Some(key) = key else { return (path, one, other) };
                (key.replace('~', "~0").replace('/', "~1"), (ones.get(key), others.get(key)))
            }
            _ => return (path, one, other),
        };
        path.push('/');
        path.push_str(&step);
        one = pair.0.unwrap_or(&Value::Null);
        other = pair.1.unwrap_or(&Value::Null);
    }
}
