//! Placeholders.

use std::time::Duration;

use serde_json::{Value, json};

use crate::{
    controlplane::wait_until,
    kwok::Kwok,
    support::{Controller, LONG, name, plane, pods, pool, wait_running},
};

#[test]
fn real_jobs_take_the_place_of_placeholders_which_come_back_when_there_is_room() {
    let plane = plane();
    Kwok::shared().node(plane, "four-cpus", 4);
    let namespace = plane.namespace("headroom");
    let _controller = Controller::start(plane, &namespace);
    let spec = json!({"nodeSelector": {"test-node": "four-cpus"}, "terminationGracePeriodSeconds": 0,
                      "containers": [{"name": "j", "image": "j", "resources": {"requests": {"cpu": "1"}}}]});
    let headroom = json!({"mode": "Headroom", "minIdle": 2, "max": 9, "template": {"spec": spec}});
    plane.apply(&pool(&namespace, "p", &headroom).to_string());
    let held = wait_running(plane, &namespace, "podlayer.dev/pool=p", 2);
    for pod in &held {
        assert_eq!(pod["spec"]["containers"][0]["resources"]["requests"]["cpu"], "1");
        assert!(pod["spec"]["priority"].as_i64().unwrap() < 0);
        assert!(pod["metadata"]["labels"].get("podlayer.dev/enabled").is_none());
    }

    // Two jobs find room, two more take that of the placeholders.
    let job = |number: usize| -> Value {
        json!({"apiVersion": "v1", "kind": "Pod",
               "metadata": {"name": format!("j{number}"), "namespace": namespace, "labels": {"ci": "p"}}, "spec": spec})
    };
    let jobs: Vec<Value> = (0..4).map(job).collect();
    plane.apply(&json!({"apiVersion": "v1", "kind": "List", "items": jobs}).to_string());
    wait_running(plane, &namespace, "ci=p", 4);
    wait_until(LONG, "placeholders that wait for room", || {
        let now = pods(plane, &namespace, "podlayer.dev/pool=p");
        now.len() == 2 && now.iter().all(|pod| pod["status"]["phase"] == "Pending")
    });
    plane.kubectl(&["delete", "pods", "-n", &namespace, "-l", "ci=p", "--grace-period=0", "--force"]);
    wait_running(plane, &namespace, "podlayer.dev/pool=p", 2);
}

#[test]
fn without_a_template_placeholders_look_like_the_newest_job() {
    let plane = plane();
    let namespace = plane.namespace("sample");
    let _controller = Controller::start(plane, &namespace);
    plane.apply(&pool(&namespace, "p", &json!({"mode": "Headroom", "minIdle": 1, "max": 9})).to_string());
    wait_until(LONG, "the pool to say what it lacks", || {
        crate::support::condition(plane, &namespace, "p", "Degraded") == ("True".into(), "NoSample".into())
    });
    std::thread::sleep(Duration::from_millis(100));
    assert!(pods(plane, &namespace, "podlayer.dev/pool=p").is_empty());
    let job = |name: &str, cpus: &str| {
        let container = json!({"name": "j", "image": "j", "env": [{"name": "TOKEN", "value": "secret"}],
                               "resources": {"requests": {"cpu": cpus}}});
        let metadata = json!({"name": name, "namespace": namespace, "labels": {"ci": "p"}});
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata,
               "spec": {"nodeSelector": {"test-node": "large"}, "containers": [container]}})
    };
    plane.apply(&job("j1", "3").to_string());
    let held = wait_running(plane, &namespace, "podlayer.dev/pool=p", 1).remove(0);
    assert_eq!(held["spec"]["containers"][0]["resources"]["requests"]["cpu"], "3");
    assert_eq!(held["spec"]["nodeSelector"]["test-node"], "large");
    assert!(!held.to_string().contains("TOKEN"), "{}", name(&held));

    // A newer one, and once that is gone the one before it again.
    let next = |held: &Value| {
        plane.kubectl(&["delete", "pod", name(held), "-n", &namespace]);
        let mut next = Value::Null;
        wait_until(LONG, "another placeholder", || {
            next = pods(plane, &namespace, "podlayer.dev/pool=p").pop().unwrap_or_default();
            !next.is_null() && next["metadata"]["uid"] != held["metadata"]["uid"]
        });
        next
    };
    let cpus = |held: &Value| held["spec"]["containers"][0]["resources"]["requests"]["cpu"].clone();
    plane.apply(&job("j2", "5").to_string());
    let held = next(&held);
    assert_eq!(cpus(&held), "5");
    assert!(plane.kubectl(&["delete", "pod", "j2", "-n", &namespace, "--grace-period=0", "--force"]).ok);
    assert_eq!(cpus(&next(&held)), "3");
}
