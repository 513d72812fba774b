//! Jobs exactly as agent-stack-k8s makes them, and pods of others, with layers by role and true defaults.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::{
    controlplane::ControlPlane,
    layers::{annotation, pod_of},
    podlayer::Webhook,
};

/// A Job of the real controller, for this namespace.
fn job(name: &str, namespace: &str) -> Value {
    let path = format!("{}/tests/data/jobs/buildkite/{name}.yaml", env!("CARGO_MANIFEST_DIR"));
    let mut job: Value = serde_yaml::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    job["metadata"]["namespace"] = json!(namespace);
    job
}

fn label(job: &mut Value, key: &str, value: &str) {
    job["metadata"]["labels"][key] = json!(value);
    job["spec"]["template"]["metadata"]["labels"][key] = json!(value);
}

/// What the plugin's metadata.annotations do.
fn annotate(job: &mut Value, key: &str, value: &str) {
    job["metadata"]["annotations"][key] = json!(value);
    job["spec"]["template"]["metadata"]["annotations"][key] = json!(value);
}

/// A service account with the rights of agent-stack-k8s's controller; its token.
fn controller(plane: &ControlPlane, namespace: &str) -> String {
    let metadata = json!({"name": "agent-stack-k8s", "namespace": namespace});
    let rules = json!([{"apiGroups": ["batch"], "resources": ["jobs"], "verbs": ["get", "list", "watch", "create", "update", "delete"]},
                       {"apiGroups": [""], "resources": ["pods", "pods/log", "secrets"], "verbs": ["get", "list", "watch"]}]);
    let api = "rbac.authorization.k8s.io/v1";
    for object in [
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata}),
        json!({"apiVersion": api, "kind": "Role", "metadata": metadata, "rules": rules}),
        json!({"apiVersion": api, "kind": "RoleBinding", "metadata": metadata,
               "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "agent-stack-k8s"},
               "subjects": [{"kind": "ServiceAccount", "name": "agent-stack-k8s", "namespace": namespace}]}),
    ] {
        plane.apply(&object.to_string());
    }
    let token = plane.kubectl(&["create", "token", "agent-stack-k8s", "-n", namespace]);
    assert!(token.ok, "{}", token.stderr);
    token.stdout.trim().to_owned()
}

fn container<'p>(pod: &'p Value, list: &str, name: &str) -> &'p Value {
    pod["spec"][list].as_array().unwrap().iter().find(|item| item["name"] == name).unwrap()
}

const BASE: &str = "\
containers:
- name: \"*\"
  env: [{name: FLEET, value: \"yes\"}]
- name: \"@command\"
  resources: {requests: {cpu: 250m}}
- name: \"@agent\"
  resources: {requests: {cpu: 100m}}
- name: \"@checkout\"
  resources: {requests: {cpu: 200m}}
initContainers:
- name: \"@agent\"
  resources: {requests: {cpu: 50m}, limits: {memory: 64Mi}}
- name: \"@sidecar\"
  resources: {requests: {cpu: 300m}}
";

#[test]
fn buildkites_jobs_get_layers_by_role_class_by_label_and_a_step_by_the_plugins_metadata() {
    let plane = ControlPlane::shared();
    let webhook = Webhook::start(plane, &["--presets", "buildkite"]);
    let namespace = plane.namespace("buildkite");
    webhook.register_with(plane, &namespace, "Fail", &["buildkite.com/job-uuid"]);
    let token = controller(plane, &namespace);
    let default = json!({"podlayer.dev/layer": "default"});
    webhook.layer(plane, "base", &default, &BTreeMap::from([("podSpecPatch", BASE)]));
    let class = BTreeMap::from([
        ("match", "{}"),
        ("podSpecPatch", "priorityClassName: system-node-critical\npriority: null\n"),
    ]);
    webhook.layer(plane, "large", &json!({"podlayer.dev/layer": "class"}), &class);
    let meddles = BTreeMap::from([("podSpecPatch", "containers: [{name: \"@command\", command: [sh]}]")]);
    webhook.layer(plane, "meddles", &default, &meddles);
    for name in ["base", "large", "meddles"] {
        webhook.wait_for(name, "good");
    }
    let create = |job: &Value| plane.kubectl_in(&["--token", &token, "create", "-f", "-"], &job.to_string());
    let cpu = |pod: &Value, list: &str, name: &str| container(pod, list, name)["resources"]["requests"]["cpu"].clone();

    // A step with a podSpec of its own: its container is called `build`.
    let mut own = job("podspec-sidecar", &namespace);
    label(&mut own, "tag.buildkite.com/resource_class", "large");
    let step = "containers:\n- name: \"@command\"\n  resources: {limits: {memory: 4Gi}}\n";
    annotate(&mut own, "podlayer.dev/pod-spec-patch", step);
    let created = create(&own);
    assert!(created.ok, "{}", created.stderr);
    let pod = pod_of(plane, &namespace, own["metadata"]["name"].as_str().unwrap());
    let found = ["build", "agent", "checkout"].map(|name| cpu(&pod, "containers", name));
    assert_eq!(found, [json!("250m"), json!("100m"), json!("200m")]);
    let found = ["copy-agent", "imagecheck-0", "sidecar-0"].map(|name| cpu(&pod, "initContainers", name));
    assert_eq!(found, [json!("50m"), json!("50m"), json!("300m")]);
    assert_eq!(container(&pod, "containers", "build")["resources"]["limits"]["memory"], "4Gi");
    assert_eq!(container(&pod, "containers", "agent")["env"][0], json!({"name": "FLEET", "value": "yes"}));
    assert_eq!(pod["spec"]["priorityClassName"], "system-node-critical");
    let stamp = annotation(&pod, "podlayer.dev/applied");
    assert_eq!(stamp["layers"], json!(["default/base", "class/large", "step"]));
    // The commands are the CI system's own, and a layer that changes them does nothing at all.
    let why = stamp["skipped"][0]["why"].as_str().unwrap();
    let wanted = "spec.containers[name=build].command can't be changed by a layer: it belongs to agent-stack-k8s";
    assert!(stamp["skipped"][0]["layer"] == "default/meddles" && why.starts_with(wanted), "{stamp}");
    assert_eq!(container(&pod, "containers", "build")["command"], json!(["/workspace/tini-static"]));
    let names: Vec<&Value> = pod["spec"]["containers"].as_array().unwrap().iter().map(|item| &item["name"]).collect();
    assert_eq!(names, ["build", "agent", "checkout"]);

    // A resource class that podlayer doesn't know is the controller's.
    let mut unknown = job("plain-step", &namespace);
    label(&mut unknown, "tag.buildkite.com/resource_class", "huge");
    let created = create(&unknown);
    assert!(created.ok, "{}", created.stderr);
    let pod = pod_of(plane, &namespace, unknown["metadata"]["name"].as_str().unwrap());
    assert_eq!(annotation(&pod, "podlayer.dev/applied")["layers"], json!(["default/base"]));
    assert!(webhook.metric("podlayer_unknown_classes_total") >= 1.0);

    // What is wrong is said to who makes the Job: the controller shows it in the build for code 422 only.
    let mut typo = job("no-checkout", &namespace);
    annotate(
        &mut typo,
        "podlayer.dev/pod-spec-patch",
        "containers:\n- name: container-0\n  resource: {limits: {cpu: 2}}\n",
    );
    let refused = create(&typo);
    assert!(!refused.ok && refused.stderr.contains("The request is invalid: "), "{}", refused.stderr);
    let (_, text) = refused.stderr.split_once("denied the request: ").unwrap();
    let head = &text.as_bytes()[..text.len().min(300)];
    let wanted = "unknown field \"resource\" in container-0, did you mean \"resources\"? annotation podlayer.dev/pod-spec-patch, line 3 column 3";
    assert!(String::from_utf8_lossy(head).starts_with(wanted), "{text}");
    let mut steals = job("no-checkout", &namespace);
    annotate(&mut steals, "podlayer.dev/pod-spec-patch", "containers:\n- {name: agent, args: [stop]}\n");
    let refused = create(&steals);
    let wanted = "spec.containers[name=agent].args can't be changed by a layer: it belongs to agent-stack-k8s, whose agent \
                  runs the job by it, annotation podlayer.dev/pod-spec-patch, line 2 column 17";
    assert!(!refused.ok && refused.stderr.contains(wanted), "{}", refused.stderr);
    Webhook::unregister(plane, &namespace);
}

#[test]
fn a_true_default_leaves_what_the_step_its_image_or_its_resource_class_chose() {
    let plane = ControlPlane::shared();
    let webhook = Webhook::start(plane, &["--presets", "buildkite"]);
    let namespace = plane.namespace("buildkite");
    webhook.register_with(plane, &namespace, "Fail", &["buildkite.com/job-uuid"]);
    plane.apply(
        &json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "ci", "namespace": namespace}})
            .to_string(),
    );
    let default = json!({"podlayer.dev/layer": "default"});
    let patch = "serviceAccountName: ci\nterminationGracePeriodSeconds: 90\nnodeSelector: {pool: ci}\ntolerations: [{key: ci, operator: Exists}]\n\
                 containers:\n- name: \"@command\"\n  image: theirs:1\n  env: [{name: A, value: a}]\n  imagePullPolicy: Always\n  \
                 resources: {requests: {cpu: 100m, memory: 1Gi}, limits: {memory: 2Gi}}\n";
    let fills = BTreeMap::from([
        ("podSpecPatch", patch),
        ("options", "apply: IfAbsent"),
        ("podMetadata", "labels: {team: ci}"),
    ]);
    webhook.layer(plane, "fills", &default, &fills);
    webhook.wait_for("fills", "good");
    let made = |job: &Value| {
        plane.apply(&job.to_string());
        pod_of(plane, &namespace, job["metadata"]["name"].as_str().unwrap())
    };
    // Reports B9 and B10: the step's image and its resource class (cpu 4, memory 8Gi, a node selector) stay.
    let pod = made(&job("image-and-resources", &namespace));
    let command = container(&pod, "containers", "container-0");
    assert_eq!(command["image"], "node:22");
    assert_eq!(command["resources"]["requests"], json!({"cpu": "4", "memory": "8Gi"}));
    assert_eq!(command["resources"]["limits"], Value::Null, "a limit below the request would have the pod refused");
    assert_eq!(command["imagePullPolicy"], "Always", "IfNotPresent was the API server's");
    assert_eq!(command["env"].as_array().unwrap()[0], json!({"name": "A", "value": "a"}));
    assert_eq!(pod["spec"]["serviceAccountName"], "ci", "the account was the API server's");
    assert_eq!(pod["spec"]["terminationGracePeriodSeconds"], 60, "60 is the controller's");
    let keys: Vec<&Value> = pod["spec"]["tolerations"].as_array().unwrap().iter().map(|item| &item["key"]).collect();
    assert_eq!(keys, ["ci", "node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"]);
    assert_eq!(pod["metadata"]["labels"]["team"], "ci");
    let provenance = annotation(&pod, "podlayer.dev/provenance")["set"]["default/fills"].clone();
    let provenance: Vec<&str> = provenance.as_array().unwrap().iter().map(|path| path.as_str().unwrap()).collect();
    assert!(provenance.contains(&"spec.containers[name=container-0].imagePullPolicy"), "{provenance:?}");
    assert!(!provenance.iter().any(|path| path.ends_with(".image") || path.contains("resources")), "{provenance:?}");

    // A step with a podSpec: what it wrote stays, what it left out is filled in.
    let pod = made(&job("podspec-sidecar", &namespace));
    let build = container(&pod, "containers", "build");
    assert_eq!(build["image"], "golang:1.26");
    assert_eq!(build["resources"], json!({"requests": {"cpu": "500m", "memory": "1Gi"}, "limits": {"memory": "2Gi"}}));
    assert_eq!(pod["spec"]["nodeSelector"], json!({"disk": "ssd", "pool": "ci"}));
    assert_eq!(pod["metadata"]["labels"]["team"], "core");
    Webhook::unregister(plane, &namespace);
}

#[test]
fn what_limit_ranger_filled_in_gives_way_to_a_true_default_and_the_authors_own_does_not() {
    let plane = ControlPlane::shared();
    let webhook = Webhook::start(plane, &[]);
    let namespace = plane.namespace("ranged");
    let limits = json!([{"type": "Container", "default": {"cpu": "500m", "memory": "256Mi"}, "defaultRequest": {"cpu": "100m", "memory": "64Mi"}}]);
    plane.apply(&json!({"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "l", "namespace": namespace}, "spec": {"limits": limits}}).to_string());
    webhook.register(plane, &namespace, "Fail");
    let patch = "containers:\n- name: \"*\"\n  resources: {requests: {cpu: 700m, memory: 1Gi}, limits: {cpu: 1, memory: 2Gi}}\n\
                 initContainers:\n- name: \"*\"\n  resources: {limits: {cpu: 800m}}\n";
    let fills = BTreeMap::from([("podSpecPatch", patch), ("options", "apply: IfAbsent")]);
    webhook.layer(plane, "fills", &json!({"podlayer.dev/layer": "default"}), &fills);
    webhook.wait_for("fills", "good");
    let own =
        json!({"name": "own", "image": "b:1", "resources": {"requests": {"cpu": "200m"}, "limits": {"cpu": "300m"}}});
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": namespace, "labels": {"podlayer.dev/enabled": "true"}},
        "spec": {"containers": [{"name": "bare", "image": "b:1"}, own], "initContainers": [{"name": "i", "image": "b:1"}]}});
    plane.apply(&pod.to_string());
    let made = plane.get_json(&["pod", "p", "-n", &namespace]);
    let theirs = json!({"requests": {"cpu": "700m", "memory": "1Gi"}, "limits": {"cpu": "1", "memory": "2Gi"}});
    assert_eq!(container(&made, "containers", "bare")["resources"], theirs);
    let own = json!({"requests": {"cpu": "200m", "memory": "1Gi"}, "limits": {"cpu": "300m", "memory": "2Gi"}});
    assert_eq!(container(&made, "containers", "own")["resources"], own);
    let init = &container(&made, "initContainers", "i")["resources"];
    assert_eq!(init["limits"], json!({"cpu": "800m", "memory": "256Mi"}));
    Webhook::unregister(plane, &namespace);
}

#[test]
fn a_refused_runner_of_arc_is_told_400_which_costs_it_no_slot() {
    let plane = ControlPlane::shared();
    let webhook = Webhook::start(plane, &["--presets", "arc-runner"]);
    let namespace = plane.namespace("arc");
    webhook.register_with(plane, &namespace, "Fail", &["actions-ephemeral-runner"]);
    let needs = BTreeMap::from([
        ("podSpecPatch", "containers: [{name: docker, tty: true}]"),
        ("options", "required: true\nabsentContainers: Error"),
    ]);
    webhook.layer(plane, "needs", &json!({"podlayer.dev/layer": "default"}), &needs);
    webhook.wait_for("needs", "good");
    let pod = |labels: Value| {
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "r", "namespace": namespace, "labels": labels},
               "spec": {"containers": [{"name": "runner", "image": "runner:1"}]}})
    };
    let text = "denied the request: required layer default/needs failed: no container named \"docker\"";
    for (labels, code) in [
        (json!({"actions-ephemeral-runner": "True"}), "Error from server (BadRequest)"),
        // kubectl's words for 422 with reason Invalid.
        (json!({"podlayer.dev/enabled": "true"}), "The request is invalid: "),
    ] {
        let refused = plane.kubectl_in(&["create", "-f", "-"], &pod(labels).to_string());
        assert!(refused.stderr.starts_with(code) && refused.stderr.contains(text), "{}", refused.stderr);
    }
    Webhook::unregister(plane, &namespace);
}
