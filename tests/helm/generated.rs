//! Files that are made out of others. `PODLAYER_BLESS=1 cargo test --test helm generated` writes them anew.

use std::{fmt::Write as _, fs};

use serde_json::{Map, Value, json};

use crate::{
    controlplane::project_root,
    helm::{merge, objects, template_text, values},
};

#[test]
fn generated_schema_of_the_values_is_up_to_date() {
    let written = fs::read_to_string(project_root().join("charts/podlayer/values.schema.in.json")).unwrap();
    let mut schema: Map<String, Value> = serde_json::from_str(&written).unwrap();
    let own = schema.get_mut("$defs").and_then(Value::as_object_mut).unwrap();
    for (name, definition) in podlayer::schema::patch_definitions(&podlayer::schema::POD) {
        assert!(own.insert(name.clone(), definition).is_none(), "values.schema.in.json defines {name} as well");
    }
    // On one line: it is for programs.
    compare("charts/podlayer/values.schema.json", &format!("{}\n", Value::Object(schema)));
}

#[test]
fn generated_presets_are_those_of_the_program() {
    compare("charts/podlayer/files/presets.json", &format!("{}\n", podlayer::presets::json()));
}

#[test]
fn generated_readme_of_each_chart_is_up_to_date() {
    for chart in ["charts/podlayer", "charts/podlayer-ingress"] {
        let read = |file: &str| fs::read_to_string(project_root().join(chart).join(file)).unwrap();
        let text = read("README.in.md");
        assert!(text.contains("{{values}}"));
        let made = text.replace("{{values}}\n", &table_of_values(&read("values.yaml")));
        compare(&format!("{chart}/README.md"), &made);
    }
}

#[test]
fn generated_manifests_are_those_of_the_chart() {
    compare("manifests/base/podlayer.yaml", &manifests(&values(base_values())));
    let strip = manifests(&values(json!({"image": {"repository": "podlayer"}, "policies": {"stripStamp": "On"}})));
    let policies: String =
        strip.split_inclusive("---\n").filter(|document| document.contains("kind: MutatingAdmissionPolicy")).collect();
    compare("manifests/components/strip-stamp/policy.yaml", policies.trim_end_matches("---\n"));
}

/// Each file of `manifests/pools`, with the templates that it is made from.
const POOLS: [(&str, &[&str]); 4] = [
    ("controller", &["deployment", "layer", "networkpolicy", "pdb", "rbac", "service"]),
    ("policy", &["policy"]),
    ("priority-class", &["priorityclass"]),
    ("roles", &["roles"]),
];

#[test]
fn generated_definition_of_pools_in_the_chart_is_the_programs() {
    let text = podlayer::pool::api::crd_yaml().unwrap();
    let (_, spec) = text.split_once("\nspec:\n").unwrap();
    compare("charts/podlayer/files/agentpools.yaml", &format!("spec:\n{spec}"));
}

#[test]
fn generated_manifests_of_pools_are_those_of_the_chart() {
    let all = rendered(&pools_values());
    for (file, templates) in POOLS {
        let of_file = |source: &str| templates.iter().any(|name| source.ends_with(&format!("/pools-{name}.yaml")));
        compare(&format!("manifests/pools/{file}.yaml"), &documents(&all, of_file));
    }
    // Nothing that the chart makes for pools is forgotten.
    for (source, document) in &all {
        let name = source.split_once("/pools-").and_then(|(_, name)| name.strip_suffix(".yaml"));
        let known = name.is_none_or(|name| POOLS.iter().any(|(_, templates)| templates.contains(&name)));
        assert!(known || objects(document).is_empty(), "{source} is in no file of manifests/pools");
    }
}

/// What the manifests of pools are rendered with: pools in the namespace `ci`. Their definition is in `manifests/crd`.
pub(crate) fn pools_values() -> Value {
    let mut all = values(base_values());
    merge(&mut all, json!({"pools": {"enabled": true, "crd": false, "namespaces": ["ci"]}}));
    all
}

/// What the manifests are rendered with.
pub(crate) fn base_values() -> Value {
    json!({"image": {"repository": "podlayer"}, "policies": {"stripStamp": "Off"}})
}

/// The chart's render without what belongs to Helm.
fn manifests(values: &Value) -> String {
    documents(&rendered(values), |_| true)
}

/// Each document of the chart's render but hooks, with the template that it comes from.
fn rendered(values: &Value) -> Vec<(String, String)> {
    let output = template_text(values);
    assert!(output.ok, "{}", output.stderr);
    let mut all: Vec<(String, String)> = Vec::new();
    for document in output.stdout.split("---\n").filter(|document| !document.contains("helm.sh/hook:")) {
        // Of several documents of a template, each is told where it comes from.
        let source = document.lines().find_map(|line| line.strip_prefix("# Source: ")).unwrap_or_default();
        all.push((source.to_owned(), document.to_owned()));
    }
    all
}

/// The documents of some templates as one text.
fn documents(all: &[(String, String)], wanted: impl Fn(&str) -> bool) -> String {
    let helms = |line: &&str| {
        let line = line.trim_start();
        line.starts_with("# Source:")
            || line.starts_with("helm.sh/chart:")
            || line == "app.kubernetes.io/managed-by: Helm"
    };
    let mut text = String::from("# Generated from charts/podlayer by .ci/generate; change the chart.\n");
    for (_, document) in all.iter().filter(|(source, _)| wanted(source)) {
        if objects(document).is_empty() {
            continue;
        }
        text.push_str("---\n");
        for line in document.lines().filter(|line| !helms(line) && !line.trim().is_empty()) {
            text.push_str(line);
            text.push('\n');
        }
    }
    text
}

fn compare(file: &str, made: &str) {
    let path = project_root().join(file);
    if std::env::var_os("PODLAYER_BLESS").is_some() {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        // Moved, since other tests may be reading it.
        let unfinished = path.with_extension("unfinished");
        fs::write(&unfinished, made).unwrap();
        fs::rename(&unfinished, &path).unwrap();
    }
    let there = fs::read_to_string(&path).unwrap_or_default();
    assert!(there == made, "{file} is not what it is made from: run .ci/generate");
}

/// Each value of a values.yaml with the comment above it, as a Markdown table. It reads the text, for comments are no
/// part of what YAML says: two blanks of indentation, a comment block above each key that is documented.
fn table_of_values(text: &str) -> String {
    let mut out = String::from("| value | default | meaning |\n|---|---|---|\n");
    let mut parents: Vec<&str> = Vec::new();
    let mut comment = String::new();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        let content = line.trim_start();
        let depth = (line.len() - content.len()) / 2;
        if let Some(said) = content.strip_prefix('#') {
            let _ = write!(comment, "{}{}", if comment.is_empty() { "" } else { " " }, said.trim());
            continue;
        }
        let Some((key, default)) = content.split_once(':') else {
            comment.clear();
            continue;
        };
        parents.truncate(depth);
        parents.push(key);
        let mut default = default.trim().to_owned();
        // A documented value that goes on below is shown whole, in YAML's flow style.
        if default.is_empty() && !comment.is_empty() && !starts_documented(lines.peek()) {
            let mut below = String::from("x:\n");
            while let Some(next) = lines.next_if(|next| (next.len() - next.trim_start().len()) / 2 > depth) {
                let _ = writeln!(below, "{next}");
            }
            let value: Value = serde_yaml::from_str(&below).unwrap();
            default = value["x"].to_string();
        }
        if !comment.is_empty() {
            let default = if default.is_empty() { default } else { format!("`{default}`") };
            let _ = writeln!(out, "| `{}` | {default} | {} |", parents.join("."), comment.replace('|', "\\|"));
        }
        comment.clear();
    }
    out
}

fn starts_documented(line: Option<&&str>) -> bool {
    line.is_some_and(|line| line.trim_start().starts_with('#'))
}
