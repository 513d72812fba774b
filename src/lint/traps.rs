//! What works and yet goes wrong with the CI system that the pods are of: the traps of its preset.

use crate::{
    layers::{Layer, patterns::Target},
    presets::{ContainerList, Preset, Role, Trap},
    value::{Path, Position, Segment, Value, glob_matches},
};

/// The traps that a layer steps into, each with its text and its place in the layer's patch.
pub(super) fn find(layer: &Layer, presets: &[&'static Preset]) -> Vec<(Position, String)> {
    let mut found = Vec::new();
    for preset in presets {
        for trap in &preset.traps {
            let at = places(layer, preset, trap);
            let text = |at| (at, format!("{}: {} ({})", trap.name, trap.text, preset.name));
            found.extend(at.into_iter().map(text));
        }
    }
    found
}

/// The presets whose pods a layer is for, as far as its `match` says so; else those that were asked for.
pub(super) fn presets_of(layer: &Layer, asked: &[&'static Preset]) -> Vec<&'static Preset> {
    let wants = |preset: &&Preset| {
        let keys =
            preset.selectors.iter().flat_map(|selector| selector.keys()).filter(|key| preset.reserved.holds(key));
        keys.into_iter().any(|key| layer.selector.labels().any(|label| label == key))
    };
    let named: Vec<&'static Preset> = crate::presets::all().iter().filter(wants).collect();
    if named.is_empty() { asked.to_vec() } else { named }
}

/// One item of a patch for containers.
struct Item<'l> {
    list: ContainerList,
    name: &'l str,
    target: Option<&'l Target>,
    value: &'l Value<'static>,
    at: Position,
}

fn items(layer: &Layer) -> Vec<Item<'_>> {
    let mut all = Vec::new();
    for list in ContainerList::ALL {
        for value in list.of(Some(&layer.patch.value)) {
            let Some(name) = value.get("name").and_then(Value::as_str) else { continue };
            let mut path = Path::field(list.as_str());
            path.push(Segment::Item { key: "name".into(), value: name.to_owned() });
            all.push(Item { list, name, target: None, value, at: layer.patch.locate(&path) });
        }
    }
    all.extend(layer.patterns.iter().map(|pattern| Item {
        list: pattern.list,
        name: &pattern.name,
        target: Some(&pattern.target),
        value: &pattern.item.value,
        at: pattern.item.marks.at,
    }));
    all
}

fn places(layer: &Layer, preset: &Preset, trap: &Trap) -> Vec<Position> {
    let items = items(layer);
    let adds = |item: &Item<'_>| item.target.is_none() && item.value.get("image").is_some();
    let by_name = |item: &Item<'_>| {
        let rules = preset.roles.values().flat_map(|members| members.rules(item.list));
        let mut names = rules.flat_map(|rule| &rule.names);
        names.any(|glob| glob_matches(glob, item.name))
    };
    let mut at = Vec::new();
    if let Some(before) = &trap.init_container {
        let inits = || items.iter().filter(|item| item.list == ContainerList::InitContainers);
        let behind = inits().position(|item| item.name == before.after);
        let early = inits()
            .enumerate()
            .filter(|(place, item)| adds(item) && !by_name(item) && behind.is_none_or(|behind| behind > *place));
        at.extend(early.map(|(_, item)| item.at));
    }
    if let Some(except) = &trap.container {
        let is_own = |item: &Item<'_>| by_name(item) || except.not.iter().any(|glob| glob_matches(glob, item.name));
        let added = items.iter().filter(|item| item.list == ContainerList::Containers && adds(item) && !is_own(item));
        at.extend(added.map(|item| item.at));
    }
    if let Some(variable) = &trap.env {
        let elsewhere = |item: &&Item<'_>| match item.target {
            None => item.name != variable.only,
            Some(Target::Every) | Some(Target::Role(Role::Agent)) => false,
            Some(Target::Glob(glob)) => !glob_matches(glob, &variable.only),
            Some(Target::Role(_)) => true,
        };
        let sets = |item: &&Item<'_>| {
            let env = item.value.get("env").and_then(Value::as_list).unwrap_or_default();
            let mut names = env.iter().filter_map(|item| item.get("name").and_then(Value::as_str));
            names.any(|name| glob_matches(&variable.glob, name))
        };
        at.extend(items.iter().filter(elsewhere).filter(sets).map(|item| item.at));
    }
    if let Some(glob) = &trap.exact {
        at.extend(
            items.iter().filter(|item| item.target.is_none() && glob_matches(glob, item.name)).map(|item| item.at),
        );
    }
    if let Some(glob) = &trap.image {
        let meant = |item: &&Item<'_>| match item.target {
            None | Some(Target::Glob(_)) => glob_matches(glob, item.name),
            Some(Target::Every | Target::Role(Role::Command)) => true,
            Some(Target::Role(_)) => false,
        };
        let sets = |item: &&Item<'_>| item.value.get("image").is_some();
        at.extend(items.iter().filter(meant).filter(sets).map(|item| item.at));
    }
    let fields = trap.spec_field.iter().filter(|field| layer.patch.value.get(field).is_some());
    at.extend(fields.map(|field| layer.patch.locate(&Path::field(field.as_str()))));
    at
}
