use std::sync::Arc;

use super::*;
use crate::value::{JsonLimits, Value, from_json};

fn source(namespace: &str, kind: &str, name: &str, data: &[(&str, &str)]) -> LayerSource {
    LayerSource {
        namespace: namespace.into(),
        name: name.into(),
        labels: [("podlayer.dev/layer".to_owned(), kind.to_owned())].into(),
        data: data.iter().map(|(key, text)| ((*key).to_owned(), (*text).to_owned())).collect(),
        binary_keys: Vec::new(),
    }
}

fn read(source: &LayerSource) -> Result<Layer, ParseError> {
    parse(source, Scope { own_namespace: "podlayer" })
}

fn snapshot(sources: &[LayerSource]) -> Snapshot {
    Snapshot::build(sources.iter().map(|source| Arc::new(read(source).unwrap()))).unwrap()
}

/// The names of the layers for a pod with these annotations and labels.
fn stack(snapshot: &Snapshot, namespace: &str, metadata: &str) -> (Vec<String>, Vec<String>) {
    let metadata = from_json(metadata, JsonLimits::DEFAULT).unwrap();
    let part = |key: &str| metadata.get(key).and_then(Value::as_object);
    let facts = Facts { namespace, labels: part("labels"), annotations: part("annotations") };
    let (stack, unresolved) = snapshot.resolve(&facts);
    (stack.iter().map(|l| l.id.to_string()).collect(), unresolved.iter().map(ToString::to_string).collect())
}

#[test]
fn tiers_apply_in_order_and_layers_by_order_then_name() {
    let mut last = source("podlayer", "default", "a", &[]);
    last.labels.insert("podlayer.dev/order".into(), "7".into());
    let mut first = source("podlayer", "default", "z", &[]);
    first.labels.insert("podlayer.dev/order".into(), "-1".into());
    let sources = [
        source("podlayer", "class", "gpu", &[("match", "{}")]),
        source("team", "class", "cache", &[("match", "{}")]),
        source("team", "default", "t", &[]),
        last,
        source("podlayer", "default", "c", &[]),
        source("podlayer", "default", "b", &[]),
        first,
    ];
    let snapshot = snapshot(&sources);
    let classes = r#"{"annotations": {"podlayer.dev/classes": "cache, gpu,,gpu"}}"#;
    let all = [
        "default/z",
        "default/b",
        "default/c",
        "default/a",
        "namespace-default/t",
        "namespace-class/cache",
        "class/gpu",
    ];
    assert_eq!(stack(&snapshot, "team", classes).0, all);
    let (elsewhere, unresolved) = stack(&snapshot, "ci", classes);
    assert_eq!(elsewhere, ["default/z", "default/b", "default/c", "default/a", "class/gpu"]);
    assert_eq!(unresolved, ["unknown class \"cache\", annotation podlayer.dev/classes"]);
}

#[test]
fn a_class_of_the_cluster_shadows_one_of_the_namespace() {
    let sources = [
        source("podlayer", "class", "gpu", &[("match", "namespaces: [ci-*]")]),
        source("team", "class", "gpu", &[("match", "{}")]),
    ];
    let asks = r#"{"annotations": {"podlayer.dev/classes": "gpu"}}"#;
    assert_eq!(stack(&snapshot(&sources), "ci-a", asks).0, ["class/gpu"]);
    let (stack, unresolved) = stack(&snapshot(&sources), "team", asks);
    assert!(stack.is_empty());
    assert_eq!(
        unresolved,
        ["class \"gpu\" is not for this pod: its match does not fit, annotation podlayer.dev/classes"]
    );
}

#[test]
fn match_looks_at_labels_expressions_namespaces_and_annotations() {
    let text = "matchLabels: {team: a}\nmatchExpressions:\n- {key: tier, operator: In, values: [x, two]}\n- {key: out, operator: DoesNotExist}\n\
                - {key: not, operator: NotIn, values: [z]}\nnamespaces: [ci-*]\nannotations: {note: v}\n";
    let snapshot = snapshot(&[source("podlayer", "default", "m", &[("match", text)])]);
    let fits = |namespace: &str, metadata: &str| !stack(&snapshot, namespace, metadata).0.is_empty();
    assert!(fits("ci-1", r#"{"labels": {"team": "a", "tier": "two"}, "annotations": {"note": "v"}}"#));
    for (namespace, metadata) in [
        ("prod", r#"{"labels": {"team": "a", "tier": "two"}, "annotations": {"note": "v"}}"#),
        ("ci-1", r#"{"labels": {"team": "b", "tier": "two"}, "annotations": {"note": "v"}}"#),
        ("ci-1", r#"{"labels": {"team": "a"}, "annotations": {"note": "v"}}"#),
        ("ci-1", r#"{"labels": {"team": "a", "tier": "two", "out": ""}, "annotations": {"note": "v"}}"#),
        ("ci-1", r#"{"labels": {"team": "a", "tier": "two", "not": "z"}, "annotations": {"note": "v"}}"#),
        ("ci-1", r#"{"labels": {"team": "a", "tier": "two"}}"#),
        ("ci-1", "{}"),
    ] {
        assert!(!fits(namespace, metadata), "{namespace} {metadata}");
    }
}

#[test]
fn what_is_wrong_with_a_config_map_is_said_all_at_once_with_places() {
    let mut wrong = source(
        "podlayer",
        "defalt",
        "w",
        &[
            ("podSpecPatchh", ""),
            ("match", "matchLabels: {a: 1}"),
            ("options.yaml", "mode: Enforce\nrequired: maybe"),
            ("podMetadata", "labels: {batch.kubernetes.io/job-name: x}"),
        ],
    );
    wrong.labels.insert("podlayer.dev/order".into(), "ten".into());
    wrong.binary_keys = vec!["podSpecPatch".into()];
    let error = read(&wrong).unwrap_err().to_string();
    for line in [
        "label podlayer.dev/layer: unknown kind of layer \"defalt\", did you mean \"default\"? ConfigMap podlayer/w",
        "label podlayer.dev/order: a whole number is wanted, got \"ten\", ConfigMap podlayer/w",
        "binaryData \"podSpecPatch\" is not read, put the text under data, ConfigMap podlayer/w",
        "unknown key \"podSpecPatchh\", did you mean \"podSpecPatch\"? ConfigMap podlayer/w",
        "match.matchLabels.a: a string is wanted, got 1, write \"1\" in quotes, ConfigMap podlayer/w match, line 1 column 18",
        "options.required: true or false is wanted, got \"maybe\", ConfigMap podlayer/w options.yaml, line 2 column 11",
        "podMetadata.labels: \"batch.kubernetes.io/job-name\" may not be set by a layer",
    ] {
        assert!(error.contains(line), "{line}\n{error}");
    }
}

#[test]
fn a_class_without_match_and_lists_that_can_not_be_united_are_refused() {
    let class = read(&source("podlayer", "class", "c", &[])).unwrap_err().to_string();
    assert!(class.contains("a class needs the key match"), "{class}");
    let error = read(&source("podlayer", "default", "d", &[("options", "unionLists: [env]")])).unwrap_err().to_string();
    assert!(
        error.starts_with("options.unionLists: \"env\" is no list that can be united, write tolerations,"),
        "{error}"
    );
    let options = "apply: IfAbsent\nunionLists: [tolerations, \"containers[*].envFrom\"]";
    let layer = read(&source("podlayer", "default", "d", &[("options", options)])).unwrap();
    assert_eq!((layer.options.apply, layer.options.union_lists.len()), (Apply::IfAbsent, 2));
}

#[test]
fn absent_containers_are_added_skipped_or_refused_as_the_option_says() {
    let pod = from_json(r#"{"containers": [{"name": "a"}]}"#, JsonLimits::DEFAULT).unwrap();
    let text = r#"{"containers": [{"name": "a", "args": ["x"]}, {"name": "b"}, {"name": "c", "image": "i"}, {"name": "d", "$patch": "delete"}],
                   "initContainers": [{"name": "e"}]}"#;
    let select = |option, kind| {
        let mut patch = from_json(text, JsonLimits::DEFAULT).unwrap();
        let absent = targets::select(&mut patch, Some(&pod), option, kind)?;
        let left: Vec<String> = targets::names(patch.get("containers")).map(str::to_owned).collect();
        Ok::<_, Cause>((absent, left, patch.get("initContainers").is_some()))
    };
    let (absent, left, init) = select(AbsentContainers::Auto, Kind::Default).unwrap();
    assert_eq!((absent.added, absent.skipped), (vec!["c".to_owned()], vec!["b".to_owned(), "e".to_owned()]));
    assert_eq!((left, init), (vec!["a".to_owned(), "c".into(), "d".into()], false), "an emptied list goes");
    let (absent, left, init) = select(AbsentContainers::Add, Kind::Default).unwrap();
    assert_eq!((absent.skipped.len(), left.len(), init), (0, 4, true));
    let (absent, left, _) = select(AbsentContainers::Skip, Kind::Class).unwrap();
    assert_eq!((absent.added.len(), left), (0, vec!["a".to_owned(), "d".into()]));
    assert!(
        matches!(select(AbsentContainers::Error, Kind::Default), Err(Cause::AbsentContainer { name, .. }) if name == "b")
    );
    let error = select(AbsentContainers::Auto, Kind::Step).unwrap_err();
    assert_eq!(error.to_string(), "no container named \"b\"; the pod has a; to add a container, give it an image");
}
