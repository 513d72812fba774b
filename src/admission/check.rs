//! What the API server would refuse of a pod that layers made: found before, with the layer to blame and what to write.
//!
//! Only what is wrong after the layers and wasn't before; a pod that came wrong is the API server's to refuse. Each check
//! is one of its rules (k8s.io/kubernetes, pkg/apis/core/validation).

use std::{
    cell::LazyCell,
    collections::{BTreeSet, HashSet},
};

use ahash::AHashSet;

use crate::{
    layers::{Cause, Complaint, Layer, LayerId, patterns},
    presets::{ContainerList, Preset},
    schema::{Quantity, nearest},
    value::{Path, Segment, Value},
};

/// Something that the API server would refuse.
struct Broken {
    path: Path,
    /// To be read behind the path: what is wrong and what to write.
    what: String,
    /// Who sets one of these last is to blame.
    parts: Vec<Path>,
}

/// For each fault that the layers made, the last layer of the stack that had a part in it.
pub(super) fn broken(
    original: &Value<'_>,
    pod: &Value<'_>,
    stack: &[&Layer],
    preset: &Preset,
) -> Vec<(LayerId, Complaint)> {
    let mut found = faults(pod.get("spec"), original.get("spec"));
    if found.is_empty() {
        return Vec::new();
    }
    let before: HashSet<Path> = faults(original.get("spec"), None).into_iter().map(|fault| fault.path).collect();
    found.retain(|fault| !before.contains(&fault.path));
    // Told the same however the fields of the pod stand.
    found.sort_by(|a, b| a.path.cmp(&b.path));
    found.into_iter().filter_map(|fault| blame(fault, pod, stack, preset)).collect()
}

fn blame(fault: Broken, pod: &Value<'_>, stack: &[&Layer], preset: &Preset) -> Option<(LayerId, Complaint)> {
    let Broken { path, what, parts } = fault;
    let meets = |said: &Path| parts.iter().any(|part| said.starts_with(part) || part.starts_with(said));
    let (layer, at) = stack.iter().rev().find_map(|layer| {
        let exact = layer.assertions.iter().find(|said| meets(&said.path)).map(|said| said.at);
        let at = exact.or_else(|| {
            let expanded = patterns::expanded(layer, pod.get("spec"), preset);
            expanded.iter().find(|said| meets(&said.path)).map(|said| said.assertion.at)
        });
        at.map(|at| (layer, at))
    })?;
    let complaint = Complaint { cause: Cause::Broken { path, what }, place: layer.place.clone(), at: Some(at) };
    Some((layer.id.clone(), complaint))
}

/// What is wrong with a spec; containers that stand unchanged in `other`, with the same volumes, aren't looked at again.
fn faults(spec: Option<&Value<'_>>, other: Option<&Value<'_>>) -> Vec<Broken> {
    let mut found = Vec::new();
    let list = |spec: Option<&'_ Value<'_>>, key: &str| spec.and_then(|spec| spec.get(key)).is_some();
    let volumes = items(spec, "volumes");
    let names = LazyCell::new(|| {
        volumes.iter().filter_map(|volume| volume.get("name").and_then(Value::as_str)).collect::<BTreeSet<&str>>()
    });
    let same_volumes =
        list(other, "volumes") == list(spec, "volumes") && is_same_list(volumes, items(other, "volumes"));
    if !same_volumes {
        volumes.iter().for_each(|volume| sources(volume, &mut found));
    }
    for kind in ContainerList::ALL {
        let known = kind.of(other);
        for (at, container) in kind.of(spec).iter().enumerate() {
            if same_volumes && known.get(at).is_some_and(|other| is_same(container, other)) {
                continue;
            }
            let Some(name) = container.get("name").and_then(Value::as_str) else { continue };
            // Made only where something is wrong.
            let base = &|| item(&field(&Path::field("spec"), kind.as_str()), "name", name);
            amounts(base, container, &mut found);
            mounts(base, container, &names, &mut found);
            variables(base, container, &mut found);
            ports(base, container, &mut found);
        }
    }
    found
}

/// A request above its limit, and an amount below zero.
fn amounts(base: &dyn Fn() -> Path, container: &Value<'_>, out: &mut Vec<Broken>) {
    let part = |key: &str| container.get("resources").and_then(|all| all.get(key)).and_then(Value::as_object);
    for key in ["requests", "limits"] {
        for (resource, amount) in part(key).into_iter().flat_map(|amounts| amounts.iter()) {
            // Read only where it may be: reading is dear, and nearly none is.
            let has_sign = amount.scalar_text().is_some_and(|text| text.contains('-'));
            if has_sign && Quantity::of(amount).is_ok_and(|amount| amount.is_negative()) {
                let path = field(&field(&field(&base(), "resources"), key), resource);
                let what = "is below zero: write an amount such as 500m, 2 or 1Gi".into();
                out.push(Broken { path: path.clone(), what, parts: vec![path] });
            }
        }
    }
    let (Some(requests), Some(limits)) = (part("requests"), part("limits")) else { return };
    for (resource, request) in requests.iter() {
        let Some(limit) = limits.get(resource).filter(|limit| *limit != request) else { continue };
        let (Ok(wanted), Ok(most)) = (Quantity::of(request), Quantity::of(limit)) else { continue };
        if wanted > most {
            let at = |key: &str| field(&field(&field(&base(), "resources"), key), resource);
            let text = |value: &Value<'_>| value.scalar_text().unwrap_or_default().into_owned();
            let what = format!(
                "is {}, above limits.{resource} of {}: set limits.{resource} to as much",
                text(request),
                text(limit)
            );
            out.push(Broken { path: at("requests"), what, parts: vec![at("requests"), at("limits")] });
        }
    }
}

/// A mount of a volume that isn't there, and two mounts at one place.
fn mounts(base: &dyn Fn() -> Path, container: &Value<'_>, volumes: &BTreeSet<&str>, out: &mut Vec<Broken>) {
    let list = || field(&base(), "volumeMounts");
    let mut seen: AHashSet<&str> = AHashSet::new();
    for mount in items(Some(container), "volumeMounts") {
        let text = |key: &str| mount.get(key).and_then(Value::as_str).unwrap_or_default();
        let (name, at) = (text("name"), text("mountPath"));
        let path = || item(&list(), "mountPath", at);
        if !seen.insert(at) {
            let what = "stands there twice: give one of the mounts another mountPath".into();
            out.push(Broken { path: path(), what, parts: vec![list()] });
        }
        if !volumes.contains(name) {
            let hint = match nearest(name, volumes.iter().copied()) {
                Some(near) => format!(", did you mean {near:?}?"),
                None => String::from(": add it under volumes, or take the mount away with $patch: delete"),
            };
            let volume = item(&field(&Path::field("spec"), "volumes"), "name", name);
            let what = format!("mounts volume {name:?}, which the pod lacks{hint}");
            out.push(Broken { path: path(), what, parts: vec![path(), volume] });
        }
    }
}

/// A variable with a value and a source.
fn variables(base: &dyn Fn() -> Path, container: &Value<'_>, out: &mut Vec<Broken>) {
    for variable in items(Some(container), "env") {
        let is_set = |key: &str| variable.get(key).is_some_and(|value| !value.is_null() && value.as_str() != Some(""));
        if is_set("valueFrom") && is_set("value") {
            let name = variable.get("name").and_then(Value::as_str).unwrap_or_default();
            let path = item(&field(&base(), "env"), "name", name);
            let what =
                "has value and valueFrom: write value: null or valueFrom: null beside the one that is meant".into();
            out.push(Broken { path: path.clone(), what, parts: vec![path] });
        }
    }
}

/// Two ports of one name.
fn ports(base: &dyn Fn() -> Path, container: &Value<'_>, out: &mut Vec<Broken>) {
    let mut seen: AHashSet<&str> = AHashSet::new();
    for port in items(Some(container), "ports") {
        let Some(name) = port.get("name").and_then(Value::as_str).filter(|name| !name.is_empty()) else { continue };
        if !seen.insert(name) {
            let number = port.get("containerPort").and_then(Value::scalar_text).unwrap_or_default();
            let base = field(&base(), "ports");
            let path = item(&base, "containerPort", &number);
            let what = format!("has the name {name:?} of another port: give it another name");
            out.push(Broken { path, what, parts: vec![base] });
        }
    }
}

/// A volume of two kinds.
fn sources(volume: &Value<'_>, out: &mut Vec<Broken>) {
    let Some(map) = volume.as_object() else { return };
    let mut kinds = map.iter().filter(|(key, value)| *key != "name" && !value.is_null()).map(|(key, _)| key);
    if let (Some(first), Some(second)) = (kinds.next(), kinds.next()) {
        let name = map.get("name").and_then(Value::as_str).unwrap_or_default();
        let path = item(&field(&Path::field("spec"), "volumes"), "name", name);
        let what =
            format!("has two sources, {first} and {second}: write {first}: null or {second}: null beside the other");
        out.push(Broken { path: path.clone(), what, parts: vec![path] });
    }
}

fn items<'v, 'a>(owner: Option<&'v Value<'a>>, key: &str) -> &'v [Value<'a>] {
    owner.and_then(|owner| owner.get(key)).and_then(Value::as_list).unwrap_or_default()
}

/// Whether nobody changed it: told at a glance, so not always where it is equal.
fn is_same(a: &Value<'_>, b: &Value<'_>) -> bool {
    matches!((a, b), (Value::Object(a), Value::Object(b)) if a.is_same(b))
}

fn is_same_list(a: &[Value<'_>], b: &[Value<'_>]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| is_same(a, b))
}

fn field(path: &Path, name: &str) -> Path {
    path.join(Segment::Field(name.to_owned()))
}

fn item(path: &Path, key: &str, value: &str) -> Path {
    path.join(Segment::Item { key: key.to_owned(), value: value.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        layers::parse_step,
        merge, presets,
        schema::POD,
        value::{JsonLimits, from_json},
    };

    const POD_TEXT: &str = r#"{"spec":{"containers":[{"name":"a","resources":{"limits":{"cpu":"500m"}},
        "env":[{"name":"E","value":"1"}],"volumeMounts":[{"name":"v","mountPath":"/v"}],
        "ports":[{"containerPort":80,"name":"web"}]}],
        "volumes":[{"name":"v","emptyDir":{}}]}}"#;

    fn told(text: &str, patch: &str) -> String {
        let original = from_json(text, JsonLimits::DEFAULT).unwrap();
        let layer = parse_step(patch).unwrap();
        let mut pod = original.clone();
        let spec = pod.as_object_mut().unwrap().get_mut("spec").unwrap();
        merge::apply(spec, layer.patch.value.borrowed(), POD.pod_spec(), merge::Mode::Lenient).unwrap();
        let found = broken(&original, &pod, &[&layer], presets::named("job").unwrap());
        found.iter().map(|(id, complaint)| format!("{id}: {complaint}")).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn what_the_api_server_would_refuse_is_told_with_its_place_and_what_to_write() {
        for (patch, wanted) in [
            (
                "containers:\n- name: a\n  resources:\n    requests: {cpu: 2}",
                "step: spec.containers[name=a].resources.requests.cpu is 2, above limits.cpu of 500m: set limits.cpu to as \
                 much, annotation podlayer.dev/pod-spec-patch, line 4 column 16",
            ),
            (
                "containers:\n- name: a\n  volumeMounts: [{name: cache, mountPath: /w}]",
                "step: spec.containers[name=a].volumeMounts[mountPath=/w] mounts volume \"cache\", which the pod lacks: add it \
                 under volumes, or take the mount away with $patch: delete, annotation podlayer.dev/pod-spec-patch, line 3 \
                 column 19",
            ),
            (
                "volumes: [{name: v, $patch: delete}]",
                "step: spec.containers[name=a].volumeMounts[mountPath=/v] mounts volume \"v\", which the pod lacks",
            ),
            (
                "volumes: [{name: v, configMap: {name: c}}]",
                "step: spec.volumes[name=v] has two sources, emptyDir and configMap: write emptyDir: null or configMap: \
                 null beside the other, annotation podlayer.dev/pod-spec-patch, line 1 column 33",
            ),
            (
                "containers: [{name: a, env: [{name: E, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}]}]",
                "step: spec.containers[name=a].env[name=E] has value and valueFrom: write value: null",
            ),
            (
                "containers: [{name: a, ports: [{containerPort: 81, name: web}]}]",
                "has the name \"web\" of another port",
            ),
            (
                "containers: [{name: a, volumeMounts: [{$patch: replace}, {name: v, mountPath: /x}, {name: v, mountPath: /x}]}]",
                "spec.containers[name=a].volumeMounts[mountPath=/x] stands there twice",
            ),
            (
                "containers: [{name: a, resources: {requests: {cpu: -1}}}]",
                "step: spec.containers[name=a].resources.requests.cpu is below zero: write an amount",
            ),
        ] {
            let found = told(POD_TEXT, patch);
            assert!(found.contains(wanted), "{patch}:\n{found}");
        }
        assert_eq!(told(POD_TEXT, "containers: [{name: a, resources: {requests: {cpu: 500m}}}]"), "");
    }

    #[test]
    fn a_pod_that_came_wrong_is_the_api_servers_to_refuse() {
        let wrong = POD_TEXT.replace("\"limits\"", "\"requests\":{\"cpu\":\"1\"},\"limits\"");
        assert_eq!(told(&wrong, "containers: [{name: a, tty: true}]"), "");
        let wrong = POD_TEXT.replace("\"name\":\"v\",\"mountPath\"", "\"name\":\"w\",\"mountPath\"");
        assert_eq!(told(&wrong, "volumes: [{name: x, emptyDir: {}}]"), "");
    }
}
