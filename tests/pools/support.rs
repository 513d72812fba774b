//! The real `podlayer controller`, as a process.

#![allow(clippy::print_stderr, reason = "what the controller logged is shown where a test fails")]

use std::{
    path::PathBuf,
    process::{Child, Command, Stdio},
    time::Duration,
};

use serde_json::{Value, json};

use crate::controlplane::{ControlPlane, free_port, http_get, wait_until};

pub(crate) use crate::kwok::plane_of_pools as plane;

/// How long anything may take here: many times what it does on an idle machine.
pub(crate) const LONG: Duration = Duration::from_secs(90);

/// A running controller; ended when dropped.
pub(crate) struct Controller {
    child: Option<Child>,
    log: PathBuf,
    _folder: tempfile::TempDir,
    admin: u16,
}

impl Controller {
    /// Starts one for the pools of a namespace, in which its Lease and layers are too. Gives it back once it is ready.
    pub(crate) fn start(plane: &ControlPlane, namespace: &str) -> Self {
        Self::start_as(namespace, plane.kubeconfig())
    }

    /// Starts one with somebody's kubeconfig, and waits until it is ready.
    pub(crate) fn start_as(namespace: &str, kubeconfig: &str) -> Self {
        let controller = Self::spawn(namespace, kubeconfig);
        wait_until(LONG, "the controller to be ready", || controller.get("/readyz").starts_with("HTTP/1.1 200"));
        controller
    }

    /// Starts one and waits for nothing.
    pub(crate) fn spawn(namespace: &str, kubeconfig: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (admin, log) = (free_port(), folder.path().join("log"));
        let child = Command::new(env!("CARGO_BIN_EXE_podlayer"))
            .args(["controller", "--kubeconfig", kubeconfig, "--own-namespace", namespace])
            .args(["--admin-addr", &format!("127.0.0.1:{admin}"), "--settle-seconds", "1"])
            .args(["--log-filter", "podlayer=debug,info"])
            .stdin(Stdio::null())
            .stderr(std::fs::File::create(&log).unwrap())
            .spawn()
            .unwrap();
        Self { child: Some(child), log, _folder: folder, admin }
    }

    /// What its port answers, head and body.
    pub(crate) fn get(&self, path: &str) -> String {
        http_get(self.admin, path)
    }

    /// What it logged.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// kill -9.
    pub(crate) fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    /// SIGTERM; gives whether it ended well.
    pub(crate) fn stop(&mut self) -> bool {
        let Some(mut child) = self.child.take() else { return true };
        assert!(Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap().success());
        wait_until(LONG, "the controller to end", || child.try_wait().unwrap().is_some());
        child.wait().unwrap().success()
    }
}

impl Drop for Controller {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the controller's log:\n{}", self.log());
        }
        self.kill();
    }
}

/// A pool that takes pods away without delay.
pub(crate) fn pool(namespace: &str, name: &str, spec: &Value) -> Value {
    let mut whole = json!({"jobSelector": {"matchLabels": {"ci": name}}, "scaleDown": {"delaySeconds": 0}});
    for (key, value) in spec.as_object().unwrap() {
        whole[key] = value.clone();
    }
    json!({"apiVersion": "podlayer.dev/v1alpha1", "kind": "AgentPool",
           "metadata": {"name": name, "namespace": namespace}, "spec": whole})
}

/// A template of one container on a node.
pub(crate) fn template(node: &str, cpus: u32) -> Value {
    json!({"spec": {"nodeSelector": {"test-node": node}, "terminationGracePeriodSeconds": 0,
           "containers": [{"name": "agent", "image": "agent:1", "resources": {"requests": {"cpu": cpus.to_string()}}}]}})
}

/// The pods of a pool that aren't going.
pub(crate) fn pods(plane: &ControlPlane, namespace: &str, selector: &str) -> Vec<Value> {
    let all = plane.get_json(&["pods", "-n", namespace, "-l", selector]);
    let pods = all["items"].as_array().unwrap();
    pods.iter().filter(|pod| pod["metadata"]["deletionTimestamp"].is_null()).cloned().collect()
}

/// Waits until so many pods of a selector run, and no others are there.
pub(crate) fn wait_running(plane: &ControlPlane, namespace: &str, selector: &str, count: usize) -> Vec<Value> {
    let what = format!("{count} pods of {selector} to run");
    let mut last = Vec::new();
    wait_until(LONG, &what, || {
        last = pods(plane, namespace, selector);
        last.len() == count && last.iter().all(|pod| pod["status"]["phase"] == "Running")
    });
    last
}

pub(crate) fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap()
}

/// Changes a pool's spec.
pub(crate) fn change(plane: &ControlPlane, namespace: &str, pool: &str, spec: &Value) {
    let patch = json!({"spec": spec}).to_string();
    let changed = plane.kubectl(&["patch", "agentpool", pool, "-n", namespace, "--type=merge", "-p", &patch]);
    assert!(changed.ok, "{}", changed.stderr);
}

/// One condition of a pool: status and reason.
pub(crate) fn condition(plane: &ControlPlane, namespace: &str, pool: &str, kind: &str) -> (String, String) {
    let pool = plane.get_json(&["agentpool", pool, "-n", namespace]);
    let all = pool["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let found = all.iter().find(|condition| condition["type"] == kind);
    found.map_or_else(Default::default, |condition| (text(&condition["status"]), text(&condition["reason"])))
}
