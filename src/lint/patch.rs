//! What a patch says that can be read and yet can't be meant.

use super::{
    codes::{self, Code},
    secrets, values,
    walk::{Place, walk},
};
use crate::{
    value::{Position, Value},
    yaml::{Parsed, Remark},
};

/// Something in a patch, with its place in the patch's own text.
pub(super) type Found = (Position, &'static Code, String);

/// Everything that this looks for. `step` is for a patch that a pod brings, whose author knows what it holds.
pub(super) fn find(parsed: &Parsed, step: bool) -> Vec<Found> {
    let mut found = Vec::new();
    walk(&parsed.document, &mut |place| {
        directives(place, &mut found);
        sources(place, &mut found);
        ports(place, &mut found);
        values::find(place, &mut found);
        if !step {
            secrets::find(place, &mut found);
        }
        scalar(place, &parsed.remarks, &mut found);
    });
    found.extend(
        parsed.remarks.iter().filter(|remark| remark.key).map(|remark| (remark.at, codes::AMBIGUOUS, told(remark))),
    );
    found
}

fn told(remark: &Remark) -> String {
    let read = crate::value::to_json(&remark.read_as);
    let what = if remark.key { "key " } else { "" };
    format!("{what}{} is read as {read}: put it in quotes if the text is meant", remark.written)
}

/// A scalar that isn't read as it stands there, but for the places where that is the point.
fn scalar(place: &Place<'_>, remarks: &[Remark], found: &mut Vec<Found>) {
    let at = place.marks.at;
    let Some(remark) = remarks.iter().find(|remark| remark.at == at && !remark.key) else { return };
    let meant = match place.value {
        Value::Bool(_) => true,
        Value::Int(_) => place.field == "mode" || place.field.ends_with("Mode"),
        _ => false,
    };
    if !meant {
        found.push((at, codes::AMBIGUOUS, told(remark)));
    }
}

fn directives(place: &Place<'_>, found: &mut Vec<Found>) {
    let Value::Object(map) = place.value else { return };
    for ((key, value), marks) in map.iter().zip(&place.marks.children) {
        if !key.starts_with('$') {
            continue;
        }
        let at = marks.shown();
        if let Some(list) = place.whole {
            let text = format!("{key} in an item of {list} does nothing: the list is replaced as a whole");
            found.push((at, codes::IGNORED, text));
        } else if key == "$patch" && value.as_str() == Some("replace") {
            let others = map.keys().filter(|other| !other.starts_with('$')).count();
            if place.merged_item && others > 0 {
                let text = format!(
                    "$patch: replace beside other keys replaces the whole list {}: write it as an item of its own",
                    place.field
                );
                found.push((at, codes::REPLACE_ITEM, text));
            } else if !place.merged_item && others > 0 {
                let text = format!(
                    "$patch: replace sets nothing where the pod has no {}: write the object plainly, with null for what must go",
                    if place.field.is_empty() { "spec" } else { place.field }
                );
                found.push((at, codes::REPLACE_MAP, text));
            }
        } else if let Some(field) = key.strip_prefix("$deleteFromPrimitiveList/")
            && map.get(field).is_some_and(|value| !value.is_null())
        {
            let text = format!("{key} beside {field}: what stands in both is deleted, keep one of the two");
            found.push((at, codes::DELETE_BESIDE, text));
        }
    }
}

/// Fields of which an object may have one; the others of a volume are its sources.
const ONE_OF: &[(&str, &[&str])] = &[
    ("EnvVar", &["value", "valueFrom"]),
    ("EnvVarSource", &["configMapKeyRef", "fieldRef", "fileKeyRef", "resourceFieldRef", "secretKeyRef"]),
    ("LifecycleHandler", &["exec", "httpGet", "sleep", "tcpSocket"]),
    ("Probe", &["exec", "grpc", "httpGet", "tcpSocket"]),
];

fn sources(place: &Place<'_>, found: &mut Vec<Found>) {
    let (Some(ty), Value::Object(map)) = (place.ty, place.value) else { return };
    let fields = ONE_OF.iter().find(|(name, _)| **name == *ty.name).map(|(_, fields)| *fields);
    let one_of = |key: &str| match fields {
        Some(fields) => fields.contains(&key),
        None => &*ty.name == "Volume" && key != "name" && !key.starts_with('$'),
    };
    let is_set = |value: &Value<'_>| !value.is_null() && value.as_str() != Some("");
    let set = map.iter().zip(&place.marks.children).filter(|((key, value), _)| one_of(key) && is_set(value));
    let mut set = set.map(|((key, _), marks)| (key, marks.shown()));
    if let (Some((first, _)), Some((second, at))) = (set.next(), set.next()) {
        let text = format!(
            "{first} and {second} in one {}: a pod may have one of them, set the other to null",
            noun(&ty.name)
        );
        found.push((at, codes::TWO_SOURCES, text));
    }
}

fn noun(ty: &str) -> &str {
    match ty {
        "EnvVar" | "EnvVarSource" => "variable",
        "LifecycleHandler" => "hook",
        "Probe" => "probe",
        _ => "volume",
    }
}

fn ports(place: &Place<'_>, found: &mut Vec<Found>) {
    let is_port = place.ty.is_some_and(|ty| &*ty.name == "ContainerPort") && place.merged_item;
    let Some(protocol) = place.value.get("protocol").and_then(Value::as_str).filter(|_| is_port) else { return };
    // Another word than these is none at all, which is told elsewhere.
    if matches!(protocol, "SCTP" | "UDP") {
        let text = format!(
            "ports are merged by containerPort alone: a pod that has this port in another protocol than {protocol} loses it"
        );
        found.push((place.marks.at, codes::PORT, text));
    }
}
