//! What users of agent-stack-k8s and of other patching tools reported, each with what must happen here.

use serde_json::{Value, json};

use crate::{folder, podlayer, root};

/// A Job or pod of agent-stack-k8s's.
fn object(name: &str) -> Value {
    let text = std::fs::read_to_string(root(&format!("tests/data/jobs/buildkite/{name}.yaml"))).unwrap();
    serde_yaml::from_str(&text).unwrap()
}

fn layer(name: &str, options: &str, patch: &str) -> (String, String) {
    let indented = patch.replace('\n', "\n    ");
    let text = format!(
        "kind: ConfigMap\nmetadata: {{name: {name}, labels: {{podlayer.dev/layer: default}}}}\n\
         data:\n  options: '{options}'\n  podSpecPatch: |\n    {indented}\n"
    );
    (format!("{name}.yaml"), text)
}

/// The spec of the pod with these layers; decided again it must stay.
fn made(object: &Value, layers: &[(String, String)]) -> Value {
    let files: Vec<(&str, &str)> = layers.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    let layers = folder(&files);
    let args =
        ["render", "-f", "-", "-o", "json", "--presets", "buildkite", "--layers", layers.path().to_str().unwrap()];
    let render = |object: &Value| {
        let run = podlayer(&args, &object.to_string());
        assert_eq!(run.code, 0, "{}", run.stderr);
        serde_json::from_str::<Value>(&run.stdout).unwrap()
    };
    let once = render(object);
    assert_eq!(render(&once), once);
    let spec = if once["kind"] == "Job" { &once["spec"]["template"]["spec"] } else { &once["spec"] };
    spec.clone()
}

fn names(spec: &Value, list: &str) -> Vec<String> {
    spec[list].as_array().unwrap().iter().map(|item| item["name"].as_str().unwrap().to_owned()).collect()
}

fn container<'s>(spec: &'s Value, list: &str, name: &str) -> &'s Value {
    spec[list].as_array().unwrap().iter().find(|item| item["name"] == name).unwrap()
}

#[test]
fn b5_resources_for_a_checkout_that_is_skipped_make_no_container() {
    let patch =
        "containers:\n- name: checkout\n  resources: {limits: {memory: 1Gi}}\n- name: \"@checkout\"\n  tty: true\n";
    let spec = made(&object("no-checkout"), &[layer("b5", "", patch)]);
    assert_eq!(names(&spec, "containers"), ["container-0", "agent"]);
}

#[test]
fn b6_b23_b25_one_item_reaches_every_container_whatever_the_user_called_his() {
    let field = "[{name: POD_NAME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]";
    let patch = format!(
        "containers:\n- name: \"*\"\n  imagePullPolicy: IfNotPresent\n  env: {field}\n- name: container-0\n  env: {field}\n\
         initContainers:\n- name: \"*\"\n  imagePullPolicy: IfNotPresent\n"
    );
    let spec = made(&object("podspec-sidecar"), &[layer("b6", "", &patch)]);
    assert_eq!(names(&spec, "containers"), ["build", "agent", "checkout"], "no container-0 is made");
    for list in ["containers", "initContainers"] {
        for item in spec[list].as_array().unwrap() {
            assert_eq!(item["imagePullPolicy"], "IfNotPresent");
        }
    }
    for item in spec["containers"].as_array().unwrap() {
        assert_eq!(item["env"][0]["name"], "POD_NAME", "{}", item["name"]);
    }
}

#[test]
fn b7_resources_of_copy_agent_make_no_second_one() {
    let patch = "initContainers:\n- name: copy-agent\n  resources: {limits: {memory: 100Mi}}\n";
    let spec = made(&object("podspec-sidecar"), &[layer("b7", "", patch)]);
    assert_eq!(names(&spec, "initContainers"), ["copy-agent", "imagecheck-0", "sidecar-0"]);
    assert_eq!(container(&spec, "initContainers", "copy-agent")["resources"]["limits"]["memory"], "100Mi");
}

#[test]
fn b9_b10_a_true_default_gives_way_to_the_steps_image_and_resource_class() {
    let patch = "containers:\n- name: \"@command\"\n  image: x\n  resources: {requests: {cpu: 100m, memory: 1Gi}, limits: {cpu: 200m}}\n";
    let job = object("image-and-resources");
    let spec = made(&job, &[layer("b9", "apply: IfAbsent", patch)]);
    assert_eq!(spec, job["spec"]["template"]["spec"], "nothing was missing");
    let spec = made(&job, &[layer("b9", "", patch)]);
    assert_eq!(container(&spec, "containers", "container-0")["image"], "x", "without the option it overrides");
}

#[test]
fn b11_t29_sources_and_tolerations_are_added_to_those_that_are_there() {
    let patch = "tolerations: [{key: ci, operator: Exists}]\ncontainers:\n- name: \"*\"\n  envFrom: [{secretRef: {name: fleet}}, {secretRef: {name: git}}]\n";
    let mut job = object("podspec-sidecar");
    job["spec"]["template"]["spec"]["tolerations"] = json!([{"key": "spot", "operator": "Exists"}]);
    let unions = r#"unionLists: [tolerations, "containers[*].envFrom"]"#;
    let spec = made(&job, &[layer("b11", unions, patch)]);
    let (git, fleet) = (json!({"secretRef": {"name": "git"}}), json!({"secretRef": {"name": "fleet"}}));
    assert_eq!(container(&spec, "containers", "build")["envFrom"], json!([git, fleet]));
    assert_eq!(container(&spec, "containers", "agent")["envFrom"], json!([fleet, git]));
    let keys: Vec<&Value> = spec["tolerations"].as_array().unwrap().iter().map(|item| &item["key"]).collect();
    assert_eq!(keys, ["spot", "ci"]);
    // As kubectl does it, and the reports complain of.
    let spec = made(&job, &[layer("b11", "", patch)]);
    assert_eq!(spec["tolerations"].as_array().unwrap().len(), 1);
}

#[test]
fn b15_the_command_container_is_found_whatever_it_is_called_and_without_a_command() {
    let mut job = object("podspec-sidecar");
    let build = &mut job["spec"]["template"]["spec"]["containers"][0];
    build["name"] = json!("my-own");
    build["env"][1]["value"] = json!("");
    let patch = "containers:\n- name: \"@command\"\n  resources: {limits: {memory: 9Gi}}\n";
    let spec = made(&job, &[layer("b15", "", patch)]);
    assert_eq!(container(&spec, "containers", "my-own")["resources"]["limits"]["memory"], "9Gi");
    assert_eq!(container(&spec, "containers", "agent")["resources"], json!({}));
}

#[test]
fn b16_a_container_that_a_layer_adds_has_the_command_that_the_layer_gives_it() {
    let patch = "containers:\n- name: container-0\n- {name: dind, image: \"docker:27\", command: [dockerd]}\n";
    let spec = made(&object("plain-step"), &[layer("b16", "", patch)]);
    assert_eq!(container(&spec, "containers", "dind")["command"], json!(["dockerd"]));
}

#[test]
fn b22_image_checks_are_met_by_a_glob_whatever_their_numbers() {
    let patch = "initContainers:\n- name: \"imagecheck-*\"\n  resources: {limits: {cpu: 1}}\n";
    let spec = made(&object("podspec-sidecar"), &[layer("b22", "", patch)]);
    assert_eq!(container(&spec, "initContainers", "imagecheck-0")["resources"]["limits"]["cpu"], 1);
    assert_eq!(container(&spec, "initContainers", "copy-agent")["resources"], json!({}));
}

#[test]
fn t7_a_patch_for_an_injectors_container_makes_no_stub_of_it() {
    let patch = "containers:\n- name: istio-proxy\n  resources: {limits: {cpu: 1}}\n";
    let spec = made(&object("plain-step"), &[layer("t7", "", patch)]);
    assert_eq!(names(&spec, "containers"), ["container-0", "agent", "checkout"]);
}

#[test]
fn t30_a_null_of_a_later_layer_takes_away_what_a_true_default_filled_in() {
    let layers =
        [layer("a", "apply: IfAbsent", "nodeSelector: {pool: ci}"), layer("b", "", "nodeSelector: {pool: null}")];
    let spec = made(&object("plain-step"), &layers);
    assert_eq!(spec["nodeSelector"], json!({}));
}
