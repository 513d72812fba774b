//! What is counted of pods that really start, wait, fail and are evicted.

use serde_json::{Value, json};

use crate::{
    controlplane::wait_until,
    kwok::Kwok,
    support::{Controller, LONG, name, plane, pool, template, wait_running},
};

/// The value of a series, if there is one.
fn value(controller: &Controller, series: &str) -> Option<f64> {
    let answer = controller.get("/metrics");
    let line = answer.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '))?;
    Some(line.parse().unwrap())
}

#[test]
fn starts_waits_evictions_and_failures_are_counted_by_the_leader_alone_and_both_say_how_old_their_view_is() {
    let plane = plane();
    let namespace = plane.namespace("metrics");
    let leader = Controller::start(plane, &namespace);
    wait_until(LONG, "it to lead", || leader.get("/metrics").contains("podlayer_pool_leader 1"));
    let follower = Controller::start(plane, &namespace);
    let series = |what: &str, more: &str| format!("podlayer_pool_{what}{{namespace=\"{namespace}\",pool=\"p\"{more}}}");
    let told = |what: &str| value(&leader, &series(what, ""));
    let until = |what: &str, count: f64| {
        wait_until(LONG, &format!("{what} to be {count}"), || told(what) == Some(count));
    };

    let mut spec = json!({"mode": "Agents", "minIdle": 1, "max": 6, "template": template("large", 1)});
    // Nothing keeps others from an agent at work.
    spec["protection"] = json!({"pdb": "None"});
    plane.apply(&pool(&namespace, "p", &spec).to_string());
    let agent = wait_running(plane, &namespace, "podlayer.dev/pool=p", 1).remove(0);
    until("start_seconds_count", 1.0);
    // As the pod itself says it.
    let time = |text: &Value| text.as_str().unwrap().parse::<jiff::Timestamp>().unwrap();
    let seen = plane.get_json(&["pod", name(&agent), "-n", &namespace]);
    let conditions = seen["status"]["conditions"].as_array().unwrap();
    let ready = conditions.iter().find(|condition| condition["type"] == "Ready").unwrap();
    let took = time(&ready["lastTransitionTime"]).duration_since(time(&seen["metadata"]["creationTimestamp"]));
    assert_eq!(told("start_seconds_sum"), Some(took.as_secs_f64()));
    assert_eq!(told("queue_seconds_count"), Some(0.0), "there is a 0 before there is anything to count");
    assert_eq!(told("busy_evictions_total"), Some(0.0));

    // It gets work, and is evicted; then its follower, which has none.
    let evict = |pod: &str| {
        let eviction =
            json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod, "namespace": namespace}});
        let path = format!("/api/v1/namespaces/{namespace}/pods/{pod}/eviction");
        let evicted = plane.kubectl_in(&["create", "--raw", &path, "-f", "-"], &eviction.to_string());
        assert!(evicted.ok, "{}", evicted.stderr);
    };
    plane.kubectl(&["label", "pod", name(&agent), "-n", &namespace, "podlayer.dev/busy=true"]);
    wait_running(plane, &namespace, "podlayer.dev/pool=p", 2);
    evict(name(&agent));
    until("busy_evictions_total", 1.0);
    let idle = wait_running(plane, &namespace, "podlayer.dev/pool=p", 1).remove(0);
    evict(name(&idle));
    until("start_seconds_count", 3.0);

    // A job that waits for its node.
    let node = format!("late-{namespace}");
    let job = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "j", "namespace": namespace, "labels": {"ci": "p"}},
        "spec": {"nodeSelector": {"test-node": node}, "containers": [{"name": "j", "image": "j"}]}});
    plane.apply(&job.to_string());
    wait_until(LONG, "the job to be counted as waiting", || told("queued") == Some(1.0));
    std::thread::sleep(std::time::Duration::from_millis(1100));
    Kwok::shared().node(plane, &node, 1);
    until("queue_seconds_count", 1.0);
    let waited = told("queue_seconds_sum").unwrap();
    assert!((1.0..LONG.as_secs_f64()).contains(&waited), "{waited}");
    assert_eq!(told("busy_evictions_total"), Some(1.0), "the idle one was none");

    // An agent that fails at once.
    let last = wait_running(plane, &namespace, "podlayer.dev/pool=p", 1).remove(0);
    let failed = json!({"status": {"phase": "Failed"}}).to_string();
    let (pod, patch) = (name(&last), ["--subresource=status", "--type=merge", "-p", &failed]);
    let patched = plane.kubectl(&[&["patch", "pod", pod, "-n", &namespace], &patch[..]].concat());
    assert!(patched.ok, "{}", patched.stderr);
    let ended = series("start_failures_total", ",reason=\"ended\"");
    wait_until(LONG, "the failure", || value(&leader, &ended) == Some(1.0));
    assert_eq!(value(&leader, &series("start_failures_total", ",reason=\"image\"")), Some(0.0));

    for controller in [&leader, &follower] {
        for signal in ["pods", "pools"] {
            let age = format!("podlayer_pool_signal_age_seconds{{namespace=\"{namespace}\",signal=\"{signal}\"}}");
            let age = value(controller, &age).unwrap();
            assert!((0.0..15.0).contains(&age), "{signal}: {age}");
        }
    }
    assert!(!follower.get("/metrics").contains("pool=\"p\""), "{}", follower.get("/metrics"));
}
