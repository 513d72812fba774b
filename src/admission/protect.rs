//! What no layer may change, whoever wrote it: the Job controller would lose the pod, or make it again for ever
//! (spec facts: labels, owner references, finalizers and name are never in a layer's reach; these two are).

use std::collections::{HashMap, HashSet};

use crate::{
    layers::{Cause, targets},
    names,
    value::{Path, Segment, Value},
};

/// What the pod of a Job had of these before any layer.
pub(super) struct OfJob<'a> {
    restart_policy: Option<&'a Value<'a>>,
    /// By list, the completion index variable of each container that has one.
    indexed: [(&'static str, HashMap<&'a str, &'a Value<'a>>); 2],
}

impl<'a> OfJob<'a> {
    pub(super) fn of(original: &'a Value<'_>) -> Self {
        let spec = original.get("spec");
        let indexed = |list| (list, completion_index(spec, list));
        Self {
            restart_policy: spec.and_then(|spec| spec.get("restartPolicy")),
            indexed: [indexed("containers"), indexed("initContainers")],
        }
    }

    /// Compares with the pod after a layer.
    ///
    /// # Errors
    /// [`Cause::Protected`] for the first thing that may not change.
    pub(super) fn check(&self, pod: &Value<'_>) -> Result<(), Cause> {
        let after = pod.get("spec");
        let policy = after.and_then(|spec| spec.get("restartPolicy"));
        if self.restart_policy.map(Value::scalar_text) != policy.map(Value::scalar_text) {
            let mut path = Path::field("spec");
            path.push(Segment::Field("restartPolicy".into()));
            return Err(Cause::Protected { path, why: "it is the Job's, whose controller relies on it" });
        }
        for (list, indexed) in self.indexed.iter().filter(|(_, indexed)| !indexed.is_empty()) {
            let now = completion_index(after, list);
            let still_there: HashSet<&str> = targets::names(after.and_then(|spec| spec.get(list))).collect();
            for (name, env) in indexed {
                if still_there.contains(name) && now.get(name) != Some(env) {
                    let item = |key: &str, value: &str| Segment::Item { key: key.into(), value: value.into() };
                    let mut path = Path::field("spec");
                    path.push(Segment::Field((*list).into()));
                    path.push(item("name", name));
                    path.push(Segment::Field("env".into()));
                    path.push(item("name", names::JOB_COMPLETION_INDEX_ENV));
                    return Err(Cause::Protected {
                        path,
                        why: "the Job controller tells each pod of an indexed Job apart by it",
                    });
                }
            }
        }
        Ok(())
    }
}

/// Container name → its completion index variable.
fn completion_index<'v, 'a>(spec: Option<&'v Value<'a>>, list: &str) -> HashMap<&'v str, &'v Value<'a>> {
    let items = spec.and_then(|spec| spec.get(list)).and_then(Value::as_list).unwrap_or_default();
    let is_index = |env: &&Value<'_>| env.get("name").and_then(Value::as_str) == Some(names::JOB_COMPLETION_INDEX_ENV);
    let of_container = |item: &'v Value<'a>| {
        let env = item.get("env")?.as_list()?.iter().find(is_index)?;
        Some((item.get("name")?.as_str()?, env))
    };
    items.iter().filter_map(of_container).collect()
}
