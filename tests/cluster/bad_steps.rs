//! What is wrong with a step patch is said where the Job is made.

use std::time::Instant;

use serde_json::{Value, json};

use crate::{
    controlplane::ControlPlane,
    layers::{job, pod_of},
    podlayer::Webhook,
};

#[test]
fn a_bad_step_patch_is_refused_at_the_jobs_creation_with_its_place() {
    let plane = ControlPlane::shared();
    let webhook = Webhook::start(plane, &[]);
    let namespace = plane.namespace("ci");
    webhook.register(plane, &namespace, "Fail");
    let spec = json!({"restartPolicy": "Never", "containers": [{"name": "container-0", "image": "b:1"}]});
    for (at, (step, wanted)) in [
        ("llamas: true", "unknown field \"llamas\" in the pod spec, annotation podlayer.dev/pod-spec-patch, line 1 column 1"),
        (
            "containers:\n- name: container-0\n  resource: {}",
            "unknown field \"resource\" in container-0, did you mean \"resources\"? annotation podlayer.dev/pod-spec-patch, line 3 column 3",
        ),
        (
            "containers:\n- name: contaner-0\n  env: []",
            "no container named \"contaner-0\", did you mean \"container-0\"?",
        ),
        ("a: [", "annotation podlayer.dev/pod-spec-patch, line 1"),
    ]
    .into_iter()
    .enumerate()
    {
        // The Job has a label of its own; only its template is opted in.
        let annotations = json!({"podlayer.dev/pod-spec-patch": step});
        let job = job(&namespace, &format!("bad-{at}"), &annotations, &spec);
        let asked = Instant::now();
        let refused = plane.kubectl_in(&["create", "-f", "-"], &job.to_string());
        eprintln!("refused at the Job after {:?}, with kubectl's own start", asked.elapsed());
        assert!(!refused.ok, "{step}");
        assert!(refused.stderr.contains(wanted), "{step}: {}", refused.stderr);
        // What agent-stack-k8s looks at: 422 with reason Invalid.
        assert!(refused.stderr.contains("is invalid") || refused.stderr.contains("Invalid"), "{}", refused.stderr);
    }
    // A value is quoted to its author, never in the log, at any level.
    let canary =
        json!({"podlayer.dev/pod-spec-patch": "containers:\n- name: container-0\n  env: [{name: A, value: 48151623}]"});
    let refused = plane.kubectl_in(&["create", "-f", "-"], &job(&namespace, "canary", &canary, &spec).to_string());
    assert!(refused.stderr.contains("48151623"), "{}", refused.stderr);
    let log = webhook.log();
    assert!(log.contains("spec.containers[name=container-0].env[name=A].value") && !log.contains("48151623"), "{log}");

    let unknown = json!({"podlayer.dev/classes": "gpu"});
    let refused = plane.kubectl_in(&["create", "-f", "-"], &job(&namespace, "class", &unknown, &spec).to_string());
    assert!(refused.stderr.contains("unknown class \"gpu\""), "{}", refused.stderr);
    Webhook::unregister(plane, &namespace);
}

#[test]
fn a_step_patch_of_200_kib_works_and_one_past_20000_nodes_is_refused() {
    let plane = ControlPlane::shared();
    let webhook = Webhook::start(plane, &[]);
    let namespace = plane.namespace("ci");
    webhook.register(plane, &namespace, "Fail");
    let spec = json!({"restartPolicy": "Never", "containers": [{"name": "container-0", "image": "b:1"}]});
    let patch = |count: usize, filler: usize| {
        let env: Vec<Value> =
            (0..count).map(|i| json!({"name": format!("E{i:05}"), "value": "x".repeat(filler)})).collect();
        json!({"containers": [{"name": "container-0", "env": env}]}).to_string()
    };
    let large = patch(4000, 24);
    assert!(large.len() > 200 << 10);
    let made = job(&namespace, "large", &json!({"podlayer.dev/pod-spec-patch": large}), &spec);
    let created = plane.kubectl_in(&["create", "-f", "-"], &made.to_string());
    assert!(created.ok, "{}", created.stderr);
    let pod = pod_of(plane, &namespace, "large");
    assert_eq!(pod["spec"]["containers"][0]["env"].as_array().unwrap().len(), 4000);
    assert!(pod["metadata"]["annotations"]["podlayer.dev/applied"].is_string());

    let past = job(&namespace, "past", &json!({"podlayer.dev/pod-spec-patch": patch(7000, 1)}), &spec);
    let refused = plane.kubectl_in(&["create", "-f", "-"], &past.to_string());
    assert!(!refused.ok && refused.stderr.contains("20000"), "{}", refused.stderr);
    Webhook::unregister(plane, &namespace);
}
