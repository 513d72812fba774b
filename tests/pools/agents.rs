//! Warm agents.

use serde_json::json;

use crate::{
    controlplane::wait_until,
    support::{Controller, LONG, change, condition, name, plane, pods, pool, template, wait_running},
};

#[test]
fn a_pool_follows_its_queue_and_every_change_of_its_spec() {
    let plane = plane();
    let namespace = plane.namespace("agents");
    let controller = Controller::start(plane, &namespace);
    let spec = json!({"mode": "Agents", "minIdle": 2, "max": 12, "template": template("large", 1)});
    plane.apply(&pool(&namespace, "p", &spec).to_string());
    let of_pool = "podlayer.dev/pool=p";
    let first = wait_running(plane, &namespace, of_pool, 2);
    assert!(first.iter().all(|pod| pod["metadata"]["labels"]["podlayer.dev/enabled"] == "true"));

    // Jobs that wait (no node has their label): an agent for each of them.
    let job = |number: usize| {
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": format!("j{number}"), "namespace": namespace, "labels": {"ci": "p"}},
               "spec": {"nodeSelector": {"test-node": "none"}, "containers": [{"name": "j", "image": "j"}]}})
    };
    let jobs: Vec<_> = (0..5).map(job).collect();
    plane.apply(&json!({"apiVersion": "v1", "kind": "List", "items": jobs}).to_string());
    wait_running(plane, &namespace, of_pool, 7);
    wait_until(LONG, "the demand to be told", || {
        let answer = controller.get(&format!("/v1/pools/{namespace}/p"));
        let body =
            answer.split("\r\n\r\n").nth(1).and_then(|body| serde_json::from_str::<serde_json::Value>(body).ok());
        body.is_some_and(|body| {
            body["queued"] == 5 && body["idle"] == 7 && body["inFlight"] == 5 && body["complete"] == true
        })
    });
    assert!(controller.get(&format!("/v1/pools/{namespace}/none")).starts_with("HTTP/1.1 404"));
    plane.kubectl(&["delete", "pods", "-n", &namespace, "-l", "ci=p", "--wait=false", "--grace-period=0", "--force"]);
    wait_running(plane, &namespace, of_pool, 2);

    // /scale, max and pause.
    assert!(plane.kubectl(&["scale", "agentpool/p", "-n", &namespace, "--replicas=6"]).ok);
    wait_running(plane, &namespace, of_pool, 6);
    change(plane, &namespace, "p", &json!({"max": 4}));
    wait_running(plane, &namespace, of_pool, 4);
    wait_until(LONG, "the limit to be told", || {
        condition(plane, &namespace, "p", "ScalingLimited") == ("True".into(), "AtMax".into())
    });
    change(plane, &namespace, "p", &json!({"paused": true, "max": 12}));
    wait_until(LONG, "the pause to be told", || condition(plane, &namespace, "p", "Paused").0 == "True");
    let victim = name(&pods(plane, &namespace, of_pool)[0]).to_owned();
    plane.kubectl(&["delete", "pod", &victim, "-n", &namespace]);
    wait_running(plane, &namespace, of_pool, 3);
    change(plane, &namespace, "p", &json!({"paused": false, "replicas": 0}));
    let kept = wait_running(plane, &namespace, of_pool, 2);

    // A new template takes the place of the old one.
    change(plane, &namespace, "p", &json!({"images": [{"name": "agent", "image": "agent:2"}]}));
    wait_until(LONG, "agents of the new image", || {
        let now = pods(plane, &namespace, of_pool);
        now.len() == 2 && now.iter().all(|pod| pod["spec"]["containers"][0]["image"] == "agent:2")
    });
    let uids: Vec<_> = kept.iter().map(|pod| pod["metadata"]["uid"].clone()).collect();
    assert!(pods(plane, &namespace, of_pool).iter().all(|pod| !uids.contains(&pod["metadata"]["uid"])));

    change(plane, &namespace, "p", &json!({"template": template("large", 2)}));
    wait_until(LONG, "agents of the new template", || {
        let now = pods(plane, &namespace, of_pool);
        let of_new = |pod: &serde_json::Value| pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] == "2";
        now.len() == 2 && now.iter().all(of_new)
    });
    wait_running(plane, &namespace, of_pool, 2);

    // What somebody deletes is back.
    let victim = name(&pods(plane, &namespace, of_pool)[1]).to_owned();
    plane.kubectl(&["delete", "pod", &victim, "-n", &namespace]);
    wait_running(plane, &namespace, of_pool, 2);
    wait_until(LONG, "the pool to be ready", || condition(plane, &namespace, "p", "Ready").0 == "True");
}

#[test]
fn scenario_26_a_busy_agent_can_not_be_evicted_and_an_idle_one_can() {
    let plane = plane();
    let namespace = plane.namespace("evict");
    let _controller = Controller::start(plane, &namespace);
    let spec = json!({"mode": "Agents", "minIdle": 1, "max": 5, "template": template("large", 1)});
    plane.apply(&pool(&namespace, "p", &spec).to_string());
    let agent = wait_running(plane, &namespace, "podlayer.dev/pool=p", 1).remove(0);
    let agent = name(&agent);
    plane.kubectl(&["label", "pod", agent, "-n", &namespace, "podlayer.dev/busy=true"]);
    // It is at work, so another is kept idle beside it.
    let both = wait_running(plane, &namespace, "podlayer.dev/pool=p", 2);
    let other = both.iter().map(name).find(|other| *other != agent).unwrap();
    let evict = |pod: &str| {
        let eviction =
            json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod, "namespace": namespace}});
        let path = format!("/api/v1/namespaces/{namespace}/pods/{pod}/eviction");
        plane.kubectl_in(&["create", "--raw", &path, "-f", "-"], &eviction.to_string())
    };
    wait_until(LONG, "the budget to be in force", || {
        let budget = plane.get_json(&["pdb", "p-busy", "-n", &namespace]);
        budget["status"]["currentHealthy"] == 1 && budget["status"]["disruptionsAllowed"] == 0
    });
    let refused = evict(agent);
    assert!(!refused.ok && refused.stderr.contains("violate the pod's disruption budget"), "{refused:?}");
    let annotations = |pod: &str| plane.get_json(&["pod", pod, "-n", &namespace])["metadata"]["annotations"].clone();
    wait_until(LONG, "the annotations of a busy agent", || {
        annotations(agent)["cluster-autoscaler.kubernetes.io/safe-to-evict"] == "false"
    });
    assert!(annotations(other).is_null() || annotations(other).get("karpenter.sh/do-not-disrupt").is_none());
    assert!(evict(other).ok);
    wait_running(plane, &namespace, "podlayer.dev/pool=p", 2);

    // Its work is done: it is one too many, and goes.
    plane.kubectl(&["label", "pod", agent, "-n", &namespace, "podlayer.dev/busy-"]);
    wait_running(plane, &namespace, "podlayer.dev/pool=p", 1);
}

#[test]
fn scenario_27_a_cordoned_nodes_idle_agent_goes_and_its_busy_one_stays() {
    let plane = plane();
    crate::kwok::Kwok::shared().node(plane, "cordoned", 10);
    let namespace = plane.namespace("cordon");
    let _controller = Controller::start(plane, &namespace);
    let spec = json!({"mode": "Agents", "minIdle": 1, "max": 5, "template": template("cordoned", 1)});
    plane.apply(&pool(&namespace, "p", &spec).to_string());
    let busy = wait_running(plane, &namespace, "podlayer.dev/pool=p", 1).remove(0);
    plane.kubectl(&["label", "pod", name(&busy), "-n", &namespace, "podlayer.dev/busy=true"]);
    let both = wait_running(plane, &namespace, "podlayer.dev/pool=p", 2);
    let idle = both.iter().find(|pod| name(pod) != name(&busy)).unwrap();
    assert!(plane.kubectl(&["cordon", "cordoned"]).ok);
    wait_until(LONG, "the idle agent to go", || {
        let now = pods(plane, &namespace, "podlayer.dev/pool=p");
        let has = |pod: &serde_json::Value| now.iter().any(|other| other["metadata"]["uid"] == pod["metadata"]["uid"]);
        has(&busy) && !has(idle) && now.len() == 2
    });
}

#[test]
fn scenario_51_children_that_somebody_edits_or_deletes_are_put_back_and_buildkit_is_resized() {
    let plane = plane();
    let namespace = plane.namespace("children");
    let _controller = Controller::start(plane, &namespace);
    let spec = json!({"mode": "Agents", "max": 1, "template": template("large", 1), "buildkit": {"replicas": 2}});
    plane.apply(&pool(&namespace, "p", &spec).to_string());
    let replicas = |count: i32| {
        wait_until(LONG, &format!("{count} of BuildKit"), || {
            let set = plane.kubectl(&[
                "get",
                "statefulset",
                "p-buildkit",
                "-n",
                &namespace,
                "-o",
                "jsonpath={.spec.replicas}",
            ]);
            set.stdout == count.to_string()
        });
    };
    replicas(2);
    plane.kubectl(&["scale", "statefulset/p-buildkit", "-n", &namespace, "--replicas=7"]);
    replicas(2);
    change(plane, &namespace, "p", &json!({"buildkit": {"replicas": 3}}));
    replicas(3);
    for (child, edit, field, kept) in [
        ("pdb/p-busy", json!({"spec": {"minAvailable": 0}}), "{.spec.minAvailable}", "100000"),
        (
            "service/p-buildkit",
            json!({"spec": {"selector": {"podlayer.dev/pool": "other"}}}),
            "{.spec.selector.podlayer\\.dev/pool}",
            "p",
        ),
    ] {
        wait_until(LONG, &format!("{child} to be made"), || plane.kubectl(&["get", child, "-n", &namespace]).ok);
        let edited = plane.kubectl(&["patch", child, "-n", &namespace, "--type=merge", "-p", &edit.to_string()]);
        assert!(edited.ok, "{}", edited.stderr);
        let output = format!("jsonpath={field}");
        wait_until(LONG, &format!("{child} to be as it was"), || {
            plane.kubectl(&["get", child, "-n", &namespace, "-o", &output]).stdout == kept
        });
    }
    for child in ["service/p-buildkit", "pdb/p-busy", "statefulset/p-buildkit"] {
        wait_until(LONG, &format!("{child} to be made"), || plane.kubectl(&["get", child, "-n", &namespace]).ok);
        let before = plane.get_json(&[child, "-n", &namespace])["metadata"]["uid"].clone();
        plane.kubectl(&["delete", child, "-n", &namespace]);
        wait_until(LONG, &format!("{child} to be back"), || {
            let found = plane.kubectl(&["get", child, "-n", &namespace, "-o", "json"]);
            let uid =
                serde_json::from_str::<serde_json::Value>(&found.stdout).map(|found| found["metadata"]["uid"].clone());
            found.ok && uid.is_ok_and(|uid| uid != before)
        });
    }
    change(plane, &namespace, "p", &json!({"buildkit": null}));
    wait_until(LONG, "BuildKit to go", || !plane.kubectl(&["get", "statefulset", "p-buildkit", "-n", &namespace]).ok);
}

#[test]
fn scenario_50_a_pool_goes_without_its_controller_and_leaves_nothing_terminating() {
    let plane = plane();
    let namespace = plane.namespace("gone");
    let mut controller = Controller::start(plane, &namespace);
    let spec = json!({"mode": "Agents", "minIdle": 2, "max": 3, "template": template("large", 1)});
    plane.apply(&pool(&namespace, "p", &spec).to_string());
    wait_running(plane, &namespace, "podlayer.dev/pool=p", 2);
    let made = plane.get_json(&["pods,pdb", "-n", &namespace, "-l", "podlayer.dev/pool=p"]);
    let made = made["items"].as_array().unwrap();
    assert!(made.len() == 3 && made.iter().all(|object| object["metadata"]["finalizers"].is_null()));
    assert!(controller.stop());
    assert!(plane.kubectl(&["delete", "agentpool", "p", "-n", &namespace, "--timeout=60s"]).ok);
    wait_until(LONG, "everything to be gone", || {
        let left = plane.get_json(&["pods,pdb,agentpools", "-n", &namespace]);
        left["items"].as_array().unwrap().is_empty()
    });
}
