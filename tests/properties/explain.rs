//! Explanations against what can be read off the stack without podlayer's trail: the texts of the layers, walked here.

use std::collections::BTreeMap;

use podlayer::{
    admission::{Pod, Policy, Verdict, trace},
    explain::{Explanation, Line},
    value::{JsonLimits, Path, Segment, from_json, glob_matches, to_json},
    yaml,
};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::{
    decide::{cases, decide, made},
    stacks::{Case, case, snapshot},
};

/// Lists that are merged by name; every other is replaced.
const KEYED: &[&str] = &["containers", "env", "initContainers", "volumes"];

/// A layer's texts.
struct Text {
    spec: String,
    metadata: String,
    fills: bool,
}

fn text_of(case: &Case, id: &str) -> Text {
    if id == "step" {
        let spec = case.pod["metadata"]["annotations"]["podlayer.dev/pod-spec-patch"].as_str().unwrap().to_owned();
        return Text { spec, metadata: String::new(), fills: false };
    }
    let name = id.split_once('/').unwrap().1;
    let source = case.layers.iter().find(|source| source.name == name).unwrap();
    let data = |key: &str| source.data.get(key).cloned().unwrap_or_default();
    Text { spec: data("podSpecPatch"), metadata: data("podMetadata"), fills: data("options").contains("IfAbsent") }
}

/// What a patch says at a path, if that is something that it asserts. `None` in a pair is "not said".
fn says(patch: &Value, path: &[Segment], key: &str) -> Vec<Value> {
    let Some((first, rest)) = path.split_first() else {
        let asserted = match patch {
            Value::Object(map) if key == "item" => {
                map.get("$patch") == Some(&json!("delete")) || map.keys().all(|k| k == "name" || k.starts_with('$'))
            }
            Value::Object(map) => map.is_empty() || map.contains_key("$patch"),
            Value::Array(items) if KEYED.contains(&key) => items.iter().any(|item| item["$patch"] == "replace"),
            _ => true,
        };
        return if asserted { vec![patch.clone()] } else { Vec::new() };
    };
    match first {
        Segment::Field(name) => patch.get(name).map(|value| says(value, rest, name)).unwrap_or_default(),
        Segment::Item { value, .. } => {
            let items = patch.as_array().cloned().unwrap_or_default();
            let fits = |item: &&Value| {
                item["name"]
                    .as_str()
                    .is_some_and(|name| name == value || (name.contains('*') && glob_matches(name, value)))
            };
            items
                .iter()
                .filter(fits)
                .flat_map(|item| {
                    // An item that takes itself away says nothing of its fields.
                    if !rest.is_empty() && item["$patch"] == "delete" { Vec::new() } else { says(item, rest, "item") }
                })
                .collect()
        }
        Segment::Index(_) => Vec::new(),
    }
}

/// The text of a layer from a position on.
fn at(text: &str, line: &Line) -> String {
    let of_line = text.lines().nth(line.line as usize - 1).unwrap_or_default();
    of_line.chars().skip(line.column as usize - 1).collect()
}

/// Every leaf below a value, by path.
fn leaves(value: &Value, path: &Path, key: &str, out: &mut Vec<(Path, Value)>) {
    match value {
        Value::Object(map) if !map.is_empty() => {
            for (name, value) in map {
                leaves(value, &path.join(Segment::Field(name.clone())), name, out);
            }
        }
        Value::Array(items) if KEYED.contains(&key) && items.iter().all(|item| item["name"].is_string()) => {
            for item in items {
                let value = item["name"].as_str().unwrap().to_owned();
                leaves(item, &path.join(Segment::Item { key: "name".into(), value }), "", out);
            }
        }
        other => out.push((path.clone(), other.clone())),
    }
}

fn check(case: &Case, explanation: &Explanation, after: &Value) -> Result<(), TestCaseError> {
    let lines: Vec<(Path, &Line)> =
        explanation.lines.iter().map(|line| (Path::parse(&line.path).unwrap(), line)).collect();
    let text = after.to_string();
    let made = from_json(&text, JsonLimits::DEFAULT).unwrap();
    let texts: BTreeMap<&str, (Text, Value)> = explanation
        .layers
        .iter()
        .map(|id| {
            let text = text_of(case, id);
            let patch = serde_json::from_str(&text.spec).unwrap();
            (id.as_str(), (text, patch))
        })
        .collect();
    let mut found = Vec::new();
    for part in ["spec", "metadata"] {
        leaves(&after[part], &Path::field(part), part, &mut found);
    }
    for (path, line) in &lines {
        // The value is the pod's.
        let parsed = |text: &String| serde_json::from_str::<Value>(text).unwrap();
        let now = path.find(&made).map(to_json);
        prop_assert_eq!(line.value.as_ref().map(parsed), now.as_ref().map(parsed), "{}", line.path);
        // The layer says so, at that place.
        let (text, _) = &texts[line.layer.as_str()];
        if line.key == "podMetadata" {
            let Some(Segment::Field(key)) = path.segments().last() else { panic!() };
            prop_assert!(
                at(&text.metadata, line).starts_with(&format!("{key}:")),
                "{} in {:?}",
                line.path,
                text.metadata
            );
        } else {
            let here = at(&text.spec, line);
            match path.segments().last().unwrap() {
                Segment::Field(name) => {
                    prop_assert!(here.starts_with(&format!("{name:?}:")), "{}: {here:?}", line.path)
                }
                Segment::Item { .. } => prop_assert!(here.starts_with('{'), "{}: {here:?}", line.path),
                Segment::Index(_) => prop_assert!(false, "{}", line.path),
            }
        }
        // No later layer says anything of it.
        let own = explanation.layers.iter().position(|id| *id == line.layer).unwrap();
        for later in &explanation.layers[own + 1..] {
            let (text, patch) = &texts[later.as_str()];
            if text.fills || line.key == "podMetadata" {
                continue;
            }
            let said = says(patch, &path.segments()[1..], "");
            let differs = |said: &Value| said.is_null() != line.value.is_none();
            let taken = |said: &Value| said["$patch"] == "delete";
            prop_assert!(
                said.iter().all(|said| taken(said) || differs(said)),
                "{later} says {said:?} of {}",
                line.path
            );
        }
        // What it replaced was a layer's before it, or the pod's.
        if let Some(replaced) = &line.replaced {
            prop_assert_ne!(&replaced.value, &line.value);
            let before = explanation.layers.iter().position(|id| *id == replaced.by);
            prop_assert!(before.map_or(replaced.by == "pod", |before| before < own), "{line:?}");
        }
    }
    // Every field that is new or not as it was has a line, or is within something that has one.
    let mut before = Vec::new();
    for part in ["spec", "metadata"] {
        leaves(&case.pod[part], &Path::field(part), part, &mut before);
    }
    let covered = |path: &Path| lines.iter().any(|(known, _)| path.starts_with(known));
    let is_own = |path: &Path| path.to_string().starts_with("metadata.annotations[podlayer.dev/");
    for (path, value) in &found {
        if is_own(path) || before.contains(&(path.clone(), value.clone())) || covered(path) {
            continue;
        }
        // An empty list or object is no field.
        if *value == json!({}) || *value == json!([]) {
            continue;
        }
        // A merge key comes with whatever else an item has.
        let mut around = path.clone();
        around.pop();
        let is_key = path.to_string().ends_with(".name") && lines.iter().any(|(known, _)| known.starts_with(&around));
        prop_assert!(is_key, "{path} = {value} has no line: {:#?}", explanation.lines);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases() / 3, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_changed_field_has_the_layer_and_the_place_that_the_stack_says(case in case()) {
        let snapshot = snapshot(&case.layers);
        let decision = decide(&case.pod, &snapshot);
        if decision.verdict != Verdict::Allowed || decision.fault.is_some() {
            return Ok(());
        }
        let after = made(&case.pod, &decision);
        let text = case.pod.to_string();
        let explanation = trace(&Pod::parse(&text).unwrap(), "ci", &snapshot, &Policy::default(), Explanation::of).unwrap();
        check(&case, &explanation, &after)?;

        // The annotated YAML is the pod, and no text of it is lost on the page.
        let yaml = explanation.to_yaml();
        let read = yaml::parse(&yaml, &yaml::Options::LAYER);
        let read = read.map_err(|error| TestCaseError::fail(format!("{error}\n{yaml}")))?;
        let mut read: Value = serde_json::from_str(&to_json(&read.document.value)).unwrap();
        let mut wanted = json!({"metadata": {}, "spec": after["spec"]});
        for kind in ["labels", "annotations"] {
            for pod in [&mut read, &mut wanted] {
                let known = if pod["metadata"].get(kind).is_some() { pod["metadata"][kind].take() } else { after["metadata"][kind].clone() };
                let mut known = known.as_object().cloned().unwrap_or_default();
                known.retain(|key, _| !["podlayer.dev/applied", "podlayer.dev/provenance"].contains(&key.as_str()));
                pod["metadata"][kind] = Value::Object(known);
            }
        }
        prop_assert_eq!(read, wanted, "{}", yaml);
        let page = explanation.to_html();
        prop_assert_eq!(page.matches("<div").count(), page.matches("</div>").count());
        prop_assert!(!page.contains("<script"));
    }
}

#[test]
fn stacks_of_four_layers_are_common_among_the_made_up_ones() {
    use proptest::{strategy::ValueTree, test_runner::TestRunner};
    let mut runner = TestRunner::deterministic();
    let mut deep = 0;
    for _ in 0..300 {
        let case = case().new_tree(&mut runner).unwrap().current();
        let decision = decide(&case.pod, &snapshot(&case.layers));
        deep += usize::from(decision.layers.len() >= 4);
    }
    assert!(deep >= 10, "{deep} of 300");
}
