//! The trail as it stands on the pod: for each field that a layer asserts, the last layer to do so.

use std::borrow::Cow;

use ahash::AHashSet;

use super::rails::PutBack;
use crate::{
    layers::{Layer, LayerId, patterns},
    presets::Preset,
    value::{Path, Value, write_json_text},
};

/// The paths that one layer has the last word on, sorted.
pub(super) struct Said<'t> {
    layer: String,
    set: Vec<Cow<'t, str>>,
    removed: Vec<Cow<'t, str>>,
}

/// Of each path the last layer to assert it that the pod bears out; sorted by the layers' names.
///
/// What the guard rails put back is nobody's doing.
pub(super) fn trail<'t>(
    stack: &[&'t Layer],
    pod: &Value<'_>,
    preset: &Preset,
    put_back: &[(LayerId, PutBack)],
) -> Vec<Said<'t>> {
    let was_put_back = |layer: &Layer, path: &Path| {
        let meets = |what: &PutBack| path.starts_with(&what.path) || what.path.starts_with(path);
        put_back.iter().any(|(id, what)| *id == layer.id && !what.clamped && meets(what))
    };
    let most = stack.iter().map(|layer| layer.assertions.len()).sum();
    let mut taken: AHashSet<Cow<'t, str>> = AHashSet::with_capacity(most);
    let mut trail: Vec<Said<'t>> = Vec::with_capacity(stack.len());
    // From the last word to the first: so the first to come for a path has it.
    for layer in stack.iter().rev() {
        let mut said = Said { layer: layer.id.to_string(), set: Vec::new(), removed: Vec::new() };
        let mut say = |path: Cow<'t, str>, set: bool| {
            if taken.insert(path.clone()) {
                if set { &mut said.set } else { &mut said.removed }.push(path);
            }
        };
        for (assertion, borne) in layer.assertions.iter().zip(layer.borne_out(pod)).rev() {
            if borne && !was_put_back(layer, &assertion.path) {
                say(Cow::Borrowed(&assertion.text), assertion.set);
            }
        }
        for expanded in patterns::expanded(layer, pod.get("spec"), preset).iter().rev() {
            if expanded.borne && !was_put_back(layer, &expanded.path) {
                say(Cow::Owned(expanded.path.to_string()), expanded.assertion.set);
            }
        }
        said.set.sort_unstable();
        said.removed.sort_unstable();
        trail.push(said);
    }
    trail.sort_by(|a, b| a.layer.cmp(&b.layer));
    trail
}

/// The annotation, cut at whole entries to so many bytes; how many were cut stands in it. Nothing where not even the
/// frame fits.
pub(super) fn annotation(trail: &[Said<'_>], most: usize) -> Option<String> {
    let frame = |more: usize| format!(r#"{{"v":1,"set":{{}},"removed":{{}},"more":{more}}}"#).len();
    let count: usize = trail.iter().map(|said| said.set.len() + said.removed.len()).sum();
    let set = trail.iter().flat_map(|said| said.set.iter().map(|path| (true, &said.layer, path)));
    let removed = trail.iter().flat_map(|said| said.removed.iter().map(|path| (false, &said.layer, path)));
    let mut room = most.checked_sub(frame(count))?;
    let (mut text, mut quoted) = (String::from(r#"{"v":1,"set":{"#), String::new());
    let (mut of_set, mut group, mut written) = (true, None, 0);
    for (set, layer, path) in set.chain(removed) {
        // A path with its quotes and comma; for the first of a layer also the layer with quotes, colon, brackets, comma.
        quoted.clear();
        let is_first = group != Some((set, layer));
        if is_first {
            write_json_text(layer, &mut quoted);
            quoted.push_str(":[");
        }
        write_json_text(path, &mut quoted);
        let size = quoted.len() + 1 + if is_first { 2 } else { 0 };
        if size > room {
            break;
        }
        room -= size;
        written += 1;
        if is_first {
            text.push_str(if group.is_some() { "]" } else { "" });
            if of_set && !set {
                text.push_str(r#"},"removed":{"#);
                of_set = false;
            } else if group.is_some() {
                text.push(',');
            }
            group = Some((set, layer));
        } else {
            text.push(',');
        }
        text.push_str(&quoted);
    }
    text.push_str(if group.is_some() { "]" } else { "" });
    text.push_str(if of_set { r#"},"removed":{"# } else { "" });
    text.push_str(&format!(r#"}},"more":{}}}"#, count - written));
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_entries_are_cut_and_counted() {
        let set = (0..40).map(|at| Cow::Owned(format!("spec.field{at:02}"))).collect();
        let trail = [Said { layer: String::from("default/a"), set, removed: Vec::new() }];
        for most in [44, 60, 100, 300, 1024] {
            let text = annotation(&trail, most).unwrap();
            assert!(text.len() <= most, "{} > {most}: {text}", text.len());
            let json: serde_json::Value = serde_json::from_str(&text).unwrap();
            let kept = json["set"]["default/a"].as_array().map_or(0, Vec::len);
            assert_eq!(kept as u64 + json["more"].as_u64().unwrap(), 40);
        }
        assert_eq!(annotation(&trail, 20), None);
        assert_eq!(annotation(&[], 1024).unwrap(), r#"{"v":1,"set":{},"removed":{},"more":0}"#);
    }
}
