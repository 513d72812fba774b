//! `--mutate=JobsAndPods`: the Job's own template has its layers, for what counts Jobs before their pods come.

use std::collections::BTreeMap;

use serde_json::json;

use crate::{
    controlplane::ControlPlane,
    layers::{annotation, job, pod_of},
    podlayer::Webhook,
};

#[test]
fn a_jobs_template_is_patched_and_its_pod_needs_nothing_more() {
    let plane = ControlPlane::shared();
    let webhook = Webhook::start(plane, &["--mutate", "JobsAndPods"]);
    let namespace = plane.namespace("quota");
    webhook.register(plane, &namespace, "Fail");
    let patch = "tolerations: [{key: ci, operator: Exists}]\ncontainers:\n- name: a\n  resources: {requests: {cpu: 2}}\n- name: side\n  image: s:1\n";
    webhook.layer(plane, "base", &json!({"podlayer.dev/layer": "default"}), &BTreeMap::from([("podSpecPatch", patch)]));
    webhook.wait_for("base", "good");
    let step = "containers:\n- name: a\n  env: [{name: STEP, value: 'yes'}]\n";
    let spec = json!({"restartPolicy": "Never", "containers": [{"name": "a", "image": "b:1"}]});
    plane.apply(&job(&namespace, "counted", &json!({"podlayer.dev/pod-spec-patch": step}), &spec).to_string());

    let made = plane.get_json(&["job", "counted", "-n", &namespace]);
    let template = &made["spec"]["template"];
    let pod = pod_of(plane, &namespace, "counted");
    let containers = |spec: &serde_json::Value| {
        let kept = |one: &serde_json::Value| json!([one["name"], one["resources"], one["env"]]);
        spec["containers"].as_array().unwrap().iter().map(kept).collect::<Vec<_>>()
    };
    let expected =
        vec![json!(["a", {"requests": {"cpu": "2"}}, [{"name": "STEP", "value": "yes"}]]), json!(["side", {}, null])];
    assert_eq!(containers(&template["spec"]), expected);
    assert_eq!(containers(&pod["spec"]), expected);
    assert_eq!(template["spec"]["tolerations"], json!([{"key": "ci", "operator": "Exists"}]));
    // The same stamp on both: the pod was decided again, and nothing was left to do.
    assert_eq!(annotation(template, "podlayer.dev/applied"), annotation(&pod, "podlayer.dev/applied"));
    assert_eq!(annotation(&pod, "podlayer.dev/applied")["layers"], json!(["default/base", "step"]));
    assert!(webhook.metric("podlayer_decisions_total{outcome=\"failed\"}") < 0.5);
    Webhook::unregister(plane, &namespace);
}
