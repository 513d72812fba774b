//! What the documentation says about the chart is so.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use serde_json::{Value, json};

use crate::{
    controlplane::project_root,
    helm::{template, template_text, values},
};

fn read(file: &str) -> String {
    fs::read_to_string(project_root().join(file)).unwrap()
}

/// Rows of the tables in a Markdown text, by cells.
fn rows(text: &str) -> Vec<Vec<String>> {
    let lines = text.lines().filter(|line| line.starts_with('|') && !line.starts_with("|---"));
    lines.map(|line| line.trim_matches('|').split(" | ").map(|cell| cell.trim().to_owned()).collect()).collect()
}

#[test]
fn the_table_of_rights_is_what_the_chart_renders() {
    let pools = json!({"enabled": true, "namespaces": ["ci"]});
    let builds = json!([{"namespace": "ci", "pool": "linux", "replicas": 1, "serviceAccount": "agents"}]);
    let azure = json!({"enabled": true, "namespaces": ["ci"], "imageBuilds": builds});
    let objects = template(&values(json!({"layerNamespaces": ["team"], "pools": pools, "azure": azure})));
    let page = read("docs/rbac.md");
    let (webhook, rest) = page.split_once("## The controller of pools").unwrap();
    let (controller, rest) = rest.split_once("## The endpoint for Azure Pipelines").unwrap();
    let (azure, builds) = rest.split_once("### Agents that build images").unwrap();
    // By the account that the binding of a role names.
    let sections = [("podlayer", webhook), ("podlayer-controller", controller), ("podlayer-azure", azure)];
    for (account, section) in sections.into_iter().chain([("agents", builds)]) {
        compare_rights(&objects, account, section);
    }
}

fn compare_rights(objects: &BTreeMap<String, Value>, account: &str, section: &str) {
    let is_of_account = |key: &str| {
        let binding = &objects[&key.replacen("Role/", "RoleBinding/", 1)];
        binding["subjects"].as_array().unwrap().iter().any(|subject| subject["name"] == account)
    };
    let mut there: BTreeSet<Vec<String>> = BTreeSet::new();
    let list = |value: &Value| {
        let names: Vec<&str> = value.as_array().into_iter().flatten().map(|name| name.as_str().unwrap()).collect();
        names.join(", ")
    };
    let roles = objects.iter().filter(|(key, _)| key.contains("Role/") && !key.ends_with("-test"));
    for (key, object) in roles.filter(|(key, _)| is_of_account(key)) {
        for rule in object["rules"].as_array().unwrap() {
            let group = if list(&rule["apiGroups"]).is_empty() { "core".into() } else { list(&rule["apiGroups"]) };
            let names = rule.get("resourceNames").map_or_else(|| "any".into(), &list);
            let place = key.split('/').nth(1).unwrap().to_owned();
            there.insert(vec![place, group, list(&rule["resources"]), names, list(&rule["verbs"])]);
        }
    }
    let mut told: BTreeSet<Vec<String>> = BTreeSet::new();
    for mut row in rows(section).into_iter().skip(1) {
        assert_eq!(row.len(), 6, "{row:?}");
        assert!(row.pop().is_some_and(|why| why.len() > 20), "a reason");
        let place = row.remove(0);
        let places = [
            ("podlayer's namespace", "podlayer"),
            ("layerNamespaces", "team"),
            ("pools.namespaces", "ci"),
            ("azure.", "ci"),
            ("cluster", ""),
        ];
        for (words, namespace) in places {
            if place.contains(words) {
                told.insert([&[namespace.to_owned()][..], &row].concat());
            }
        }
    }
    assert_eq!(told, there);
}

#[test]
fn links_lead_to_files() {
    let mut documents = vec![project_root().join("README.md"), project_root().join("SECURITY.md")];
    documents.push(project_root().join("charts/podlayer/README.md"));
    documents.push(project_root().join("charts/podlayer-ingress/README.md"));
    documents.extend(fs::read_dir(project_root().join("docs")).unwrap().map(|entry| entry.unwrap().path()));
    for document in documents.iter().filter(|path| path.extension().is_some_and(|ending| ending == "md")) {
        let text = fs::read_to_string(document).unwrap();
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let file = link.split('#').next().unwrap_or_default();
            let is_local = !link.contains("://") && !file.is_empty();
            let there = document.parent().unwrap_or_else(|| Path::new("")).join(file);
            assert!(!is_local || there.exists(), "{}: {link} leads nowhere", document.display());
        }
    }
}

#[test]
fn the_values_shown_in_documents_are_accepted_and_make_layers() {
    let text = read("docs/install.md");
    let example = text.split("```yaml\n# values.yaml\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let shown: Value = serde_yaml::from_str(example).unwrap();
    assert!(template(&shown).contains_key("ConfigMap/podlayer/base"));
    let text = read("charts/podlayer/README.md");
    let example = text.split("```yaml\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let shown: Value = serde_yaml::from_str(example).unwrap();
    assert!(template(&values(shown)).contains_key("ConfigMap/podlayer/gpu"));
}

#[test]
fn values_and_alerts_that_documents_name_exist() {
    let known: Value = serde_yaml::from_str(&read("charts/podlayer/values.yaml")).unwrap();
    let sections: BTreeMap<String, Value> = serde_json::from_value(known.clone()).unwrap();
    let pools = json!({"enabled": true, "namespaces": ["ci"]});
    let on = json!({"monitoring": {"prometheusRule": {"enabled": true}}, "pools": pools});
    let rules = template_text(&values(on)).stdout;
    for file in [
        "README.md",
        "docs/install.md",
        "docs/upgrade.md",
        "docs/failure-modes.md",
        "docs/rbac.md",
        "docs/security.md",
        "docs/defaults.md",
        "docs/pools.md",
        "docs/runbook-pools.md",
    ] {
        let text = read(file);
        for word in text.split('`').skip(1).step_by(2) {
            if word.starts_with("Podlayer") {
                assert!(rules.contains(&format!("alert: {word}\n")), "{file}: {word} is no alert");
            }
            let path = word.split([':', '=', ' ']).next().unwrap_or_default();
            let Some((section, _)) = path.split_once('.') else { continue };
            let is_value = sections.contains_key(section) && path.chars().all(|c| c.is_ascii_alphabetic() || c == '.');
            let pointer = format!("/{}", path.replace('.', "/"));
            assert!(!is_value || known.pointer(&pointer).is_some(), "{file}: {path} is no value of the chart");
        }
    }
}
