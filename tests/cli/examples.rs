//! The examples that this project started from, on Jobs and pods as the real controller makes them.

use serde_json::{Value, json};

use crate::{podlayer, root};

fn render(pod: &Value, layers: &[&str], step: Option<&str>) -> Value {
    let mut args = vec!["render", "-f", "-", "-o", "json"];
    let layers: Vec<String> = layers.iter().map(|layer| format!("examples/buildkite/{layer}")).collect();
    layers.iter().for_each(|layer| args.extend(["--layers", layer]));
    let step = step.map(|step| format!("examples/buildkite/{step}"));
    step.iter().for_each(|step| args.extend(["--step", step]));
    let run = podlayer(&args, &pod.to_string());
    assert_eq!(run.code, 0, "{}", run.stderr);
    serde_json::from_str(&run.stdout).unwrap()
}

/// A pod as agent-stack-k8s makes it, opted in.
fn pod(name: &str) -> Value {
    let text = std::fs::read_to_string(root(&format!("tests/data/jobs/buildkite/{name}.yaml"))).unwrap();
    let mut pod: Value = serde_yaml::from_str(&text).unwrap();
    pod["metadata"]["labels"]["podlayer.dev/enabled"] = json!("true");
    pod
}

fn names(pod: &Value, list: &str) -> Vec<String> {
    let items = pod["spec"][list].as_array().cloned().unwrap_or_default();
    items.iter().map(|item| item["name"].as_str().unwrap().to_owned()).collect()
}

fn container<'p>(pod: &'p Value, list: &str, name: &str) -> &'p Value {
    pod["spec"][list].as_array().unwrap().iter().find(|item| item["name"] == name).unwrap()
}

#[test]
fn the_controllers_default_adds_a_variable_and_leaves_the_others() {
    let before = pod("plain-step-pod");
    let after = render(&before, &["controller-default.yaml"], None);
    assert_eq!(after["spec"]["serviceAccountName"], "buildkite-agent-sa");
    assert_eq!(after["spec"]["automountServiceAccountToken"], true);
    let env = container(&after, "containers", "container-0")["env"].as_array().unwrap();
    let token = json!({"name": "GITHUB_TOKEN", "valueFrom": {"secretKeyRef": {"name": "github-secrets", "key": "github-token"}}});
    assert_eq!(env[0], token);
    assert_eq!(&env[1..], container(&before, "containers", "container-0")["env"].as_array().unwrap());
    assert_eq!(names(&after, "containers"), names(&before, "containers"));
}

#[test]
fn the_fleets_default_works_with_and_without_dind_and_creates_no_container() {
    let resources = json!({"requests": {"cpu": "100m", "memory": "50Mi"}, "limits": {"memory": "100Mi"}});
    let plain = pod("plain-step-pod");
    let mut with_dind = plain.clone();
    with_dind["spec"]["containers"].as_array_mut().unwrap().push(json!({"name": "dind", "image": "docker:dind"}));
    for before in [plain, with_dind] {
        let after = render(&before, &["fleet-default.yaml"], None);
        assert_eq!(after["spec"]["serviceAccountName"], "buildkite-service-account");
        for list in ["containers", "initContainers"] {
            let (mut now, mut then) = (names(&after, list), names(&before, list));
            now.sort();
            then.sort();
            assert_eq!(now, then, "no container is created, none lost");
        }
        for name in names(&before, "containers") {
            assert_eq!(container(&after, "containers", &name)["resources"], resources, "{name}");
        }
        assert_eq!(container(&after, "initContainers", "copy-agent")["resources"], resources);
    }
}

#[test]
fn the_steps_patches_come_after_the_defaults() {
    let layers = ["controller-default.yaml", "fleet-default.yaml"];
    let after = render(&pod("plain-step-pod"), &layers, Some("step-secret.yaml"));
    let env = container(&after, "containers", "container-0")["env"].as_array().unwrap();
    assert_eq!((&env[0]["name"], &env[1]["name"]), (&json!("BUILDKITE_ANALYTICS_TOKEN"), &json!("GITHUB_TOKEN")));
    assert_eq!(env[0]["valueFrom"]["secretKeyRef"]["name"], "buildkite");
    assert_eq!(after["spec"]["serviceAccountName"], "buildkite-service-account", "the later default wins");

    let after = render(&pod("plain-step-pod"), &layers, Some("step-resources.yaml"));
    let power = json!({"cpu": 2, "memory": "4Gi"});
    assert_eq!(
        container(&after, "containers", "container-0")["resources"],
        json!({"requests": power, "limits": power})
    );
    let agent = container(&after, "containers", "agent");
    assert_eq!(agent["resources"]["requests"]["cpu"], "100m", "the step's power is for its own container");
}

#[test]
fn the_printed_text_with_its_wrong_indent_is_told_where_and_what() {
    let run = podlayer(
        &["render", "-f", "-", "--layers", "examples/buildkite/broken/mis-indented.yaml"],
        &pod("plain-step-pod").to_string(),
    );
    assert_eq!((run.code, run.stdout.as_str()), (2, ""));
    assert!(
        run.stderr.contains(
            "mapping values are not allowed here: \"initContainers\" is indented deeper than the line above, which already \
             has a value; indent it like its siblings, examples/buildkite/broken/mis-indented.yaml, line 3 column 3"
        ),
        "{}",
        run.stderr
    );
}

#[test]
fn every_job_and_pod_of_the_real_controller_takes_the_layers_and_stays() {
    for entry in std::fs::read_dir(root("tests/data/jobs/buildkite")).unwrap() {
        let path = entry.unwrap().path();
        let mut object: Value = serde_yaml::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
        let template = if object["kind"] == "Job" { &mut object["spec"]["template"] } else { &mut object };
        template["metadata"]["labels"]["podlayer.dev/enabled"] = json!("true");
        let layers = ["controller-default.yaml", "fleet-default.yaml"];
        // A step with a podSpec of its own has no container-0 to patch.
        let has_container_0 = object.to_string().contains("\"container-0\"");
        let once = render(&object, &layers, has_container_0.then_some("step-secret.yaml"));
        assert_eq!(render(&once, &layers, None), once, "{}", path.display());
    }
}

#[test]
fn the_patch_in_the_example_pipeline_is_a_right_one() {
    let text = std::fs::read_to_string(root("examples/buildkite/pipeline.yml")).unwrap();
    let pipeline: Value = serde_yaml::from_str(&text).unwrap();
    let metadata = &pipeline["steps"][0]["plugins"][0]["kubernetes"]["metadata"];
    let mut pod = pod("plain-step-pod");
    pod["metadata"]["annotations"] = metadata["annotations"].clone();
    let after = render(&pod, &[], None);
    assert_eq!(container(&after, "containers", "container-0")["resources"]["limits"]["memory"], "4Gi");
}
