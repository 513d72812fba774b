//! No value out of a pod is ever told, at any level of the log, on any page.

use serde_json::{Value, json};

use crate::program::Program;

const CANARY: &str = "canary48151623";

fn pod(annotations: Value, env: Value) -> Value {
    json!({"metadata": {"generateName": "job-x-", "labels": {"podlayer.dev/enabled": "true"}, "annotations": annotations},
           "spec": {"containers": [{"name": "a", "image": "i", "env": env, "args": [CANARY]}]}})
}

fn review(kind: &str, group: &str, namespace: &str, object: &Value) -> String {
    json!({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": {
        "uid": "u-1", "kind": {"group": group, "version": "v1", "kind": kind}, "namespace": namespace,
        "operation": "CREATE", "object": object, "dryRun": false}})
    .to_string()
}

/// Bodies with the canary wherever a value can stand.
fn bodies() -> Vec<(&'static str, String)> {
    let step = |text: &str| json!({"podlayer.dev/pod-spec-patch": text.replace("CANARY", CANARY), "other": CANARY});
    let env = json!([{"name": "SECRET", "value": CANARY}]);
    let pods = [
        pod(json!({}), env.clone()),
        pod(step("containers: [{name: a, env: [{name: B, value: CANARY}]}]"), env.clone()),
        // A wrong type, an unknown field, a container that isn't there, text that is no YAML, a bad tag.
        pod(step("containers: [{name: a, env: [{name: B, value: [CANARY]}]}]"), env.clone()),
        pod(step("hostNetwork: CANARY"), env.clone()),
        pod(step("llamas: CANARY"), env.clone()),
        pod(step("containers: [{name: zz, args: [CANARY]}]"), env.clone()),
        pod(step("a: 'CANARY"), env.clone()),
        pod(step("a: CANARY: CANARY"), env.clone()),
        pod(step("priority: !!int CANARY"), env.clone()),
        pod(step("- CANARY"), env.clone()),
        pod(step("containers: [{name: a, $patch: CANARY}]"), env.clone()),
        pod(step("containers: [{name: a, env: [{$patch: replace}, {name: B, value: CANARY}]}]"), env.clone()),
        pod(json!({"podlayer.dev/command": CANARY, "podlayer.dev/image": "x"}), env.clone()),
        pod(json!({"podlayer.dev/applied": CANARY, "podlayer.dev/provenance": CANARY}), env.clone()),
        // Shapes that no pod has.
        pod(json!(CANARY), env.clone()),
        pod(json!({"a": [CANARY]}), json!(CANARY)),
        json!({"metadata": {"labels": {"podlayer.dev/enabled": "true"}, "ownerReferences": CANARY}, "spec": CANARY}),
        json!({"metadata": CANARY, "spec": {}}),
        json!(CANARY),
    ];
    let mut bodies = Vec::new();
    for pod in &pods {
        bodies.push(("/mutate", review("Pod", "", "ci", pod)));
        let job = json!({"metadata": {"name": "j"}, "spec": {"template": pod}});
        bodies.push(("/mutate", review("Job", "batch", "ci", &job)));
        bodies.push(("/validate", review("Job", "batch", "ci", &job)));
    }
    bodies.push((
        "/mutate",
        review("Pod", "", "ci", &pods[0]).replace("\"dryRun\":false", &format!("\"dryRun\":\"{CANARY}\"")),
    ));
    bodies.push(("/mutate", format!("\"{CANARY}\"")));
    bodies.push(("/mutate", format!("{{\"request\": {{\"object\": {{\"a\": \"{CANARY}")));
    bodies
}

#[tokio::test]
async fn a_value_in_a_pod_is_in_no_line_of_the_log_at_any_level_and_on_no_page() {
    let mut program = Program::start(&[("base.yaml", "containers:\n- name: a\n  env: [{name: A, value: b}]\n")]).await;
    let mut client = program.connect().await;
    let (mut denied, mut patched) = (0, 0);
    for (path, body) in bodies() {
        assert!(body.contains(CANARY));
        let answer = client.post(path, body.as_bytes()).await;
        assert!([200, 400].contains(&answer.status), "{}", answer.body);
        denied += usize::from(answer.body.contains("\"allowed\":false"));
        patched += usize::from(answer.body.contains("\"patch\""));
    }
    assert!(denied >= 15 && patched >= 3, "{denied} denied, {patched} patched: the bodies are what they should be");
    let mut pages = String::new();
    for page in ["/metrics", "/layers", "/readyz"] {
        pages.push_str(&program.page(page).await);
    }
    assert!(pages.contains("\"used\":") && pages.contains("podlayer_decisions_total"), "{pages}");
    assert!(!pages.contains(CANARY), "{pages}");
    let log = program.end();
    let decided: Vec<Value> = log.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let decided: Vec<&Value> = decided.iter().filter(|event| event["message"] == "decided").collect();
    assert!(log.contains("\"DEBUG\""), "more than the usual levels are on");
    let whole =
        |event: &&&Value| event["uid"] == "u-1" && event["namespace"] == "ci" && event["generate_name"] == "job-x-";
    assert!(
        decided.iter().any(|event| whole(&event) && event["layers"] == "default/base" && event["outcome"] == "patched")
    );
    assert!(decided.iter().any(|event| whole(&event) && event["outcome"] == "denied"));
    let told: Vec<&str> = log.lines().filter(|line| line.contains(CANARY)).collect();
    assert!(told.is_empty(), "{}", told.join("\n"));
}
