//! Nothing changes that no layer names.

use std::collections::BTreeMap;

use podlayer::{admission::Verdict, value::glob_matches};
use proptest::prelude::*;
use serde_json::Value;

use crate::{
    decide::{cases, decide, made},
    stacks::{case, snapshot},
};

/// Every leaf of a value by its path; items that have a name are told by it, any other list is a leaf.
fn leaves(value: &Value, path: &mut Vec<String>, out: &mut BTreeMap<Vec<String>, Value>) {
    let mut go = |key: &str, value: &Value, out: &mut BTreeMap<_, _>| {
        path.push(key.to_owned());
        leaves(value, path, out);
        path.pop();
    };
    match value {
        Value::Object(map) if !map.is_empty() => map.iter().for_each(|(key, value)| go(key, value, out)),
        Value::Array(items) if !items.is_empty() && items.iter().all(|item| item["name"].is_string()) => {
            items.iter().for_each(|item| go(item["name"].as_str().unwrap(), item, out));
        }
        leaf => _ = out.insert(path.clone(), leaf.clone()),
    }
}

/// Whether a patch says something about a path: a value on the way or at its end, or a directive around it.
fn names(patch: &Value, path: &[String]) -> bool {
    let Some((first, rest)) = path.split_first() else { return true };
    match patch {
        Value::Object(map) => {
            map.contains_key("$patch")
                || map.contains_key("$retainKeys")
                || map.get(first).is_some_and(|value| names(value, rest))
        }
        Value::Array(items) => items.iter().any(|item| match item["name"].as_str() {
            Some(name) => (name == first || glob_matches(name, first) || name.starts_with('@')) && names(item, rest),
            None => true,
        }),
        _ => true,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_field_changes_that_no_layer_names(case in case()) {
        let decision = decide(&case.pod, &snapshot(&case.layers));
        if let Verdict::Denied(_) = decision.verdict {
            return Ok(());
        }
        let after = made(&case.pod, &decision);
        let of = |pod: &Value| {
            let mut out = BTreeMap::new();
            leaves(&pod["spec"], &mut Vec::new(), &mut out);
            out
        };
        let (before, after) = (of(&case.pod), of(&after));
        let step = case.pod["metadata"]["annotations"]["podlayer.dev/pod-spec-patch"].as_str();
        let texts = case.layers.iter().map(|layer| layer.data["podSpecPatch"].as_str()).chain(step);
        let patches: Vec<Value> = texts.map(|text| serde_json::from_str(text).unwrap()).collect();
        for path in before.keys().chain(after.keys()) {
            if before.get(path) != after.get(path) {
                prop_assert!(patches.iter().any(|patch| names(patch, path)), "{path:?} changed");
            }
        }
    }

    #[test]
    fn a_layer_that_only_fills_in_changes_nothing_that_the_author_wrote(case in case()) {
        let mut layers = case.layers;
        layers.retain(|layer| layer.data["options"].contains("IfAbsent"));
        let mut pod = case.pod;
        pod["metadata"]["annotations"]["podlayer.dev/pod-spec-patch"] = Value::from("{}");
        let decision = decide(&pod, &snapshot(&layers));
        let after = made(&pod, &decision);
        // What the API server and LimitRanger filled in isn't the author's.
        let own = |text: &str| {
            let text = text.replace("dnsPolicy", "x").replace("terminationGracePeriodSeconds", "x");
            text.replace("serviceAccountName", "x").replace("imagePullPolicy", "x").replace("tolerations", "x")
        };
        let mut found = BTreeMap::new();
        leaves(&after["spec"], &mut Vec::new(), &mut found);
        let mut authors = BTreeMap::new();
        leaves(&serde_json::from_str(&own(&pod["spec"].to_string())).unwrap(), &mut Vec::new(), &mut authors);
        for (path, value) in authors {
            let is_empty = value.as_object().is_some_and(serde_json::Map::is_empty) || value == serde_json::json!([]);
            let by_ranger = path.ends_with(&["limits".into(), "cpu".into()]) && pod["metadata"]["labels"]["team"] == "a";
            if !path.contains(&"x".to_owned()) && !is_empty && !by_ranger {
                prop_assert_eq!(found.get(&path), Some(&value), "{:?}", path);
            }
        }
    }
}
