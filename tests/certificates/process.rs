//! `podlayer webhook` as a process, with the rights of one account.

use std::process::{Child, Command, Stdio};

use serde_json::json;

use crate::controlplane::{ControlPlane, free_port, http_get};

/// A running `podlayer webhook`; ended when dropped.
pub(crate) struct Program {
    child: Child,
    admin: u16,
    folder: tempfile::TempDir,
}

impl Program {
    /// Starts it with these arguments, its admin port on an address of this machine's.
    pub(crate) fn start(kubeconfig: &str, arguments: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("kubeconfig");
        std::fs::write(&file, kubeconfig).unwrap();
        let admin = free_port();
        let child = Command::new(env!("CARGO_BIN_EXE_podlayer"))
            .arg("webhook")
            .arg("--kubeconfig")
            .arg(&file)
            .args(["--admin-addr", &format!("127.0.0.1:{admin}")])
            .args(arguments)
            .stderr(std::fs::File::create(folder.path().join("log")).unwrap())
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        Self { child, admin, folder }
    }

    pub(crate) fn get(&self, path: &str) -> String {
        http_get(self.admin, path)
    }

    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }
}

impl Drop for Program {
    #[allow(clippy::print_stderr, reason = "what the program logged is shown where a test fails")]
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("podlayer's log:\n{}", self.log());
        }
    }
}

/// Of somebody with this token.
pub(crate) fn kubeconfig(plane: &ControlPlane, token: &str) -> String {
    json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "plane",
        "contexts": [{"name": "plane", "context": {"cluster": "plane", "user": "user"}}],
        "clusters": [{"name": "plane", "cluster": {"server": plane.server(), "certificate-authority": plane.ca()}}],
        "users": [{"name": "user", "user": {"token": token}}],
    })
    .to_string()
}
