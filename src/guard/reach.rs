//! What containers get at through their variables and volumes: Secrets, and the volumes themselves.

use std::collections::BTreeMap;

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

/// The volumes of a spec.
pub(super) fn volumes<'v, 'a>(spec: Option<&'v Value<'a>>) -> &'v [Value<'a>] {
    spec.and_then(|spec| spec.get("volumes")).and_then(Value::as_list).unwrap_or_default()
}

/// Every Secret that a volume reads, whatever kind of volume it is.
pub(super) fn secrets_of_volume(volume: &Value<'_>) -> Vec<String> {
    let mut found = Vec::new();
    collect(volume, "", &mut found);
    found
}

/// Names under `secretName`, and under `name` in what is called `secret` or ends in `ecretRef`. Bounded by the depth of a
/// pod.
fn collect(value: &Value<'_>, field: &str, out: &mut Vec<String>) {
    match value {
        Value::List(items) => items.iter().for_each(|item| collect(item, field, out)),
        Value::Object(map) => {
            let of_secret = field == "secret" || field.ends_with("ecretRef") || field == "secretKeyRef";
            for (key, inner) in map.iter() {
                match inner.as_str() {
                    Some(name) if key == "secretName" || (of_secret && key == "name") => out.push(name.to_owned()),
                    _ => collect(inner, key, out),
                }
            }
        }
        _ => {}
    }
}

/// Every Secret that a container reads, with the path that reads it.
pub(super) fn secrets_of_container(
    spec: Option<&Value<'_>>,
    list: ContainerList,
    container: &Value<'_>,
) -> BTreeMap<String, Path> {
    let mut found = BTreeMap::new();
    let base = container_path(list, cast::name(container).unwrap_or_default());
    for field in ["env", "envFrom"] {
        let mut names = Vec::new();
        if let Some(value) = container.get(field) {
            collect(value, field, &mut names);
        }
        for name in names {
            found.entry(name).or_insert_with(|| base.join(Segment::Field(field.into())));
        }
    }
    for mount in cast::mounts(container).filter_map(cast::name_of_mount) {
        let volume = volumes(spec).iter().find(|volume| cast::name(volume) == Some(mount));
        for name in volume.map(secrets_of_volume).unwrap_or_default() {
            found.entry(name).or_insert_with(|| base.join(Segment::Field("volumeMounts".into())));
        }
    }
    found
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
