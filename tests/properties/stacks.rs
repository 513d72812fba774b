//! Made-up pods and layers that meet each other often: few names, many ways to set, add, move and take away.

use std::sync::Arc;

use podlayer::layers::{LayerSource, Snapshot, parse};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

/// ConfigMaps, with the pod that they are put on.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) pod: Value,
    pub(crate) layers: Vec<LayerSource>,
}

/// Any case.
pub(crate) fn case() -> impl Strategy<Value = Case> {
    let layers = prop::collection::vec(layer(), 0..6);
    (pod(), layers).prop_map(|(pod, layers)| {
        let named = |(at, layer): (usize, LayerSource)| LayerSource { name: format!("l{at}"), ..layer };
        Case { pod, layers: layers.into_iter().enumerate().map(named).collect() }
    })
}

/// The snapshot of those sources that can be read.
pub(crate) fn snapshot(sources: &[LayerSource]) -> Snapshot {
    with_rules(sources, EVERYTHING)
}

/// Rules that let a step do all that the patches here do: what is refused is no case for the merge.
const EVERYTHING: &str = "privileged: true\nallow: [containers, initContainers, volumes, nodeSelector, securityContext, \
                          tolerations, terminationGracePeriodSeconds, dnsPolicy, serviceAccountName]";

/// The same with other rules.
pub(crate) fn with_rules(sources: &[LayerSource], rules: &str) -> Snapshot {
    let scope = podlayer::layers::Scope { own_namespace: "podlayer" };
    let rules = LayerSource {
        namespace: "podlayer".into(),
        name: "rules".into(),
        labels: [("podlayer.dev/layer".to_owned(), "step-rules".to_owned())].into(),
        data: [("rules".to_owned(), rules.to_owned())].into(),
        ..LayerSource::default()
    };
    let rules = parse(&rules, scope).unwrap();
    let layers = sources.iter().filter_map(|source| parse(source, scope).ok()).chain([rules]);
    Snapshot::build(layers.map(Arc::new)).unwrap()
}

fn names() -> impl Strategy<Value = &'static str> {
    prop_oneof![
        4 => prop::sample::select(vec!["agent", "container-0", "dind", "extra"]),
        1 => prop::sample::select(vec!["*", "c*", "*d", "@command", "@agent", "@sidecar"]),
    ]
}

fn letters() -> impl Strategy<Value = &'static str> {
    // The last gives a container a role.
    prop_oneof![8 => prop::sample::select(vec!["A", "B", "C", "D"]), 1 => Just("BUILDKITE_COMMAND")]
}

fn pod() -> impl Strategy<Value = Value> {
    let containers = prop::sample::subsequence(vec!["agent", "container-0", "dind"], 1..=3).prop_shuffle();
    let env = prop::collection::vec(letters(), 0..4);
    let step = prop::option::weighted(0.5, patch());
    let classes = prop::option::of(prop::sample::subsequence(vec!["l0", "l1", "l2", "l3"], 0..3));
    // Presets tell roles in different ways: by variable, by name, by what isn't another's.
    let preset =
        prop::sample::select(vec!["", "", "buildkite.com/job-uuid", "jenkins/label-digest", "tekton.dev/taskRunUID"]);
    (containers, env, step, classes, any::<bool>(), any::<bool>(), preset).prop_map(
        |(names, env, step, classes, team, unknown, preset)| {
            let env: Vec<Value> = env.iter().map(|name| json!({"name": name, "value": "pod"})).collect();
            let containers: Vec<Value> = names
            .iter()
            .map(|name| json!({"name": name, "image": "pod", "imagePullPolicy": "Always", "env": env, "futureField": {"x": null},
                               "resources": if unknown { json!({}) } else { json!({"limits": {"cpu": "500m"}}) }}))
            .collect();
            let mut labels = json!({"podlayer.dev/enabled": "true"});
            let mut annotations = Map::new();
            if team {
                labels["team"] = json!("a");
            }
            if !preset.is_empty() {
                labels[preset] = json!("x");
            }
            if let Some(step) = step {
                annotations.insert("podlayer.dev/pod-spec-patch".into(), Value::from(step.to_string()));
            }
            if let Some(classes) = classes {
                annotations.insert("podlayer.dev/classes".into(), Value::from(classes.join(",")));
            }
            if team {
                // Some of what LimitRanger would say.
                let text = "LimitRanger plugin set: cpu limit for container agent; cpu limit for container dind";
                annotations.insert("kubernetes.io/limit-ranger".into(), Value::from(text));
            }
            let mut spec = json!({"containers": containers, "serviceAccountName": "default", "restartPolicy": "Never",
                "terminationGracePeriodSeconds": 30, "dnsPolicy": "ClusterFirst", "tolerations": [
                {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}]});
            if unknown {
                spec["unknownList"] = json!([null, {"a": [1.5, {"b": null}]}]);
            }
            json!({"metadata": {"generateName": "p-", "labels": labels, "annotations": annotations}, "spec": spec})
        },
    )
}

fn layer() -> impl Strategy<Value = LayerSource> {
    let kinds = prop::sample::select(vec!["default", "default", "class"]);
    let selector = prop::sample::select(vec![
        "{}",
        "{}",
        "matchLabels: {team: a}",
        "matchExpressions: [{key: team, operator: DoesNotExist}]",
    ]);
    let metadata =
        prop::sample::select(vec!["", "", "labels: {team: a}", "labels: {team: null}", "annotations: {note: x}"]);
    let absent = prop::sample::select(vec!["Auto", "Auto", "Skip", "Add", "Error"]);
    let apply = prop::sample::select(vec!["Override", "Override", "IfAbsent"]);
    let unions = prop::sample::select(vec!["[]", "[]", "[tolerations, \"containers[*].envFrom\"]"]);
    (kinds, 0..3i32, apply, selector, metadata, absent, unions)
        .prop_flat_map(|(kind, order, apply, selector, metadata, absent, unions)| {
            // A layer that only fills in is refused with anything that takes away, so it gets patches without.
            let patch =
                if apply == "IfAbsent" { patch().prop_map(without_directives).boxed() } else { patch().boxed() };
            let metadata = if apply == "IfAbsent" { metadata.replace("null", "b") } else { metadata.to_owned() };
            patch.prop_map(move |patch| (kind, order, apply, patch, selector, metadata.clone(), absent, unions))
        })
        .prop_map(|(kind, order, apply, patch, selector, metadata, absent, unions)| {
            // A class can't ask for what the pod's author chooses.
            let selector = if kind == "class" && selector.contains("team") { "namespaces: [ci]" } else { selector };
            let mut data = vec![
                ("podSpecPatch".to_owned(), patch.to_string()),
                ("match".to_owned(), selector.to_owned()),
                ("options".to_owned(), format!("absentContainers: {absent}\napply: {apply}\nunionLists: {unions}")),
            ];
            if !metadata.is_empty() {
                data.push(("podMetadata".to_owned(), metadata));
            }
            LayerSource {
                namespace: "podlayer".into(),
                labels: [
                    ("podlayer.dev/layer".to_owned(), kind.to_owned()),
                    ("podlayer.dev/order".to_owned(), order.to_string()),
                ]
                .into(),
                data: data.into_iter().collect(),
                ..LayerSource::default()
            }
        })
}

/// A patch that takes nothing away.
pub(crate) fn without_directives(value: Value) -> Value {
    match value {
        Value::Object(map) => {
            let keep = |(key, value): &(String, Value)| !key.starts_with('$') && !value.is_null();
            Value::Object(map.into_iter().filter(keep).map(|(key, value)| (key, without_directives(value))).collect())
        }
        Value::Array(items) => {
            let items = items.into_iter().filter(|item| item.get("$patch").is_none());
            Value::Array(items.map(without_directives).collect())
        }
        other => other,
    }
}

/// A patch of a pod's spec.
pub(crate) fn patch() -> impl Strategy<Value = Value> {
    let fields = prop_oneof![
        4 => containers().prop_map(|items| json!({"containers": items})),
        1 => containers().prop_map(|items| json!({"initContainers": items})),
        1 => prop::sample::select(vec![
            json!({"containers": []}),
            json!({"volumes": []}),
            json!({"nodeSelector": {"a": "b"}}),
            json!({"nodeSelector": null}),
            json!({"nodeSelector": {"a": null}}),
            json!({"nodeSelector": {"$patch": "replace", "c": "d"}}),
            json!({"securityContext": {"$patch": "delete"}}),
            json!({"securityContext": {"runAsUser": 1, "$retainKeys": ["runAsUser"]}}),
            json!({"securityContext": {"runAsUser": 1, "sysctls": null}}),
            json!({"tolerations": [{"key": "a", "operator": "Exists"}]}),
            json!({"tolerations": [{"key": "b"}, {"key": "a", "operator": "Exists", "tolerationSeconds": 5}]}),
            json!({"tolerations": null}),
            json!({"terminationGracePeriodSeconds": 30}),
            json!({"terminationGracePeriodSeconds": 60}),
            json!({"terminationGracePeriodSeconds": null, "dnsPolicy": "Default"}),
            json!({"dnsPolicy": "ClusterFirst"}),
            json!({"volumes": [{"name": "v", "emptyDir": {}}]}),
            json!({"volumes": [{"name": "w", "emptyDir": {}}, {"name": "v", "emptyDir": null}]}),
            json!({"volumes": [{"name": "v", "$patch": "delete"}]}),
            json!({"serviceAccountName": "ci"}),
            json!({"serviceAccountName": null}),
            json!({"$setElementOrder/containers": [{"name": "dind"}, {"name": "agent"}]}),
        ]),
    ];
    prop::collection::vec(fields, 0..3).prop_map(|fields| {
        let mut patch = Map::new();
        for field in fields {
            patch.extend(field.as_object().unwrap().clone());
        }
        Value::Object(patch)
    })
}

fn containers() -> impl Strategy<Value = Vec<Value>> {
    let marker = prop::bool::weighted(0.05);
    (prop::collection::vec((names(), container()), 1..4), marker).prop_map(|(items, marker)| {
        let mut seen = Vec::new();
        let mut out = Vec::new();
        if marker {
            out.push(json!({"$patch": "replace"}));
        }
        for (name, mut item) in items {
            if !seen.contains(&name) {
                seen.push(name);
                item["name"] = json!(name);
                out.push(item);
            }
        }
        out
    })
}

fn container() -> impl Strategy<Value = Value> {
    let env = prop::collection::vec((letters(), env()), 1..4).prop_map(|items| {
        let mut out: Vec<Value> = Vec::new();
        for (name, mut item) in items {
            if !out.iter().any(|known| known["name"] == name) {
                item["name"] = json!(name);
                out.push(item);
            }
        }
        json!({"env": out})
    });
    prop_oneof![
        4 => env,
        2 => Just(json!({"image": "layer"})),
        2 => Just(json!({"resources": {"limits": {"cpu": "1"}}})),
        1 => Just(json!({"resources": {"requests": {"cpu": "2", "memory": "1Gi"}, "limits": {"memory": "2Gi"}}})),
        1 => Just(json!({"image": "layer", "imagePullPolicy": "Always"})),
        1 => Just(json!({"imagePullPolicy": "IfNotPresent"})),
        1 => Just(json!({"envFrom": [{"secretRef": {"name": "a"}}]})),
        1 => Just(json!({"envFrom": [{"secretRef": {"name": "b"}}, {"secretRef": {"name": "a"}}]})),
        1 => Just(json!({"image": "layer", "resources": {"limits": null}})),
        1 => Just(json!({"$patch": "delete"})),
        1 => Just(json!({"env": null})),
        1 => Just(json!({"image": "layer", "env": [{"name": "A", "$patch": "delete"}], "args": ["x"]})),
        1 => Just(json!({"env": [{"$patch": "replace"}, {"name": "D", "value": "only"}]})),
        1 => Just(json!({"$setElementOrder/env": [{"name": "B"}, {"name": "A"}]})),
        1 => Just(json!({"env": []})),
    ]
}

fn env() -> impl Strategy<Value = Value> {
    prop_oneof![
        4 => letters().prop_map(|value| json!({"value": value})),
        1 => Just(json!({"value": null, "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}})),
        1 => Just(json!({"$patch": "delete"})),
    ]
}

#[test]
fn made_up_layers_can_mostly_be_read() {
    use proptest::{strategy::ValueTree, test_runner::TestRunner};
    let mut runner = TestRunner::deterministic();
    let scope = podlayer::layers::Scope { own_namespace: "podlayer" };
    let (mut read, mut all) = ([0; 2], [0; 2]);
    for _ in 0..400 {
        let source = LayerSource { name: "l".into(), ..layer().new_tree(&mut runner).unwrap().current() };
        let fills = usize::from(source.data["options"].contains("IfAbsent"));
        all[fills] += 1;
        read[fills] += usize::from(parse(&source, scope).is_ok());
    }
    assert!(read[0] * 4 > all[0] * 3 && read[1] * 4 > all[1] * 3 && all[1] > 80, "{read:?} of {all:?}");
}
