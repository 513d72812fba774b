//! A step that its rules hold never gains privileges, whatever it and the layers are.

use std::collections::{BTreeSet, HashMap, HashSet};

use podlayer::{
    admission::{OnStepError, Policy},
    guard::privileges,
    layers::LayerSource,
    presets::ContainerList,
    value::{JsonLimits, from_json},
};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::support::{default, made, plain, source, with_step};

const DIND: &str = "containers: [{name: dind, image: docker:27, securityContext: {privileged: true}}]";

#[test]
fn a_container_that_a_layer_gives_privileges_is_not_the_steps_to_fill() {
    let class = || source("class", "dind", "", &[("podSpecPatch", DIND), ("match", "{}")]);
    let asking = |step: &str| {
        let mut pod = with_step(plain(), step);
        pod["metadata"]["annotations"]["podlayer.dev/classes"] = json!("dind");
        pod
    };
    made(&asking("containers: [{name: dind, resources: {limits: {cpu: 2}}}]"), &[class()], &Policy::default()).unwrap();
    for step in [
        "containers: [{name: dind, image: evil}]",
        "containers: [{name: dind, command: [sh]}]",
        "containers: [{name: dind, env: [{name: DOCKER_OPTS, value: x}]}]",
        "containers: [{name: \"d*\", env: [{name: A, value: x}]}]",
    ] {
        for on_step_error in [OnStepError::Deny, OnStepError::Ignore] {
            let policy = Policy { on_step_error, ..Policy::default() };
            let text = made(&asking(step), &[class()], &policy).unwrap_err();
            assert!(text.contains("a layer gives this container privileges"), "{step}: {text}");
        }
    }
    // The other way round: a default waits for a container of that name, and the step brings it.
    let waiting = default("containers: [{name: dind, securityContext: {privileged: true}}]");
    made(&plain(), std::slice::from_ref(&waiting), &Policy::default()).unwrap();
    let text = made(&with_step(plain(), "containers: [{name: dind, image: evil}]"), &[waiting], &Policy::default());
    assert!(text.unwrap_err().contains("a layer gives this container privileges"));
    // What every container of the pod has is no gain.
    let all = default("containers: [{name: \"*\", securityContext: {privileged: true}}]");
    made(&with_step(plain(), "containers: [{name: db, image: db}]"), &[all], &Policy::default()).unwrap();
    // An admin may mean it.
    let meant = source("step-rules", "ci", "", &[("rules", "allow: [\"@builtin\", \"containers[dind].env\"]")]);
    made(&asking("containers: [{name: dind, env: [{name: A, value: x}]}]"), &[class(), meant], &Policy::default())
        .unwrap();
}

#[test]
fn a_pod_of_many_volumes_and_mounts_takes_no_longer_than_it_is_large() {
    let many = 2000;
    let mut pod = with_step(plain(), "containers: [{name: build, env: [{name: A, value: b}]}, {name: db, image: db}]");
    let mounts: Vec<Value> =
        (0..many).map(|at| json!({"name": format!("v{at}"), "mountPath": format!("/m/{at}")})).collect();
    let volumes: Vec<Value> =
        (0..many).map(|at| json!({"name": format!("v{at}"), "hostPath": {"path": "/"}})).collect();
    pod["spec"]["volumes"] = json!(volumes);
    pod["spec"]["containers"][0]["volumeMounts"] = json!(mounts);
    let class = source("default", "dind", "", &[("podSpecPatch", DIND)]);
    made(&pod, std::slice::from_ref(&class), &Policy::default()).unwrap();
    let strict = Policy { privileged: podlayer::layers::rules::PrivilegedFrom::LayersOnly, ..Policy::default() };
    assert!(made(&pod, &[class], &strict).is_err());
}

/// What the containers that the author or the step fills have beyond any pod's.
fn held(pod: &Value, own: &HashSet<String>) -> BTreeSet<String> {
    let text = pod["spec"].to_string();
    let spec = from_json(&text, JsonLimits::DEFAULT).unwrap();
    let of_container = |list: ContainerList, name: &str| own.contains(&format!("{}/{name}", list.as_str()));
    privileges(&spec)
        .iter()
        .filter(|found| found.container.is_none_or(|(list, name)| of_container(list, name)))
        .map(|found| {
            let path = found.path.to_string();
            // The same for every container.
            match found.container {
                Some((list, name)) => {
                    let rest = path.replace(&format!("spec.{}[name={name}]", list.as_str()), "");
                    if rest.contains("volumeMounts") { format!("mount {:?}", found.value) } else { rest }
                }
                None => format!("{path} {:?}", found.value),
            }
        })
        .collect()
}

/// All containers, each as list/name.
fn containers(pod: &Value) -> Vec<(String, Value)> {
    let of_list = |list: &ContainerList| {
        let list = list.as_str();
        let all = pod["spec"][list].as_array().cloned().unwrap_or_default().into_iter();
        all.map(move |container| (format!("{list}/{}", container["name"].as_str().unwrap()), container))
    };
    ContainerList::ALL.iter().flat_map(of_list).collect()
}

fn name() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec!["build", "db", "dind", "helper", "*", "d*", "@command", "@sidecar"])
}

fn part() -> impl Strategy<Value = Value> {
    prop::sample::select(vec![
        json!({"image": "evil"}),
        json!({"image": "evil", "command": ["sh"]}),
        json!({"env": [{"name": "LD_PRELOAD", "value": "x"}]}),
        json!({"resources": {"limits": {"cpu": "2"}}}),
        json!({"image": "evil", "securityContext": {"privileged": true}}),
        json!({"securityContext": {"privileged": true}}),
        json!({"securityContext": {"privileged": false, "runAsUser": 5}}),
        json!({"image": "x", "securityContext": {"capabilities": {"add": ["SYS_ADMIN"]}}}),
        json!({"image": "x", "securityContext": {"runAsUser": 0}}),
        json!({"securityContext": null}),
        json!({"securityContext": {"$patch": "replace", "runAsUser": 0}}),
        json!({"image": "x", "volumeMounts": [{"name": "node", "mountPath": "/n"}]}),
        json!({"volumeMounts": [{"name": "cache", "mountPath": "/c"}]}),
        json!({"volumeMounts": [{"name": "own", "mountPath": "/c"}]}),
        json!({"volumeMounts": [{"name": "own", "mountPath": "/c", "$patch": "delete"}]}),
        json!({"$patch": "delete"}),
        json!({"$patch": "replace", "image": "y", "securityContext": {"privileged": true}}),
        json!({"image": "x", "restartPolicy": "Always"}),
        json!({"image": "x", "ports": [{"containerPort": 1, "hostPort": 1}]}),
        json!({"image": "x", "volumeDevices": [{"name": "own", "devicePath": "/d"}]}),
    ])
}

fn patch() -> impl Strategy<Value = Value> {
    let of_pod = prop::sample::select(vec![
        json!({}),
        json!({}),
        json!({"hostNetwork": true}),
        json!({"hostPID": null}),
        json!({"securityContext": {"runAsUser": 0}}),
        json!({"serviceAccountName": "admin"}),
        json!({"volumes": [{"name": "own", "emptyDir": null, "hostPath": {"path": "/"}}]}),
        json!({"volumes": [{"name": "cache", "hostPath": {"path": "/"}}]}),
        json!({"volumes": [{"name": "cache", "emptyDir": {}}]}),
        json!({"volumes": [{"$patch": "replace"}, {"name": "own", "hostPath": {"path": "/"}}]}),
        json!({"volumes": [{"name": "node", "$patch": "delete"}]}),
        json!({"$retainKeys": ["containers", "volumes"], "volumes": []}),
    ]);
    let lists = prop::sample::select(vec!["containers", "containers", "initContainers"]);
    (of_pod, lists, prop::collection::vec((name(), part()), 0..3), prop::bool::weighted(0.1)).prop_map(
        |(mut patch, list, parts, replace)| {
            let mut items = Vec::new();
            if replace {
                items.push(json!({"$patch": "replace"}));
            }
            for (name, mut item) in parts {
                if !items.iter().any(|known: &Value| known["name"] == name) {
                    item["name"] = json!(name);
                    items.push(item);
                }
            }
            if !items.is_empty() {
                patch[list] = json!(items);
            }
            patch
        },
    )
}

fn layers() -> impl Strategy<Value = Vec<LayerSource>> {
    prop::collection::vec(patch(), 0..3).prop_map(|patches| {
        let named = |(at, patch): (usize, Value)| {
            source("default", &format!("l{at}"), "", &[("podSpecPatch", patch.to_string().as_str())])
        };
        let scope = podlayer::layers::Scope { own_namespace: "podlayer" };
        let all = patches.into_iter().enumerate().map(named);
        all.filter(|source| podlayer::layers::parse(source, scope).is_ok()).collect()
    })
}

fn cases() -> u32 {
    std::env::var("PROPTEST_CASES").map_or(1000, |text| text.parse().unwrap())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_step_that_its_rules_hold_gains_nothing(
        layers in layers(), step in patch(), drop in any::<bool>(), ignore in any::<bool>()
    ) {
        let mut sources = layers;
        if drop {
            sources.push(crate::support::rules("onViolation: Drop"));
        }
        let on_step_error = if ignore { OnStepError::Ignore } else { OnStepError::Deny };
        let policy = Policy { on_step_error, ..Policy::default() };
        let pod = with_step(plain(), &step.to_string());
        let (Ok(without), Ok(with)) = (made(&plain(), &sources, &policy), made(&pod, &sources, &policy)) else {
            return Ok(());
        };
        // A layer that fails without the step and not with it gives what it gives.
        let applied = |pod: &Value| {
            let stamp: Value = serde_json::from_str(pod["metadata"]["annotations"]["podlayer.dev/applied"].as_str().unwrap()).unwrap();
            let ids = stamp["layers"].as_array().unwrap().iter().map(|id| id.as_str().unwrap().to_owned());
            ids.filter(|id| id != "step").collect::<Vec<_>>()
        };
        if applied(&without) != applied(&with) {
            return Ok(());
        }
        // Those of the pod as it came, and those that the step can choose the content of.
        let own: HashSet<String> = containers(&plain()).into_iter().map(|(name, _)| name).collect();
        let mut filled = own.clone();
        let content = |pod: &Value| -> HashMap<String, Value> {
            let all = containers(pod).into_iter();
            all.map(|(name, c)| (name, json!([c["image"], c["command"], c["env"]]))).collect()
        };
        let (before, after) = (content(&without), content(&with));
        filled.extend(after.iter().filter(|(name, what)| before.get(*name) != Some(*what)).map(|(name, _)| name.clone()));
        let (had, has) = (held(&without, &own), held(&with, &filled));
        prop_assert!(has.is_subset(&had), "gained {:?}\nstep {}\nlayers {:?}", has.difference(&had).collect::<Vec<_>>(), step,
            sources.iter().map(|s| s.data.clone()).collect::<Vec<_>>());
        // And what was made is made.
        let again = crate::support::decide(&with, &crate::support::snapshot(&sources), &policy);
        prop_assert_eq!(again.patch, None, "{}", with);
    }
}
