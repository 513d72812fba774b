use serde_json::{Value, json};

use crate::{folder, podlayer};

fn job(name: &str, step: Option<&str>) -> String {
    let annotations = step.map_or_else(|| json!({}), |step| json!({"podlayer.dev/pod-spec-patch": step}));
    json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name, "namespace": "ci"}, "spec": {"template": {
        "metadata": {"labels": {"podlayer.dev/enabled": "true"}, "annotations": annotations},
        "spec": {"restartPolicy": "Never", "containers": [{"name": "a", "image": "own"}]}}}})
    .to_string()
}

const OLD: &str = "serviceAccountName: ci\ncontainers:\n- {name: a, env: [{name: POOL, value: old}]}\n";
const NEW: &str =
    "serviceAccountName: ci\ncontainers:\n- {name: dind, image: d}\n- {name: a, env: [{name: POOL, value: new}]}\n";

#[test]
fn a_change_of_layers_is_told_by_field_and_layer_refused_ones_first() {
    let files = folder(&[
        ("old/base.yaml", OLD),
        ("new/base.yaml", NEW),
        ("jobs/a.json", &job("a", None)),
        ("jobs/b.json", &job("b", Some("containers: [{name: a, env: [{name: POOL, value: own}]}]"))),
        (
            "jobs/other.yaml",
            "kind: Service\nmetadata: {name: s}\n---\nkind: Pod\nmetadata: {name: out}\nspec: {containers: []}\n",
        ),
    ]);
    let path = |name: &str| files.path().join(name).to_str().unwrap().to_owned();
    let (old, new, jobs) = (path("old"), path("new"), path("jobs"));
    let run = podlayer(&["diff", "--layers", &new, "--against", &old, "-f", &jobs], "");
    assert_eq!((run.code, run.stderr.as_str()), (1, ""));
    assert_eq!(
        run.stdout,
        "2 of 3 pods would be different, 0 refused (1 not opted in)\n\
         spec.containers[name=a].env[name=POOL].value  default/base, 1 pod: \"old\" → \"new\"\n\
         spec.containers[name=dind].image  default/base, 2 pods: (nothing) → \"d\"\n"
    );
    let same = podlayer(&["diff", "--layers", &old, "--against", &old, "-f", &jobs], "");
    assert_eq!((same.code, same.stdout.as_str()), (0, "0 of 3 pods would be different, 0 refused (1 not opted in)\n"));
    // A layer that goes takes its fields with it.
    std::fs::create_dir(files.path().join("none")).unwrap();
    let run = podlayer(&["diff", "--layers", &path("none"), "--against", &old, "-f", &jobs, "-o", "json"], "");
    let json: Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!(
        json["effects"][0]["changes"][0],
        json!({"path": "spec.containers[name=a].env[name=POOL].value", "before": "\"old\"", "after": null, "layer": "default/base"})
    );
}

#[test]
fn what_would_be_refused_comes_first() {
    let strict = "kind: ConfigMap\nmetadata: {name: strict, labels: {podlayer.dev/layer: default}}\ndata:\n  options: \"{required: true, absentContainers: Error}\"\n  match: \"matchLabels: {podlayer.dev/enabled: 'true'}\"\n  podSpecPatch: \"containers: [{name: b, args: [x]}]\"\n";
    let with_b = job("b", None).replace("{\"image\":\"own\",\"name\":\"a\"}", "{\"image\":\"own\",\"name\":\"b\"}");
    let files = folder(&[
        ("new/strict.yaml", strict),
        ("old/base.yaml", "{}\n"),
        ("new/base.yaml", "{}\n"),
        ("jobs/1.json", &with_b),
        ("jobs/2.json", &job("a", None)),
    ]);
    let path = |name: &str| files.path().join(name).to_str().unwrap().to_owned();
    let run = podlayer(&["diff", "--layers", &path("new"), "--against", &path("old"), "-f", &path("jobs")], "");
    assert_eq!(run.code, 1, "{}", run.stderr);
    let lines: Vec<&str> = run.stdout.lines().collect();
    assert_eq!(lines[0], "2 of 2 pods would be different, 1 refused (0 not opted in)");
    assert!(
        lines[1].starts_with("refused: ")
            && lines[1].contains("2.json job/a: required layer default/strict failed: no container named \"b\""),
        "{lines:#?}"
    );
    assert_eq!(lines[2], "spec.containers[name=b].args  default/strict, 1 pod: (nothing) → [\"x\"]");
}

#[test]
fn recordings_are_replayed() {
    let object: Value = serde_json::from_str(&job("a", None)).unwrap();
    let event = |stage: &str, verb: &str, id: &str, object: Value| {
        json!({"kind": "Event", "apiVersion": "audit.k8s.io/v1", "auditID": id, "stage": stage, "verb": verb,
               "objectRef": {"resource": "jobs", "namespace": "ci", "name": "a"}, "requestObject": object})
    };
    let mut bare = object.clone();
    bare.as_object_mut().unwrap().remove("kind");
    let log = [
        event("RequestReceived", "create", "1", Value::Null),
        event("ResponseComplete", "create", "1", bare.clone()),
        event("ResponseComplete", "create", "1", bare),
        event("ResponseComplete", "update", "2", object.clone()),
        event("ResponseComplete", "create", "3", Value::Null),
        json!({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": {"uid": "u", "operation": "CREATE",
            "namespace": "ci", "kind": {"group": "batch", "kind": "Job"}, "object": object}}),
    ];
    let log: String = log.iter().map(|event| format!("{event}\n")).collect();
    let files = folder(&[("old/base.yaml", OLD), ("new/base.yaml", NEW), ("audit.log", &log)]);
    let path = |name: &str| files.path().join(name).to_str().unwrap().to_owned();
    let run =
        podlayer(&["diff", "--layers", &path("new"), "--against", &path("old"), "--audit-log", &path("audit.log")], "");
    assert_eq!(run.code, 1, "{}", run.stderr);
    assert!(run.stdout.starts_with("2 of 2 pods would be different, 0 refused"), "{}", run.stdout);
    assert_eq!(run.stderr, "1 creations were recorded without their object: audit pods and jobs at level Request\n");

    let review = crate::root("tests/data/reviews/review-4k.json");
    let run = podlayer(
        &["diff", "--layers", &path("new"), "--against", &path("old"), "--audit-log", review.to_str().unwrap()],
        "",
    );
    assert!(run.code < 2 && run.stdout.contains(" of 1 pods would be different"), "{}{}", run.stdout, run.stderr);
}

#[test]
fn wrong_input_is_told() {
    let files = folder(&[("base.yaml", OLD), ("audit.log", "{\"kind\": \"Event\"}\n{oops\n")]);
    let path = |name: &str| files.path().join(name).to_str().unwrap().to_owned();
    let (base, log) = (path("base.yaml"), path("audit.log"));
    for (args, wanted) in [
        (&["diff"][..], "--layers <PATH>"),
        (&["diff", "--layers", "/nowhere", "--against", &base, "-f", &base], "/nowhere"),
        (&["diff", "--layers", &base, "--against", &base, "--audit-log", &log], "audit.log: failed to read record 2"),
    ] {
        let run = podlayer(args, "");
        assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{args:?}");
        assert!(run.stderr.contains(wanted), "{args:?}: {}", run.stderr);
    }
}
