//! Jobs: their template is decided as the pod that it makes.
//!
//! A Job's denied pod is tried again for ever and nobody is told, so what would be refused there is refused at the
//! Job's own creation. And a template without containers doesn't pass the API server, so the default container is put
//! in here.

use super::{
    Decision, Denial, Mutate, Policy, Template, Verdict,
    decide::{decide_pod, unreadable, warning},
    default_container,
    judge::Fault,
};
use crate::{diff, layers::Snapshot, names, schema::POD};

/// What the mutating webhook answers for a Job.
pub(super) fn mutate(text: &str, namespace: &str, snapshot: &Snapshot, policy: &Policy) -> Decision {
    let template = match Template::parse(text) {
        Ok(Some(template)) if policy.admits(&template.pod.facts(namespace)) => template,
        Ok(_) => return Decision::untouched(),
        Err(error) => return unreadable(&error),
    };
    let pod = &template.pod;
    if policy.mutate == Mutate::JobsAndPods {
        return decide_pod(pod, namespace, snapshot, policy);
    }
    if !default_container::is_wanted(pod.value.get("spec")) {
        return Decision::untouched();
    }
    let decided = decide_pod(pod, namespace, snapshot, policy);
    if let Verdict::Denied(denial) = decided.verdict {
        return Decision::denied(denial);
    }
    let Some(image) = decided.default_image else {
        let text = format!("{} has no image: set annotation {}", names::DEFAULT_CONTAINER, names::IMAGE);
        return Decision::denied(Denial::invalid(&[Fault::plain(text)]));
    };
    let mut after = pod.value.borrowed();
    let facts = pod.facts(namespace);
    default_container::add(&mut after, &facts, Some(&image));
    let mut operations = Vec::new();
    diff::diff(&pod.value, &after, POD.pod(), pod.pointer, &mut operations);
    let mut decision = Decision { verdict: Verdict::Allowed, ..Decision::untouched() };
    decision.change(&operations);
    decision
}

/// What the validating webhook answers for a Job: refused if its pods would be.
pub(super) fn check(text: &str, namespace: &str, snapshot: &Snapshot, policy: &Policy) -> Decision {
    let template = match Template::parse(text) {
        Ok(Some(template)) if policy.admits(&template.pod.facts(namespace)) => template,
        Ok(_) => return Decision::untouched(),
        Err(error) => return unreadable(&error),
    };
    let decided = decide_pod(&template.pod, namespace, snapshot, policy);
    let mut warnings = decided.warnings;
    if template.misplaced_step {
        warnings.push(warning(&format!(
            "annotation {} on the Job is not read, put it on its pod template",
            names::STEP_PATCH
        )));
    }
    Decision { patch: None, operations: 0, warnings, ..decided }
}
