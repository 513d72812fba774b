//! The trail as it stands on the pod: for each field that a layer asserts, the last layer to do so.

use std::{
    borrow::Cow,
    collections::{BTreeMap, HashMap},
};

use serde::Serialize;

use crate::{
    layers::{Layer, patterns},
    presets::Preset,
    value::Value,
};

/// What `podlayer.dev/provenance` holds.
#[derive(Debug, Default, Serialize)]
struct Written<'t> {
    v: u8,
    set: BTreeMap<String, Vec<&'t str>>,
    removed: BTreeMap<String, Vec<&'t str>>,
    more: usize,
}

/// Whether a field is set, the layer, the path.
pub(super) type Entry<'t> = (bool, String, Cow<'t, str>);

/// The last layer to assert each path that the pod bears out, sorted.
pub(super) fn entries<'t>(stack: &[&'t Layer], pod: &Value<'_>, preset: &Preset) -> Vec<Entry<'t>> {
    let mut last: HashMap<Cow<'t, str>, (bool, usize)> = HashMap::new();
    for (at, layer) in stack.iter().enumerate() {
        for expanded in patterns::expanded(layer, pod.get("spec"), preset).iter().filter(|expanded| expanded.borne) {
            last.insert(Cow::Owned(expanded.path.to_string()), (expanded.assertion.set, at));
        }
        for (assertion, borne) in layer.assertions.iter().zip(layer.borne_out(pod)) {
            if borne {
                last.insert(Cow::Borrowed(&assertion.text), (assertion.set, at));
            }
        }
    }
    let mut entries: Vec<_> = last.into_iter().map(|(path, (set, at))| (set, stack[at].id.to_string(), path)).collect();
    // Set before removed, then by layer and path.
    entries.sort_by(|a, b| (!a.0, &a.1, &a.2).cmp(&(!b.0, &b.1, &b.2)));
    entries
}

/// The annotation, cut at whole entries to so many bytes; how many were cut stands in it. Nothing where not even the
/// frame fits.
pub(super) fn annotation(entries: &[Entry<'_>], most: usize) -> Option<String> {
    let frame = |more: usize| format!(r#"{{"v":1,"set":{{}},"removed":{{}},"more":{more}}}"#).len();
    if frame(entries.len()) > most {
        return None;
    }
    let mut written = Written { v: 1, more: entries.len(), ..Written::default() };
    let mut size = frame(entries.len());
    for (set, layer, path) in entries {
        let group = if *set { &mut written.set } else { &mut written.removed };
        // A path with its quotes and comma; for the first of a layer also the layer with quotes, colon, brackets, comma.
        let quoted = |text: &str| serde_json::to_string(text).map_or(usize::MAX / 4, |json| json.len());
        let added = quoted(path) + 1 + if group.contains_key(layer) { 0 } else { quoted(layer) + 4 };
        if size + added > most {
            break;
        }
        size += added;
        group.entry(layer.clone()).or_default().push(path);
        written.more -= 1;
    }
    serde_json::to_string(&written).ok()
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
