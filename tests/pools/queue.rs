//! Two hundred jobs come and go.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use serde_json::{Value, json};

use crate::{
    controlplane::{ControlPlane, wait_until},
    kwok::Kwok,
    support::{Controller, plane, pods, pool, template},
};

const JOBS: usize = 200;

/// How long so many pods may take on a machine that is busy: many times what they do on an idle one.
const LONG: Duration = Duration::from_secs(240);

/// One of these tests at a time: each keeps a whole control plane busy.
fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits until so many pods of a selector run, and no others are there. Looks seldom, for each look reads all of them.
fn wait_running(plane: &ControlPlane, namespace: &str, selector: &str, count: usize) {
    wait_until(LONG, &format!("{count} pods of {selector} to run"), || {
        std::thread::sleep(Duration::from_millis(500));
        let all = pods(plane, namespace, selector);
        all.len() == count && running(&all) == count
    });
}

fn running(pods: &[Value]) -> usize {
    pods.iter().filter(|pod| pod["status"]["phase"] == "Running").count()
}

#[test]
fn agents_follow_a_queue_of_two_hundred_jobs_up_and_down() {
    let (plane, _turn) = (plane(), turn());
    let namespace = plane.namespace("queue");
    let _controller = Controller::start(plane, &namespace);
    let mut spec = json!({"mode": "Agents", "minIdle": 2, "max": 210, "template": template("large", 1)});
    spec["scaleDown"] = json!({"delaySeconds": 0, "maxStep": 250});
    spec["scaleUp"] = json!({"maxStep": 100});
    plane.apply(&pool(&namespace, "p", &spec).to_string());
    wait_running(plane, &namespace, "podlayer.dev/pool=p", 2);

    // No node has their label: they wait, and each of them wants an agent.
    let job = json!({"restartPolicy": "Never", "nodeSelector": {"test-node": "none"},
                     "containers": [{"name": "j", "image": "j"}]});
    let jobs = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "jobs", "namespace": namespace},
        "spec": {"parallelism": JOBS, "completions": JOBS,
                 "template": {"metadata": {"labels": {"ci": "p"}}, "spec": job}}});
    plane.apply(&jobs.to_string());
    wait_running(plane, &namespace, "podlayer.dev/pool=p", JOBS + 2);
    wait_until(LONG, "the pool to tell its queue", || {
        let status = plane.get_json(&["agentpool", "p", "-n", &namespace])["status"].clone();
        status["queued"] == JOBS && status["idle"] == JOBS + 2 && status["desired"] == JOBS + 2
    });

    plane.kubectl(&["delete", "job", "jobs", "-n", &namespace, "--wait=false"]);
    wait_running(plane, &namespace, "podlayer.dev/pool=p", 2);
}

#[test]
fn headroom_gives_way_to_two_hundred_jobs_and_is_filled_again_when_they_are_done() {
    const HEADROOM: usize = 10;
    /// For all jobs and half of the headroom.
    const CPUS: u32 = 205;
    let (plane, _turn) = (plane(), turn());
    Kwok::shared().node(plane, "many-jobs", CPUS);
    let namespace = plane.namespace("queue");
    let _controller = Controller::start(plane, &namespace);
    let mut template = template("many-jobs", 1);
    let headroom = json!({"mode": "Headroom", "minIdle": HEADROOM, "max": 300, "template": template});
    plane.apply(&pool(&namespace, "p", &headroom).to_string());
    let of_pool = "podlayer.dev/pool=p";
    wait_running(plane, &namespace, of_pool, HEADROOM);

    // Made by a ReplicaSet: kwok ends the pods of a Job as soon as they run.
    template["metadata"] = json!({"labels": {"ci": "p"}});
    let jobs = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "jobs", "namespace": namespace},
        "spec": {"replicas": JOBS, "selector": {"matchLabels": {"ci": "p"}}, "template": template}});
    plane.apply(&jobs.to_string());
    wait_running(plane, &namespace, "ci=p", JOBS);
    let mut now = Vec::new();
    wait_until(LONG, "placeholders that wait for room", || {
        now = pods(plane, &namespace, of_pool);
        now.len() == HEADROOM && running(&now) == HEADROOM / 2
    });
    let preempted = plane.kubectl(&["get", "events", "-n", &namespace, "--field-selector=reason=Preempted"]).stdout;
    assert!(preempted.contains("pod/p-"), "jobs took their room from placeholders: {preempted}");

    plane.kubectl(&["delete", "replicaset", "jobs", "-n", &namespace, "--wait=false"]);
    wait_running(plane, &namespace, of_pool, HEADROOM);
}
