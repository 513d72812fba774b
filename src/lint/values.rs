//! What the API server will refuse whatever the pod is: a word that is none of those that a field takes, a name or an image
//! without text, a new container without an image; and a mount whose volume is probably misspelt.

use super::{codes, patch::Found, walk::Place};
use crate::{
    schema::{POD, Struct, is_written_anew, nearest, quoted},
    value::{Marks, Value},
};

/// Looks at one place.
pub(super) fn find(place: &Place<'_>, found: &mut Vec<Found>) {
    word(place, found);
    match (place.value, place.ty) {
        (Value::Object(_), Some(ty)) => {
            blank(place, ty, found);
            if &*ty.name == "PodSpec" {
                mounts(place, found);
            }
        }
        (Value::List(items), None) => without_image(place, items, found),
        _ => {}
    }
}

/// A word that the API server doesn't know in this place. It takes an empty one for none at all.
fn word(place: &Place<'_>, found: &mut Vec<Found>) {
    let Some(text) = place.value.as_str().filter(|text| !text.is_empty() && !is_filled_in(text)) else { return };
    let Some(values) = place.id.and_then(|id| POD.values(id)) else { return };
    let begins = |value: &str| value.ends_with('-') && text.starts_with(value) && text.len() > value.len();
    if values.iter().any(|value| **value == *text || begins(value)) {
        return;
    }
    let values = || values.iter().map(AsRef::as_ref).filter(|value: &&str| !value.is_empty());
    let hint = match nearest(text, values()) {
        Some(near) => format!("did you mean {near:?}?"),
        None => format!("write {}", one_of(&values().collect::<Vec<_>>())),
    };
    found.push((place.marks.at, codes::UNKNOWN_VALUE, format!("{} can't be {}, {hint}", place.field, quoted(text))));
}

/// `A, B or C`; of many the first few.
fn one_of(values: &[&str]) -> String {
    const MOST: usize = 8;
    let shown = |value: &&str| if value.ends_with('-') { format!("{value}…") } else { (*value).to_owned() };
    let mut words: Vec<String> = values.iter().take(MOST).map(shown).collect();
    if values.len() > MOST {
        return format!("one such as {}", words.join(", "));
    }
    let last = words.pop().unwrap_or_default();
    if words.is_empty() { last } else { format!("{} or {last}", words.join(", ")) }
}

/// Whether a CI system puts something in the place of the text, or of a part of it, before the pod is made.
fn is_filled_in(text: &str) -> bool {
    text.contains('$') || text.contains("{{")
}

/// A name or an image that is no text.
fn blank(place: &Place<'_>, ty: &Struct, found: &mut Vec<Found>) {
    let is_container = &*ty.name == "Container";
    let fields: &[&str] = match &*ty.name {
        "Container" => &["name", "image"],
        "EnvVar" | "Volume" | "VolumeMount" => &["name"],
        _ => &[],
    };
    for field in fields {
        let Some((value, marks)) = child(place.value, place.marks, field) else { continue };
        let Some(text) = value.as_str() else { continue };
        let wrong = if text.trim().is_empty() {
            let fix = match *field {
                "image" => "write one, or leave the line out: the pod keeps its own",
                _ if is_container => "write which container is meant",
                _ => "write one",
            };
            format!("{field} is blank: {fix}")
        } else if *field == "image" && text.trim() != text {
            format!("image has blanks around it: write {}", quoted(text.trim()))
        } else {
            continue;
        };
        found.push((marks.at, codes::BLANK, wrong));
    }
}

/// A list of containers that is written anew, so that each must say what it runs.
fn without_image(place: &Place<'_>, items: &[Value<'_>], found: &mut Vec<Found>) {
    let of_containers = matches!(place.field, "containers" | "initContainers");
    if !of_containers || place.whole.is_some() || !is_written_anew(items) {
        return;
    }
    for (item, marks) in items.iter().zip(&place.marks.children) {
        let Value::Object(map) = item else { continue };
        let lacks = map.get("image").is_none_or(Value::is_null) && !map.contains_key("$patch");
        if let (true, Some(name)) = (lacks, map.get("name").and_then(Value::as_str)) {
            let list = place.field;
            let text = format!("{} has no image, and {list} is written anew: give it one", quoted(name));
            found.push((marks.at, codes::NO_IMAGE, text));
        }
    }
}

/// Mounts of a volume that the patch lacks, where it has one of nearly that name. The pod may have the volume, or another
/// layer may bring it, so only a slip of the pen is told.
fn mounts(spec: &Place<'_>, found: &mut Vec<Found>) {
    let Some((Value::List(volumes), _)) = child(spec.value, spec.marks, "volumes") else { return };
    let names: Vec<&str> = volumes.iter().filter_map(|volume| volume.get("name").and_then(Value::as_str)).collect();
    for list in ["containers", "initContainers"] {
        let Some((containers, marks)) = child(spec.value, spec.marks, list) else { continue };
        for (container, marks) in items(containers, marks) {
            let Some((mounts, marks)) = child(container, marks, "volumeMounts") else { continue };
            for (mount, marks) in items(mounts, marks) {
                let Some((name, marks)) = child(mount, marks, "name") else { continue };
                let Some(name) = name.as_str().filter(|name| !names.contains(name) && !is_filled_in(name)) else {
                    continue;
                };
                let near = nearest(name, names.iter().copied()).filter(|near| letters(near) != letters(name));
                if let Some(near) = near {
                    let text = format!(
                        "mounts volume {}, which the patch lacks: did you mean {}?",
                        quoted(name),
                        quoted(near)
                    );
                    found.push((marks.at, codes::NO_VOLUME, text));
                }
            }
        }
    }
}

/// A name without its digits: `cache-1` is no slip of the pen for `cache-2`.
fn letters(name: &str) -> String {
    name.chars().filter(|c| !c.is_ascii_digit()).collect()
}

fn items<'d>(list: &'d Value<'static>, marks: &'d Marks) -> impl Iterator<Item = (&'d Value<'static>, &'d Marks)> {
    list.as_list().unwrap_or_default().iter().zip(&marks.children)
}

fn child<'d>(value: &'d Value<'static>, marks: &'d Marks, key: &str) -> Option<(&'d Value<'static>, &'d Marks)> {
    let map = value.as_object()?;
    Some((map.get(key)?, marks.children.get(map.position(key)?)?))
}

#[cfg(test)]
mod tests {
    use super::super::patch;
    use crate::yaml;

    fn told(text: &str) -> Vec<String> {
        let parsed = yaml::parse(text, &yaml::Options::LAYER).unwrap();
        patch::find(&parsed, true).into_iter().map(|(at, code, text)| format!("{at}: {text} [{}]", code.name)).collect()
    }

    #[test]
    fn words_that_the_api_server_does_not_know_are_told_with_the_nearest() {
        for (text, wanted) in [
            ("restartPolicy: alway", r#"line 1 column 16: restartPolicy can't be "alway", did you mean "Always"?"#),
            ("restartPolicy: none", r#"restartPolicy can't be "none", write Always, Never or OnFailure"#),
            ("dnsPolicy: clusterfirst", r#"did you mean "ClusterFirst"?"#),
            ("tolerations: [{operator: exist}]", r#"operator can't be "exist", did you mean "Exists"?"#),
            ("tolerations: [{operator: Exists, effect: noschedule}]", r#"did you mean "NoSchedule"?"#),
            ("containers: [{name: a, imagePullPolicy: always}]", r#"did you mean "Always"?"#),
            ("containers: [{name: a, terminationMessagePolicy: file}]", r#"did you mean "File"?"#),
            ("containers: [{name: a, livenessProbe: {httpGet: {port: 1, scheme: http}}}]", r#"did you mean "HTTP"?"#),
            ("volumes: [{name: v, emptyDir: {medium: memory}}]", r#"did you mean "Memory"?"#),
            ("volumes: [{name: v, emptyDir: {medium: disk}}]", "write HugePages, HugePages-… or Memory"),
            ("volumes: [{name: v, hostPath: {path: /a, type: Dir}}]", "write BlockDevice, CharDevice"),
            (
                "volumes: [{name: v, ephemeral: {volumeClaimTemplate: {spec: {accessModes: [readwriteonce]}}}}]",
                r#"accessModes can't be "readwriteonce", did you mean "ReadWriteOnce"?"#,
            ),
            ("containers: [{name: a, lifecycle: {stopSignal: X}}]", "write one such as SIGABRT, SIGALRM"),
        ] {
            let found = told(text);
            assert!(found.len() == 1 && found[0].contains(wanted), "{text}: {found:?}");
            assert!(found[0].ends_with("[unknown-value]"), "{found:?}");
        }
        let protocol = told("containers: [{name: a, ports: [{containerPort: 1, protocol: tcp}]}]");
        assert!(protocol.len() == 1 && protocol[0].contains(r#"did you mean "TCP"?"#), "{protocol:?}");
        for text in [
            "restartPolicy: \"\"",
            "restartPolicy: null",
            "restartPolicy: $(POLICY)",
            "restartPolicy: \"{{policy}}\"",
            "volumes: [{name: v, emptyDir: {medium: HugePages-2Mi}}, {name: w, hostPath: {path: /a, type: \"\"}}]",
            "tolerations: [{operator: Exists, effect: \"\"}]",
            "containers: [{name: a, securityContext: {capabilities: {add: [anything]}}}]",
        ] {
            assert_eq!(told(text), [""; 0], "{text}");
        }
    }

    #[test]
    fn what_has_no_text_and_must_have_some_is_told() {
        for (text, wanted) in [
            (
                "containers: [{name: a, image: \"\"}]",
                "line 1 column 31: image is blank: write one, or leave the line out",
            ),
            ("containers: [{name: a, image: \" \"}]", "image is blank"),
            ("containers: [{name: a, image: \"b \"}]", r#"image has blanks around it: write "b""#),
            ("initContainers: [{name: \"\", image: b}]", "name is blank: write which container is meant"),
            ("volumes: [{name: \" \", emptyDir: {}}]", "name is blank: write one"),
            (
                "containers:\n- $patch: replace\n- name: a\n  command: [x]",
                r#"line 3 column 3: "a" has no image, and containers is written anew: give it one"#,
            ),
        ] {
            let found = told(text);
            assert!(found.len() == 1 && found[0].contains(wanted), "{text}: {found:?}");
        }
        assert_eq!(told("containers:\n- $patch: replace\n- {name: a, image: b}"), [""; 0]);
        assert_eq!(told("containers:\n- name: a\n  command: [x]"), [""; 0]);
    }

    #[test]
    fn a_mount_whose_volume_is_misspelt_is_told_and_one_of_the_pods_is_not() {
        let text = |mount: &str, volume: &str| {
            format!(
                "containers: [{{name: a, volumeMounts: [{{name: {mount}, mountPath: /c}}]}}]\nvolumes: [{{name: {volume}, emptyDir: {{}}}}]"
            )
        };
        let found = told(&text("cache", "cach"));
        assert_eq!(
            found,
            [
                r#"line 1 column 46: mounts volume "cache", which the patch lacks: did you mean "cach"? [missing-volume]"#
            ]
        );
        for (mount, volume) in [("cache", "cache"), ("cache-1", "cache-2"), ("workspace", "cache"), ("$(V)", "$(W)")] {
            assert_eq!(told(&text(mount, volume)), [""; 0], "{mount} {volume}");
        }
    }
}
