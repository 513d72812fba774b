//! The real helm, built from the Go module in `tests/helm/helm`.
#![allow(dead_code, reason = "each test binary uses its own part of the harness")]

use std::{
    fs,
    path::PathBuf,
    process::{Command, Stdio},
    sync::OnceLock,
};

use serde_json::Value;

use crate::controlplane::{Output, Program, project_root};

/// The release of helm that `go.mod` names; a test compares.
pub(crate) const RELEASE: &str = "v4.3.1";

/// Runs helm with a kubeconfig and, unless they are null, values.
pub(crate) fn run(kubeconfig: &str, arguments: &[&str], values: &Value) -> Output {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("values.json");
    fs::write(&file, values.to_string()).unwrap();
    let mut command = Command::new(binary());
    command.args(arguments);
    if !values.is_null() {
        command.arg("--values").arg(&file);
    }
    let output = command
        .env("KUBECONFIG", kubeconfig)
        // The user's own repositories, plugins and caches stay out of tests.
        .env("HELM_CACHE_HOME", folder.path().join("cache"))
        .env("HELM_CONFIG_HOME", folder.path().join("config"))
        .env("HELM_DATA_HOME", folder.path().join("data"))
        .env_remove("HELM_NAMESPACE")
        .current_dir(project_root())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    Output {
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        ok: output.status.success(),
    }
}

/// The program, built on first use.
pub(crate) fn binary() -> PathBuf {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    let build = || {
        let source = project_root().join("tests/helm/helm");
        let ldflags = format!("-s -w -X helm.sh/helm/v4/internal/version.version={RELEASE}");
        let package = "helm.sh/helm/v4/cmd/helm";
        Program { name: "helm", source: &source, package, ldflags: &ldflags, minutes: 7 }.build()
    };
    BINARY.get_or_init(build).clone()
}
