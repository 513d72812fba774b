//! Guard rails around the layers that no admin of the cluster wrote: the step patch, and layers of namespaces that aren't
//! trusted.

use std::{
    collections::{HashMap, HashSet},
    sync::LazyLock,
};

use super::{Policy, judge::Fault};
use crate::{
    guard::{self, Gained, Scene, Violation},
    layers::{
        Cause, Complaint, Facts, Forbidden, Kind, Layer, LayerId, MetadataPatch, Rules, Snapshot, patterns,
        rules::{OnViolation, PrivilegedFrom, privileged::Everything},
    },
    presets::{ContainerList, Preset},
    value::{Map, Path, Position, Segment, Value},
};

static BUILT_IN: LazyLock<Rules> = LazyLock::new(Rules::built_in);

/// How often what isn't allowed may be put back: taking one thing away can make another wrong.
const ROUNDS: usize = 5;

/// What holds for one pod.
pub(super) struct Rails<'a> {
    rules: &'a Rules,
    /// The rule set, where it isn't the built-in one.
    pub set: Option<&'a Layer>,
    /// Layers of the pod's namespace are as good as the cluster's.
    trusted: bool,
    privileged: PrivilegedFrom,
    preset: &'static Preset,
    /// The spec as it was sent.
    original: Option<&'a Value<'a>>,
}

/// What was put back or clamped of a layer's work.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct PutBack {
    pub path: Path,
    /// To be read behind the path.
    pub what: String,
    /// It was set to its limit, and so it is the layer's still.
    pub clamped: bool,
}

impl<'a> Rails<'a> {
    /// The rules for a pod as it was sent: no layer can change which they are.
    pub(super) fn of(
        snapshot: &'a Snapshot,
        policy: &Policy,
        facts: &Facts<'_>,
        preset: &'static Preset,
        spec: Option<&'a Value<'_>>,
    ) -> Self {
        let set = snapshot.rules(facts);
        let rules: &Rules = set.and_then(|set| set.rules.as_ref()).unwrap_or(&BUILT_IN);
        Self {
            rules,
            set,
            trusted: policy.trusted_layer_namespaces.iter().any(|namespace| namespace == facts.namespace),
            privileged: rules.privileged_from.unwrap_or(policy.privileged),
            preset,
            original: spec,
        }
    }

    /// Whether a layer is held by them.
    pub(super) fn hold(&self, kind: Kind) -> bool {
        match kind {
            Kind::Step => true,
            Kind::NamespaceClass | Kind::NamespaceDefault => !self.trusted,
            Kind::Class | Kind::Default | Kind::StepRules => false,
        }
    }

    /// The containers that the pod brought itself.
    fn native(&self) -> HashSet<(ContainerList, String)> {
        let names = |list: ContainerList| {
            let names = list.of(self.original).iter().filter_map(|container| container.get("name")?.as_str());
            names.map(move |name| (list, name.to_owned()))
        };
        ContainerList::ALL.into_iter().flat_map(names).collect()
    }

    fn title(&self) -> String {
        self.set.map_or_else(|| "built-in rules".into(), |set| set.id.to_string())
    }

    /// Looks at what a layer did to the pod; puts back what may not be, where the rules say so.
    ///
    /// # Errors
    /// What isn't allowed, with its place in the layer's text.
    pub(super) fn check(
        &self,
        before: &Value<'a>,
        pod: &mut Value<'a>,
        layer: &'a Layer,
        earlier: &[&Layer],
    ) -> Result<Vec<PutBack>, Complaint> {
        let given = self.given(before, earlier);
        let scene = Scene { rules: self.rules, preset: self.preset, given: &given };
        let mut put_back: Vec<PutBack> = Vec::new();
        let annotation = layer.metadata.annotations.iter().find(|entry| guard::is_privileged_annotation(&entry.key));
        if let Some(entry) = annotation {
            let path = MetadataPatch::path("annotations", &entry.key);
            let what = "is another confinement, which a layer that isn't an admin's may not set".into();
            let forbidden = Forbidden { path, what, also: Vec::new(), rules: self.title() };
            let cause = Cause::Rules(Box::new(forbidden));
            return Err(Complaint { cause, place: layer.place.clone(), at: Some(entry.at) });
        }
        for _ in 0..ROUNDS {
            let found = guard::check(before.get("spec"), pod.get("spec"), scene);
            let may = |violation: &Violation| match self.rules.on_violation {
                OnViolation::Deny => false,
                OnViolation::Drop => true,
                OnViolation::Clamp => violation.most.is_some(),
            };
            if found.is_empty() {
                // Told the same however the fields of the pod stand.
                put_back.sort_by(|a, b| a.path.cmp(&b.path));
                put_back.dedup_by(|a, b| a.path == b.path);
                return Ok(put_back);
            }
            if let Some(first) = found.iter().find(|violation| !may(violation)) {
                return Err(self.refusal(pod, layer, first, &found));
            }
            for Violation { path, what, most } in found {
                let clamped = match (self.rules.on_violation, most) {
                    (OnViolation::Clamp, Some(most)) => {
                        guard::clamp(pod, &path, most);
                        true
                    }
                    _ => {
                        guard::put_back(pod, before, &path);
                        false
                    }
                };
                put_back.push(PutBack { path, what, clamped });
            }
        }
        let found = guard::check(before.get("spec"), pod.get("spec"), scene);
        found.first().map_or(Ok(put_back), |first| Err(self.refusal(pod, layer, first, &found)))
    }

    /// The mounts that admins' layers gave the pod.
    fn given(&self, pod: &Value<'_>, layers: &[&Layer]) -> HashSet<Path> {
        let mount = |path: &Path| {
            let [root, list, container, Segment::Field(field), mount @ Segment::Item { .. }, ..] = path.segments()
            else {
                return None;
            };
            let mut path = Path::root();
            let field = Segment::Field(field.clone());
            let is_mount = field == Segment::Field("volumeMounts".into());
            [root, list, container, &field, mount].into_iter().for_each(|segment| path.push(segment.clone()));
            is_mount.then_some(path)
        };
        let mut all = HashSet::new();
        for layer in layers.iter().filter(|layer| !self.hold(layer.id.kind)) {
            all.extend(layer.assertions.iter().filter_map(|said| mount(&said.path)));
            if layer.patterns.iter().any(|pattern| pattern.item.value.get("volumeMounts").is_some()) {
                let expanded = patterns::expanded(layer, pod.get("spec"), self.preset);
                all.extend(expanded.iter().filter_map(|said| mount(&said.path)));
            }
        }
        all
    }

    fn refusal(&self, pod: &Value<'_>, layer: &Layer, first: &Violation, all: &[Violation]) -> Complaint {
        let mut also: Vec<Path> = all.iter().map(|violation| violation.path.clone()).collect();
        also.retain(|path| *path != first.path);
        let at = self.place(pod, layer, &first.path);
        let forbidden = Forbidden { path: first.path.clone(), what: first.what.clone(), also, rules: self.title() };
        let cause = Cause::Rules(Box::new(forbidden));
        Complaint { cause, place: layer.place.clone(), at: Some(at) }
    }

    /// Where in a layer's text a change of the pod comes from: what it says of the place or above it, exactly or by a
    /// pattern; else of what is nearest.
    fn place(&self, pod: &Value<'_>, layer: &Layer, path: &Path) -> Position {
        let shared = |other: &Path| other.segments().iter().zip(path.segments()).take_while(|(a, b)| a == b).count();
        let exact = layer.assertions.iter().map(|found| (shared(&found.path), found.at));
        let expanded = patterns::expanded(layer, pod.get("spec"), self.preset);
        let by_pattern = expanded.iter().map(|found| (shared(&found.path), found.assertion.at));
        let nearest = exact.chain(by_pattern).max_by_key(|(shared, at)| (*shared, std::cmp::Reverse(*at)));
        match nearest {
            Some((shared, at)) if shared > 1 => at,
            _ => layer.patch.locate(&path.without_first(1)),
        }
    }

    /// What held layers did in containers that have privileges by another layer and that the pod didn't bring: whoever
    /// chooses what runs there has the privileges.
    pub(super) fn gains(&self, pod: &Value<'_>, stack: &[&Layer]) -> Vec<(LayerId, Complaint)> {
        let held = || stack.iter().filter(|layer| self.hold(layer.id.kind));
        let Some(spec) = pod.get("spec").filter(|_| held().next().is_some()) else { return Vec::new() };
        let gained = guard::gained(spec, &self.native(), self.preset);
        if gained.is_empty() {
            return Vec::new();
        }
        let by_container: HashMap<&[Segment], &Gained> =
            gained.iter().rev().map(|gain| (gain.container.segments(), gain)).collect();
        let mut found = Vec::new();
        for layer in held() {
            let expanded = patterns::expanded(layer, Some(spec), self.preset);
            let paths = layer.assertions.iter().map(|said| (&said.path, said.at));
            let paths = paths.chain(expanded.iter().map(|said| (&said.path, said.assertion.at)));
            let is_resources =
                |path: &Path| matches!(path.segments().get(3), Some(Segment::Field(name)) if name == "resources");
            let is_meant = |path: &Path| {
                self.rules.allow.iter().any(|pattern| pattern.is_deliberate() && pattern.covers(path, &Everything))
            };
            let wrong = paths.into_iter().find_map(|(path, at)| {
                let gain = by_container.get(path.segments().get(..3)?)?;
                (!is_resources(path) && !is_meant(path)).then_some((gain, path, at))
            });
            if let Some((gain, path, at)) = wrong {
                let what = format!(
                    "may not be set by a step: a layer gives this container privileges ({}: {}) that the pod's own lack",
                    gain.privilege, gain.why
                );
                let forbidden = Forbidden { path: path.clone(), what, also: Vec::new(), rules: self.title() };
                let cause = Cause::Gains(Box::new(forbidden));
                found.push((layer.id.clone(), Complaint { cause, place: layer.place.clone(), at: Some(at) }));
            }
        }
        found
    }

    /// With `LayersOnly`: the privileges of the pod that no layer of an admin gave it.
    pub(super) fn unlawful(&self, pod: &Value<'_>, stack: &[&Layer]) -> Vec<Fault> {
        let Some(spec) = pod.get("spec").filter(|_| self.privileged == PrivilegedFrom::LayersOnly) else {
            return Vec::new();
        };
        let trusted: Vec<&Layer> = stack.iter().copied().filter(|layer| !self.hold(layer.id.kind)).collect();
        let annotations =
            pod.get("metadata").and_then(|metadata| metadata.get("annotations")).and_then(Value::as_object);
        let given = |key: &str, value: &Value<'_>| {
            let mut said = trusted.iter().flat_map(|layer| &layer.metadata.annotations);
            said.any(|entry| entry.key == key && entry.value.as_deref() == value.as_str())
        };
        let by_annotation = annotations
            .into_iter()
            .flat_map(Map::iter)
            .filter(|(key, value)| guard::is_privileged_annotation(key) && value.as_str() != Some("runtime/default"))
            .filter(|(key, value)| !given(key, value))
            .map(|(key, _)| {
                let path = MetadataPatch::path("annotations", key);
                Fault::plain(format!("{path} is another confinement: only layers of an admin may set it (LayersOnly)"))
            });
        let mut seen = HashSet::new();
        let privileges = guard::privileges(spec);
        let unlawful = privileges.iter().filter(|found| !found.is_given_by(&trusted, self.preset));
        let unlawful = unlawful.filter(|found| seen.insert(found.path.clone()));
        by_annotation
            .chain(unlawful.map(|found| {
                let of_step = stack.iter().find(|layer| {
                    self.hold(layer.id.kind) && layer.assertions.iter().any(|said| said.path.starts_with(&found.path))
                });
                let by = of_step.map_or_else(|| "the pod as it was made".into(), |layer| layer.id.to_string());
                Fault::plain(format!(
                    "{} gives privileges ({}) and comes from {by}: only layers of an admin may (LayersOnly)",
                    found.path, found.field.why
                ))
            }))
            .collect()
    }
}
