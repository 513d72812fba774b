use std::collections::BTreeMap;

use super::{
    OnStepError, Policy, comutate,
    decide::warning,
    default_container,
    object::{Pod, facts},
    passes::{self, Setting, Settled},
    protect::OfJob,
    rails::Rails,
    stamp::{Skipped, cut},
    system::System,
};
use crate::{
    layers::{Cause, Complaint, Layer, LayerId, Place, Snapshot, complaint::Printable},
    names,
    presets::{self, Preset},
    schema::is_written_anew,
    value::{Path, Segment, Value},
};

/// How many findings a refusal names; an author mends a few at a time.
const MOST_FINDINGS: usize = 5;
/// Longest text of a refusal, in characters (longer ones are cut by what shows them: Events at 1 KiB).
const LONGEST_DENIAL: usize = 1024;

/// Why an object is refused.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Denial {
    /// HTTP code: 422, since that is what CI systems show at once; for a pod its preset may say another.
    pub code: u16,
    /// Kubernetes' reason: `Invalid`, or what belongs to the preset's code.
    pub reason: &'static str,
    /// What is wrong and where, one finding a line.
    pub message: String,
    /// Where it is wrong, without what stands there: for the log, which holds no value out of a pod.
    pub whereabouts: String,
}

/// One thing that makes an object be refused.
pub(super) struct Fault {
    text: String,
    whereabouts: String,
}

/// A pod with its layers, before the stamp.
pub(super) struct Evaluation<'a> {
    /// The rule set that held the step, where it isn't the built-in one.
    pub rules: Option<&'a Layer>,
    pub settled: Settled<'a>,
    pub skipped: Vec<Skipped>,
    pub warnings: Vec<String>,
    pub denial: Option<Denial>,
    /// See [`super::Decision::unknown_class`].
    pub unknown_class: bool,
    /// Which CI system's the pod is.
    pub preset: &'static Preset,
}

impl Denial {
    /// A refusal that the author of the object can mend.
    pub(super) fn invalid(faults: &[Fault]) -> Self {
        let join = |part: &dyn Fn(&Fault) -> String, between: &str| {
            faults.iter().take(MOST_FINDINGS).map(part).collect::<Vec<_>>().join(between)
        };
        let mut message = join(&|fault| fault.text.clone(), "\n");
        if faults.len() > MOST_FINDINGS {
            message.push_str(&format!("\nand {} more", faults.len() - MOST_FINDINGS));
        }
        Self {
            code: 422,
            reason: "Invalid",
            message: cut(&message, LONGEST_DENIAL),
            whereabouts: join(&|fault| fault.whereabouts.clone(), "; "),
        }
    }

    /// The same with the code that the CI system of a pod does the best with.
    fn of_preset(self, preset: &'static Preset) -> Self {
        Self { code: preset.denial.code, reason: &preset.denial.reason, ..self }
    }
}

impl Fault {
    /// A fault whose text holds no value out of the pod.
    pub(super) fn plain(text: impl Into<String>) -> Self {
        let text = text.into();
        Self { whereabouts: text.clone(), text }
    }
}

impl From<&Complaint> for Fault {
    fn from(complaint: &Complaint) -> Self {
        Self { text: complaint.to_string(), whereabouts: complaint.whereabouts() }
    }
}

/// That no container is left, with the layers that say so of a container or of the whole list.
fn no_container(stack: &[&Layer]) -> String {
    let list = Path::field("spec").join(Segment::Field("containers".into()));
    let is_item = |path: &Path| path.segments().len() <= list.segments().len() + 1;
    let takes = |layer: &&&Layer| {
        let mut gone = layer.assertions.iter().filter(|said| !said.set && said.path.starts_with(&list));
        let items = layer.patch.value.get("containers").and_then(Value::as_list);
        gone.any(|said| is_item(&said.path)) || items.is_some_and(is_written_anew)
    };
    let who: Vec<String> = stack.iter().filter(takes).map(|layer| layer.id.to_string()).collect();
    let who = if who.is_empty() { "the layers".to_owned() } else { who.join(", ") };
    format!("every container of the pod is taken away by {who}: one must stay")
}

/// Puts the layers on a pod and judges the outcome. `unread` is what is wrong with a step patch that can't be read.
pub(super) fn evaluate<'a>(
    pod: &'a Pod<'_>,
    namespace: &'a str,
    snapshot: &'a Snapshot,
    policy: &Policy,
    step: Option<&'a Layer>,
    unread: Vec<Complaint>,
) -> Evaluation<'a> {
    let mut start = pod.value.borrowed();
    let bare = default_container::is_wanted(start.get("spec"));
    if bare {
        default_container::add(&mut start, &pod.facts(namespace), policy.default_image.as_deref());
    }
    let preset = presets::of(|key| pod.facts(namespace).label(key));
    let system = System::of(preset, &pod.value);
    let rails = Rails::of(snapshot, policy, &pod.facts(namespace), preset, pod.value.get("spec"));
    let of_job = pod.of_job.then(|| OfJob::of(&pod.value));
    let setting = Setting { snapshot, namespace, step, of_job, preset, system, rails };
    let mut settled = passes::settle(&setting, &pod.value, &start);
    comutate::comutate(&pod.value, &mut settled.pod);

    let mut skipped = Vec::new();
    let mut warnings = Vec::new();
    let mut skip = |layer: &LayerId, why: &str| {
        warnings.push(warning(&format!("layer {layer} skipped: {why}")));
        skipped.push(Skipped::new(layer.clone(), why));
    };
    // What the author of the pod must mend…
    let unresolved = |fault: &_| Fault {
        text: Printable(&format!("{fault}")).to_string(),
        whereabouts: Place::Annotation(names::CLASSES).to_string(),
    };
    let mut of_author: Vec<Fault> = settled.unresolved.iter().map(unresolved).collect();
    of_author.extend(unread.iter().map(Fault::from));
    // …and what an admin must.
    let mut of_admin = Vec::new();
    let mut warnings_of_unmatched = Vec::new();
    let required = |id: &LayerId| snapshot.layers().any(|layer| layer.id == *id && layer.options.required);
    let failed: BTreeMap<_, _> = std::mem::take(&mut settled.failed);
    for (id, complaint) in &failed {
        let unmatched = matches!(complaint.cause, Cause::Unmatched);
        if matches!(complaint.cause, Cause::Gains(_)) {
            // Not left out: the pod comes again with the container that the layers made, and then it is its own.
            of_admin.push(complaint.into());
        } else if *id == LayerId::STEP {
            of_author.push(complaint.into());
        } else if unmatched && id.kind.is_class() {
            of_author.push(Fault::plain(format!("{id}: {}", complaint.cause)));
        } else if unmatched {
            // Not this pod's layer after all. It has no place in the stamp, since the next decision puts none there.
            warnings_of_unmatched.push(warning(&format!("layer {id} left out: {}", complaint.cause)));
        } else if required(id) {
            let Fault { text, whereabouts } = complaint.into();
            of_admin.push(Fault { text: format!("required layer {id} failed: {text}"), whereabouts });
        } else {
            skip(id, &complaint.to_string());
        }
    }
    let mut faults = match policy.on_step_error {
        OnStepError::Deny => of_author,
        OnStepError::Ignore => {
            of_author.iter().for_each(|fault| skip(&LayerId::STEP, &fault.text));
            Vec::new()
        }
    };
    faults.append(&mut of_admin);
    warnings.append(&mut warnings_of_unmatched);
    let spec = settled.pod.get("spec");
    if faults.is_empty() && bare && default_container::image(spec).is_none() {
        faults.push(Fault::plain(format!(
            "{} has no image: set annotation {}, or an image for {} in a layer, or --default-image",
            names::DEFAULT_CONTAINER,
            names::IMAGE,
            names::DEFAULT_CONTAINER
        )));
    }
    if faults.is_empty() && default_container::is_wanted(spec) {
        faults.push(Fault::plain(no_container(&settled.stack)));
    }
    for layer in &settled.audited {
        skipped.push(Skipped::new(layer.id.clone(), "audit mode"));
    }
    let unlawful = setting.rails.unlawful(&settled.pod, &settled.stack);
    faults.extend(unlawful);
    for (id, put_back) in &settled.put_back {
        let done = if put_back.clamped { "set to its limit" } else { "put back" };
        let why = format!("{} {done}: {}", put_back.path, put_back.what);
        warnings.push(warning(&format!("layer {id}, {why}")));
        skipped.push(Skipped::new(id.clone(), &why));
    }
    let denial = (!faults.is_empty()).then(|| Denial::invalid(&faults));
    // A Job is its author's to mend; what its preset says is for the pods that the CI system makes itself.
    let denial = denial.map(|denial| if pod.pointer.is_empty() { denial.of_preset(preset) } else { denial });
    let unknown_class = snapshot.unknown_class(&facts(&settled.pod, namespace)).is_some();
    Evaluation { rules: setting.rails.set, settled, skipped, warnings, denial, unknown_class, preset }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{
        admission::{Verdict, decide_pod},
        layers::parse_bare,
    };

    #[test]
    fn a_pod_without_containers_names_the_layers_that_took_them() {
        const POD: &str = r#"{"metadata":{"labels":{"podlayer.dev/enabled":"true"}},
            "spec":{"containers":[{"name":"a","image":"i"},{"name":"b","image":"i"}]}}"#;
        for (patches, wanted) in [
            (
                ["containers: [{name: a, $patch: delete}]", "containers: [{name: b, $patch: delete}]"],
                "default/l0, default/l1",
            ),
            (["nodeSelector: {a: b}", "containers: null"], "default/l1"),
            (["containers: [{$patch: replace}]", "nodeSelector: {a: b}"], "default/l0"),
        ] {
            let layer = |(at, text): (usize, &&str)| Arc::new(parse_bare(&format!("l{at}"), text, "l").unwrap());
            let snapshot = Snapshot::build(patches.iter().enumerate().map(layer)).unwrap();
            let pod = Pod::parse(POD).unwrap();
            let Verdict::Denied(denial) = decide_pod(&pod, "ci", &snapshot, &Policy::default()).verdict else {
                panic!("{patches:?} is let through");
            };
            assert_eq!(denial.message, format!("every container of the pod is taken away by {wanted}: one must stay"));
        }
    }
}
