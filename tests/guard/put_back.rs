//! `onViolation: Drop` and `Clamp`: the pod is made without what isn't allowed, and says so.

use podlayer::admission::Policy;
use serde_json::{Value, json};

use crate::support::{buildkite, decide, made, plain, rules, snapshot, with_step};

fn stamp(pod: &Value) -> Value {
    serde_json::from_str(pod["metadata"]["annotations"]["podlayer.dev/applied"].as_str().unwrap()).unwrap()
}

/// The pod, with the check that deciding it again changes nothing.
fn settled(pod: &Value, text: &str) -> Value {
    let sources = [rules(text)];
    let once = made(pod, &sources, &Policy::default()).unwrap();
    let twice = decide(&once, &snapshot(&sources), &Policy::default());
    assert_eq!(twice.patch, None, "{once}");
    once
}

#[test]
fn what_is_not_allowed_is_put_back_and_the_rest_stays() {
    let step = "hostNetwork: true\ntolerations: [{key: a}]\nvolumes: [{name: own, emptyDir: null, hostPath: {path: /}}]\n\
                containers: [{name: build, image: x:1, securityContext: {privileged: true}}, {name: db, image: db, \
                securityContext: {privileged: true}}]";
    let pod = with_step(plain(), step);
    let made = settled(&pod, "onViolation: Drop");
    let mut wanted = pod["spec"].clone();
    wanted["containers"][0]["image"] = json!("x:1");
    assert_eq!(made["spec"], wanted);
    let stamp = stamp(&made);
    assert_eq!(stamp["layers"], json!(["step"]));
    let whys: Vec<&str> =
        stamp["skipped"].as_array().unwrap().iter().map(|skip| skip["why"].as_str().unwrap()).collect();
    assert!(whys[2].starts_with("spec.hostNetwork put back: may not be changed by a step"), "{whys:?}");
    assert!(whys.iter().any(|why| why.starts_with("spec.containers[name=db]")), "{whys:?}");
    let provenance = made["metadata"]["annotations"]["podlayer.dev/provenance"].as_str().unwrap();
    assert!(provenance.contains("name=build].image") && !provenance.contains("hostNetwork"), "{provenance}");
}

#[test]
fn what_was_taken_away_or_moved_comes_back() {
    let step = "$setElementOrder/containers: [{name: agent}, {name: container-0}]\n\
                containers: [{name: agent, env: [{name: BUILDKITE_AGENT_TOKEN, $patch: delete}]}, {name: container-0, image: x:1}]";
    let pod = with_step(buildkite(), step);
    let made = settled(&pod, "onViolation: Drop");
    assert_eq!(made["spec"]["containers"][1], pod["spec"]["containers"][1]);
    let names: Vec<&str> =
        made["spec"]["containers"].as_array().unwrap().iter().map(|c| c["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["container-0", "agent", "checkout"]);
}

#[test]
fn amounts_are_clamped_and_only_amounts() {
    let text =
        "{onViolation: Clamp, limits: {\"containers[*].resources.limits.memory\": 2Gi, activeDeadlineSeconds: 60}}";
    let step = "containers: [{name: build, resources: {limits: {memory: 8Gi, cpu: 9}}}, {name: db, image: db}]";
    let made_pod = settled(&with_step(plain(), step), text);
    let container = |name: &str| {
        made_pod["spec"]["containers"].as_array().unwrap().iter().find(|c| c["name"] == name).unwrap().clone()
    };
    assert_eq!(container("build")["resources"]["limits"], json!({"cpu": 9, "memory": "2Gi"}));
    assert_eq!(container("db")["resources"], json!({"limits": {"memory": "2Gi"}}));
    assert!(stamp(&made_pod)["skipped"][0]["why"].as_str().unwrap().contains("set to its limit"), "{made_pod}");
    let removed = with_step(plain(), "containers: [{name: build, resources: {limits: {memory: null}}}]");
    assert_eq!(settled(&removed, text)["spec"]["containers"][0]["resources"]["limits"]["memory"], "2Gi");
    let long = with_step(plain(), "activeDeadlineSeconds: 600");
    assert_eq!(settled(&long, text)["spec"]["activeDeadlineSeconds"], json!(60));
    let other = with_step(plain(), "hostNetwork: true");
    let refused = made(&other, &[rules(text)], &Policy::default()).unwrap_err();
    assert!(refused.starts_with("spec.hostNetwork may not be changed by a step"), "{refused}");
}
