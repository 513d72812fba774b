//! The trail as it stands on the pod: for each field that a layer asserts, the last layer to do so.

use std::borrow::Cow;

use super::rails::PutBack;
use crate::{
    layers::{Layer, LayerId, patterns},
    presets::Preset,
    value::{Path, Value, write_json_text},
};

/// Whether a field is set, the layer, the path.
pub(super) type Entry<'t> = (bool, String, Cow<'t, str>);

/// The last layer to assert each path that the pod bears out, sorted.
///
/// What the guard rails put back is nobody's doing.
pub(super) fn entries<'t>(
    stack: &[&'t Layer],
    pod: &Value<'_>,
    preset: &Preset,
    put_back: &[(LayerId, PutBack)],
) -> Vec<Entry<'t>> {
    let was_put_back = |layer: &Layer, path: &Path| {
        let meets = |what: &PutBack| path.starts_with(&what.path) || what.path.starts_with(path);
        put_back.iter().any(|(id, what)| *id == layer.id && !what.clamped && meets(what))
    };
    let mut said: Vec<(Cow<'t, str>, usize, bool)> = Vec::new();
    for (at, layer) in stack.iter().enumerate() {
        for expanded in patterns::expanded(layer, pod.get("spec"), preset).iter().filter(|expanded| expanded.borne) {
            if !was_put_back(layer, &expanded.path) {
                said.push((Cow::Owned(expanded.path.to_string()), at, expanded.assertion.set));
            }
        }
        for (assertion, borne) in layer.assertions.iter().zip(layer.borne_out(pod)) {
            if borne && !was_put_back(layer, &assertion.path) {
                said.push((Cow::Borrowed(&assertion.text), at, assertion.set));
            }
        }
    }
    // Of each path the last word; a sort that is stable keeps the order in which they were said.
    said.sort_by(|a, b| a.0.cmp(&b.0));
    let is_last = |at: usize| said.get(at + 1).is_none_or(|next| next.0 != said[at].0);
    let kept: Vec<bool> = (0..said.len()).map(is_last).collect();
    let names: Vec<String> = stack.iter().map(|layer| layer.id.to_string()).collect();
    let last = said.into_iter().zip(kept).filter(|(_, is_last)| *is_last);
    let mut entries: Vec<Entry<'t>> = last.map(|((path, at, set), _)| (set, names[at].clone(), path)).collect();
    // Set before removed, then by layer; by path they are.
    entries.sort_by(|a, b| (!a.0, &a.1).cmp(&(!b.0, &b.1)));
    entries
}

/// The annotation, cut at whole entries to so many bytes; how many were cut stands in it. Nothing where not even the
/// frame fits.
pub(super) fn annotation(entries: &[Entry<'_>], most: usize) -> Option<String> {
    let frame = |more: usize| format!(r#"{{"v":1,"set":{{}},"removed":{{}},"more":{more}}}"#).len();
    let mut room = most.checked_sub(frame(entries.len()))?;
    let (mut text, mut quoted) = (String::from(r#"{"v":1,"set":{"#), String::new());
    let (mut of_set, mut group, mut written) = (true, None, 0);
    for (set, layer, path) in entries {
        // A path with its quotes and comma; for the first of a layer also the layer with quotes, colon, brackets, comma.
        quoted.clear();
        let is_first = group != Some((*set, layer));
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
            if of_set && !*set {
                text.push_str(r#"},"removed":{"#);
                of_set = false;
            } else if group.is_some() {
                text.push(',');
            }
            group = Some((*set, layer));
        } else {
            text.push(',');
        }
        text.push_str(&quoted);
    }
    text.push_str(if group.is_some() { "]" } else { "" });
    text.push_str(if of_set { r#"},"removed":{"# } else { "" });
    text.push_str(&format!(r#"}},"more":{}}}"#, entries.len() - written));
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_entries_are_cut_and_counted() {
        let entries: Vec<_> = (0..40).map(|i| (true, String::from("default/a"), format!("spec.field{i:02}"))).collect();
        let borrowed: Vec<_> =
            entries.iter().map(|(set, layer, path)| (*set, layer.clone(), Cow::Borrowed(path.as_str()))).collect();
        for most in [44, 60, 100, 300, 1024] {
            let text = annotation(&borrowed, most).unwrap();
            assert!(text.len() <= most, "{} > {most}: {text}", text.len());
            let json: serde_json::Value = serde_json::from_str(&text).unwrap();
            let kept = json["set"]["default/a"].as_array().map_or(0, Vec::len);
            assert_eq!(kept as u64 + json["more"].as_u64().unwrap(), 40);
        }
        assert_eq!(annotation(&borrowed, 20), None);
        assert_eq!(annotation(&[], 1024).unwrap(), r#"{"v":1,"set":{},"removed":{},"more":0}"#);
    }
}
