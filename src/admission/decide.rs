use super::{
    Denial, Policy, Provenance, Request, default_container, job,
    judge::{Evaluation, evaluate},
    object::Pod,
    provenance,
    stamp::{Skipped, Stamp, cut},
};
use crate::{
    diff::{self, Operation},
    layers::{self, Complaint, Layer, LayerId, Mode, Snapshot, complaint::Printable},
    names,
    presets::Preset,
    schema::POD,
    value::{Map, Value},
};

/// Longest warning, in characters: what the API server is sure to pass on (KEP-2579: 120).
const LONGEST_WARNING: usize = 120;
/// All annotations of an object together, keys and values, in bytes (apimachinery's TotalAnnotationSizeLimitB).
const MOST_ANNOTATIONS: usize = 256 << 10;

/// What is answered for one object.
#[derive(Debug)]
pub struct Decision {
    /// Whether the object may be made.
    pub verdict: Verdict,
    /// What changes, as an RFC 6902 list in JSON.
    pub patch: Option<String>,
    /// How many operations that is.
    pub operations: usize,
    /// For the client, each one line.
    pub warnings: Vec<String>,
    /// The layers that applied, in order.
    pub layers: Vec<LayerId>,
    /// The layers that didn't, and why.
    pub skipped: Vec<Skip>,
    /// The image that the default container ends up with, where the pod had no containers.
    pub default_image: Option<String>,
    /// Whether all this was decided but not done.
    pub audit: bool,
    /// A fault of podlayer's own that was caught: the pod got its stamp only.
    pub fault: Option<String>,
    /// The CI system's own label names a class that there isn't, or not for this pod.
    pub unknown_class: bool,
}

/// Whether an object may be made.
#[derive(Debug, Eq, PartialEq)]
pub enum Verdict {
    /// It may, with the patch.
    Allowed,
    /// It may not.
    Denied(Denial),
    /// It may; podlayer has nothing to do with it.
    Untouched,
}

/// A layer that was left out.
pub type Skip = Skipped;

impl Decision {
    /// podlayer has nothing to do with the object.
    pub(super) fn untouched() -> Self {
        Self {
            verdict: Verdict::Untouched,
            patch: None,
            operations: 0,
            warnings: Vec::new(),
            layers: Vec::new(),
            skipped: Vec::new(),
            default_image: None,
            audit: false,
            fault: None,
            unknown_class: false,
        }
    }

    /// Puts what changes in.
    pub(super) fn change(&mut self, operations: &[Operation<'_>]) {
        self.operations = operations.len();
        self.patch = (!operations.is_empty()).then(|| diff::to_json(operations));
    }

    pub(super) fn denied(denial: Denial) -> Self {
        Self { verdict: Verdict::Denied(denial), ..Self::untouched() }
    }
}

/// Decides what the mutating webhook is asked about.
///
/// Pure: the same request, snapshot and policy give the same answer. Anything but the creation of an opted-in pod, or
/// of a Job whose template is opted in, is left alone.
pub fn decide(request: &Request<'_>, snapshot: &Snapshot, policy: &Policy) -> Decision {
    if request.operation != "CREATE" || !request.sub_resource.is_empty() {
        return Decision::untouched();
    }
    match (request.group.as_ref(), request.kind.as_ref(), request.object) {
        ("", "Pod", Some(text)) => match &request.pod {
            Some(pod) => decide_pod(pod, &request.namespace, snapshot, policy),
            None => match Pod::parse(text) {
                Ok(pod) => decide_pod(&pod, &request.namespace, snapshot, policy),
                Err(error) => unreadable(&error),
            },
        },
        ("batch", "Job", Some(text)) => job::mutate(text, &request.namespace, snapshot, policy),
        _ => Decision::untouched(),
    }
}

/// An object of an unexpected shape is let through: whether it is valid is the API server's to say.
pub(super) fn unreadable(error: &super::ObjectError) -> Decision {
    // What is logged is without the object's words; its author may read them.
    Decision { warnings: vec![warning(&error.to_string())], fault: Some(error.whereabouts()), ..Decision::untouched() }
}

/// Decides one pod, or one pod template as the pod that it makes.
pub fn decide_pod(pod: &Pod<'_>, namespace: &str, snapshot: &Snapshot, policy: &Policy) -> Decision {
    if !policy.admits(&pod.facts(namespace)) {
        return Decision::untouched();
    }
    let (step, unread) = read_step(pod, namespace, snapshot);
    let evaluation = evaluate(pod, namespace, snapshot, policy, step.as_ref(), unread);
    conclude(pod, evaluation, policy)
}

/// A pod before and after its layers, with the stack that made the difference: what `explain` reads.
#[derive(Debug)]
pub struct Trace<'t, 'a> {
    /// The pod as it was sent.
    pub before: &'t Value<'a>,
    /// The pod with its layers, without the stamp.
    pub after: &'t Value<'a>,
    /// The layers that applied, in order.
    pub stack: &'t [&'a Layer],
    /// The layers that didn't, and why.
    pub skipped: &'t [Skip],
    /// Containers that a layer names and the pod lacks.
    pub absent: &'t [(LayerId, Vec<String>)],
    /// Why the pod would be refused.
    pub denial: Option<&'t Denial>,
    /// Which CI system's the pod is.
    pub preset: &'static Preset,
}

/// Decides a pod as [`decide_pod`] does and hands the way there to `read`. Nothing for a pod that isn't opted in.
pub fn trace<T>(
    pod: &Pod<'_>,
    namespace: &str,
    snapshot: &Snapshot,
    policy: &Policy,
    read: impl FnOnce(&Trace<'_, '_>) -> T,
) -> Option<T> {
    if !policy.admits(&pod.facts(namespace)) {
        return None;
    }
    let (step, unread) = read_step(pod, namespace, snapshot);
    let Evaluation { settled, skipped, denial, preset, .. } =
        evaluate(pod, namespace, snapshot, policy, step.as_ref(), unread);
    Some(read(&Trace {
        before: &pod.value,
        after: &settled.pod,
        stack: &settled.stack,
        skipped: &skipped,
        absent: &settled.absent,
        denial: denial.as_ref(),
        preset,
    }))
}

/// The pod's own patch, or what is wrong with it.
fn read_step(pod: &Pod<'_>, namespace: &str, snapshot: &Snapshot) -> (Option<Layer>, Vec<Complaint>) {
    match pod.facts(namespace).annotation(names::STEP_PATCH).map(layers::parse_step) {
        Some(Ok(mut layer)) => {
            // Which lists a step adds to is the admin's to say.
            if let Some(rules) = snapshot.rules(&pod.facts(namespace)).and_then(|set| set.rules.as_ref()) {
                layer.options.union_lists.clone_from(&rules.union_lists);
            }
            (Some(layer), Vec::new())
        }
        Some(Err(error)) => (None, error.0),
        None => (None, Vec::new()),
    }
}

/// Stamps the result and writes down what changed.
fn conclude<'a>(pod: &'a Pod<'_>, evaluation: Evaluation<'a>, policy: &Policy) -> Decision {
    let Evaluation { settled, mut skipped, mut warnings, denial, unknown_class, preset, rules } = evaluation;
    let audit = policy.mode == Mode::Audit;
    if let Some(denial) = denial {
        if !audit {
            return Decision { warnings, skipped, unknown_class, ..Decision::denied(denial) };
        }
        warnings.push(warning(&format!("would be refused: {}", denial.message)));
        skipped.push(Skipped::new(LayerId::STEP, &denial.message));
    }
    let default_image = default_container::is_wanted(pod.value.get("spec"))
        .then(|| default_container::image(settled.pod.get("spec")).map(str::to_owned))
        .flatten();
    let stamp = Stamp::of(&settled.stack, rules, skipped.clone(), policy, audit);
    let mut after = if audit { pod.value.borrowed() } else { settled.pod };
    let provenance = match policy.provenance {
        Provenance::Off => None,
        _ if audit => None,
        _ => Some(provenance::trail(&settled.stack, &after, preset, &settled.put_back)),
    };
    if !write_stamp(&mut after, &stamp, provenance.as_deref(), policy) {
        warnings.push(warning("the pod's annotations leave no room for the stamp"));
    }
    let mut decision = Decision {
        verdict: Verdict::Allowed,
        patch: None,
        operations: 0,
        warnings,
        layers: settled.stack.iter().map(|layer| layer.id.clone()).collect(),
        skipped,
        default_image,
        audit,
        fault: None,
        unknown_class,
    };
    match difference(pod, &after) {
        Ok(operations) => decision.change(&operations),
        Err(fault) => {
            decision.warnings.push(warning(&fault));
            decision.fault = Some(fault);
            Decision { patch: decision.patch, operations: decision.operations, .. } = only_stamped(pod);
        }
    }
    decision
}

/// A stamp that says podlayer failed, and nothing else: for a pod on which something went wrong that never should.
pub(super) fn only_stamped(pod: &Pod<'_>) -> Decision {
    let mut after = pod.value.borrowed();
    write_stamp(&mut after, &Stamp::of_fault(), None, &Policy::default());
    let mut decision = Decision::untouched();
    if let Ok(operations) = difference(pod, &after) {
        decision.change(&operations);
    }
    decision
}

/// What makes the result of the pod, and is proved to.
fn difference<'v>(pod: &'v Pod<'_>, after: &'v Value<'_>) -> Result<Vec<Operation<'v>>, String> {
    let mut operations = Vec::new();
    diff::diff(&pod.value, after, POD.pod(), pod.pointer, &mut operations);
    diff::verify(&pod.value, &operations, after, pod.pointer)
        .map_err(|error| format!("the patch would not make the result: {error}"))?;
    Ok(operations)
}

/// Writes stamp and provenance over whatever the pod brought under their keys; the provenance gives way, and failing
/// that the stamp, where the pod's annotations leave no room. Says whether the stamp is there.
fn write_stamp(pod: &mut Value<'_>, stamp: &Stamp, trail: Option<&[provenance::Said<'_>]>, policy: &Policy) -> bool {
    let Some(map) = pod.as_object_mut() else { return false };
    if map.get("metadata").and_then(Value::as_object).is_none() {
        map.insert("metadata", Value::Object(Map::new()));
    }
    let Some(metadata) = map.get_mut("metadata").and_then(Value::as_object_mut) else { return false };
    if metadata.get("annotations").and_then(Value::as_object).is_none() {
        metadata.insert("annotations", Value::Object(Map::new()));
    }
    let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) else { return false };
    let own = [names::APPLIED, names::PROVENANCE];
    let others: usize = annotations
        .iter()
        .filter(|(key, _)| !own.contains(key))
        .map(|(key, value)| key.len() + value.as_str().map_or(0, str::len))
        .sum();
    let stamp = stamp.to_json();
    let room = MOST_ANNOTATIONS.saturating_sub(others);
    let stamped = names::APPLIED.len() + stamp.len() <= room;
    let room = room.saturating_sub(names::APPLIED.len() + stamp.len() + names::PROVENANCE.len());
    let written =
        trail.filter(|_| stamped).and_then(|trail| provenance::annotation(trail, policy.provenance.bytes().min(room)));
    for (key, text) in [(names::APPLIED, stamped.then_some(stamp)), (names::PROVENANCE, written)] {
        match text {
            Some(text) => _ = annotations.insert(key, Value::from(text)),
            None => _ = annotations.remove(key),
        }
    }
    stamped
}

/// A warning as the API server passes it on: one line, no control characters, not too long.
pub(super) fn warning(text: &str) -> String {
    cut(&format!("podlayer: {}", Printable(text)), LONGEST_WARNING)
}
