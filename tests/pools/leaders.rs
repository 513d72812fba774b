//! Several controllers, one at work.

use serde_json::json;

use crate::{
    controlplane::wait_until,
    support::{Controller, LONG, plane, pods, pool, template, wait_running},
};

#[test]
fn a_leader_that_is_killed_while_its_pool_grows_is_followed_and_no_pod_is_made_twice_or_lost() {
    let plane = plane();
    let namespace = plane.namespace("leaders");
    let mut first = Controller::start(plane, &namespace);
    wait_until(LONG, "the first to lead", || first.get("/metrics").contains("podlayer_pool_leader 1"));
    let second = Controller::start(plane, &namespace);
    assert!(second.get("/metrics").contains("podlayer_pool_leader 0"));
    let mut spec = json!({"mode": "Agents", "minIdle": 20, "max": 20, "template": template("large", 1)});
    spec["scaleUp"] = json!({"maxStep": 5});
    plane.apply(&pool(&namespace, "p", &spec).to_string());
    wait_until(LONG, "some pods", || !pods(plane, &namespace, "podlayer.dev/pool=p").is_empty());
    first.kill();
    // A follower answers too.
    assert!(second.get(&format!("/v1/pools/{namespace}/p")).starts_with("HTTP/1.1 200"));
    let early = pods(plane, &namespace, "podlayer.dev/pool=p");
    let all = wait_running(plane, &namespace, "podlayer.dev/pool=p", 20);
    assert!(second.get("/metrics").contains("podlayer_pool_leader 1") || early.len() == 20);
    for pod in &early {
        assert!(all.iter().any(|other| other["metadata"]["uid"] == pod["metadata"]["uid"]), "none of them was deleted");
    }
}
