//! The kinds of Gateway API and cert-manager, from the modules that `tests/cainjector` pins; no controller of either.
#![allow(dead_code, reason = "each test binary uses its own part of the harness")]

use std::{fs, path::PathBuf, process::Command, sync::Once, time::Duration};

use serde_json::Value;

use crate::controlplane::{ControlPlane, project_root, wait_until};

/// Each module with its folder and the files that are wanted.
const KINDS: [(&str, &str, &[&str]); 2] = [
    (
        "sigs.k8s.io/gateway-api",
        "config/crd/standard",
        &[
            "gateway.networking.k8s.io_gatewayclasses.yaml",
            "gateway.networking.k8s.io_gateways.yaml",
            "gateway.networking.k8s.io_httproutes.yaml",
        ],
    ),
    (
        "github.com/cert-manager/cert-manager",
        "deploy/crds",
        &["cert-manager.io_certificates.yaml", "cert-manager.io_clusterissuers.yaml"],
    ),
];

/// Installs them on the control plane that all tests of this process share, once.
pub(crate) fn install() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let plane = ControlPlane::shared();
        for (module, folder, files) in KINDS {
            let folder = module_folder(module).join(folder);
            for file in files {
                let text = fs::read_to_string(folder.join(file)).unwrap();
                // Too large for the annotation that a plain apply writes.
                let applied = plane.kubectl_in(&["apply", "--server-side", "-f", "-"], &text);
                assert!(applied.ok, "{file}: {}", applied.stderr);
            }
        }
        let kinds = ["gateways.gateway.networking.k8s.io", "httproutes.gateway.networking.k8s.io"];
        let more = ["certificates.cert-manager.io", "clusterissuers.cert-manager.io"];
        for kind in kinds.iter().chain(&more) {
            wait_until(Duration::from_secs(30), &format!("{kind} to be served"), || plane.kubectl(&["get", kind]).ok);
        }
    });
}

fn module_folder(module: &str) -> PathBuf {
    let output = Command::new("go")
        .args(["mod", "download", "-json", module])
        .current_dir(project_root().join("tests/cainjector"))
        .env("GOWORK", "off")
        .output()
        .unwrap_or_else(|error| panic!("can't run `go` ({error}): install Go 1.26 or newer and put it on the PATH"));
    assert!(output.status.success(), "{module}: {}", String::from_utf8_lossy(&output.stderr));
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    PathBuf::from(found["Dir"].as_str().unwrap())
}
