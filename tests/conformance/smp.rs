//! Strategic merges with what Go's `strategicpatch` makes of them: 188 cases by hand through kubectl, and 2,120 generated
//! ones.

use std::{fs, path::Path};

use podlayer::{
    merge::{self, Mode},
    schema::{POD, TypeId},
    value::{JsonLimits, Value, from_json, to_json},
    yaml::{self, Options},
};

#[test]
fn every_case_merges_as_in_kubectl() {
    let mut folders: Vec<_> = fs::read_dir(super::data("smp")).unwrap().map(|entry| entry.unwrap().path()).collect();
    folders.sort();
    let differing: Vec<_> = folders.iter().filter_map(|folder| case(folder)).collect();
    assert_eq!(folders.len(), 188);
    assert!(differing.is_empty(), "{} of {} cases differ:\n{}", differing.len(), folders.len(), differing.join("\n"));
}

#[test]
fn every_row_of_the_corpus_merges_as_in_go() {
    let text = fs::read_to_string(super::data("smp-corpus.jsonl")).unwrap();
    let rows: Vec<_> = text.lines().enumerate().collect();
    let differing: Vec<_> = rows.iter().filter_map(|(at, line)| row(*at, line)).collect();
    assert_eq!(rows.len(), 2120);
    assert!(differing.is_empty(), "{} of {} rows differ:\n{}", differing.len(), rows.len(), differing.join("\n"));
}

/// A folder with `pod.yaml`, `patch.yaml` and either `expected.json` or `expected.error`.
fn case(folder: &Path) -> Option<String> {
    let read = |name| fs::read_to_string(folder.join(name)).ok();
    let pod = document(&read("pod.yaml").unwrap()).unwrap();
    let got = document(&read("patch.yaml").unwrap()).and_then(|patch| merged(pod, patch, POD.pod()));
    let wanted = read("expected.json").map(|text| json(&text).into_owned());
    let name = folder.file_name().unwrap().to_string_lossy();
    difference(&name, got, wanted)
}

/// A line with `root`, `original`, `patch` and either `result` or `error`.
fn row(at: usize, line: &str) -> Option<String> {
    let row = json(line);
    let part = |name| row.get(name).map(Value::borrowed).unwrap_or_default();
    let root = if row.get("root") == Some(&"podspec".into()) { POD.pod_spec() } else { POD.pod() };
    let got = merged(part("original"), part("patch"), root);
    difference(&format!("line {}", at + 1), got, row.get("result").map(Value::borrowed))
}

fn merged<'a>(mut pod: Value<'a>, patch: Value<'a>, root: TypeId) -> Result<Value<'a>, String> {
    merge::apply(&mut pod, patch, root, Mode::Strict).map_err(|error| error.to_string())?;
    Ok(pod)
}

/// Which error it is doesn't count: Go reports any of several.
fn difference(name: &str, got: Result<Value<'_>, String>, wanted: Option<Value<'_>>) -> Option<String> {
    match (got, wanted) {
        (Err(_), None) => None,
        (Ok(got), Some(wanted)) if json(&to_json(&got)) == json(&to_json(&wanted)) => None,
        (got, wanted) => {
            let wanted = wanted.map_or_else(|| "an error".to_owned(), |value| to_json(&value));
            let got = got.map_or_else(|error| format!("the error {error:?}"), |value| to_json(&value));
            Some(format!("{name}: Go has {wanted}, here is {got}"))
        }
    }
}

/// kubectl takes what starts with a brace for JSON.
fn document(text: &str) -> Result<Value<'static>, String> {
    if text.trim_start().starts_with('{') {
        return from_json(text, JsonLimits::DEFAULT).map(Value::into_owned).map_err(|error| error.to_string());
    }
    yaml::parse(text, &Options::KUBECTL).map(|parsed| parsed.document.value).map_err(|error| error.to_string())
}

fn json(text: &str) -> Value<'_> {
    from_json(text, JsonLimits::DEFAULT).unwrap()
}
