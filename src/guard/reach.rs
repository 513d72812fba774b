//! What containers get at through their variables and volumes: Secrets, and the volumes themselves.

use std::collections::{BTreeMap, BTreeSet};

use super::cast;
use crate::{
    presets::ContainerList,
    value::{Path, Segment, Value},
};

/// The path of a container.
pub(super) fn container_path(list: ContainerList, name: &str) -> Path {
    let mut path = Path::field("spec");
    path.push(Segment::Field(list.as_str().into()));
    path.push(Segment::Item { key: "name".into(), value: name.into() });
    path
}

/// The path of a volume.
pub(super) fn volume_path(name: &str) -> Path {
    let mut path = Path::field("spec");
    path.push(Segment::Field("volumes".into()));
    path.push(Segment::Item { key: "name".into(), value: name.into() });
    path
}

/// The volumes of a spec by name.
#[derive(Debug)]
pub(super) struct Volumes<'v, 'a> {
    by_name: BTreeMap<&'v str, Volume<'v, 'a>>,
}

/// One volume.
#[derive(Debug)]
pub(super) struct Volume<'v, 'a> {
    pub(super) value: &'v Value<'a>,
    /// Every Secret that it reads, whatever kind of volume it is.
    pub(super) secrets: BTreeSet<String>,
}

impl<'v, 'a> Volumes<'v, 'a> {
    pub(super) fn of(spec: Option<&'v Value<'a>>) -> Self {
        let all = spec.and_then(|spec| spec.get("volumes")).and_then(Value::as_list).unwrap_or_default();
        let volume = |value: &'v Value<'a>| {
            let mut secrets = BTreeSet::new();
            collect(value, "", &mut secrets);
            Some((cast::name(value)?, Volume { value, secrets }))
        };
        Self { by_name: all.iter().filter_map(volume).collect() }
    }

    pub(super) fn get(&self, name: &str) -> Option<&Volume<'v, 'a>> {
        self.by_name.get(name)
    }

    pub(super) fn all(&self) -> impl Iterator<Item = (&'v str, &Volume<'v, 'a>)> {
        self.by_name.iter().map(|(name, volume)| (*name, volume))
    }

    /// Every Secret that a container reads, with the path that reads it.
    pub(super) fn secrets_of(&self, list: ContainerList, container: &Value<'_>) -> BTreeMap<String, Path> {
        let mut found = BTreeMap::new();
        let at = |field: &str| {
            container_path(list, cast::name(container).unwrap_or_default()).join(Segment::Field(field.into()))
        };
        for field in ["env", "envFrom"] {
            let mut names = BTreeSet::new();
            if let Some(value) = container.get(field) {
                collect(value, field, &mut names);
            }
            for name in names {
                found.entry(name).or_insert_with(|| at(field));
            }
        }
        let mounted: BTreeSet<&str> = cast::mounts(container).filter_map(cast::name_of_mount).collect();
        for name in mounted.into_iter().filter_map(|name| self.get(name)).flat_map(|volume| &volume.secrets) {
            found.entry(name.clone()).or_insert_with(|| at("volumeMounts"));
        }
        found
    }
}

/// Names under `secretName`, and under `name` in what is called `secret` or ends in `ecretRef`. Bounded by the depth of a
/// pod.
fn collect(value: &Value<'_>, field: &str, out: &mut BTreeSet<String>) {
    match value {
        Value::List(items) => items.iter().for_each(|item| collect(item, field, out)),
        Value::Object(map) => {
            let of_secret = field == "secret" || field.ends_with("ecretRef") || field == "secretKeyRef";
            for (key, inner) in map.iter() {
                match inner.as_str() {
                    Some(name) if key == "secretName" || (of_secret && key == "name") => {
                        _ = out.insert(name.to_owned())
                    }
                    _ => collect(inner, key, out),
                }
            }
        }
        _ => {}
    }
}

/// A path in a container's files without `.`, `..` and empty parts, from the root.
pub(super) fn normal(path: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => _ = parts.pop(),
            part => parts.push(part),
        }
    }
    parts
}
