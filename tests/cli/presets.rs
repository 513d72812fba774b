//! What podlayer knows of CI systems, on pods as those make them.

use serde_json::{Value, json};

use crate::{folder, podlayer, root};

#[test]
fn the_page_about_presets_is_what_the_program_prints() {
    let printed = podlayer(&["presets", "-o", "markdown"], "");
    let page = std::fs::read_to_string(root("docs/presets.md")).unwrap();
    assert!(printed.stdout == page, "docs/presets.md is old: run .ci/generate");
}

#[test]
fn the_chart_gets_names_and_labels_of_every_preset() {
    let list: Value = serde_json::from_str(&podlayer(&["presets", "-o", "json"], "").stdout).unwrap();
    assert_eq!(list[0], json!({"name": "buildkite", "selectors": [{"buildkite.com/job-uuid": null}]}));
    assert_eq!(list[1]["selectors"], json!([{"actions-ephemeral-runner": "True"}]));
    assert_eq!(list[6]["without"], json!(["workflows.argoproj.io/component"]));
    assert_eq!(list.as_array().unwrap().len(), 8);
    assert!(podlayer(&["presets"], "").stdout.starts_with("buildkite     buildkite.com/job-uuid\n"));
}

/// A pod of agent-stack-k8s, not opted in by a label.
fn pod() -> Value {
    let text = std::fs::read_to_string(root("tests/data/jobs/buildkite/plain-step-pod.yaml")).unwrap();
    serde_yaml::from_str(&text).unwrap()
}

fn class(name: &str, patch: &str, matches: &str) -> String {
    format!(
        "kind: ConfigMap\nmetadata: {{name: {name}, labels: {{podlayer.dev/layer: class}}}}\n\
         data:\n  match: '{matches}'\n  podSpecPatch: |\n    {patch}\n"
    )
}

fn stamp(run: &crate::Run) -> Value {
    let pod: Value = serde_json::from_str(&run.stdout).unwrap();
    serde_json::from_str(pod["metadata"]["annotations"]["podlayer.dev/applied"].as_str().unwrap()).unwrap()
}

#[test]
fn a_preset_opts_in_only_where_the_flag_names_it() {
    let pod = pod().to_string();
    let layers = folder(&[("a.yaml", "hostNetwork: true\n")]);
    let render = |more: &[&str]| {
        let mut args = vec!["render", "-f", "-", "-o", "json", "--layers", layers.path().to_str().unwrap()];
        args.extend(more);
        podlayer(&args, &pod)
    };
    let alone = render(&[]);
    assert!(
        alone.stderr.contains("is not opted in") && !alone.stdout.contains("podlayer.dev/applied"),
        "{}",
        alone.stderr
    );
    assert!(!render(&["--presets", "gitlab,tekton"]).stdout.contains("podlayer.dev/applied"));
    assert_eq!(stamp(&render(&["--presets", "gitlab,buildkite"]))["layers"], json!(["default/a"]));
    let unknown = render(&["--presets", "bildkite"]);
    assert!(unknown.code == 2 && unknown.stderr.contains("buildkite"), "{}", unknown.stderr);
}

#[test]
fn buildkites_resource_class_is_a_class_and_one_unknown_there_is_ignored() {
    let layers = folder(&[
        ("large.yaml", &class("large", "priorityClassName: high", "{}")),
        ("other.yaml", &class("other", "hostNetwork: true", "namespaces: [elsewhere]")),
        ("gpu.yaml", &class("gpu", "nodeSelector: {pool: gpu}", "{}")),
    ]);
    let applied = |resource_class: &str, classes: &str| {
        let mut pod = pod();
        pod["metadata"]["labels"]["tag.buildkite.com/resource_class"] = json!(resource_class);
        pod["metadata"]["annotations"]["podlayer.dev/classes"] = json!(classes);
        let args =
            ["render", "-f", "-", "-o", "json", "--presets", "buildkite", "--layers", layers.path().to_str().unwrap()];
        let run = podlayer(&args, &pod.to_string());
        assert_eq!(run.code, 0, "{}", run.stderr);
        stamp(&run)["layers"].clone()
    };
    assert_eq!(applied("large", ""), json!(["class/large"]));
    assert_eq!(applied("large", "gpu,large"), json!(["class/large", "class/gpu"]), "the label first, each once");
    assert_eq!(applied("huge", "gpu"), json!(["class/gpu"]));
    assert_eq!(applied("other", ""), json!([]), "its match doesn't fit, which is nobody's mistake");
}

#[test]
fn what_is_the_ci_systems_own_stays_whoever_patches_it() {
    let mut pod = pod();
    let command = json!(pod["spec"]["containers"][0]["command"]);
    let layers = folder(&[
        ("bad.yaml", "containers:\n- {name: container-0, command: [sh]}\n"),
        ("good.yaml", "containers:\n- {name: dind, image: docker:27, command: [dockerd]}\n"),
    ]);
    let args =
        ["render", "-f", "-", "-o", "json", "--presets", "buildkite", "--layers", layers.path().to_str().unwrap()];
    let run = podlayer(&args, &pod.to_string());
    let stamp = stamp(&run);
    assert_eq!(stamp["layers"], json!(["default/good"]));
    let why = stamp["skipped"][0]["why"].as_str().unwrap();
    assert!(
        why.starts_with(
            "spec.containers[name=container-0].command can't be changed by a layer: it belongs to agent-stack-k8s, whose \
             agent runs the job by it"
        ),
        "{why}"
    );
    let made: Value = serde_json::from_str(&run.stdout).unwrap();
    let container = made["spec"]["containers"].as_array().unwrap().iter().find(|c| c["name"] == "container-0").unwrap();
    assert_eq!(container["command"], command);

    let step = "containers:\n- name: agent\n  $patch: delete\n";
    pod["metadata"]["annotations"]["podlayer.dev/pod-spec-patch"] = json!(step);
    let run = podlayer(&["render", "-f", "-", "--presets", "buildkite"], &pod.to_string());
    assert_eq!((run.code, run.stdout.as_str()), (1, ""));
    assert!(run.stderr.starts_with("spec.containers[name=agent] can't be changed by a layer"), "{}", run.stderr);
}

#[test]
fn lint_warns_of_what_the_ci_system_takes_badly() {
    let by_match = "kind: ConfigMap\nmetadata:\n  name: bk\n  labels: {podlayer.dev/layer: default}\ndata:\n  match: |\n    \
                    matchExpressions: [{key: buildkite.com/job-uuid, operator: Exists}]\n  podSpecPatch: |\n    containers:\n    \
                    - name: container-0\n      env: [{name: BUILDKITE_BUILD_PATH, value: /b}]\n    - {name: dind, image: d}\n    \
                    initContainers:\n    - {name: warm, image: w}\n    - name: imagecheck-0\n";
    let bare = "initContainers:\n- {name: warm, image: w}\n";
    let behind = "initContainers:\n- name: copy-agent\n- {name: warm, image: w}\n";
    let files = folder(&[("bk.yaml", by_match), ("bare.yaml", bare), ("behind.yaml", behind)]);
    let lint = |name: &str, more: &[&str]| {
        let path = files.path().join(name).to_str().unwrap().to_owned();
        let mut args = vec!["lint", path.as_str()];
        args.extend(more);
        let run = podlayer(&args, "");
        let heads = run.stdout.lines().map(|line| {
            let line = line.strip_prefix(&format!("{path}:")).unwrap();
            let (place, text) = line.split_once(" warning: ").unwrap();
            format!("{place} {}", text.split_once(": ").unwrap().0)
        });
        (run.code, heads.collect::<Vec<_>>())
    };
    let wanted =
        ["10:7: buildkite-env", "12:7: plain-sidecar", "14:7: init-before-copy-agent", "15:7: imagecheck-numbers"];
    let (code, found) = lint("bk.yaml", &[]);
    assert_eq!((code, found), (1, wanted.map(str::to_owned).to_vec()));
    assert_eq!(lint("bare.yaml", &[]), (0, Vec::new()));
    assert_eq!(lint("bare.yaml", &["--presets", "buildkite"]).1, ["2:3: init-before-copy-agent"]);
    assert_eq!(lint("behind.yaml", &["--presets", "buildkite"]), (0, Vec::new()));

    let mut pod = pod();
    pod["metadata"]["annotations"]["podlayer.dev/pod-spec-patch"] = json!(bare);
    let files = folder(&[("pod.yaml", &serde_yaml::to_string(&pod).unwrap())]);
    let run = podlayer(&["lint", files.path().join("pod.yaml").to_str().unwrap()], "");
    assert!(run.code == 1 && run.stdout.contains("warning: init-before-copy-agent: "), "{}", run.stdout);

    // The examples step into none, but for the class that shows a sidecar of its own.
    let run = podlayer(&["lint", "examples"], "");
    let lines: Vec<&str> = run.stdout.lines().filter(|line| !line.contains("examples/buildkite/broken/")).collect();
    assert!(lines.is_empty(), "{lines:?}");
}
