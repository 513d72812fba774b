use std::collections::{BTreeSet, HashMap, HashSet};

use super::{cast, reach};
use crate::{
    layers::{
        Layer,
        rules::privileged::{self, Field, Harmless},
    },
    presets::{ContainerList, Preset},
    value::{Path, Segment, Value},
};

/// A privilege that a pod has.
#[derive(Clone, Debug)]
pub struct Privilege<'v, 'a> {
    /// Where it stands; a volume's also where a container mounts it.
    pub path: Path,
    /// What gives it.
    pub field: &'static Field,
    /// The value there.
    pub value: &'v Value<'a>,
    /// The container that has it; none for one of the whole pod.
    pub container: Option<(ContainerList, &'v str)>,
    /// The same as it stands in the pod.
    body: Option<&'v Value<'a>>,
    /// The same for every container that has it.
    facet: String,
}

/// A container that has a privilege which no container of the pod's author has.
#[derive(Clone, Debug)]
pub struct Gained {
    /// The container.
    pub container: Path,
    /// Where its privilege stands.
    pub privilege: Path,
    /// What it gives.
    pub why: &'static str,
}

/// Behind the facet of a mount that can't be written to.
const READ_ONLY: &str = " read-only";

/// Whether an annotation chooses how containers are confined: the API server copies it into the field of that name
/// (pkg/registry/core/pod, applyAppArmorVersionSkew).
pub fn is_privileged_annotation(key: &str) -> bool {
    key.starts_with("container.apparmor.security.beta.kubernetes.io/")
}

/// All privileges of a pod's spec.
pub fn privileges<'v, 'a>(spec: &'v Value<'a>) -> Vec<Privilege<'v, 'a>> {
    let found = privileged::find(spec);
    if found.is_empty() {
        return Vec::new();
    }
    let mut all = Vec::with_capacity(found.len());
    let mut bodies: HashMap<(ContainerList, &str), &'v Value<'a>> = HashMap::new();
    for list in ContainerList::ALL {
        bodies.extend(list.of(Some(spec)).iter().filter_map(|body| Some(((list, cast::name(body)?), body))));
    }
    // By volume, what it gives.
    let mut of_volumes: HashMap<&str, Vec<&privileged::Found<'v, 'a>>> = HashMap::new();
    for found in &found {
        if let [_, Segment::Field(list), Segment::Item { value: name, .. }, ..] = found.path.segments()
            && list == "volumes"
        {
            of_volumes.entry(name).or_default().push(found);
        }
        let within = super::check::container_of(&found.path);
        let body: Option<&'v Value<'a>> = within.and_then(|key| bodies.get(&key).copied());
        let container = within.zip(body).and_then(|((list, _), body)| Some((list, cast::name(body)?)));
        let rest = if container.is_some() { found.path.without_first(3) } else { found.path.clone() };
        let list = found.value.as_list().filter(|_| matches!(found.field.harmless, Harmless::All(_)));
        let facets: Vec<String> = match list {
            Some(items) => {
                let beyond =
                    items.iter().filter(|item| !found.field.harmless.holds(&Value::List(vec![(*item).clone()])));
                beyond.map(|item| format!("{rest}={}", item.as_str().unwrap_or_default())).collect()
            }
            None => vec![rest.to_string()],
        };
        for facet in facets {
            all.push(Privilege {
                path: found.path.clone(),
                field: found.field,
                value: found.value,
                container,
                body,
                facet,
            });
        }
    }
    // A volume is a privilege of each container that mounts it.
    for list in ContainerList::ALL {
        for container in list.of(Some(spec)) {
            let Some(name) = cast::name(container) else { continue };
            for mount in cast::mounts(container) {
                let Some(volume) = cast::name_of_mount(mount) else { continue };
                for found in of_volumes.get(volume).into_iter().flatten() {
                    let at = mount.get("mountPath").and_then(Value::as_str).unwrap_or_default();
                    let path = reach::container_path(list, name).join(Segment::Field("volumeMounts".into()));
                    let path = path.join(Segment::Item { key: "mountPath".into(), value: at.into() });
                    let read_only = matches!(mount.get("readOnly"), Some(Value::Bool(true)));
                    let facet = format!("{} mounted{}", found.path, if read_only { READ_ONLY } else { "" });
                    let Some(value) = mount.get("name") else { continue };
                    all.push(Privilege {
                        path: path.join(Segment::Field("name".into())),
                        field: found.field,
                        value,
                        container: Some((list, name)),
                        body: Some(container),
                        facet,
                    });
                }
            }
        }
    }
    all
}

/// Which containers that the pod didn't bring itself have privileges that none of its author's has. `native` are those
/// that it brought.
pub fn gained(spec: &Value<'_>, native: &HashSet<(ContainerList, String)>, preset: &Preset) -> Vec<Gained> {
    let all = privileges(spec);
    let is_authors = |found: &&Privilege<'_, '_>| {
        found.container.is_some_and(|(list, name)| native.contains(&(list, name.to_owned())))
            && found.container.zip(found.body).is_some_and(|((list, _), body)| !cast::is_system(preset, list, body))
    };
    let had: BTreeSet<&str> = all.iter().filter(is_authors).map(|found| found.facet.as_str()).collect();
    all.iter()
        // Who may write may read.
        .filter(|found| !had.contains(found.facet.as_str()) && !had.contains(found.facet.trim_end_matches(READ_ONLY)))
        .filter_map(|found| {
            let (list, name) = found.container.filter(|(list, name)| !native.contains(&(*list, (*name).to_owned())))?;
            Some(Gained {
                container: reach::container_path(list, name),
                privilege: found.path.clone(),
                why: found.field.why,
            })
        })
        .collect()
}

impl Privilege<'_, '_> {
    /// Whether one of these layers gave the pod this, with this value.
    pub fn is_given_by(&self, layers: &[&Layer], preset: &Preset) -> bool {
        leaves(&self.path, self.value).into_iter().filter(|(_, value)| !self.is_harmless_item(value)).all(
            |(path, value)| {
                layers.iter().any(|layer| self.said_by(layer, preset, &path).iter().any(|said| holds(said, value)))
            },
        )
    }

    /// What a layer's patch has at a path of the pod, for each of its items that means the place.
    fn said_by<'l>(&self, layer: &'l Layer, preset: &Preset, path: &Path) -> Vec<&'l Value<'static>> {
        let exact = path.without_first(1).find(&layer.patch.value);
        let by_pattern = layer.patterns.iter().filter_map(|pattern| {
            let ((list, _), body) = self.container.zip(self.body)?;
            let fits = list == pattern.list && pattern.target.fits(preset, list, body);
            if fits { path.without_first(3).find(&pattern.item.value) } else { None }
        });
        exact.into_iter().chain(by_pattern).collect()
    }

    fn is_harmless_item(&self, value: &Value<'_>) -> bool {
        let is_filled_in = value.as_str() == Some("");
        is_filled_in
            || (matches!(self.field.harmless, Harmless::All(_))
                && self.field.harmless.holds(&Value::List(vec![value.clone()])))
    }
}

/// Whether what a layer says is a value, or a list that holds it.
fn holds(said: &Value<'_>, value: &Value<'_>) -> bool {
    said == value || said.as_list().is_some_and(|items| items.contains(value))
}

/// The scalars below a value, those of a list with the list's path.
fn leaves<'v, 'a>(path: &Path, value: &'v Value<'a>) -> Vec<(Path, &'v Value<'a>)> {
    match value {
        Value::Object(map) if !map.is_empty() => {
            map.iter().flat_map(|(key, value)| leaves(&path.join(Segment::Field(key.to_owned())), value)).collect()
        }
        Value::List(items) if !items.is_empty() => items.iter().map(|item| (path.clone(), item)).collect(),
        value => vec![(path.clone(), value)],
    }
}
