//! cert-manager's CA injector as a process, and the kinds of objects that it wants to be there.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use serde_json::Value;

use crate::controlplane::{ControlPlane, Program, project_root, wait_until};

/// A running cainjector; ended when dropped.
pub(crate) struct Injector {
    child: Child,
    folder: tempfile::TempDir,
}

impl Injector {
    /// Starts it as admin: what it may do is cert-manager's own business.
    pub(crate) fn start(plane: &ControlPlane) -> Self {
        let source = source();
        let program =
            Program { name: "cainjector", source: &source, package: ".", ldflags: "-s -w", minutes: 3 }.build();
        let folder = tempfile::tempdir().unwrap();
        let child = Command::new(program)
            .arg(plane.kubeconfig())
            .stderr(File::create(folder.path().join("log")).unwrap())
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        Self { child, folder }
    }
}

impl Drop for Injector {
    #[allow(clippy::print_stderr, reason = "what the injector logged is shown where a test fails")]
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("cainjector's log:\n{}", fs::read_to_string(self.folder.path().join("log")).unwrap_or_default());
        }
    }
}

/// Makes cert-manager's kinds known to the API server, from the files of its module.
pub(crate) fn install_kinds(plane: &ControlPlane) {
    let folder = module().join("deploy/crds");
    for kind in ["certificates", "issuers"] {
        let file = folder.join(format!("cert-manager.io_{kind}.yaml"));
        let applied = plane.kubectl(&["apply", "--server-side", "-f", &file.to_string_lossy()]);
        assert!(applied.ok, "{}", applied.stderr);
        // Established is not yet known to discovery, which kubectl asks.
        wait_until(Duration::from_secs(30), "cert-manager's kinds", || {
            plane.kubectl(&["get", &format!("{kind}.cert-manager.io"), "-A"]).ok
        });
    }
}

fn source() -> PathBuf {
    project_root().join("tests/cainjector")
}

/// The folder of the sources that the injector is built from.
fn module() -> PathBuf {
    let asked = Command::new("go")
        .args(["mod", "download", "-json", "github.com/cert-manager/cert-manager"])
        .current_dir(source())
        .env("GOWORK", "off")
        .output()
        .unwrap();
    assert!(asked.status.success(), "{}", String::from_utf8_lossy(&asked.stderr));
    let told: Value = serde_json::from_slice(&asked.stdout).unwrap();
    Path::new(told["Dir"].as_str().unwrap()).to_owned()
}
