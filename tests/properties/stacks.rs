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
    let scope = podlayer::layers::Scope { own_namespace: "podlayer" };
    Snapshot::build(sources.iter().filter_map(|source| parse(source, scope).ok()).map(Arc::new)).unwrap()
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
            .map(|name| json!({"name": name, "image": "pod", "env": env, "resources": {}, "futureField": {"x": null}}))
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
            let mut spec = json!({"containers": containers, "serviceAccountName": "default", "restartPolicy": "Never"});
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
    (kinds, 0..3i32, patch(), selector, metadata, absent).prop_map(
        |(kind, order, patch, selector, metadata, absent)| {
            let mut data = vec![
                ("podSpecPatch".to_owned(), patch.to_string()),
                ("match".to_owned(), selector.to_owned()),
                ("options".to_owned(), format!("absentContainers: {absent}")),
            ];
            if !metadata.is_empty() {
                data.push(("podMetadata".to_owned(), metadata.to_owned()));
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
        },
    )
}

/// A patch of a pod's spec.
fn patch() -> impl Strategy<Value = Value> {
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
