//! Nodes without machines, so that pods run: kwok, built from the Go module in `tests/kwok`.
//!
//! It shows scheduling, not how long a node or an image takes.

#![allow(dead_code, reason = "each test binary uses its own part of the harness")]

use std::{
    fs::{self, File},
    hash::{DefaultHasher, Hash, Hasher},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::OnceLock,
    time::Duration,
};

use serde_json::json;

use crate::controlplane::{ControlPlane, free_port, wait_until};

/// The shared control plane, with a large node, the definition of pools and the placeholders' PriorityClass.
pub(crate) fn plane_of_pools() -> &'static ControlPlane {
    static READY: OnceLock<()> = OnceLock::new();
    let plane = ControlPlane::shared();
    READY.get_or_init(|| {
        Kwok::shared().node(plane, "large", 1000);
        let crd = Command::new(env!("CARGO_BIN_EXE_podlayer")).arg("crd").output().unwrap();
        plane.apply(&String::from_utf8(crd.stdout).unwrap());
        plane.apply(include_str!("../../manifests/pools/priority-class.yaml"));
        wait_until(Duration::from_secs(120), "pools to be served", || plane.kubectl(&["get", "agentpools"]).ok);
    });
    plane
}

/// A running kwok; ended when dropped, or with the control plane whose nodes it plays.
pub(crate) struct Kwok {
    child: Child,
    folder: tempfile::TempDir,
}

impl Kwok {
    /// The one that all tests of this process share, with the control plane that they share.
    pub(crate) fn shared() -> &'static Self {
        static SHARED: OnceLock<Kwok> = OnceLock::new();
        SHARED.get_or_init(|| Self::start(ControlPlane::shared()))
    }

    fn start(plane: &ControlPlane) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let stages = folder.path().join("stages.yaml");
        fs::write(&stages, stages_of(&module())).unwrap();
        let log = File::create(folder.path().join("log")).unwrap();
        // The shell ends kwok when our end of its stdin is closed, as the kernel does however this process dies.
        let child = Command::new("sh")
            .args(["-c", "\"$@\" & kwok=$!; cat >/dev/null; kill $kwok", "sh"])
            .arg(binary())
            .args(["--kubeconfig", plane.kubeconfig(), "--config"])
            .arg(&stages)
            .args([
                "--manage-nodes-with-annotation-selector=kwok.x-k8s.io/node=fake",
                "--node-lease-duration-seconds=40",
            ])
            .args(["--cidr=10.200.0.0/16", &format!("--server-address=127.0.0.1:{}", free_port())])
            .stdin(Stdio::piped())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        Self { child, folder }
    }

    /// Adds a node of so many CPUs, labelled with its name, and waits until it is ready.
    pub(crate) fn node(&self, plane: &ControlPlane, name: &str, cpus: u32) {
        let room = json!({"cpu": cpus.to_string(), "memory": "1000Gi", "pods": "2000"});
        plane.apply(
            &json!({"apiVersion": "v1", "kind": "Node",
                "metadata": {"name": name, "labels": {"test-node": name}, "annotations": {"kwok.x-k8s.io/node": "fake"}},
                "status": {"allocatable": room, "capacity": room}})
            .to_string(),
        );
        wait_until(Duration::from_secs(60), &format!("node {name} to be ready"), || {
            let node = plane.get_json(&["node", name]);
            let ready = node["status"]["conditions"].as_array().is_some_and(|all| {
                all.iter().any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
            });
            ready && node["spec"]["taints"].is_null()
        });
    }

    /// What it logged.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }
}

impl Drop for Kwok {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

fn source() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kwok")
}

fn go(arguments: &[&str]) -> String {
    let output = Command::new("go")
        .args(arguments)
        .current_dir(source())
        .env("CGO_ENABLED", "0")
        .env("GOWORK", "off")
        .output()
        .unwrap_or_else(|error| panic!("can't run `go` ({error}): install Go 1.26 or newer and put it on the PATH"));
    assert!(output.status.success(), "go {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

fn module() -> PathBuf {
    go(&["list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/kwok"]).into()
}

fn stages_of(module: &Path) -> String {
    let files = [
        "node/fast/node-initialize.yaml",
        "node/heartbeat-with-lease/node-heartbeat-with-lease.yaml",
        "pod/fast/pod-ready.yaml",
        "pod/fast/pod-complete.yaml",
        "pod/fast/pod-delete.yaml",
    ];
    let text = |file: &&str| fs::read_to_string(module.join("kustomize/stage").join(file)).unwrap();
    files.iter().map(text).collect::<Vec<_>>().join("\n---\n")
}

/// kwok, built on first use and again when its sources change; test processes that run at the same time build it once.
fn binary() -> PathBuf {
    let mut hasher = DefaultHasher::new();
    for file in ["go.mod", "go.sum"] {
        fs::read(source().join(file)).unwrap().hash(&mut hasher);
    }
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| "target".into(), PathBuf::from);
    let cache = Path::new(env!("CARGO_MANIFEST_DIR")).join(target).join("kwok");
    let folder = cache.join(format!("{:016x}", hasher.finish()));
    let binary = folder.join("kwok");
    fs::create_dir_all(&folder).unwrap();
    let lock = File::create(cache.join("lock")).unwrap();
    lock.lock().unwrap();
    if !binary.exists() {
        // Built under another name: a build that was killed leaves no half binary.
        let unfinished = folder.join("unfinished");
        let out = unfinished.to_str().unwrap();
        go(&["build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w", "-o", out, "sigs.k8s.io/kwok/cmd/kwok"]);
        fs::rename(&unfinished, &binary).unwrap();
    }
    binary
}
