//! What the API server makes of the definition.

use serde_json::{Value, json};

use crate::support::{plane, pool};

fn agents(more: Value) -> Value {
    let mut spec =
        json!({"mode": "Agents", "max": 3, "template": {"spec": {"containers": [{"name": "a", "image": "b"}]}}});
    for (key, value) in more.as_object().unwrap() {
        spec[key] = value.clone();
    }
    spec
}

#[test]
fn scenario_10_rules_refuse_what_makes_no_sense_and_say_what_to_write() {
    let plane = plane();
    let namespace = plane.namespace("definition");
    let schedule = |more: Value| {
        let mut schedule = json!({"name": "s", "start": "0 8 * * *", "durationSeconds": 3600});
        schedule.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({"schedules": [schedule]})
    };
    for (spec, want) in [
        (agents(json!({"jobSelector": {}})), "jobSelector is empty"),
        (agents(json!({"jobSelector": {"matchLabels": {}}})), "jobSelector is empty"),
        (agents(json!({"minIdle": 4})), "minIdle is more than max"),
        (json!({"mode": "Agents", "max": 3}), "mode Agents needs a template"),
        (json!({"mode": "Headroom", "max": 3, "shapeFrom": "Template"}), "shapeFrom: Template needs a template"),
        (json!({"mode": "Warm", "max": 3}), "Unsupported value: \"Warm\""),
        (agents(json!({"max": -1})), "greater than or equal to 0"),
        (agents(json!({"busy": {"source": "Label"}})), "need a key"),
        (agents(json!({"busy": {"source": "PodPhase"}, "minIdle": 1})), "minIdle must be 0"),
        (agents(schedule(json!({}))), "a schedule must set minIdle or max"),
        (agents(schedule(json!({"minIdle": 3, "max": 2}))), "minIdle is more than max"),
        (
            agents(json!({"jobSelector": {"matchExpressions": [{"key": "a", "operator": "In"}]}})),
            "In and NotIn need values",
        ),
        (agents(json!({"maxIdle": 4})), "unknown field \"spec.maxIdle\""),
    ] {
        let made = plane.kubectl_in(
            &["create", "--dry-run=server", "--validate=strict", "-f", "-"],
            &pool(&namespace, "p", &spec).to_string(),
        );
        assert!(!made.ok && made.stderr.contains(want), "{want:?} is not in {:?}", made.stderr);
    }
    let long = pool(&namespace, &"p".repeat(41), &agents(json!({})));
    let made = plane.kubectl_in(&["create", "--dry-run=server", "-f", "-"], &long.to_string());
    assert!(made.stderr.contains("more than 40 characters"), "{}", made.stderr);
}

#[test]
fn a_pool_can_be_scaled_and_is_stored_as_it_was_written() {
    let plane = plane();
    let namespace = plane.namespace("definition");
    let schedule =
        json!({"name": "s", "start": "0 8 * * 1-5", "durationSeconds": 3600, "timezone": "Europe/Berlin", "max": 9});
    let spec = agents(json!({"schedules": [schedule], "headroomPercent": 5}));
    let pool = pool(&namespace, "p", &spec);
    plane.apply(&pool.to_string());
    let mut stored = plane.get_json(&["agentpool", "p", "-n", &namespace])["spec"].clone();
    assert_eq!(stored.as_object_mut().unwrap().remove("replicas"), Some(json!(0)), "the only default");
    assert_eq!(stored, pool["spec"]);
    let scaled = plane.kubectl(&["scale", "agentpool/p", "-n", &namespace, "--replicas=2"]);
    assert!(scaled.ok, "{}", scaled.stderr);
    assert_eq!(plane.get_json(&["agentpool", "p", "-n", &namespace])["spec"]["replicas"], 2);
    let shown = plane.kubectl(&["get", "ap", "-n", &namespace]);
    let head = shown.stdout.lines().next().unwrap().split_whitespace().collect::<Vec<_>>();
    assert_eq!(
        head,
        ["NAME", "MODE", "MINIDLE", "MAX", "DESIRED", "IDLE", "BUSY", "QUEUED", "READY", "LIMITED", "AGE"]
    );
}
