//! Items of a patch that are meant for several containers: `*`, globs, roles.
//!
//! They are taken out of the patch when it is parsed. For a pod each becomes a patch of its own with the exact names of
//! the containers that it fits, in the pod's order, so that it moves nothing and adds nothing. These are put on the pod
//! before the rest of the patch: `*`, globs, roles, then exact names.

use super::{
    Cause, Complaint, Layer, MetadataPatch, Place,
    trail::{self, Assertion},
};
use crate::{
    merge,
    presets::{self, ContainerList, Preset, Role},
    schema::{POD, nearest},
    value::{Document, Map, Marks, Path, Position, Segment, Value, glob_matches},
};

/// Which containers a pattern means.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Target {
    /// `*`: every container of the list.
    Every,
    /// Those whose name fits; `*` stands for any characters.
    Glob(String),
    /// Those that play a role in the pod's preset.
    Role(Role),
}

/// An item of a patch for all containers that a pattern fits.
#[derive(Clone, Debug)]
pub struct Pattern {
    /// The list that it stands in.
    pub list: ContainerList,
    /// The pattern as written: `@command`.
    pub name: String,
    /// What it means.
    pub target: Target,
    /// The item.
    pub item: Document,
    /// What it asserts of each container, with the pattern in the place of the name.
    pub assertions: Vec<Assertion>,
    /// How many values the item has.
    size: usize,
}

/// A patch that a pattern stands for, on one pod.
#[derive(Debug)]
pub struct Step<'a> {
    /// The pattern.
    pub pattern: &'a Pattern,
    /// A patch of the spec, with exact names.
    pub patch: Value<'a>,
}

/// What the patterns of a layer come to on one pod.
#[derive(Debug, Default)]
pub struct Expansion<'a> {
    /// In the order in which they apply.
    pub steps: Vec<Step<'a>>,
    /// Patterns that fit no container.
    pub missed: Vec<String>,
}

/// One thing that a pattern asserts of one container.
#[derive(Debug)]
pub struct Expanded<'a> {
    /// The pattern.
    pub pattern: &'a Pattern,
    /// What it asserts.
    pub assertion: &'a Assertion,
    /// Where in the pod, with the exact name.
    pub path: Path,
    /// Whether the pod bears it out.
    pub borne: bool,
}

/// How many values the patterns of one layer may come to on one pod: as much as a patch may hold, five times over. The
/// work of a decision stays bounded however many containers a pod has.
const MOST_VALUES: usize = 100_000;

impl Target {
    /// Reads a name; nothing for an exact one.
    ///
    /// # Errors
    /// What is wrong with the name of a role.
    fn parse(name: &str) -> Result<Option<Self>, String> {
        if let Some(role) = name.strip_prefix('@') {
            let known = || Role::ALL.into_iter().map(Role::as_str);
            let unknown = || match nearest(role, known()) {
                Some(near) => format!("unknown role {name:?}, did you mean \"@{near}\"?"),
                None => {
                    let known: Vec<String> = known().map(|role| format!("@{role}")).collect();
                    format!("unknown role {name:?}, the roles are {}", known.join(", "))
                }
            };
            return Role::parse(role).map(|role| Some(Self::Role(role))).ok_or_else(unknown);
        }
        Ok(match name {
            "*" => Some(Self::Every),
            _ if name.contains('*') => Some(Self::Glob(name.to_owned())),
            _ => None,
        })
    }

    /// Whether a container is meant; never one that another injector put there.
    pub fn fits(&self, preset: &Preset, list: ContainerList, container: &Value<'_>) -> bool {
        let Some(name) = container.get("name").and_then(Value::as_str) else { return false };
        let fits = match self {
            Self::Every => true,
            Self::Glob(glob) => glob_matches(glob, name),
            Self::Role(role) => preset.plays(*role, list, container),
        };
        fits && !presets::is_injected(name)
    }

    /// Groups apply in this order, each in the order of the text.
    fn rank(&self) -> u8 {
        match self {
            Self::Every => 0,
            Self::Glob(_) => 1,
            Self::Role(_) => 2,
        }
    }
}

/// Whether a name in a patch is a pattern.
fn is_pattern(name: Option<&Value<'_>>) -> bool {
    name.and_then(Value::as_str).is_some_and(|name| name.contains('*') || name.starts_with('@'))
}

/// What is wrong with the patterns of a patch.
pub(super) fn check(document: &Document, place: &Place) -> Vec<Complaint> {
    let mut found = Vec::new();
    let mut complain = |text: String, at: Position| {
        found.push(Complaint { cause: Cause::Config(text), place: place.clone(), at: Some(at) });
    };
    for list in ContainerList::ALL {
        let list = list.as_str();
        if let Some((items, marks)) = items(document, list) {
            let is_marker = |item: &Value<'_>| item.get("name").is_none() && item.get("$patch").is_some();
            let replaced = items.iter().any(is_marker);
            for (item, marks) in items.iter().zip(marks).filter(|(item, _)| is_pattern(item.get("name"))) {
                let name = item.get("name").and_then(Value::as_str).unwrap_or_default();
                if let Err(text) = Target::parse(name) {
                    complain(text, marks.at);
                } else if item.get("$patch").is_some() {
                    complain(
                        format!("$patch beside name {name:?} in {list}: write one item for each exact name"),
                        marks.at,
                    );
                } else if replaced {
                    complain(format!("name {name:?} in {list}, which the patch replaces: write exact names"), marks.at);
                }
            }
        }
        let order = format!("$setElementOrder/{list}");
        if let Some((items, marks)) = items(document, &order) {
            for (item, marks) in items.iter().zip(marks).filter(|(item, _)| is_pattern(item.get("name"))) {
                let name = item.get("name").and_then(Value::as_str).unwrap_or_default();
                complain(format!("name {name:?} in {order}: write exact names, only they have a place"), marks.at);
            }
        }
    }
    found
}

/// Takes the patterns out of a patch; a list that held nothing else goes too.
///
/// INVARIANT for callers: [`check`] found nothing.
pub(super) fn take(document: &mut Document) -> Vec<Pattern> {
    let mut taken = Vec::new();
    for list in ContainerList::ALL {
        let Some(map) = document.value.as_object_mut() else { break };
        let Some(at) = map.position(list.as_str()) else { continue };
        let Some(Value::List(items)) = map.get_mut(list.as_str()) else { continue };
        if !items.iter().any(|item| is_pattern(item.get("name"))) {
            continue;
        }
        let marks = document.marks.children.get_mut(at).map(|marks| &mut marks.children);
        let marks = marks.map(std::mem::take).unwrap_or_default();
        let mut kept = (Vec::new(), Vec::new());
        for (item, marks) in std::mem::take(items).into_iter().zip(marks) {
            let name = item.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
            match Target::parse(&name) {
                Ok(Some(target)) => taken.push(Pattern::of(list, name, target, Document { value: item, marks })),
                _ => {
                    kept.0.push(item);
                    kept.1.push(marks);
                }
            }
        }
        if kept.0.is_empty() {
            // Not `Map::remove`, which may change the order of large maps: the marks stand in the same one.
            let mut left = 0;
            map.retain(|_, _| {
                left += 1;
                left - 1 != at
            });
            document.marks.children.remove(at);
        } else {
            *items = kept.0;
            document.marks.children[at].children = kept.1;
        }
    }
    taken.sort_by_key(|pattern| pattern.target.rank());
    taken
}

fn items<'d>(document: &'d Document, field: &str) -> Option<(&'d [Value<'static>], &'d [Marks])> {
    let map = document.value.as_object()?;
    let marks = document.marks.children.get(map.position(field)?)?;
    Some((map.get(field)?.as_list()?, &marks.children))
}

impl Pattern {
    /// How many steps of a path lead to the container: `spec`, the list, the item.
    pub(super) const OUTSIDE: usize = 3;

    fn of(list: ContainerList, name: String, target: Target, item: Document) -> Self {
        let marks = |at: Position, children: Vec<Marks>| Marks { at, key: None, children };
        let at = item.marks.at;
        let whole = Document {
            value: in_list(list, vec![item.value.clone()]),
            marks: marks(at, vec![marks(at, vec![item.marks.clone()])]),
        };
        let assertions = trail::assertions(&whole, POD.pod_spec(), &MetadataPatch::default());
        let size = size(&item.value);
        Self { list, name, target, item, assertions, size }
    }

    /// How it stands in texts: `containers[name=@command]`.
    pub fn title(&self) -> String {
        let mut path = Path::field(self.list.as_str());
        path.push(Segment::Item { key: "name".into(), value: self.name.clone() });
        path.to_string()
    }

    /// The containers of a pod that it fits, in the pod's order.
    pub fn containers<'v, 'a>(
        &self,
        spec: Option<&'v Value<'a>>,
        preset: &Preset,
    ) -> impl Iterator<Item = &'v Value<'a>> {
        self.list.of(spec).iter().filter(move |container| self.target.fits(preset, self.list, container))
    }

    /// The item for the container of this name.
    fn item_for<'a>(&'a self, name: &str) -> Value<'a> {
        let mut item = self.item.value.borrowed();
        if let Some(map) = item.as_object_mut() {
            map.insert("name", Value::from(name.to_owned()));
        }
        item
    }

    /// Where the item's text has what stands at a path of the spec.
    pub fn locate(&self, path: &Path) -> Position {
        self.item.locate(&path.without_first(2))
    }

    /// The path in the item of what stands at a path of the pod.
    pub fn inner(path: &Path) -> Path {
        path.without_first(Self::OUTSIDE)
    }

    fn cause(&self, preset: &Preset, spec: Option<&Value<'_>>) -> Cause {
        let hint = match &self.target {
            Target::Role(_) => {
                let known = preset.roles.iter().filter(|(_, members)| !members.rules(self.list).is_empty());
                let known: Vec<String> = known.map(|(role, _)| format!("@{}", role.as_str())).collect();
                let known = if known.is_empty() { "none".into() } else { known.join(", ") };
                format!("; in {} a pod of the preset {} can have {known}", self.list.as_str(), preset.name)
            }
            Target::Every | Target::Glob(_) => {
                let names: Vec<&str> =
                    super::targets::names(spec.and_then(|spec| spec.get(self.list.as_str()))).collect();
                match nearest(&self.name.replace('*', ""), names.iter().copied()) {
                    Some(near) => format!(", did you mean {near:?}?"),
                    None if names.is_empty() => "; the pod has none".into(),
                    None => format!("; the pod has {}", names.join(", ")),
                }
            }
        };
        Cause::NoFit { name: self.name.clone(), init: self.list == ContainerList::InitContainers, hint }
    }
}

fn in_list(list: ContainerList, items: Vec<Value<'_>>) -> Value<'_> {
    let mut map = Map::with_capacity(1);
    map.insert(list.as_str(), Value::List(items));
    Value::Object(map)
}

fn size(value: &Value<'_>) -> usize {
    match value {
        Value::List(items) => 1 + items.iter().map(size).sum::<usize>(),
        Value::Object(map) => 1 + map.iter().map(|(_, value)| size(value)).sum::<usize>(),
        _ => 1,
    }
}

/// The patches that a layer's patterns stand for on a pod.
///
/// # Errors
/// In a step patch for a glob or role that fits no container; and where it would all come to too much. With the place in
/// the layer's text.
pub fn expand<'a>(
    layer: &'a Layer,
    spec: Option<&Value<'_>>,
    preset: &Preset,
) -> Result<Expansion<'a>, (Cause, Position)> {
    let mut expansion = Expansion::default();
    let mut total = 0;
    for pattern in &layer.patterns {
        let names: Vec<&str> =
            pattern.containers(spec, preset).filter_map(|container| container.get("name")?.as_str()).collect();
        if names.is_empty() {
            if layer.id.kind == super::Kind::Step && pattern.target != Target::Every {
                return Err((pattern.cause(preset, spec), pattern.item.marks.at));
            }
            expansion.missed.push(pattern.name.clone());
            continue;
        }
        total += names.len() * pattern.size;
        if total > MOST_VALUES {
            let text = format!(
                "name {:?} fits {} containers, which makes more than {MOST_VALUES} values: patch fewer at once",
                pattern.name,
                names.len()
            );
            return Err((Cause::Config(text), pattern.item.marks.at));
        }
        let items = names.into_iter().map(|name| pattern.item_for(name)).collect();
        expansion.steps.push(Step { pattern, patch: in_list(pattern.list, items) });
    }
    Ok(expansion)
}

/// The patches that patterns stand for and the rest of their patch as one: for a layer that only fills in, so that what
/// its own `*` filled in isn't taken for the pod's. Such patches hold no directives, which would be lost here.
///
/// # Errors
/// Where they can't be merged.
pub fn combined<'a>(steps: Vec<Step<'a>>, rest: Value<'a>) -> Result<Value<'a>, merge::Error> {
    let mut whole = Value::Object(Map::new());
    for patch in steps.into_iter().map(|step| step.patch).chain([rest]) {
        merge::apply(&mut whole, patch, POD.pod_spec(), merge::Mode::Lenient)?;
    }
    Ok(whole)
}

/// What a layer's patterns assert of a pod, in the order in which they apply.
pub fn expanded<'a>(layer: &'a Layer, spec: Option<&Value<'_>>, preset: &Preset) -> Vec<Expanded<'a>> {
    let mut out = Vec::new();
    for pattern in &layer.patterns {
        for container in pattern.containers(spec, preset) {
            let Some(name) = container.get("name").and_then(Value::as_str) else { continue };
            let borne = trail::borne_out_of_container(pattern, &layer.options, container);
            for (assertion, borne) in pattern.assertions.iter().zip(borne) {
                let mut path = Path::field("spec");
                path.push(Segment::Field(pattern.list.as_str().to_owned()));
                path.push(Segment::Item { key: "name".into(), value: name.to_owned() });
                assertion.path.segments().iter().skip(Pattern::OUTSIDE).for_each(|segment| path.push(segment.clone()));
                out.push(Expanded { pattern, assertion, path, borne });
            }
        }
    }
    out
}

/// Which containers each pattern of these layers fits: a layer that changes it can give another one something to do.
pub fn fitting(layers: &[&Layer], spec: Option<&Value<'_>>, preset: &Preset) -> Vec<bool> {
    let patterns = layers.iter().flat_map(|layer| &layer.patterns);
    let fits = |pattern: &Pattern| {
        let containers = pattern.list.of(spec).iter();
        containers.map(|container| pattern.target.fits(preset, pattern.list, container)).collect::<Vec<_>>()
    };
    patterns.flat_map(fits).collect()
}
