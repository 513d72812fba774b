use serde_json::{Value, json};

use crate::{folder, podlayer};

const POD: &str = "kind: Pod\nmetadata:\n  name: p\n  labels: {podlayer.dev/enabled: \"true\"}\nspec:\n  containers:\n  - {name: a, image: b}\n";

#[test]
fn a_pod_is_printed_with_its_layers_in_every_form() {
    let folder = folder(&[
        ("20-second.yaml", "hostNetwork: true\nnodeSelector: {a: second}\n"),
        ("10-first.yaml", "nodeSelector: {a: first, b: first}\n"),
    ]);
    let layers = folder.path().to_str().unwrap();
    let yaml = podlayer(&["render", "-f", "-", "--layers", layers], POD);
    assert_eq!(yaml.code, 0, "{}", yaml.stderr);
    assert!(yaml.stdout.contains("hostNetwork: true") && yaml.stdout.contains("a: second"), "{}", yaml.stdout);
    let json = podlayer(&["render", "-f", "-", "--layers", layers, "-o", "json"], POD);
    let pod: Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!(pod["spec"]["nodeSelector"], json!({"a": "second", "b": "first"}));
    let stamp: Value =
        serde_json::from_str(pod["metadata"]["annotations"]["podlayer.dev/applied"].as_str().unwrap()).unwrap();
    assert_eq!(stamp["layers"], json!(["default/10-first", "default/20-second"]));
    let patch = podlayer(&["render", "-f", "-", "--layers", layers, "-o", "patch"], POD);
    let patch: Value = serde_json::from_str(&patch.stdout).unwrap();
    assert!(patch.as_array().unwrap().iter().any(|op| op["path"] == "/spec/nodeSelector"), "{patch}");
    let explain = podlayer(&["render", "-f", "-", "--layers", layers, "-o", "explain"], POD);
    assert_eq!(
        explain.stdout,
        "spec.hostNetwork = true  default/20-second, line 1 column 1\n\
         spec.nodeSelector.a = \"second\"  default/20-second, line 2 column 16, replaced \"first\" of default/10-first\n\
         spec.nodeSelector.b = \"first\"  default/10-first, line 1 column 26\n"
    );
}

#[test]
fn a_job_and_a_cron_job_are_printed_with_their_template_patched() {
    let folder = folder(&[("a.yaml", "serviceAccountName: ci\n")]);
    let layers = folder.path().to_str().unwrap();
    let template = json!({"metadata": {"labels": {"podlayer.dev/enabled": "true"}}, "spec": {"restartPolicy": "Never", "containers": [{"name": "a", "image": "b"}]}});
    let job = json!({"kind": "Job", "metadata": {"name": "j"}, "spec": {"template": template}});
    let cron = json!({"kind": "CronJob", "spec": {"jobTemplate": {"spec": {"template": template}}}});
    let bare = template.clone();
    for (object, pointer) in [(job, "/spec/template"), (cron, "/spec/jobTemplate/spec/template"), (bare, "")] {
        let run = podlayer(&["render", "-f", "-", "--layers", layers, "-o", "json"], &object.to_string());
        assert_eq!(run.code, 0, "{}", run.stderr);
        let mut made: Value = serde_json::from_str(&run.stdout).unwrap();
        let template = made.pointer_mut(pointer).unwrap();
        assert_eq!(template["spec"]["serviceAccountName"], "ci");
        assert!(template["metadata"]["annotations"]["podlayer.dev/applied"].is_string());
        let patch = podlayer(&["render", "-f", "-", "--layers", layers, "-o", "patch"], &object.to_string());
        assert!(patch.stdout.contains(&format!("\"{pointer}/spec/serviceAccountName\"")), "{}", patch.stdout);
    }
}

#[test]
fn a_refusal_is_on_stderr_alone_and_exits_with_1() {
    let folder = folder(&[("step.yaml", "containers:\n- name: a\n  resource: {}\n")]);
    let step = folder.path().join("step.yaml");
    let run = podlayer(&["render", "-f", "-", "--step", step.to_str().unwrap()], POD);
    assert_eq!((run.code, run.stdout.as_str()), (1, ""));
    assert_eq!(
        run.stderr,
        "unknown field \"resource\" in a, did you mean \"resources\"? annotation podlayer.dev/pod-spec-patch, line 3 column 3\n"
    );
    let ignored = podlayer(&["render", "-f", "-", "--step", step.to_str().unwrap(), "--on-step-error", "Ignore"], POD);
    assert_eq!(ignored.code, 0);
    assert!(ignored.stderr.starts_with("warning: podlayer: layer step skipped"), "{}", ignored.stderr);
    assert!(ignored.stdout.contains("skipped"), "{}", ignored.stdout);
}

#[test]
fn what_is_not_opted_in_is_printed_as_it_is_with_a_note() {
    let pod = POD.replace("{podlayer.dev/enabled: \"true\"}", "{}");
    let run = podlayer(&["render", "-f", "-"], &pod);
    assert_eq!(run.code, 0);
    assert!(run.stderr.contains("is not opted in"), "{}", run.stderr);
    assert!(!run.stdout.contains("podlayer.dev/applied"), "{}", run.stdout);
}

#[test]
fn unreadable_files_exit_with_2_and_name_the_place() {
    for (text, wanted) in [
        ("kind: Pod\nspec: [\n", "stdin, line "),
        ("kind: Service\n", "kind Service, one of Pod, Job, CronJob, PodTemplate is wanted"),
        ("", "one object is wanted, got 0"),
        ("kind: Pod\n---\nkind: Pod\n", "one object is wanted, got 2"),
    ] {
        let run = podlayer(&["render", "-f", "-"], text);
        assert_eq!(run.code, 2, "{text}");
        assert!(run.stderr.contains(wanted), "{wanted}: {}", run.stderr);
        assert_eq!(run.stdout, "");
    }
    let folder = folder(&[("a.yaml", "llamas: 1\n"), ("b.yaml", "kind: Secret\n")]);
    let run = podlayer(&["render", "-f", "-", "--layers", folder.path().to_str().unwrap()], POD);
    assert_eq!(run.code, 2);
    assert!(
        run.stderr.contains("a.yaml, line 1 column 1") && run.stderr.contains("b.yaml"),
        "all at once: {}",
        run.stderr
    );
}

#[test]
fn audit_leaves_the_pod_as_it_is_but_for_the_stamp() {
    let folder = folder(&[("a.yaml", "hostNetwork: true\n")]);
    let run = podlayer(
        &["render", "-f", "-", "--layers", folder.path().to_str().unwrap(), "--mode", "Audit", "-o", "json"],
        POD,
    );
    let pod: Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!(pod["spec"].get("hostNetwork"), None);
    let stamp: Value =
        serde_json::from_str(pod["metadata"]["annotations"]["podlayer.dev/applied"].as_str().unwrap()).unwrap();
    assert_eq!((&stamp["audit"], &stamp["layers"]), (&json!(true), &json!(["default/a"])));
}

#[test]
fn what_is_printed_is_read_back_as_it_was() {
    let words = [
        "on",
        "yes",
        "y",
        "off",
        "NO",
        "1.20",
        "0644",
        "1e3",
        "1_000",
        "1:30",
        "2001-01-01",
        "~",
        "=",
        "",
        "a\nb\n",
        "{{x}}",
        "# no",
    ];
    let pod = json!({"kind": "Pod", "metadata": {"name": "p", "labels": {"podlayer.dev/enabled": "true"}},
        "spec": {"containers": [{"name": "a", "image": "b", "args": words}]}});
    let yaml = podlayer(&["render", "-f", "-"], &pod.to_string());
    let again = podlayer(&["render", "-f", "-", "-o", "json"], &yaml.stdout);
    let again: Value = serde_json::from_str(&again.stdout).unwrap();
    assert_eq!(again["spec"], pod["spec"], "{}", yaml.stdout);
}

#[test]
fn what_cannot_be_read_is_said_in_words_and_exits_with_2() {
    let folder = folder(&[]);
    let path = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let utf16: Vec<u8> = [0xfeff].into_iter().chain(POD.encode_utf16()).flat_map(u16::to_le_bytes).collect();
    let deep = format!("kind: Pod\nspec: {}1{}\n", "{a: ".repeat(200), "}".repeat(200));
    let forgotten =
        POD.replace("spec:", "  annotations:\n    podlayer.dev/pod-spec-patch:\n      hostNetwork: true\nspec:");
    for (file, wanted) in [
        (path("utf16.yaml", &utf16), "it is no text in UTF-8, save it as that"),
        (path("deep.yaml", deep.as_bytes()), "lists and objects stand more than 128 deep in each other"),
        (
            path("forgotten.yaml", forgotten.as_bytes()),
            "annotation podlayer.dev/pod-spec-patch must be text: write it as a block after |",
        ),
    ] {
        let run = podlayer(&["render", "-f", &file], "");
        assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{file}");
        assert!(run.stderr.contains(wanted) && run.stderr.contains(&file), "{}", run.stderr);
    }
}

#[test]
fn a_step_that_the_api_server_would_refuse_for_ever_is_refused_here() {
    let step = "containers: [{name: a, resources: {limits: {memory: -1Gi}}}]";
    let folder = folder(&[("step.yaml", step)]);
    let run = podlayer(&["render", "-f", "-", "--step", folder.path().join("step.yaml").to_str().unwrap()], POD);
    assert_eq!(run.code, 1, "{}", run.stdout);
    let wanted = "spec.containers[name=a].resources.limits.memory is below zero";
    assert!(run.stderr.contains(wanted) && run.stderr.contains("line 1 column"), "{}", run.stderr);
}
