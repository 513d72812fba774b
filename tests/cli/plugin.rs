//! As a plugin of kubectl.

use std::process::Command;

use crate::{folder, root};

fn plugin(args: &[&str]) -> (i32, String) {
    let folder = folder(&[]);
    let link = folder.path().join("kubectl-podlayer");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_podlayer"), &link).unwrap();
    let run = Command::new(link).args(args).output().unwrap();
    let text = String::from_utf8(run.stdout).unwrap() + &String::from_utf8(run.stderr).unwrap();
    (run.status.code().unwrap(), text)
}

#[test]
fn help_is_kubectls_and_shows_first_what_people_use_first() {
    let (code, help) = plugin(&["--help"]);
    assert_eq!(code, 0);
    assert!(help.contains("Usage: kubectl podlayer <COMMAND>"), "{help}");
    assert!(help.contains("kubectl podlayer explain job/NAME -n ci"), "{help}");
    let at = |word: &str| help.find(&format!("\n  {word} ")).unwrap_or_else(|| panic!("{word}: {help}"));
    assert!(at("explain") < at("lint") && at("lint") < at("diff") && at("diff") < at("render"), "{help}");
    for hidden in ["webhook", "conformance", "certs"] {
        assert!(!help.contains(&format!("\n  {hidden} ")), "{help}");
    }
    let (_, help) = plugin(&["explain", "--help"]);
    assert!(help.contains("Usage: kubectl podlayer explain"), "{help}");
    for flag in ["--kubeconfig", "--context", "--namespace"] {
        assert!(help.contains(flag), "{flag}: {help}");
    }
    let (code, text) = plugin(&["explain"]);
    assert_eq!(code, 2, "{text}");
}

#[test]
fn kubectl_is_told_what_can_stand_next() {
    let (code, text) = plugin(&["__complete", "ex"]);
    assert_eq!(
        (code, text.as_str()),
        (0, "explain\tSay which layer set which field of a pod, and what it replaced\n:4\n")
    );
    let (_, text) = plugin(&["__complete", "explain", "--out"]);
    assert_eq!(text, "--output\tWhat to print\n:4\n");
    let (_, text) = plugin(&["__complete", "explain", "--output", "h"]);
    assert_eq!(text, "html\tA page: each row of the pod in the colour of its layer\n:4\n");
    let (_, text) = plugin(&["__complete", "lint", ""]);
    assert!(text.ends_with(":0\n"), "{text}");
    let script = std::fs::read_to_string(root("manifests/krew/kubectl_complete-podlayer")).unwrap();
    assert!(script.contains("exec kubectl-podlayer __complete \"$@\""));
}

#[test]
fn the_manifest_for_krew_names_the_program() {
    let text = std::fs::read_to_string(root("manifests/krew/podlayer.yaml")).unwrap();
    let manifest: serde_json::Value = serde_yaml::from_str(&text).unwrap();
    assert_eq!((&manifest["kind"], &manifest["metadata"]["name"]), (&"Plugin".into(), &"podlayer".into()));
    assert_eq!(manifest["spec"]["version"], format!("v{}", env!("CARGO_PKG_VERSION")));
    let short = manifest["spec"]["shortDescription"].as_str().unwrap();
    assert!(short.len() <= 50 && !short.ends_with('.'), "krew's own limits: {short}");
    for platform in manifest["spec"]["platforms"].as_array().unwrap() {
        assert_eq!(platform["bin"], "kubectl-podlayer");
    }
}
