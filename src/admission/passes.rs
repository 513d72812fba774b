//! Putting a stack of layers on a pod until nothing changes any more.
//!
//! One pass is enough for nearly every pod. Another follows if a layer added a container (an earlier layer may have
//! been waiting for it), put items into another order, changed metadata that some `match` reads, failed while others
//! changed the pod, or uses directives. What still changes things after [`PASSES`] passes can't be given a sense and fails.
//!
//! A layer that fails leaves no trace: the merge works in place, so the pod as it was is put back. Copies are made only
//! once a layer has failed; until then the work is done on hope.

use std::collections::{BTreeMap, HashSet};

use super::{
    check,
    object::facts,
    protect::OfJob,
    rails::{PutBack, Rails},
    system::System,
};
use crate::{
    layers::{
        Apply, Cause, Complaint, Layer, LayerId, Mode, Place, Snapshot, Unresolved, fill::Filling, patterns, targets,
        unite,
    },
    merge,
    presets::{ContainerList, Preset},
    schema::POD,
    value::{Map, Path, Position, Segment, Value},
};

/// How often the stack may be applied before what still moves is given up. Three would do for all that people mean; but
/// a chain of layers that wait for each other settles one link a pass, and one that were given up here would go on from
/// where it stopped when its pod is decided again.
const PASSES: usize = 16;

/// What doesn't change while one pod is decided.
pub(super) struct Setting<'a> {
    pub snapshot: &'a Snapshot,
    pub namespace: &'a str,
    /// The pod's own patch, where it has one that can be read.
    pub step: Option<&'a Layer>,
    /// What is the Job controller's in a Job's pod.
    pub of_job: Option<OfJob<'a>>,
    /// Which CI system's it is.
    pub preset: &'static Preset,
    /// What that system has in it.
    pub system: Option<System<'a>>,
    /// What holds the step patch and layers of untrusted namespaces.
    pub rails: Rails<'a>,
}

/// The pod as the stack leaves it.
pub(super) struct Settled<'a> {
    pub pod: Value<'a>,
    /// The layers that had their say, in order.
    pub stack: Vec<&'a Layer>,
    /// Layers that failed, by name.
    pub failed: BTreeMap<LayerId, Complaint>,
    /// Layers in audit mode, which were tried on a copy.
    pub audited: Vec<&'a Layer>,
    /// Containers that a layer names and the pod lacks.
    pub absent: Vec<(LayerId, Vec<String>)>,
    /// Classes asked for in vain.
    pub unresolved: Vec<Unresolved>,
    /// What the guard rails put back.
    pub put_back: Vec<(LayerId, PutBack)>,
}

impl Settled<'_> {
    /// Whether two outcomes are the same to everybody who is told of them.
    fn is_as(&self, other: &Self) -> bool {
        let told = |settled: &Self| {
            let failed = settled.failed.iter().map(|(id, complaint)| (id.clone(), complaint.to_string()));
            (settled.stack.iter().map(|layer| layer.id.clone()).collect::<Vec<_>>(), failed.collect::<Vec<_>>())
        };
        self.pod == other.pod && told(self) == told(other)
    }
}

/// What one pass did.
struct Pass<'a> {
    stack: Vec<&'a Layer>,
    unresolved: Vec<Unresolved>,
    failed: BTreeMap<LayerId, Complaint>,
    audited: Vec<&'a Layer>,
    absent: Vec<(LayerId, Vec<String>)>,
    put_back: Vec<(LayerId, PutBack)>,
    /// Another look is needed before this can be called settled.
    again: bool,
}

/// What one layer did.
struct Effect {
    skipped: Vec<String>,
    added_container: bool,
    /// Items that were there changed their order, which another layer may have given them.
    moved: bool,
    changed_metadata: bool,
    /// A layer that only fills in found something missing; another one may take it away again.
    filled: bool,
    put_back: Vec<PutBack>,
}

/// Applies the stack to `start` until it comes to rest. `original` is the pod as it was sent.
///
/// Where a layer failed, what remains may give it or another a second chance when the pod is decided again; so the
/// outcome is decided again here, until it is its own.
pub(super) fn settle<'a>(setting: &Setting<'a>, original: &Value<'a>, start: &Value<'a>) -> Settled<'a> {
    let mut settled = settle_once(setting, original, start);
    for _ in 0..PASSES {
        if settled.failed.is_empty() {
            break;
        }
        let again = settle_once(setting, &settled.pod, &settled.pod);
        let same = again.is_as(&settled);
        settled = again;
        if same {
            break;
        }
    }
    settled
}

fn settle_once<'a>(setting: &Setting<'a>, original: &Value<'a>, start: &Value<'a>) -> Settled<'a> {
    let mut given_up = BTreeMap::new();
    let mut careful = false;
    // Every round but the last gives up at least one layer more, or starts to be careful.
    loop {
        match attempt(setting, original, start, &given_up, careful) {
            Ok(mut settled) => {
                settled.failed.append(&mut given_up);
                return settled;
            }
            Err(failed) => {
                careful = true;
                given_up.extend(failed);
            }
        }
    }
}

type GivenUp = BTreeMap<LayerId, Complaint>;

/// One try from the start; gives what must be left out of the next one.
fn attempt<'a>(
    setting: &Setting<'a>,
    original: &Value<'a>,
    start: &Value<'a>,
    given_up: &GivenUp,
    careful: bool,
) -> Result<Settled<'a>, GivenUp> {
    let mut pod = start.clone();
    let mut applied_before: Vec<&Layer> = Vec::new();
    for round in 1..=PASSES {
        let before = (round > 1).then(|| pod.clone());
        let pass = one_pass(setting, original, &mut pod, given_up, careful)?;
        let changed = before.as_ref().is_none_or(|before| *before != pod);
        // What had its say in an earlier pass and can't have it now has left a trace: do without it from the start.
        let Pass { stack, unresolved, mut failed, audited, absent, put_back, again } = pass;
        let again_now = stack.iter().filter(|_| !applied_before.is_empty());
        let now: HashSet<&LayerId> = again_now.map(|layer| &layer.id).collect();
        let gone = || applied_before.iter().filter(|layer| !now.contains(&layer.id));
        let late = gone().filter_map(|layer| failed.remove_entry(&layer.id));
        let mut regretted: GivenUp = late.collect();
        if regretted.is_empty() {
            // The others left because their match no longer fits. One at a time, for it may be this one's doing that the
            // next doesn't fit.
            let unmatched =
                |layer: &&Layer| Complaint { cause: Cause::Unmatched, place: layer.place.clone(), at: None };
            regretted.extend(gone().take(1).map(|layer| (layer.id.clone(), unmatched(layer))));
        }
        if !regretted.is_empty() {
            return Err(regretted);
        }
        if !changed || !again {
            let mut wrong: GivenUp = setting.rails.gains(&pod, &stack).into_iter().collect();
            if wrong.is_empty() {
                for (id, complaint) in check::broken(original, &pod, &stack, setting.preset) {
                    wrong.entry(id).or_insert(complaint);
                }
            }
            if !wrong.is_empty() {
                return Err(wrong);
            }
            return Ok(Settled { pod, stack, failed, audited, absent, unresolved, put_back });
        }
        applied_before = stack;
    }
    let restless = restless(setting, original, &mut pod, given_up);
    // INVARIANT: the last pass changed the pod, so looking twice more finds who does, unless it stopped just then: then
    // there is nothing to give up, and the next try must not be this one again.
    if restless.is_empty() { Err(everything(setting, &pod, given_up)) } else { Err(restless) }
}

/// Which layers still change a pod that should have come to rest. Two passes show both halves of a to and fro, from
/// whichever of its two states it is looked at, so that the next decision of the same pod leaves out the same layers.
fn restless<'a>(setting: &Setting<'a>, original: &Value<'a>, pod: &mut Value<'a>, given_up: &GivenUp) -> GivenUp {
    let mut restless = GivenUp::new();
    for _ in 0..2 {
        let stack = stack_of(setting, pod, given_up).0;
        for (at, layer) in stack.iter().copied().enumerate() {
            let before = pod.clone();
            // A failure is a change as well: it must not be called settled.
            if apply(setting, original, pod, layer, &stack[..at]).is_err() || *pod != before {
                restless.insert(layer.id.clone(), unsettled(layer.place.clone()));
            }
        }
    }
    restless
}

fn everything<'a>(setting: &Setting<'a>, pod: &Value<'a>, given_up: &GivenUp) -> GivenUp {
    let stack = stack_of(setting, pod, given_up).0;
    stack.into_iter().map(|layer| (layer.id.clone(), unsettled(layer.place.clone()))).collect()
}

fn unsettled(place: Place) -> Complaint {
    Complaint { cause: Cause::Unsettled, place, at: None }
}

fn stack_of<'a>(setting: &Setting<'a>, pod: &Value<'_>, given_up: &GivenUp) -> (Vec<&'a Layer>, Vec<Unresolved>) {
    let (mut stack, unresolved) = setting.snapshot.resolve(&facts(pod, setting.namespace));
    stack.extend(setting.step);
    stack.retain(|layer| !given_up.contains_key(&layer.id));
    (stack, unresolved)
}

/// Applies every layer once. Fails only while not `careful`, with nothing to give up: the caller must start anew.
fn one_pass<'a>(
    setting: &Setting<'a>,
    original: &Value<'a>,
    pod: &mut Value<'a>,
    given_up: &GivenUp,
    careful: bool,
) -> Result<Pass<'a>, GivenUp> {
    let (stack, unresolved) = stack_of(setting, pod, given_up);
    let mut pass = Pass {
        stack: Vec::with_capacity(stack.len()),
        unresolved,
        failed: BTreeMap::new(),
        audited: Vec::new(),
        absent: Vec::new(),
        put_back: Vec::new(),
        again: false,
    };
    let patterned: Vec<&Layer> = stack.iter().copied().filter(|layer| !layer.patterns.is_empty()).collect();
    let count = |pod: &Value<'_>| ContainerList::ALL.iter().map(|list| list.of(pod.get("spec")).len()).sum::<usize>();
    let containers = count(pod);
    let fitted = patterns::fitting(&patterned, pod.get("spec"), setting.preset);
    for layer in stack {
        let audit = layer.options.mode == Mode::Audit;
        let saved = (careful || audit).then(|| pod.clone());
        match apply(setting, original, pod, layer, &pass.stack) {
            Ok(effect) if !audit => {
                pass.again |= effect.added_container
                    || effect.moved
                    || effect.filled
                    || (effect.changed_metadata && setting.snapshot.reads_metadata())
                    || !layer.idempotent;
                if !effect.skipped.is_empty() {
                    pass.absent.push((layer.id.clone(), effect.skipped));
                }
                pass.put_back.extend(effect.put_back.into_iter().map(|what| (layer.id.clone(), what)));
                pass.stack.push(layer);
            }
            Ok(_) => pass.audited.push(layer),
            Err(_) if saved.is_none() => return Err(GivenUp::new()),
            Err(complaint) => _ = pass.failed.insert(layer.id.clone(), complaint),
        }
        if let Some(saved) = saved
            && (audit || pass.failed.contains_key(&layer.id))
        {
            *pod = saved;
        }
    }
    // A variable that one layer sets can give a container the role that another one waits for, and one that another
    // must have may be gone.
    pass.again |= !pass.failed.is_empty()
        || adds_again(&pass.stack)
        || count(pod) < containers
        || fitted != patterns::fitting(&patterned, pod.get("spec"), setting.preset);
    Ok(pass)
}

/// Whether a list item that one layer takes away is set by it or by a later one: as a new item it comes first each time,
/// before what stood in front of it the time before.
fn adds_again(stack: &[&Layer]) -> bool {
    let by_pattern = stack.iter().any(|layer| layer.deletes_by_pattern());
    let patterned = || stack.iter().any(|layer| !layer.patterns.is_empty());
    by_pattern
        || stack.iter().enumerate().any(|(at, layer)| {
            layer
                .deletions()
                .any(|deletion| stack[at..].iter().any(|later| later.sets_in(&deletion.path)) || patterned())
        })
}

/// Puts one layer on the pod, on which the `earlier` ones are. On an error the pod may be half changed.
fn apply<'a>(
    setting: &Setting<'a>,
    original: &Value<'a>,
    pod: &mut Value<'a>,
    layer: &'a Layer,
    earlier: &[&Layer],
) -> Result<Effect, Complaint> {
    let complain = |cause: Cause, at| Complaint { cause, place: layer.place.clone(), at };
    let held = setting.rails.hold(layer.id.kind).then(|| pod.clone());
    let expansion =
        patterns::expand(layer, pod.get("spec"), setting.preset).map_err(|(cause, at)| complain(cause, Some(at)))?;
    let mut patch = layer.patch.value.borrowed();
    let mut absent = targets::select(&mut patch, pod.get("spec"), layer.options.absent_containers, layer.id.kind)
        .map_err(|cause| {
            let at = absent_path(&cause).map(|path| layer.patch.locate(&path));
            complain(cause, at)
        })?;
    absent.skipped.extend(expansion.missed);
    let mut moved = false;
    let mut filled = false;
    let mut steps = expansion.steps;
    if layer.options.apply == Apply::IfAbsent {
        let whole = patterns::combined(std::mem::take(&mut steps), patch).map_err(|error| {
            let at = layer.patch.locate(&error.path);
            complain(Cause::Merge(Box::new(error.under(&Path::field("spec")))), Some(at))
        })?;
        let filling = Filling { earlier, preset: setting.preset, unions: &layer.options.union_lists };
        patch = filling.cut(whole, pod);
        filled = patch.as_object().is_some_and(|patch| !patch.is_empty());
    }
    for step in steps {
        moved |= put(setting, original, pod, layer, step.patch, |path| step.pattern.locate(path))?;
    }
    if patch.as_object().is_some_and(|patch| !patch.is_empty()) {
        moved |= put(setting, original, pod, layer, patch, |path| layer.patch.locate(path))?;
    }
    let changed_metadata = !layer.metadata.is_empty()
        && part(pod, "metadata")
            .as_object_mut()
            .is_some_and(|metadata| layer.metadata.apply(metadata, layer.options.apply));
    let put_back = held.map_or_else(|| Ok(Vec::new()), |before| setting.rails.check(&before, pod, layer, earlier))?;
    let added_container = !absent.added.is_empty();
    Ok(Effect { added_container, moved, skipped: absent.skipped, changed_metadata, filled, put_back })
}

/// Merges one patch of a layer into the pod; says whether items that were there changed their order. `locate` says where
/// a path of the spec stands in the layer's text.
fn put<'a>(
    setting: &Setting<'a>,
    original: &Value<'a>,
    pod: &mut Value<'a>,
    layer: &'a Layer,
    mut patch: Value<'a>,
    locate: impl Fn(&Path) -> Position,
) -> Result<bool, Complaint> {
    let complain = |cause: Cause, at| Complaint { cause, place: layer.place.clone(), at };
    let spec = part(pod, "spec");
    if !layer.options.union_lists.is_empty() {
        unite::widen(&mut patch, Some(spec), &layer.options.union_lists, layer.options.apply == Apply::IfAbsent);
    }
    let moved = merge::apply(spec, patch, POD.pod_spec(), merge::Mode::Lenient).map_err(|error| {
        let at = locate(&error.path);
        complain(Cause::Merge(Box::new(error.under(&Path::field("spec")))), Some(at))
    })?;
    if layer.can_leak {
        let none = Value::Null;
        merge::finalise(spec, original.get("spec").unwrap_or(&none), POD.pod_spec());
    }
    let own = setting.system.as_ref().map_or(Ok(()), |system| system.check(pod));
    own.and_then(|()| setting.of_job.as_ref().map_or(Ok(()), |job| job.check(pod))).map_err(|cause| {
        let at = match &cause {
            Cause::Protected { path, .. } => Some(locate(&path.without_first(1))),
            _ => None,
        };
        complain(cause, at)
    })?;
    Ok(moved.0)
}

/// A part of the pod, made if it isn't there.
fn part<'p, 'a>(pod: &'p mut Value<'a>, key: &'static str) -> &'p mut Value<'a> {
    if pod.as_object().is_none() {
        *pod = Value::Object(Map::new());
    }
    // INVARIANT: just made an object, and the key is put into it where it lacks.
    #[allow(clippy::expect_used)]
    let map = pod.as_object_mut().expect("a pod is an object");
    if map.get(key).is_none_or(Value::is_null) {
        map.insert(key, Value::Object(Map::new()));
    }
    #[allow(clippy::expect_used)]
    map.get_mut(key).expect("the key was put there")
}

fn absent_path(cause: &Cause) -> Option<Path> {
    let Cause::AbsentContainer { name, init, .. } = cause else { return None };
    let mut path = Path::field(if *init { "initContainers" } else { "containers" });
    path.push(Segment::Item { key: "name".into(), value: name.clone() });
    Some(path)
}
