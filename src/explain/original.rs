//! How far a pod's original is known, and whether its layers are still those that it was made with.

use serde_json::Value as Json;

use crate::names;

/// What to say of a pod whose original nobody kept.
pub const UNKNOWN_ORIGINAL: &str = "the original of this pod is not known (no Job made it), so what layers replaced of \
                                    its own is not shown; layer and position are exact";

/// The Job that made a pod.
pub fn job_of(pod: &Json) -> Option<&str> {
    let owners = pod.pointer("/metadata/ownerReferences")?.as_array()?;
    let mut jobs = owners.iter().filter(|owner| owner["kind"] == "Job" && owner["controller"] == true);
    jobs.next()?["name"].as_str()
}

/// What to know about a Job's template as the original.
pub fn of_template(name: &str, job: &Json) -> Option<String> {
    let annotations = job.pointer("/spec/template/metadata/annotations")?;
    annotations.get(names::APPLIED)?;
    Some(format!(
        "podlayer changed the template of job {name} as well (--mutate=JobsAndPods), so what layers replaced of its own \
         is not shown"
    ))
}

/// What to know where a pod was made with other layers than there are now.
pub fn compare_stamps(made_with: Option<&str>, now: Option<&str>) -> Option<String> {
    let Some(made_with) = made_with else {
        return Some("the pod has no stamp: podlayer did not see it when it was made, this is what it would do".into());
    };
    let read = |stamp: &str| serde_json::from_str::<Json>(stamp).ok();
    let (made_with, now) = (read(made_with)?, read(now?)?);
    if made_with["stack"] == now["stack"] {
        return None;
    }
    let text = |stamp: &Json| stamp["stack"].as_str().unwrap_or_default().to_owned();
    Some(format!(
        "the pod was made with stack {} and the layers and flags here make {}: they have changed since, or the flags \
         differ from the webhook's",
        text(&made_with),
        text(&now)
    ))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_pod_made_with_other_layers_is_told_apart() {
        let stamp = |stack: &str| format!(r#"{{"v":1,"stack":"{stack}"}}"#);
        assert_eq!(compare_stamps(Some(&stamp("a")), Some(&stamp("a"))), None);
        assert!(compare_stamps(Some(&stamp("a")), Some(&stamp("b"))).unwrap().contains("made with stack a"));
        assert!(compare_stamps(None, Some(&stamp("b"))).unwrap().starts_with("the pod has no stamp"));
    }

    #[test]
    fn only_a_job_that_controls_it_made_a_pod() {
        let pod = |kind: &str, controller: bool| json!({"metadata": {"ownerReferences": [{"kind": kind, "name": "j", "controller": controller}]}});
        assert_eq!(job_of(&pod("Job", true)), Some("j"));
        assert_eq!(job_of(&pod("Job", false)), None);
        assert_eq!(job_of(&pod("ReplicaSet", true)), None);
        assert_eq!(job_of(&json!({})), None);
    }
}
