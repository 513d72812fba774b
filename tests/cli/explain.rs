use serde_json::Value;

use crate::{folder, podlayer, root};

const POD: &str = "kind: Pod
metadata:
  name: p
  labels: {podlayer.dev/enabled: \"true\"}
  annotations:
    podlayer.dev/classes: gpu
    podlayer.dev/pod-spec-patch: |
      containers:
      - name: a
        image: step
        env:
        - {name: A, value: \"<b>&\"}
spec:
  hostNetwork: true
  containers:
  - {name: a, image: own, args: [\"x y\", \"on\"]}
";

const LAYERS: &[(&str, &str)] = &[
    ("10-base.yaml", "hostNetwork: null\nserviceAccountName: ci\ncontainers:\n- name: \"*\"\n  image: base\n"),
    (
        "20-gpu.yaml",
        "kind: ConfigMap\nmetadata:\n  name: gpu\n  labels: {podlayer.dev/layer: class}\ndata:\n  match: \"{}\"\n  \
         podSpecPatch: |\n    tolerations:\n    - {key: gpu, operator: Exists}\n  podMetadata: |\n    labels:\n      cost: gpu\n",
    ),
];

#[test]
fn text_has_one_line_a_field() {
    let folder = folder(LAYERS);
    let run = podlayer(&["explain", "-f", "-", "--layers", folder.path().to_str().unwrap()], POD);
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert_eq!(
        run.stdout,
        "metadata.labels.cost = \"gpu\"  class/gpu, line 2 column 3\n\
         spec.containers[name=a].env[name=A].value = \"<b>&\"  step, line 5 column 15\n\
         spec.containers[name=a].image = \"step\"  step, line 3 column 3, replaced \"base\" of default/10-base\n\
         spec.hostNetwork = (removed)  default/10-base, line 1 column 1, replaced true of pod\n\
         spec.serviceAccountName = \"ci\"  default/10-base, line 2 column 1\n\
         spec.tolerations = [{\"key\":\"gpu\",\"operator\":\"Exists\"}]  class/gpu, line 1 column 1\n"
    );
}

#[test]
fn yaml_is_the_pod_with_a_comment_a_field() {
    let folder = folder(LAYERS);
    let run = podlayer(&["explain", "-f", "-", "--layers", folder.path().to_str().unwrap(), "-o", "yaml"], POD);
    assert_eq!(run.code, 0, "{}", run.stderr);
    let spec = run.stdout.split_once("spec:").unwrap().1;
    assert_eq!(
        spec,
        "
  containers:
  - name: a
    args:
    - x y
    - \"on\"
    image: step  # step, line 3 column 3, replaced \"base\" of default/10-base
    env:
    - name: A
      value: \"<b>&\"  # step, line 5 column 15
  serviceAccountName: ci  # default/10-base, line 2 column 1
  tolerations:  # class/gpu, line 1 column 1
  - key: gpu
    operator: Exists
# removed: spec.hostNetwork  default/10-base, line 1 column 1, replaced true of pod
"
    );
    assert!(
        run.stdout.contains("    podlayer.dev/pod-spec-patch: |\n      containers:\n      - name: a\n"),
        "{}",
        run.stdout
    );
}

#[test]
fn json_has_every_part() {
    let folder = folder(LAYERS);
    let run = podlayer(&["explain", "-f", "-", "--layers", folder.path().to_str().unwrap(), "-o", "json"], POD);
    let json: Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!(json["subject"], "stdin");
    assert_eq!(json["layers"], serde_json::json!(["default/10-base", "class/gpu", "step"]));
    let cost = &json["lines"][0];
    assert_eq!((cost["key"].as_str(), cost["source"].as_str()), (Some("podMetadata"), Some("ConfigMap gpu")));
    assert_eq!(json["lines"][3]["replaced"], serde_json::json!({"value": "true", "by": "pod"}));
}

#[test]
fn render_gives_the_same_bytes() {
    let folder = folder(LAYERS);
    let layers = folder.path().to_str().unwrap();
    let refused = POD.replace("image: step", "imag: step");
    for pod in [POD, &POD.replace("\"true\"", "\"no\""), &refused] {
        for (explain, render) in [("text", "explain"), ("html", "html")] {
            let explain = podlayer(&["explain", "-f", "-", "--layers", layers, "-o", explain], pod);
            let render = podlayer(&["render", "-f", "-", "--layers", layers, "-o", render], pod);
            assert_eq!((explain.code, explain.stdout), (render.code, render.stdout));
            assert_eq!(explain.stderr, render.stderr);
        }
    }
    let run = podlayer(&["explain", "-f", "-", "--layers", layers], &refused);
    assert_eq!((run.code, run.stdout.as_str()), (1, ""));
    assert!(run.stderr.starts_with("unknown field \"imag\" in a, did you mean \"image\"?"), "{}", run.stderr);
}

#[test]
fn what_was_left_out_is_told() {
    let folder = folder(&[
        ("a.yaml", "containers:\n- name: dind\n  env: []\n"),
        (
            "b.yaml",
            "kind: ConfigMap\nmetadata: {name: b, labels: {podlayer.dev/layer: default}}\ndata:\n  options: \"absentContainers: Error\"\n  podSpecPatch: \"containers: [{name: nope}]\"\n",
        ),
    ]);
    let run = podlayer(
        &["explain", "-f", "-", "--layers", folder.path().to_str().unwrap()],
        POD.replace("  annotations:\n    podlayer.dev/classes: gpu\n", "  annotations:\n").as_str(),
    );
    assert!(run.stdout.contains("# default/a: not in this pod: dind\n"), "{}", run.stdout);
    assert!(run.stdout.contains("# default/b skipped: no container named \"nope\""), "{}", run.stdout);
}

#[test]
fn the_example_of_buildkite_can_be_explained_in_every_form() {
    let job = root("tests/data/jobs/buildkite/plain-step.yaml");
    let layers = root("examples/buildkite/controller-default.yaml");
    for form in ["text", "yaml", "json", "html"] {
        let run = podlayer(
            &[
                "explain",
                "-f",
                job.to_str().unwrap(),
                "--layers",
                layers.to_str().unwrap(),
                "--presets",
                "buildkite",
                "-o",
                form,
            ],
            "",
        );
        assert_eq!(run.code, 0, "{form}: {}", run.stderr);
        assert!(run.stdout.contains("default/"), "{form}: {}", run.stdout);
    }
}

#[test]
fn wrong_usage_is_told() {
    for args in [&["explain"][..], &["explain", "p", "-f", "x"]] {
        assert_eq!(podlayer(args, "").code, 2);
    }
    let run = podlayer(&["explain", "p", "--kubeconfig", "/nowhere"], "");
    assert_eq!(run.code, 2);
    assert!(
        run.stderr.contains("failed to reach the cluster: failed to read the kubeconfig /nowhere"),
        "{}",
        run.stderr
    );
}
