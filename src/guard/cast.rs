use std::collections::{HashMap, HashSet};

use crate::{
    layers::rules::{Items, Membership},
    presets::{self, ContainerList, Preset, Role},
    value::{Value, glob_matches},
};

/// Which containers and volumes of a pod are whose, before and after a layer.
///
/// A container is the CI system's if it plays the agent's or the checkout's role, or another injector put it there, before
/// the layer or after it: so a layer can neither take that from a container nor give it to one. Volumes that such a
/// container mounts are the CI system's as well.
#[derive(Debug)]
pub(super) struct Cast {
    containers: HashMap<String, Player>,
    init_containers: HashMap<String, Player>,
    volumes: HashSet<String>,
}

#[derive(Debug)]
struct Player {
    system: bool,
    /// It wasn't there before the layer.
    added: bool,
    /// It is there after the layer.
    there: bool,
    roles: Vec<Role>,
}

impl Cast {
    pub(super) fn of(preset: &Preset, before: Option<&Value<'_>>, after: Option<&Value<'_>>) -> Self {
        let mut cast = Self { containers: HashMap::new(), init_containers: HashMap::new(), volumes: HashSet::new() };
        for (spec, now) in [(before, false), (after, true)] {
            for list in ContainerList::ALL {
                for container in list.of(spec) {
                    let Some(name) = name(container) else { continue };
                    let system = is_system(preset, list, container);
                    if system {
                        cast.volumes.extend(mounts(container).filter_map(name_of_mount).map(str::to_owned));
                    }
                    // What a container plays is what it played before the layer.
                    let player = cast.players(list).entry(name.to_owned()).or_insert_with(|| Player {
                        system: false,
                        added: now,
                        there: now,
                        roles: Role::ALL.into_iter().filter(|role| preset.plays(*role, list, container)).collect(),
                    });
                    player.system |= system;
                    player.there |= now;
                }
            }
        }
        cast
    }

    fn players(&mut self, list: ContainerList) -> &mut HashMap<String, Player> {
        match list {
            ContainerList::Containers => &mut self.containers,
            ContainerList::InitContainers => &mut self.init_containers,
        }
    }

    fn player(&self, list: ContainerList, name: &str) -> Option<&Player> {
        match list {
            ContainerList::Containers => self.containers.get(name),
            ContainerList::InitContainers => self.init_containers.get(name),
        }
    }

    pub(super) fn is_system(&self, list: ContainerList, name: &str) -> bool {
        self.player(list, name).is_some_and(|player| player.system)
    }

    pub(super) fn is_added(&self, list: ContainerList, name: &str) -> bool {
        self.player(list, name).is_some_and(|player| player.added)
    }

    pub(super) fn is_there(&self, list: ContainerList, name: &str) -> bool {
        self.player(list, name).is_some_and(|player| player.there)
    }

    pub(super) fn is_system_volume(&self, name: &str) -> bool {
        self.volumes.contains(name)
    }
}

impl Membership for Cast {
    fn is_member(&self, list: &str, items: &Items, key: &str) -> bool {
        let Some(list) = ContainerList::ALL.into_iter().find(|known| known.as_str() == list) else {
            let own = list != "volumes" || !self.is_system_volume(key);
            return match items {
                Items::Name(name) => name == key,
                _ => own && items.may_be(key),
            };
        };
        let Some(player) = self.player(list, key) else { return false };
        match items {
            Items::Added => player.added && !player.system,
            Items::Every => !player.system,
            Items::Glob(glob) => !player.system && glob_matches(glob, key),
            Items::Name(name) => name == key,
            Items::Role(role) => player.roles.contains(role),
            Items::System => player.system && !player.added,
        }
    }
}

/// Whether a container is the CI system's own machinery, or another injector's.
pub(super) fn is_system(preset: &Preset, list: ContainerList, container: &Value<'_>) -> bool {
    preset.plays(Role::Agent, list, container)
        || preset.plays(Role::Checkout, list, container)
        || name(container).is_some_and(presets::is_injected)
}

pub(super) fn name<'v>(container: &'v Value<'_>) -> Option<&'v str> {
    container.get("name").and_then(Value::as_str)
}

pub(super) fn mounts<'v, 'a>(container: &'v Value<'a>) -> impl Iterator<Item = &'v Value<'a>> {
    container.get("volumeMounts").and_then(Value::as_list).unwrap_or_default().iter()
}

/// The volume that a mount mounts.
pub(super) fn name_of_mount<'v>(mount: &'v Value<'_>) -> Option<&'v str> {
    mount.get("name").and_then(Value::as_str)
}
