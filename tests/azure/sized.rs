//! The controller beside it: it counts and clears away, and looks after BuildKit.

use std::process::{Child, Command, Stdio};

use serde_json::json;

use crate::{
    controlplane::{free_port, wait_until},
    support::{LONG, Serve, acquire, at, bytes, change, name, namespace, plane, pods, pool, secrets},
};

struct Controller(Child);

impl Controller {
    fn start(namespace: &str) -> Self {
        let child = Command::new(env!("CARGO_BIN_EXE_podlayer"))
            .args(["controller", "--kubeconfig", plane().kubeconfig(), "--own-namespace", namespace])
            .args(["--admin-addr", &format!("127.0.0.1:{}", free_port()), "--settle-seconds", "1"])
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        Self(child.unwrap())
    }
}

impl Drop for Controller {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn the_controller_counts_agents_keeps_the_busy_ones_and_clears_away_what_ended() {
    let namespace = namespace("sized");
    pool(&namespace, "p", &json!({"max": 2, "scaleDown": {"delaySeconds": 0}}));
    let _controller = Controller::start(&namespace);
    let serve = Serve::start(&namespace, &[]);
    for agent in ["1", "2"] {
        assert_eq!(serve.insist(&at(&namespace, "p", "acquire"), &bytes(&acquire(agent))).body["accepted"], true);
    }
    let status = || plane().get_json(&["agentpool", "p", "-n", &namespace])["status"].clone();
    wait_until(LONG, "both to be counted as busy", || status()["busy"] == 2 && status()["desired"] == 2);
    let limited = |status: serde_json::Value| {
        let all = status["conditions"].as_array().cloned().unwrap_or_default();
        all.iter().any(|condition| condition["type"] == "ScalingLimited" && condition["reason"] == "AtMax")
    };
    wait_until(LONG, "the limit to be told", || limited(status()));
    // A change of the template replaces none of them, and no room below is made by taking one away.
    change(&namespace, "p", &json!({"max": 1, "images": [{"name": "agent", "image": "agent:2"}]}));
    wait_until(LONG, "the change to be seen", || status()["observedGeneration"] == 2);
    assert_eq!(pods(&namespace).len(), 2);
    // One ends: its pod goes, its Secret with it, and nobody put it in a list.
    let ended = name(&pods(&namespace)[0]).to_owned();
    let done = json!({"status": {"phase": "Succeeded", "containerStatuses": [{"name": "agent", "ready": false, "restartCount": 0,
        "image": "a", "imageID": "", "state": {"terminated": {"exitCode": 0, "finishedAt": "2020-01-01T00:00:00Z"}}}]}});
    let patched = plane().kubectl(&[
        "patch",
        "pod",
        &ended,
        "-n",
        &namespace,
        "--subresource=status",
        "--type=merge",
        "-p",
        &done.to_string(),
    ]);
    assert!(patched.ok, "{}", patched.stderr);
    wait_until(LONG, "the agent that ended to be cleared away", || {
        pods(&namespace).len() == 1 && secrets(&namespace).len() == 1
    });
}

#[test]
fn p3_builds_find_buildkit_by_the_old_names_and_nobody_elses_service_is_taken() {
    let namespace = namespace("buildkit");
    let _controller = Controller::start(&namespace);
    let theirs = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "buildkitd", "namespace": namespace},
                        "spec": {"selector": {"app": "theirs"}, "ports": [{"port": 1234}]}});
    plane().apply(&theirs.to_string());
    pool(&namespace, "p", &json!({"buildkit": {"replicas": 2}}));
    wait_until(LONG, "BuildKit", || {
        let found = plane().get_json(&["pods", "-n", &namespace, "-l", "role=buildkit"]);
        found["items"].as_array().unwrap().len() == 2
    });
    let service = || plane().get_json(&["service", "buildkitd", "-n", &namespace])["spec"]["selector"].clone();
    assert_eq!(service(), json!({"app": "theirs"}));
    assert!(plane().kubectl(&["delete", "service", "buildkitd", "-n", &namespace]).ok);
    // Any change of the pool has its children looked at.
    change(&namespace, "p", &json!({"buildkit": {"replicas": 1}}));
    wait_until(LONG, "our own Service", || plane().kubectl(&["get", "service", "buildkitd", "-n", &namespace]).ok);
    let selector = json!({"podlayer.dev/pool": "p", "podlayer.dev/pool-kind": "buildkit"});
    assert_eq!(service(), selector, "no agent and no webserver is behind it");
    wait_until(LONG, "one of BuildKit", || {
        plane().get_json(&["statefulset", "p-buildkit", "-n", &namespace])["spec"]["replicas"] == 1
    });
}
