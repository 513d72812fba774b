use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use super::{
    cast::{self, Cast},
    changes::{Change, changes},
    reach::{self, Volumes},
};
use crate::{
    layers::{
        Rules,
        rules::{Containers, Membership, Pattern, Step, builtin, privileged},
    },
    presets::{ContainerList, Preset},
    schema::Quantity,
    value::{Path, Segment, Value, glob_matches},
};

/// What a layer is judged by.
#[derive(Clone, Copy, Debug)]
pub struct Scene<'s> {
    /// What it may change.
    pub rules: &'s Rules,
    /// Which CI system's the pod is.
    pub preset: &'s Preset,
    /// Paths of mounts that admins' layers gave the pod: what they give one container isn't every other's.
    pub given: &'s HashSet<Path>,
}

/// One thing that a layer may not do.
#[derive(Clone, Debug, PartialEq)]
pub struct Violation {
    /// Where in the pod.
    pub path: Path,
    /// What is wrong with it, to be read behind the path; without a value out of the pod but names.
    pub what: String,
    /// The amount that would be right, where that is all that is wrong.
    pub most: Option<Value<'static>>,
}

/// How many paths that are allowed are named in a text.
const MOST_NAMED: usize = 8;

/// What of a layer's work isn't allowed; `before` and `after` are the specs of the pod.
pub fn check(before: Option<&Value<'_>>, after: Option<&Value<'_>>, scene: Scene<'_>) -> Vec<Violation> {
    let changed = changes(before, after);
    if changed.is_empty() {
        return Vec::new();
    }
    let cast = Cast::of(scene.preset, before, after);
    let mut check = Check {
        had: Volumes::of(before),
        has: Volumes::of(after),
        of_author: Check::mounts_of_author(before, &cast, scene.given),
        before,
        after,
        rules: scene.rules,
        cast,
        found: Vec::new(),
    };
    check.paths(&changed);
    check.containers();
    check.images();
    check.secrets();
    check.mounts();
    check.limits();
    // Told the same however the fields of the pod stand.
    check.found.sort_by(|a, b| a.path.cmp(&b.path));
    let mut seen = BTreeSet::new();
    check.found.retain(|violation| seen.insert((violation.path.clone(), violation.most.is_some())));
    check.found
}

struct Check<'c, 'a> {
    before: Option<&'c Value<'a>>,
    after: Option<&'c Value<'a>>,
    had: Volumes<'c, 'a>,
    has: Volumes<'c, 'a>,
    /// What the containers of the pod's author had of which volumes.
    of_author: HashSet<Mounted>,
    rules: &'c Rules,
    cast: Cast,
    found: Vec<Violation>,
}

/// Who allows a path.
#[derive(Clone, Copy, Eq, PartialEq)]
enum Allowed {
    No,
    BuiltIn,
    /// A path of the rule set itself.
    Rules,
    /// The same, which names the containers or volumes that it means.
    Deliberately,
}

impl<'c, 'a> Check<'c, 'a> {
    fn fault(&mut self, path: Path, what: String) {
        self.found.push(Violation { path, what, most: None });
    }

    /// Whether something at a path may become what it now is.
    fn allowed(&self, path: &Path, after: Option<&Value<'_>>) -> Allowed {
        let gains = privileged::is_gained(path, after);
        let covers = |pattern: &&Pattern| pattern.covers(path, &self.cast);
        if !gains || self.rules.privileged {
            let mut own = self.rules.allow.iter().filter(covers).peekable();
            if own.peek().is_some() {
                return if own.any(Pattern::is_deliberate) { Allowed::Deliberately } else { Allowed::Rules };
            }
        }
        let builtin = self.rules.builtin && !gains && builtin::covers(path, &self.cast);
        if builtin { Allowed::BuiltIn } else { Allowed::No }
    }

    fn paths(&mut self, changed: &[Change<'_, '_>]) {
        for change in changed {
            if self.allowed(&change.path, change.after) == Allowed::No {
                let what = if change.moved { order(change.before) } else { self.refusal(&change.path, change.after) };
                self.fault(change.path.clone(), what);
            }
        }
    }

    fn refusal(&self, path: &Path, after: Option<&Value<'_>>) -> String {
        let covers = |pattern: &Pattern| pattern.covers(path, &self.cast);
        let builtin = || self.rules.builtin && builtin::covers(path, &self.cast);
        if privileged::is_gained(path, after) && (self.rules.allow.iter().any(covers) || builtin()) {
            return "gives privileges, which a step may not".into();
        }
        if let Some((list, name)) = container_of(path)
            && self.cast.is_system(list, name)
        {
            return format!(
                "may not be changed by a step: {name} is the CI system's or another injector's, allowed there: {}",
                self.named(path)
            );
        }
        format!("may not be changed by a step, allowed: {}", self.named(path))
    }

    /// What is allowed instead: the fields beside it for a container or volume, else the paths.
    fn named(&self, path: &Path) -> String {
        let [_, Segment::Field(list), Segment::Item { value: item, .. }, ..] = path.segments() else {
            return short(self.rules.allowed().collect());
        };
        let builtin = if self.rules.builtin { builtin::PATTERNS.as_slice() } else { &[] };
        let of_item = |pattern: &&Pattern| match pattern.steps() {
            [Step::Field(field), Step::Items(items), ..] => field == list && self.cast.is_member(list, items, item),
            _ => false,
        };
        let texts = self.rules.allow.iter().chain(builtin).filter(of_item);
        let mut fields: Vec<&str> =
            texts.map(|pattern| pattern.as_str().split_once("].").map_or(pattern.as_str(), |(_, rest)| rest)).collect();
        let mut seen = BTreeSet::new();
        fields.retain(|field| seen.insert(*field));
        short(fields)
    }

    fn containers(&mut self) {
        for list in ContainerList::ALL {
            let names: Vec<&str> = list.of(self.after).iter().filter_map(cast::name).collect();
            if self.rules.containers == Containers::No {
                let added: Vec<&str> = names.iter().copied().filter(|name| self.cast.is_added(list, name)).collect();
                for name in added {
                    self.fault(
                        reach::container_path(list, name),
                        "may not be added: the rules say containers: No".into(),
                    );
                }
            }
            if list == ContainerList::InitContainers {
                self.init_order(&names);
            }
        }
    }

    /// What runs before the CI system's own init containers could change what they find.
    fn init_order(&mut self, names: &[&str]) {
        let list = ContainerList::InitContainers;
        let whole = Path::field("spec").join(Segment::Field(list.as_str().into()));
        if self.rules.allow.iter().any(|pattern| pattern.covers(&whole, &self.cast)) {
            return;
        }
        let Some(last) =
            names.iter().rposition(|name| self.cast.is_system(list, name) && !self.cast.is_added(list, name))
        else {
            return;
        };
        for name in &names[..last] {
            if self.cast.is_added(list, name) {
                let what = format!(
                    "would run before {}, which is the CI system's: name {0} before it in the patch (- name: {0})",
                    names[last]
                );
                self.fault(reach::container_path(list, name), what);
            }
        }
    }

    fn images(&mut self) {
        let Some(globs) = &self.rules.images else { return };
        let mut wrong = Vec::new();
        for list in ContainerList::ALL {
            let before = by_name(list.of(self.before));
            for container in list.of(self.after) {
                let name = cast::name(container).unwrap_or_default();
                let was = before.get(name).and_then(|before| before.get("image"));
                let image = container.get("image").filter(|image| Some(*image) != was);
                if let Some(image) = image {
                    let path = reach::container_path(list, name).join(Segment::Field("image".into()));
                    wrong.push((path, image));
                }
            }
        }
        for (name, volume) in self.has.all() {
            let image = |volume: &'c Value<'a>| volume.get("image")?.get("reference");
            let was = self.had.get(name).and_then(|had| image(had.value));
            if let Some(image) = image(volume.value).filter(|image| Some(*image) != was) {
                wrong.push((reach::volume_path(name).join(Segment::Field("image".into())), image));
            }
        }
        let fits = |image: &Value<'_>| image.as_str().is_some_and(|image| globs.iter().any(|g| glob_matches(g, image)));
        wrong.retain(|(_, image)| !fits(image));
        let allowed = if globs.is_empty() { "none".into() } else { globs.join(", ") };
        let faults: Vec<Path> = wrong.into_iter().map(|(path, _)| path).collect();
        for path in faults {
            self.fault(path, format!("is an image that a step may not use, allowed: {allowed}"));
        }
    }

    fn secrets(&mut self) {
        // Whose Secrets they are is told by who read them before.
        let (mut of_system, mut of_author) = (BTreeSet::new(), BTreeSet::new());
        for list in ContainerList::ALL {
            for container in list.of(self.before) {
                let read = self.had.secrets_of(list, container).into_keys();
                match self.cast.is_system(list, cast::name(container).unwrap_or_default()) {
                    true => of_system.extend(read),
                    false => of_author.extend(read),
                }
            }
        }
        let mut new: Vec<(String, Path)> = Vec::new();
        for list in ContainerList::ALL {
            let before = by_name(list.of(self.before));
            for container in list.of(self.after) {
                let was = before.get(cast::name(container).unwrap_or_default());
                let was = was.map(|was| self.had.secrets_of(list, was)).unwrap_or_default();
                let now = self.has.secrets_of(list, container);
                new.extend(now.into_iter().filter(|(name, _)| !was.contains_key(name)));
            }
        }
        for (name, volume) in self.has.all() {
            let was = self.had.get(name).map(|volume| volume.secrets.clone()).unwrap_or_default();
            let now = volume.secrets.iter().filter(|secret| !was.contains(*secret));
            new.extend(now.map(|secret| (secret.clone(), reach::volume_path(name))));
        }
        for (secret, path) in new {
            if of_system.contains(&secret) && !of_author.contains(&secret) {
                let what = format!("reads Secret {secret:?} of the CI system's own containers, which a step may not");
                self.fault(path, what);
            } else if let Some(globs) = &self.rules.secrets
                && !globs.iter().any(|glob| glob_matches(glob, &secret))
            {
                let allowed = if globs.is_empty() { "none".into() } else { globs.join(", ") };
                self.fault(path, format!("reads Secret {secret:?}, which a step may not, allowed: {allowed}"));
            }
        }
    }

    /// A mount gives a container what is in the volume, and may hide what the CI system put there.
    fn mounts(&mut self) {
        let mut faults = Vec::new();
        for list in ContainerList::ALL {
            let before = by_name(list.of(self.before));
            for container in list.of(self.after) {
                let name = cast::name(container).unwrap_or_default();
                let old = before.get(name).copied();
                let had: HashMap<&str, &Value<'_>> =
                    old.into_iter().flat_map(cast::mounts).filter_map(|mount| Some((place(mount)?, mount))).collect();
                let is_old = |mount: &&Value<'_>| place(mount).and_then(|at| had.get(at)) == Some(mount);
                let new: Vec<&Value<'_>> = cast::mounts(container).filter(|mount| !is_old(mount)).collect();
                faults.extend(new.iter().filter_map(|mount| self.mount(list, name, mount)));
                // A mount of the CI system's own container is its path's matter.
                if !self.cast.is_system(list, name) {
                    faults.extend(self.hidden(list, name, old, container, &new));
                }
            }
        }
        for (path, what) in faults {
            self.fault(path, what);
        }
    }

    fn mount(&self, list: ContainerList, container: &str, mount: &Value<'_>) -> Option<(Path, String)> {
        let name = cast::name_of_mount(mount)?;
        let volume = self.has.get(name)?.value;
        let path = mount_path(list, container, mount);
        let may = self.allowed(&path, Some(volume));
        if may == Allowed::Deliberately && self.rules.privileged {
            return None;
        }
        let unchanged = self.had.get(name).is_some_and(|had| had.value == volume);
        if unchanged && Mounted::of(mount)?.at_least().any(|as_much| self.of_author.contains(&as_much)) {
            return None;
        }
        let base = reach::volume_path(name);
        let nothing = Value::Null;
        let as_new = volume.as_object()?.iter().filter(|(key, source)| *key != "name" && !source.is_null());
        for (source, value) in as_new {
            let leaf = base.join(Segment::Field(source.into()));
            let (leaf, value) = if source == "projected" {
                (leaf.join(Segment::Field("sources".into())), value.get("sources").unwrap_or(&nothing))
            } else {
                (leaf, value)
            };
            if self.allowed(&leaf, Some(value)) == Allowed::No {
                let what = if self.cast.is_system_volume(name) {
                    format!("mounts volume {name}, which is the CI system's")
                } else {
                    format!("mounts volume {name}, whose {source} a step may not use")
                };
                return Some((path, what));
            }
        }
        None
    }

    /// What containers that aren't the CI system's had of volumes, but for what admins' layers gave them.
    fn mounts_of_author(before: Option<&Value<'_>>, cast: &Cast, given: &HashSet<Path>) -> HashSet<Mounted> {
        let mut all = HashSet::new();
        for list in ContainerList::ALL {
            for container in list.of(before) {
                let name = cast::name(container).unwrap_or_default();
                if cast.is_system(list, name) {
                    continue;
                }
                let own = cast::mounts(container)
                    .filter(|mount| given.is_empty() || !given.contains(&mount_path(list, name, mount)));
                all.extend(own.filter_map(Mounted::of));
            }
        }
        all
    }

    /// Mounts of the CI system's volumes that are gone, changed or covered by a new one.
    fn hidden(
        &self,
        list: ContainerList,
        name: &str,
        before: Option<&Value<'_>>,
        after: &Value<'_>,
        new: &[&Value<'_>],
    ) -> Vec<(Path, String)> {
        let of_system =
            |mount: &&Value<'_>| cast::name_of_mount(mount).is_some_and(|name| self.cast.is_system_volume(name));
        let mut had = before.into_iter().flat_map(cast::mounts).filter(of_system).peekable();
        if had.peek().is_none() {
            return Vec::new();
        }
        let over: HashMap<Vec<&str>, &Value<'_>> =
            new.iter().filter_map(|mount| Some((reach::normal(place(mount)?), *mount))).collect();
        let now: HashMap<&str, &Value<'_>> =
            cast::mounts(after).filter_map(|mount| Some((place(mount)?, mount))).collect();
        let mut faults = Vec::new();
        for old in had {
            let at = place(old).unwrap_or_default();
            let path = mount_path(list, name, old);
            if self.allowed(&path, None) == Allowed::Deliberately {
                continue;
            }
            let parts = reach::normal(at);
            if let Some(mount) = (0..=parts.len()).rev().find_map(|length| over.get(&parts[..length])) {
                let what = format!("would stand over {at}, which the CI system mounts there");
                faults.push((mount_path(list, name, mount), what));
            } else if now.get(at) != Some(&old) {
                faults.push((path, "is the CI system's mount, which a step may not change".into()));
            }
        }
        faults
    }

    fn limits(&mut self) {
        let mut found = Vec::new();
        for limit in &self.rules.limits {
            let places = |spec: Option<&Value<'_>>, who: &dyn Fn(&Pattern) -> BTreeMap<Path, Quantity>| {
                spec.map(|_| who(&limit.path)).unwrap_or_default()
            };
            let amounts = |spec: Option<&Value<'_>>, pattern: &Pattern| -> BTreeMap<Path, Quantity> {
                let found = spec.map(|spec| pattern.find(spec, &privileged::Everything)).unwrap_or_default();
                found.into_iter().filter_map(|(path, value)| Some((path, Quantity::of(value).ok()?))).collect()
            };
            let before = places(self.before, &|pattern| amounts(self.before, pattern));
            let after = places(self.after, &|pattern| amounts(self.after, pattern));
            let over = |what: &str| Some(format!("{what} {}, the most that a step may set", limit.text));
            for (path, amount) in &after {
                if *amount > limit.most && before.get(path) != Some(amount) {
                    found.push((path.clone(), over("is above"), &limit.value));
                }
            }
            for path in before.keys().filter(|path| !after.contains_key(*path)) {
                // With its container it may go.
                if self.still_there(path) {
                    found.push((path.clone(), over("was taken away, and with it the maximum of"), &limit.value));
                }
            }
            for path in self.unbounded(&limit.path) {
                found.push((path, over("is missing, so there is no limit; write at most"), &limit.value));
            }
        }
        let found = found
            .into_iter()
            .filter_map(|(path, what, most)| Some(Violation { path, what: what?, most: Some(most.clone()) }));
        let found: Vec<Violation> = found.collect();
        self.found.extend(found);
    }

    fn still_there(&self, path: &Path) -> bool {
        container_of(path).is_none_or(|(list, name)| self.cast.is_there(list, name))
    }

    /// Where containers that the layer adds lack a limit that has a maximum: without one they have all of the node.
    fn unbounded(&self, pattern: &Pattern) -> Vec<Path> {
        let [Step::Field(list), Step::Items(items), Step::Field(resources), Step::Field(limits), Step::Field(resource)] =
            pattern.steps()
        else {
            return Vec::new();
        };
        let Some(kind) = ContainerList::ALL.into_iter().find(|known| known.as_str() == list) else { return Vec::new() };
        if resources != "resources" || limits != "limits" {
            return Vec::new();
        }
        let mut paths = Vec::new();
        for container in kind.of(self.after) {
            let Some(name) = cast::name(container) else { continue };
            let value = container.get("resources").and_then(|all| all.get("limits")).and_then(|all| all.get(resource));
            if self.cast.is_added(kind, name)
                && self.cast.is_member(list, items, name)
                && value.is_none_or(Value::is_null)
            {
                let mut path = reach::container_path(kind, name);
                [resources, limits, resource].into_iter().for_each(|key| path.push(Segment::Field(key.clone())));
                paths.push(path);
            }
        }
        paths
    }
}

/// What is wrong with a list whose items stand in another order.
fn order(before: Option<&Value<'_>>) -> String {
    let items = before.and_then(Value::as_list).unwrap_or_default();
    let names = items.iter().filter_map(cast::name).collect();
    format!("would stand in another order, which a step may not change: write them in this one: {}", short(names))
}

/// The first of some words.
fn short(texts: Vec<&str>) -> String {
    match texts.len() {
        0 => "nothing".into(),
        more if more > MOST_NAMED => format!("{} and {} more", texts[..MOST_NAMED].join(", "), more - MOST_NAMED),
        _ => texts.join(", "),
    }
}

/// The container that a path is in.
pub(super) fn container_of(path: &Path) -> Option<(ContainerList, &str)> {
    let [_, Segment::Field(list), Segment::Item { value: name, .. }, ..] = path.segments() else { return None };
    let list = ContainerList::ALL.into_iter().find(|known| known.as_str() == list)?;
    Some((list, name))
}

/// What a mount gives of a volume.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
struct Mounted {
    volume: String,
    /// `subPath` and `subPathExpr`; both empty for the whole volume.
    part: [String; 2],
    read_only: bool,
    propagation: String,
}

impl Mounted {
    fn of(mount: &Value<'_>) -> Option<Self> {
        let text = |key: &str| mount.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        Some(Self {
            volume: cast::name_of_mount(mount)?.to_owned(),
            part: [text("subPath"), text("subPathExpr")],
            read_only: matches!(mount.get("readOnly"), Some(Value::Bool(true))),
            propagation: text("mountPropagation"),
        })
    }

    /// This and all that give no less.
    fn at_least(&self) -> impl Iterator<Item = Self> {
        let whole = || [String::new(), String::new()];
        let writable = Self { read_only: false, ..self.clone() };
        [Self { part: whole(), ..self.clone() }, Self { part: whole(), ..writable.clone() }, self.clone(), writable]
            .into_iter()
    }
}

/// The path in the container where a mount stands.
fn place<'v>(mount: &'v Value<'_>) -> Option<&'v str> {
    mount.get("mountPath").and_then(Value::as_str)
}

fn by_name<'v, 'a>(items: &'v [Value<'a>]) -> HashMap<&'v str, &'v Value<'a>> {
    items.iter().filter_map(|item| Some((cast::name(item)?, item))).collect()
}

fn mount_path(list: ContainerList, container: &str, mount: &Value<'_>) -> Path {
    let at = place(mount).unwrap_or_default();
    let path = reach::container_path(list, container).join(Segment::Field("volumeMounts".into()));
    path.join(Segment::Item { key: "mountPath".into(), value: at.into() })
}
