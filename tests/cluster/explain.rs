//! `explain` asks a real cluster.

use std::{process::Command, time::Duration};

use serde_json::{Value, json};

use crate::{
    controlplane::{ControlPlane, wait_for},
    layers::{job, pod_of},
    podlayer::{Webhook, binary},
};

fn explain(plane: &ControlPlane, own: &str, args: &[&str]) -> (i32, String, String) {
    let run = Command::new(binary())
        .arg("explain")
        .args(args)
        .args(["--kubeconfig", plane.kubeconfig(), "--own-namespace", own])
        .output()
        .unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (run.status.code().unwrap(), text(run.stdout), text(run.stderr))
}

#[test]
fn a_pod_is_explained_by_its_jobs_template_and_a_bare_one_says_what_is_not_known() {
    let plane = ControlPlane::shared();
    let webhook = Webhook::start(plane, &[]);
    let namespace = plane.namespace("ci");
    webhook.register(plane, &namespace, "Fail");
    let base = [(
        "podSpecPatch",
        "hostNetwork: false\nterminationGracePeriodSeconds: 7\ncontainers:\n- name: container-0\n  image: base:1\n",
    )];
    webhook.layer(plane, "base", &json!({"podlayer.dev/layer": "default"}), &base.into());
    webhook.wait_for("base", "good");

    let spec = json!({"restartPolicy": "Never", "terminationGracePeriodSeconds": 5, "containers": [{"name": "container-0", "image": "own:1"}]});
    let step = json!({"podlayer.dev/pod-spec-patch": "containers:\n- name: container-0\n  image: step:1\n"});
    plane.apply(&job(&namespace, "build", &step, &spec).to_string());
    let pod = pod_of(plane, &namespace, "build");
    let name = pod["metadata"]["name"].as_str().unwrap();
    let wanted = "spec.containers[name=container-0].image = \"step:1\"  step, line 3 column 3, replaced \"base:1\" of default/base\n\
                  spec.hostNetwork = false  default/base, line 1 column 1\n\
                  spec.terminationGracePeriodSeconds = 7  default/base, line 2 column 1, replaced 5 of pod\n";
    let of_pod = explain(plane, &webhook.own, &[name, "-n", &namespace]);
    assert_eq!(of_pod, (0, wanted.to_owned(), String::new()));
    assert_eq!(explain(plane, &webhook.own, &["job/build", "-n", &namespace]), of_pod);

    let bare = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "bare", "namespace": namespace,
        "labels": {"podlayer.dev/enabled": "true"}, "annotations": step}, "spec": spec});
    plane.apply(&bare.to_string());
    let (code, text, stderr) = explain(plane, &webhook.own, &["bare", "-n", &namespace]);
    assert_eq!(code, 0, "{stderr}");
    let wanted = wanted.replace(", replaced 5 of pod", "");
    assert!(text.starts_with(&wanted) && text.contains("# note: the original of this pod is not known"), "{text}");

    // The layers change; the pod is still the one made by the old ones, and that is said.
    let more = [("podSpecPatch", "terminationGracePeriodSeconds: 9\n")];
    webhook.layer(plane, "base", &json!({"podlayer.dev/layer": "default"}), &more.into());
    let (_, text, _) = explain(plane, &webhook.own, &[name, "-n", &namespace]);
    assert!(text.contains("# note: the pod was made with stack "), "{text}");

    let (code, stdout, stderr) = explain(plane, &webhook.own, &["job/none", "-n", &namespace]);
    assert_eq!((code, stdout.as_str()), (2, ""));
    assert!(
        stderr.contains(&format!("failed to get job {namespace}/none")) && stderr.contains("not found"),
        "{stderr}"
    );
    Webhook::unregister(plane, &namespace);
}

#[test]
fn refusals_of_a_jobs_pods_are_told() {
    let plane = ControlPlane::shared();
    let webhook = Webhook::start(plane, &[]);
    let namespace = plane.namespace("ci");
    webhook.register(plane, &namespace, "Fail");
    let spec = json!({"restartPolicy": "Never", "containers": [{"name": "container-0", "image": "own:1"}]});
    let mut job = job(&namespace, "late", &json!({}), &spec);
    job["spec"]["suspend"] = json!(true);
    plane.apply(&job.to_string());
    let data =
        [("podSpecPatch", "containers:\n- name: nope\n"), ("options", "required: true\nabsentContainers: Error\n")];
    webhook.layer(plane, "strict", &json!({"podlayer.dev/layer": "default"}), &data.into());
    webhook.wait_for("strict", "good");
    let resumed = plane.kubectl(&["-n", &namespace, "patch", "job", "late", "-p", r#"{"spec":{"suspend":false}}"#]);
    assert!(resumed.ok, "{}", resumed.stderr);
    let json = wait_for(Duration::from_secs(30), "the refusal to be on record", || {
        let (code, text, stderr) = explain(plane, &webhook.own, &["job/late", "-n", &namespace, "-o", "json"]);
        assert_eq!(code, 1, "{stderr}");
        let json: Value = serde_json::from_str(&text).unwrap();
        (json["refusals"] != json!([])).then_some(json)
    });
    let refusal = json["refusals"][0].as_str().unwrap();
    assert!(refusal.contains("required layer default/strict failed: no container named \"nope\""), "{refusal}");
    assert!(json["denial"].as_str().unwrap().contains("required layer default/strict failed"), "{json:#}");
    Webhook::unregister(plane, &namespace);
}

#[test]
fn a_change_of_layers_is_told_for_the_clusters_jobs() {
    let plane = ControlPlane::shared();
    let webhook = Webhook::start(plane, &[]);
    let namespace = plane.namespace("ci");
    webhook.register(plane, &namespace, "Fail");
    let base = [("podSpecPatch", "terminationGracePeriodSeconds: 7\n")];
    webhook.layer(plane, "base", &json!({"podlayer.dev/layer": "default"}), &base.into());
    webhook.wait_for("base", "good");
    let spec = json!({"restartPolicy": "Never", "containers": [{"name": "container-0", "image": "own:1"}]});
    for name in ["one", "two"] {
        plane.apply(&job(&namespace, name, &json!({}), &spec).to_string());
        pod_of(plane, &namespace, name);
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("base.yaml");
    let diff = |text: &str| {
        std::fs::write(&file, text).unwrap();
        let run = Command::new(binary())
            .args(["diff", "-n", &namespace, "--layers"])
            .arg(&file)
            .args(["--kubeconfig", plane.kubeconfig(), "--own-namespace", &webhook.own])
            .output()
            .unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (run.status.code().unwrap(), text(run.stdout), text(run.stderr))
    };
    // Pods that a Job made aren't counted beside it.
    let wanted = "2 of 2 pods would be different, 0 refused (0 not opted in)\nspec.terminationGracePeriodSeconds  default/base, 2 pods: 7 → 9\n";
    assert_eq!(diff("terminationGracePeriodSeconds: 9\n"), (1, wanted.to_owned(), String::new()));
    let wanted = "0 of 2 pods would be different, 0 refused (0 not opted in)\n";
    assert_eq!(diff("terminationGracePeriodSeconds: 7\n"), (0, wanted.to_owned(), String::new()));
    Webhook::unregister(plane, &namespace);
}
