//! The real endpoints behind a real socket: what an API server sends, and what nobody should.

use std::sync::Arc;

use base64::{Engine, engine::general_purpose::STANDARD};
use podlayer::{
    admission::{Policy, handler::Handler},
    layers::{Snapshot, parse_bare},
    schema::POD,
    server::{Limits, with_fallbacks},
    telemetry::Metrics,
};
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::support::{Answer, SERVES, Served};

async fn served(snapshot: Option<Snapshot>) -> Served {
    let (sender, snapshots) = watch::channel(snapshot.map(Arc::new));
    // The sender may go: what was sent last stays readable.
    drop(sender);
    let handler = Handler { snapshots, policy: Arc::new(Policy::default()), metrics: Metrics::new() };
    Served::start(with_fallbacks(handler.router(), SERVES), Limits::default()).await
}

fn layered() -> Snapshot {
    let layer = parse_bare(
        "base",
        "serviceAccountName: ci\ncontainers:\n- name: a\n  env: [{name: A, value: b}]\n",
        "base.yaml",
    );
    Snapshot::build([Arc::new(layer.unwrap())]).unwrap()
}

fn review(object: &Value) -> Value {
    json!({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": {
        "uid": "u-1", "kind": {"group": "", "version": "v1", "kind": "Pod"}, "namespace": "ci", "operation": "CREATE",
        "object": object, "oldObject": null, "dryRun": false}})
}

fn pod(step: &str) -> Value {
    json!({"metadata": {"generateName": "p-", "labels": {"podlayer.dev/enabled": "true"},
                        "annotations": {"podlayer.dev/pod-spec-patch": step}, "managedFields": [{"x": 1}]},
           "spec": {"containers": [{"name": "a", "image": "i", "restartPolicyRules": [{"future": [1.5, null]}]}], "futureField": {"a": null}},
           "status": {}})
}

fn response(answer: &Answer) -> Value {
    assert_eq!(answer.status, 200, "{}", answer.body);
    let mut review: Value = serde_json::from_str(&answer.body).unwrap();
    assert_eq!((&review["apiVersion"], &review["kind"]), (&json!("admission.k8s.io/v1"), &json!("AdmissionReview")));
    assert_eq!(review["response"]["uid"], "u-1");
    review["response"].take()
}

#[tokio::test]
async fn a_pod_gets_a_base64_patch_that_names_only_what_layers_changed() {
    let served = served(Some(layered())).await;
    let mut client = served.connect().await;
    let mut object = pod("containers: [{name: a, env: [{name: A, value: c}]}]");
    let response = response(&client.post("/mutate?timeout=2s", review(&object).to_string().as_bytes()).await);
    assert_eq!((&response["allowed"], &response["patchType"]), (&json!(true), &json!("JSONPatch")));
    assert_eq!(response["auditAnnotations"]["layers"], "default/base,step");
    let patch = STANDARD.decode(response["patch"].as_str().unwrap()).unwrap();
    let patch: json_patch::Patch = serde_json::from_slice(&patch).unwrap();
    let before = object.clone();
    json_patch::patch(&mut object, &patch).unwrap();
    assert_eq!(object["spec"]["containers"][0]["env"], json!([{"name": "A", "value": "c"}]));
    assert_eq!(object["spec"]["serviceAccountName"], "ci");
    assert_eq!(
        object["spec"]["containers"][0]["restartPolicyRules"],
        before["spec"]["containers"][0]["restartPolicyRules"]
    );
    assert_eq!(object["spec"]["futureField"], before["spec"]["futureField"]);
    assert_eq!(object["metadata"]["managedFields"], before["metadata"]["managedFields"]);
}

#[tokio::test]
async fn every_bad_review_gets_a_clear_error_and_the_server_goes_on() {
    let served = served(Some(layered())).await;
    let mut client = served.connect().await;
    let good = review(&pod("")).to_string();
    let change = |change: &dyn Fn(&mut Value)| {
        let mut review = review(&pod(""));
        change(&mut review);
        review.to_string()
    };
    let cases = [
        (String::new(), "EOF while parsing a value"),
        ("[]".into(), "not a readable AdmissionReview"),
        (good[..good.len() / 2].to_owned(), "EOF while parsing"),
        (
            change(&|review| review["kind"] = json!("Pod")),
            "expected admission.k8s.io/v1 AdmissionReview, got admission.k8s.io/v1 Pod",
        ),
        (change(&|review| review["apiVersion"] = json!("admission.k8s.io/v1beta1")), "got admission.k8s.io/v1beta1"),
        (change(&|review| review["request"] = Value::Null), "no request"),
        (change(&|review| review["request"]["uid"] = json!("")), "no uid"),
        (format!("{good} trailing"), "trailing characters"),
    ];
    for (body, wanted) in cases {
        let answer = client.post("/mutate", body.as_bytes()).await;
        assert_eq!(answer.status, 400, "{}", answer.body);
        let review: Value = serde_json::from_str(&answer.body).unwrap();
        let message = review["response"]["status"]["message"].as_str().unwrap();
        assert!(message.contains(wanted), "{wanted}: {message}");
        assert_eq!(review["response"]["allowed"], false);
    }
    assert_eq!(response(&client.post("/mutate", good.as_bytes()).await)["allowed"], true);
}

#[tokio::test]
async fn hostile_step_patches_are_refused_with_a_place_and_bounded_work() {
    let served = served(Some(layered())).await;
    let mut client = served.connect().await;
    let bomb: String = ('b'..='i').fold(String::from("a: &a [x, x, x, x, x, x, x, x, x]\n"), |text, name| {
        let before = char::from(name as u8 - 1);
        format!("{text}{name}: &{name} [{}]\n", vec![format!("*{before}"); 9].join(", "))
    });
    let many = format!("containers: [{{name: a, args: [{}]}}]", "x, ".repeat(20_001));
    for (step, wanted) in [
        (bomb.as_str(), "line "),
        (&"[".repeat(5000), "64"),
        (&"{a: ".repeat(100), "64"),
        (&many, "20000"),
        (
            "llamas: true",
            "unknown field \"llamas\" in the pod spec, annotation podlayer.dev/pod-spec-patch, line 1 column 1",
        ),
        ("\u{0}", "annotation podlayer.dev/pod-spec-patch, line 1 column 1"),
    ] {
        let answer = client.post("/mutate", review(&pod(step)).to_string().as_bytes()).await;
        let response = response(&answer);
        assert_eq!(response["allowed"], false);
        assert_eq!((&response["status"]["code"], &response["status"]["reason"]), (&json!(422), &json!("Invalid")));
        assert!(response["status"].get("details").is_none());
        let message = response["status"]["message"].as_str().unwrap();
        assert!(message.contains(wanted) && message.len() <= 4096, "{wanted}: {message}");
        assert!(message.contains("annotation podlayer.dev/pod-spec-patch, line "), "{message}");
    }
    assert_eq!(response(&client.post("/mutate", review(&pod("")).to_string().as_bytes()).await)["allowed"], true);
}

#[tokio::test]
async fn objects_of_any_shape_are_answered() {
    let served = served(Some(layered())).await;
    let mut client = served.connect().await;
    let deep = format!("{}{}", "[".repeat(100), "]".repeat(100));
    let deep: Value = serde_json::from_str(&deep).unwrap();
    for object in [
        json!(null),
        json!({}),
        json!({"spec": null}),
        json!({"metadata": null, "spec": {}}),
        json!({"metadata": {"labels": []}}),
        json!({"metadata": {"labels": {"podlayer.dev/enabled": "true"}, "annotations": []}, "spec": {"containers": {"a": 1}}}),
        json!({"metadata": {"labels": {"podlayer.dev/enabled": "true"}, "ownerReferences": {"a": 1}}, "spec": {"containers": [null, 1, {"name": 5}]}}),
        json!({"metadata": {"labels": {"podlayer.dev/enabled": "true"}}, "spec": [1]}),
        json!({"metadata": {"labels": {"podlayer.dev/enabled": "true"}}, "spec": {"containers": [{"name": "a", "image": "b", "x": deep}]}}),
        json!([]),
        json!("x"),
    ] {
        response(&client.post("/mutate", review(&object).to_string().as_bytes()).await);
        let mut job = review(&json!({"spec": {"template": object}}));
        job["request"]["kind"] = json!({"group": "batch", "version": "v1", "kind": "Job"});
        response(&client.post("/mutate", job.to_string().as_bytes()).await);
        response(&client.post("/validate", job.to_string().as_bytes()).await);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_reviews_are_decided_beside_small_ones_in_turns() {
    let served = Arc::new(served(Some(layered())).await);
    let mut large = pod("");
    let env: Vec<Value> = (0..4_000).map(|at| json!({"name": format!("E{at}"), "value": "x".repeat(60)})).collect();
    large["spec"]["containers"][0]["env"] = json!(env);
    let large = review(&large).to_string();
    assert!(large.len() > 256 << 10);
    let callers: Vec<_> = [large, review(&pod("")).to_string()]
        .into_iter()
        .cycle()
        .take(8)
        .map(|body| {
            let served = Arc::clone(&served);
            tokio::spawn(async move {
                let mut client = served.connect().await;
                for _ in 0..3 {
                    let response = response(&client.post("/mutate?timeout=30s", body.as_bytes()).await);
                    assert_eq!((&response["allowed"], response["patch"].is_string()), (&json!(true), true));
                }
            })
        })
        .collect();
    for caller in callers {
        caller.await.unwrap();
    }
}

#[tokio::test]
async fn decisions_are_counted_with_their_operations_and_layers() {
    let (sender, snapshots) = watch::channel(Some(Arc::new(layered())));
    let metrics = Metrics::new();
    let handler = Handler { snapshots, policy: Arc::new(Policy::default()), metrics: metrics.clone() };
    let served = Served::start(with_fallbacks(handler.router(), SERVES), Limits::default()).await;
    let mut client = served.connect().await;
    for _ in 0..2 {
        client.post("/mutate", review(&pod("")).to_string().as_bytes()).await;
    }
    let text = metrics.text();
    let operations = text.lines().find_map(|line| line.strip_prefix("podlayer_patch_operations_total ")).unwrap();
    assert!(operations.parse::<usize>().unwrap() >= 6, "{operations}");
    assert!(text.contains("podlayer_self_check_failures_total 0\n"), "{text}");
    assert_eq!(metrics.layer_uses(|_| true), [("default/base".to_owned(), 2)].into());
    drop(sender);
}

#[test]
fn a_field_that_only_the_api_server_knows_is_taken_in_layers_once_it_has_said_so() {
    let schema = |properties: Value| json!({"type": "object", "properties": properties});
    let reference = |name: &str| json!({"$ref": format!("#/components/schemas/{name}")});
    let openapi = json!({"components": {"schemas": {
        "io.k8s.api.core.v1.Pod": schema(json!({"spec": reference("spec")})),
        "spec": schema(json!({"futureFields": {"type": "array", "items": reference("future"),
                              "x-kubernetes-patch-strategy": "merge", "x-kubernetes-patch-merge-key": "name"}})),
        "future": schema(json!({"name": {"type": "string"}, "size": {"type": "integer"}})),
    }}});
    let patch = "futureFields:\n- name: a\n  size: 1\n";
    assert!(parse_bare("base", patch, "base.yaml").is_err());
    let (graph, added) = POD.with_openapi(&openapi.to_string()).unwrap();
    assert_eq!(added, 1);
    assert!(podlayer::schema::extend(graph), "nobody else extends it in this process");
    parse_bare("base", patch, "base.yaml").unwrap();
    let error = parse_bare("base", &patch.replace("size: 1", "size: big"), "base.yaml").unwrap_err().to_string();
    assert!(error.contains("a whole number is wanted"), "{error}");
}

#[tokio::test]
async fn without_layers_read_it_says_so_and_does_not_ask_to_be_called_again() {
    let served = served(None).await;
    let answer = served.connect().await.post("/mutate", review(&pod("")).to_string().as_bytes()).await;
    assert_eq!((answer.status, answer.header("retry-after")), (503, None));
}

#[tokio::test]
async fn other_operations_and_sub_resources_are_left_alone() {
    let served = served(Some(layered())).await;
    let mut client = served.connect().await;
    for (key, value) in [
        ("operation", "UPDATE"),
        ("operation", "DELETE"),
        ("subResource", "ephemeralcontainers"),
        ("subResource", "status"),
    ] {
        let mut review = review(&pod("llamas: true"));
        review["request"][key] = json!(value);
        let response = response(&client.post("/mutate", review.to_string().as_bytes()).await);
        assert_eq!((&response["allowed"], response.get("patch")), (&json!(true), None), "{value}");
    }
}

#[tokio::test]
async fn a_bad_layer_is_refused_when_it_is_written_also_when_the_label_comes_later() {
    let served = served(Some(Snapshot::default())).await;
    let mut client = served.connect().await;
    for operation in ["CREATE", "UPDATE"] {
        let object = json!({"metadata": {"name": "base", "labels": {"podlayer.dev/layer": "default"}}, "data": {"podSpecPatch": "a: 1\nllamas: true"}});
        let mut review = review(&object);
        review["request"]["kind"] = json!({"group": "", "version": "v1", "kind": "ConfigMap"});
        review["request"]["operation"] = json!(operation);
        review["request"]["namespace"] = json!("podlayer");
        let response = response(&client.post("/validate", review.to_string().as_bytes()).await);
        let message = response["status"]["message"].as_str().unwrap();
        assert_eq!(
            message,
            "unknown field \"a\" in the pod spec, ConfigMap podlayer/base podSpecPatch, line 1 column 1\n\
             unknown field \"llamas\" in the pod spec, ConfigMap podlayer/base podSpecPatch, line 2 column 1"
        );
    }
}
