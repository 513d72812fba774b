//! The examples, one for each preset: their layers and a pod of the true shape, on the real API server.

use serde_json::{Value, json};

use crate::{
    controlplane::ControlPlane,
    layers::{annotation, pod_of},
    podlayer::Webhook,
};

/// The objects of a file of the examples, moved into other namespaces.
fn objects(file: &str, own: &str, namespace: &str) -> Vec<Value> {
    use serde::Deserialize;
    let path = format!("{}/{file}", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(path).unwrap();
    let moved = |document| {
        let mut object = Value::deserialize(document).unwrap();
        object["metadata"]["namespace"] = json!(if object["kind"] == "ConfigMap" { own } else { namespace });
        object
    };
    serde_yaml::Deserializer::from_str(&text).map(moved).collect()
}

/// A field by a path such as `containers.build.resources`: items by name.
fn at<'p>(pod: &'p Value, path: &str) -> &'p Value {
    path.split('/').fold(&pod["spec"], |value, step| match value.as_array() {
        Some(items) => items.iter().find(|item| item["name"] == step).unwrap_or(&Value::Null),
        None => &value[step],
    })
}

/// An example, the layers that its pod gets, and some fields with their values.
struct Example {
    preset: &'static str,
    layers: &'static [&'static str],
    fields: Vec<(&'static str, Value)>,
}

fn examples() -> Vec<Example> {
    let example = |preset, layers, fields| Example { preset, layers, fields };
    let requests = |cpu: &str, memory: &str| json!({"requests": {"cpu": cpu, "memory": memory}});
    vec![
        example(
            "arc-runner",
            &["default/arc-runner-base", "class/arc-big"],
            vec![
                ("containers/runner/resources", requests("8", "16Gi")),
                ("containers/runner/env/HTTPS_PROXY/value", json!("http://proxy.example.com:3128")),
                ("initContainers/dind/resources", requests("100m", "128Mi")),
                ("initContainers/init-dind-externals/resources", requests("100m", "128Mi")),
                ("nodeSelector", json!({"pool": "big"})),
            ],
        ),
        example(
            "arc-workflow",
            &["default/arc-workflow-base"],
            vec![
                ("containers/job/resources", requests("2", "4Gi")),
                ("containers/redis/resources", requests("100m", "256Mi")),
                ("initContainers/fs-init/resources", requests("100m", "128Mi")),
            ],
        ),
        example(
            "gitlab",
            &["default/gitlab-resources", "default/gitlab-cache", "step"],
            vec![
                ("containers/build/resources", requests("4", "2Gi")),
                ("containers/helper/resources", requests("100m", "128Mi")),
                ("containers/postgres/resources", requests("100m", "256Mi")),
                ("containers/build/env/CACHE_DIR/value", json!("/cache")),
                ("containers/build/env/STEP/value", json!("tests")),
                ("containers/helper/env", Value::Null),
            ],
        ),
        example(
            "jenkins",
            &["default/jenkins-resources", "default/jenkins-agent", "step"],
            vec![
                ("containers/maven/resources", requests("1", "4Gi")),
                ("containers/jnlp/resources/limits", json!({"memory": "512Mi"})),
            ],
        ),
        example(
            "tekton",
            &["default/tekton-base", "step"],
            vec![
                ("containers/step-build/env/HTTPS_PROXY/value", json!("http://proxy.example.com:3128")),
                ("containers/step-push/env/HTTPS_PROXY/value", json!("http://proxy.example.com:3128")),
                ("containers/sidecar-registry/env", Value::Null),
                ("containers/sidecar-registry/resources", requests("100m", "256Mi")),
                ("containers/step-build/resources", requests("4", "8Gi")),
                ("initContainers/prepare/resources", requests("50m", "64Mi")),
            ],
        ),
        example(
            "argo",
            &["default/argo-resources", "step"],
            vec![
                ("containers/main/resources", requests("1", "4Gi")),
                ("containers/main/env/STEP/value", json!("test")),
                ("containers/wait/resources", requests("50m", "64Mi")),
                ("containers/db/resources", requests("100m", "128Mi")),
                ("initContainers/init/resources", requests("50m", "64Mi")),
            ],
        ),
        example(
            "job",
            &["default/job-resources", "default/job-pool"],
            vec![
                ("containers/tests/resources", requests("250m", "2Gi")),
                ("containers/db/resources/limits", json!({"memory": "1Gi"})),
                ("terminationGracePeriodSeconds", json!(60)),
                (
                    "containers/tests/envFrom",
                    json!([{"secretRef": {"name": "tests", "optional": true}}, {"configMapRef": {"name": "proxy", "optional": true}}]),
                ),
            ],
        ),
    ]
}

#[test]
fn the_example_of_every_preset_does_what_it_says() {
    let plane = ControlPlane::shared();
    let all = "buildkite,arc-runner,arc-workflow,gitlab,jenkins,tekton,argo";
    let webhook = Webhook::start(plane, &["--presets", all]);
    let namespace = plane.namespace("ci");
    let labels: Vec<&str> = podlayer::presets::all()
        .iter()
        .flat_map(|preset| &preset.selectors)
        .flat_map(|selector| selector.keys().map(String::as_str))
        .filter(|key| *key != podlayer::names::ENABLED)
        .collect();
    webhook.register_with(plane, &namespace, "Fail", &labels);
    let examples = examples();
    let layers = |file: &str| objects(file, &webhook.own, &namespace);
    let mut written = layers("examples/buildkite/by-role.yaml");
    written.extend(examples.iter().flat_map(|example| layers(&format!("examples/{}/layers.yaml", example.preset))));
    let list = json!({"apiVersion": "v1", "kind": "List", "items": written});
    plane.apply(&list.to_string());
    written.iter().for_each(|layer| webhook.wait_for(layer["metadata"]["name"].as_str().unwrap(), "good"));

    for Example { preset, layers, fields } in examples {
        let file = if preset == "job" { "job" } else { "pod" };
        let mut objects = objects(&format!("examples/{preset}/{file}.yaml"), &webhook.own, &namespace);
        let object = objects.remove(0);
        let made = plane.kubectl_in(&["create", "-f", "-"], &object.to_string());
        assert!(made.ok && made.stderr.is_empty(), "{preset}: {}", made.stderr);
        let name = object["metadata"]["name"].as_str().unwrap();
        let pod = match preset {
            "job" => pod_of(plane, &namespace, name),
            _ => plane.get_json(&["pod", name, "-n", &namespace]),
        };
        let stamp = annotation(&pod, "podlayer.dev/applied");
        assert_eq!((&stamp["layers"], &stamp["skipped"]), (&json!(layers), &json!([])), "{preset}");
        for (path, value) in fields {
            assert_eq!(at(&pod, path), &value, "{preset} {path}");
        }
        let sent = object.pointer(if preset == "job" { "/spec/template/spec" } else { "/spec" }).unwrap();
        for list in ["containers", "initContainers"] {
            let names = |spec: &Value| -> Vec<Value> {
                spec[list].as_array().into_iter().flatten().map(|item| item["name"].clone()).collect()
            };
            assert_eq!(names(&pod["spec"]), names(sent), "{preset} {list}");
        }
    }

    // Buildkite's, on the Job of a step that chose a resource class.
    let path = format!("{}/tests/data/jobs/buildkite/podspec-sidecar.yaml", env!("CARGO_MANIFEST_DIR"));
    let mut job: Value = serde_yaml::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    job["metadata"]["namespace"] = json!(namespace);
    job["spec"]["template"]["metadata"]["labels"]["tag.buildkite.com/resource_class"] = json!("docker");
    plane.apply(&job.to_string());
    let pod = pod_of(plane, &namespace, job["metadata"]["name"].as_str().unwrap());
    let layers = &annotation(&pod, "podlayer.dev/applied")["layers"];
    assert_eq!(layers, &json!(["default/buildkite-by-role", "class/docker"]));
    let init: Vec<&Value> =
        pod["spec"]["initContainers"].as_array().unwrap().iter().map(|item| &item["name"]).collect();
    assert_eq!(init, ["copy-agent", "dind", "imagecheck-0", "sidecar-0"], "dind comes behind copy-agent");
    let build = json!({"requests": {"cpu": "500m", "memory": "1Gi"}});
    assert_eq!(at(&pod, "containers/build/resources"), &build, "the step's own");
    assert_eq!(at(&pod, "containers/build/env/DOCKER_HOST/value"), "tcp://localhost:2375");
    let agent = json!({"requests": {"cpu": "100m", "memory": "50Mi"}, "limits": {"memory": "100Mi"}});
    assert_eq!(at(&pod, "containers/agent/resources"), &agent);
    Webhook::unregister(plane, &namespace);
}
