use serde_json::{Value, json};

use crate::{folder, podlayer, root};

const VALUES: &str = "config:
  queue: kubernetes
  prohibit-kubernetes-plugin: true
  default-metadata:
    labels: {team: a}
    annotations: {example.com/x: \"true\", buildkite.com/own: x}
  default-command-params:
    interposer: vector
    envFrom: [{configMapRef: {name: ci}}]
  resource-classes:
    large:
      resource: {requests: {cpu: \"4\"}}
      nodeSelector: {pool: large}
  default-resource-class-name: large
  pod-spec-patch:
    serviceAccountName: ci
    containers:
    - name: container-0
      command: [sh]
      env: [{name: A, value: b}]
    - name: agent
      resources: {requests: {cpu: 100m}}
";

#[test]
fn agent_stack_k8s_becomes_layers_and_what_cannot_is_named_with_its_line() {
    let run = podlayer(&["import", "agent-stack-k8s", "-"], VALUES);
    assert_eq!(run.code, 1, "{}", run.stderr);
    let remarks: Vec<&str> = run.stderr.lines().collect();
    for (wanted, place) in [
        ("prohibit-kubernetes-plugin: ", "stdin:3:3:"),
        ("buildkite.com/own left out", "stdin:6:"),
        ("interposer of the command containers", "stdin:8:5:"),
        ("wins over it", "stdin:10:3:"),
        ("command of container-0 left out: the old controller folds it into BUILDKITE_COMMAND", "stdin:19:7:"),
    ] {
        assert!(remarks.iter().any(|line| line.starts_with(place) && line.contains(wanted)), "{wanted}: {remarks:#?}");
    }
    let files = folder(&[("layers.yaml", &run.stdout)]);
    let layers = files.path().join("layers.yaml").to_str().unwrap().to_owned();
    let lint = podlayer(&["lint", &layers], "");
    assert_eq!((lint.code, lint.stdout.as_str()), (0, ""), "{}", run.stdout);
    let job = root("tests/data/jobs/buildkite/plain-step.yaml");
    let made = podlayer(
        &["render", "-f", job.to_str().unwrap(), "--layers", &layers, "--presets", "buildkite", "-o", "json"],
        "",
    );
    assert_eq!(made.code, 0, "{}", made.stderr);
    let job: Value = serde_json::from_str(&made.stdout).unwrap();
    let template = &job["spec"]["template"];
    assert_eq!(template["metadata"]["labels"]["team"], "a");
    assert_eq!(template["spec"]["serviceAccountName"], "ci");
    assert_eq!(template["spec"]["nodeSelector"]["pool"], "large");
    let container =
        template["spec"]["containers"].as_array().unwrap().iter().find(|c| c["name"] == "container-0").unwrap();
    assert_eq!(container["resources"]["requests"]["cpu"], "4");
    assert_eq!(container["envFrom"][0]["configMapRef"]["name"], "ci");
}

#[test]
fn parity_is_proved_job_by_job() {
    let values = "config:\n  pod-spec-patch:\n    serviceAccountName: ci\n    terminationGracePeriodSeconds: 45\n    containers:\n    - name: container-0\n      resources: {requests: {cpu: 2}}\n      env:\n      - {name: EXTRA, value: x}\n    - name: agent\n      resources: {limits: {memory: 1Gi}}\n    tolerations: [{key: ci, operator: Exists}]\n";
    let jobs = root("tests/data/jobs/buildkite");
    let files = folder(&[
        ("values.yaml", values),
        ("command.yaml", &values.replace("    - name: agent\n", "      command: [sh]\n    - name: agent\n")),
    ]);
    let verify = |name: &str| {
        let file = files.path().join(name).to_str().unwrap().to_owned();
        podlayer(
            &["import", "agent-stack-k8s", &file, "--verify", "-f", jobs.to_str().unwrap(), "--presets", "buildkite"],
            "",
        )
    };
    let run = verify("values.yaml");
    assert_eq!(run.code, 1, "{}{}", run.stdout, run.stderr);
    assert!(run.stdout.ends_with("4 of 7 the same\n"), "{}", run.stdout);
    // Of the others, one has a step patch of its own, and two pods have no container-0.
    let differences: Vec<&str> = run.stdout.lines().filter(|line| line.starts_with("  ")).collect();
    let own =
        differences.iter().filter(|line| line.ends_with("of step, which the old controller does not know")).count();
    let without = differences
        .iter()
        .filter(|line| line.contains("the pod has no container-0: the old controller adds it without an image"))
        .count();
    assert_eq!((own, without, differences.len()), (1, 4, 5), "{}", run.stdout);
    // What can't carry over is the difference, and nothing else is.
    let run = verify("command.yaml");
    assert_eq!(run.code, 1, "{}", run.stderr);
    let commands = run.stdout.lines().filter(|line| line.contains("folds it into BUILDKITE_COMMAND")).count();
    assert_eq!(commands, 5, "{}", run.stdout);
    assert!(!run.stdout.contains("not explained"), "{}", run.stdout);
}

#[test]
fn kyverno_becomes_layers_or_says_why_not() {
    let policy = "apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: ci}
spec:
  rules:
  - name: defaults
    match: {any: [{resources: {kinds: [Pod], namespaces: [\"ci-*\"], selector: {matchLabels: {team: a}}}}]}
    exclude: {any: [{resources: {selector: {matchLabels: {keep: out}}}}]}
    mutate:
      patchStrategicMerge:
        metadata:
          labels:
            +(cost): ci
        spec:
          +(priorityClassName): low
          dnsPolicy: Default
          containers:
          - (name): \"*\"
            +(imagePullPolicy): Always
            env:
            - {name: A, value: b}
  - name: conditional
    match: {resources: {kinds: [Pod]}}
    mutate:
      patchStrategicMerge:
        spec:
          containers:
          - (image): \"*:latest\"
            imagePullPolicy: Always
  - name: variable
    match: {any: [{resources: {kinds: [Pod]}}]}
    preconditions: {all: []}
    mutate:
      patchStrategicMerge:
        metadata: {labels: {x: \"{{ request.namespace }}\"}}
";
    let run = podlayer(&["import", "kyverno", "-"], policy);
    assert_eq!(run.code, 1, "{}", run.stderr);
    assert_eq!(
        run.stderr,
        "stdin:28:13: the anchor (image) has no counterpart: a layer has no conditions on other fields\n\
         stdin:32:5: preconditions has no counterpart in a layer\n\
         stdin:35:29: a variable {{ … }} has no counterpart: a layer has fixed values\n"
    );
    let files = folder(&[("layers.yaml", &run.stdout)]);
    let layers = files.path().join("layers.yaml").to_str().unwrap().to_owned();
    let lint = podlayer(&["lint", &layers], "");
    assert_eq!((lint.code, lint.stdout.as_str()), (0, ""), "{}", run.stdout);
    let pod = |labels: &str, spec: &str| {
        format!(
            "kind: Pod\nmetadata: {{name: p, namespace: ci-1, labels: {{podlayer.dev/enabled: \"true\", {labels}}}}}\nspec: {{{spec} containers: [{{name: x, image: y}}]}}\n"
        )
    };
    let explain = |pod: &str| podlayer(&["explain", "-f", "-", "--layers", &layers], pod).stdout;
    let text = explain(&pod("team: a", "priorityClassName: high,"));
    assert_eq!(
        text.lines().map(|line| line.split("  ").next().unwrap()).collect::<Vec<_>>(),
        [
            "metadata.labels.cost = \"ci\"",
            "spec.containers[name=x].env[name=A].value = \"b\"",
            "spec.containers[name=x].imagePullPolicy = \"Always\"",
            "spec.dnsPolicy = \"Default\""
        ],
        "{text}"
    );
    assert_eq!(explain(&pod("team: a, keep: out", "")), "");
    assert_eq!(explain(&pod("team: b", "")), "");
}

#[test]
fn a_pipelines_own_patch_moves_into_the_annotation() {
    let pipeline = "# a comment
steps:
  - label: one # kept
    command: make
    plugins:
      - kubernetes:
          podSpecPatch:
            # why
            containers:
              - name: container-0
                image: a
                $patch: delete
          gitEnvFrom: []
      - docker#v1: {}
  - command: two
    plugins:
      - https://github.com/x/kubernetes#v1:
          metadata:
            annotations:
              own: \"1\"
          podSpecPatch: {hostNetwork: true}
  - command: three
    plugins:
      - kubernetes: {podSpecPatch: {hostNetwork: true}}
";
    let run = podlayer(&["convert", "-"], pipeline);
    assert_eq!(
        run.stdout,
        "# a comment
steps:
  - label: one # kept
    command: make
    plugins:
      - kubernetes:
          metadata:
            annotations:
              podlayer.dev/pod-spec-patch: |
                # why
                containers:
                  - name: container-0
                    image: a
                    $$patch: delete
          gitEnvFrom: []
      - docker#v1: {}
  - command: two
    plugins:
      - https://github.com/x/kubernetes#v1:
          metadata:
            annotations:
              podlayer.dev/pod-spec-patch: |
                {hostNetwork: true}
              own: \"1\"
  - command: three
    plugins:
      - kubernetes: {podSpecPatch: {hostNetwork: true}}
"
    );
    assert_eq!(run.code, 1);
    let remarks: Vec<&str> = run.stderr.lines().collect();
    assert_eq!(remarks.len(), 2, "{remarks:#?}");
    assert!(remarks[0].starts_with("stdin:7:11: a directive stood with a single $"), "{remarks:#?}");
    assert!(remarks[1].starts_with("stdin:24:22: podSpecPatch stays as it is"), "{remarks:#?}");
    let lint = podlayer(&["lint", "-"], &run.stdout);
    assert_eq!((lint.code, lint.stdout.as_str()), (0, ""));
    // Nothing to move: the very bytes.
    let example = std::fs::read_to_string(root("examples/buildkite/pipeline.yml")).unwrap();
    let run = podlayer(&["convert", "-"], &example);
    assert_eq!((run.code, run.stdout), (0, example));
    assert!(run.stderr.contains("stdin: no plugin has a podSpecPatch, nothing is moved"), "{}", run.stderr);
}

#[test]
fn what_a_pipeline_moves_is_looked_at_on_the_way() {
    let plugin = |patch: &str| format!("steps:\n- plugins:\n  - kubernetes:\n      {patch}\n");
    let run = podlayer(&["convert", "-"], &plugin("podSpecPatch: {hostPid: true, $patch: replace}"));
    assert_eq!(run.code, 1, "{}", run.stderr);
    assert!(
        run.stdout.contains("podlayer.dev/pod-spec-patch: |\n            {hostPid: true, $$patch: replace}"),
        "{}",
        run.stdout
    );
    let wanted =
        "stdin:4:22: error: unknown field \"hostPid\" in the pod spec, did you mean \"hostPID\"? [unknown-field]";
    assert!(run.stderr.contains(wanted), "{}", run.stderr);
    assert!(!run.stderr.contains("unescaped-dollar"), "{}", run.stderr);
    // A pipeline may be its steps alone.
    let steps = "- command: make\n- wait\n";
    let run = podlayer(&["convert", "-"], steps);
    assert_eq!((run.code, run.stdout.as_str()), (0, steps), "{}", run.stderr);
    let run = podlayer(&["convert", "-"], &plugin("podSpecPath: {hostPID: true}"));
    assert_eq!(run.code, 1, "{}", run.stderr);
    let wanted = "stdin:4:7: unknown field \"podSpecPath\" of the plugin, did you mean \"podSpecPatch\"?";
    assert!(run.stderr.contains(wanted), "{}", run.stderr);
}

const AZURE_POOL: &str = "apiVersion: dev.azure.com/v1alpha1
kind: AzurePipelinesPool
metadata:
  name: azurepipelinespool-operator
  namespace: azuredevops
  uid: 0f3
spec:
  controllerImage: example.azurecr.io/webserver:1
  buildkitReplicas: 2
  initialized: true
  agentPools:
  - name: linux
    spec:
      containers:
      - name: agent
        image: example.azurecr.io/agent:16
        resources: {requests: {cpu: \"1\"}}
  - name: linux-20
    spec:
      containers:
      - name: agent
        image: example.azurecr.io/agent:20
        resources: {requests: {cpu: \"1\"}}
  - name: windows
    spec:
      nodeSelector: {kubernetes.io/os: windows}
      containers: [{name: agent, image: \"example.azurecr.io/windows:1\"}]
  - name: empty
";

#[test]
fn a_pool_of_k8s_poolprovider_becomes_an_agent_pool_that_takes_its_place() {
    let run = podlayer(&["import", "azure-pool", "-"], AZURE_POOL);
    assert_eq!(run.code, 1, "{}", run.stderr);
    let made: Value = serde_yaml::from_str(run.stdout.strip_prefix("---\n").unwrap()).unwrap();
    let agent =
        json!({"name": "agent", "image": "example.azurecr.io/agent:16", "resources": {"requests": {"cpu": "1"}}});
    assert_eq!(
        made,
        json!({"apiVersion": "podlayer.dev/v1alpha1", "kind": "AgentPool",
            "metadata": {"name": "azurepipelinespool-operator", "namespace": "azuredevops"},
            "spec": {"mode": "Agents", "max": 10, "buildkit": {"replicas": 2},
                "azure": {"secretName": "azurepipelines", "defaultImage": "linux", "images": [
                    {"name": "linux", "image": "example.azurecr.io/agent:16"},
                    {"name": "linux-20", "image": "example.azurecr.io/agent:20"}]},
                "template": {"spec": {"containers": [agent]}}}})
    );
    let remarks: Vec<&str> = run.stderr.lines().collect();
    for (place, wanted) in [
        ("stdin:8:3:", "controllerImage was the old endpoint's image"),
        ("stdin:28:", "an entry of agentPools without a name and a spec: left out"),
        ("stdin:18:", "never used linux-20: here a pipeline chooses it by `pool: {image: linux-20}`"),
        ("stdin:24:", "never used windows, and more than its image differs: left out; make an AgentPool of it"),
        ("stdin:12:", "agents ran as the namespace's default account, which the old chart made admin"),
        ("stdin:7:1:", "max is set to 10; --max with the target size"),
    ] {
        assert!(remarks.iter().any(|line| line.starts_with(place) && line.contains(wanted)), "{wanted}: {remarks:#?}");
    }
    assert_eq!(remarks.len(), 6, "{remarks:#?}");

    // As kubectl lists them, with all that can be carried over, and something else among them.
    let list = "apiVersion: v1
kind: List
items:
- apiVersion: dev.azure.com/v1alpha1
  kind: AzurePipelinesPool
  metadata: {name: a-name-that-is-longer-than-forty-characters-are}
  spec:
    agentPools:
    - {name: linux, spec: {serviceAccountName: agents, containers: [{name: agent, image: \"agent:1\"}]}}
    buildkitReplica: 1
- {apiVersion: v1, kind: ConfigMap}
";
    let run = podlayer(&["import", "azure-pool", "-", "--max", "25"], list);
    let made: Value = serde_yaml::from_str(run.stdout.strip_prefix("---\n").unwrap()).unwrap();
    assert_eq!(made["spec"]["azure"], json!({"secretName": "azurepipelines"}));
    assert_eq!(
        (&made["spec"]["max"], &made["spec"]["template"]["spec"]["serviceAccountName"]),
        (&json!(25), &json!("agents"))
    );
    assert_eq!(made["metadata"], json!({"name": "a-name-that-is-longer-than-forty-charact"}));
    let remarks: Vec<&str> = run.stderr.lines().collect();
    for wanted in [
        "has more than 40 characters: cut to",
        "buildkitReplica has no counterpart",
        "a ConfigMap is no AzurePipelinesPool",
    ] {
        assert!(remarks.iter().any(|line| line.contains(wanted)), "{wanted}: {remarks:#?}");
    }
    assert_eq!(remarks.len(), 3, "{remarks:#?}");
}

#[test]
fn other_files_are_told_apart() {
    for (args, text, wanted) in [
        (
            &["import", "agent-stack-k8s", "-"][..],
            "- 1\n",
            "the configuration of agent-stack-k8s is wanted, line 1 column 1",
        ),
        (&["import", "kyverno", "-"], "a: [\n", "failed to read stdin: "),
        (&["convert", "-"], "a: [\n", "failed to read stdin: "),
        (
            &["convert", "-"],
            "image: a\nfoo: 1\n",
            "unknown field \"image\": a pipeline of Buildkite is wanted, with its steps under \"steps:\", line 1 column 1",
        ),
        (
            &["convert", "-"],
            "env: {A: b}\nstep: []\n",
            "unknown field \"step\", did you mean \"steps\"? line 2 column 1",
        ),
        (
            &["convert", "-"],
            "apiVersion: v1\nkind: Pod\n",
            "kind \"Pod\" is no pipeline: a pipeline of Buildkite is wanted",
        ),
        (&["convert", "-"], "hostNetwork: true\n", "\"hostNetwork\" is a field of pods"),
        (
            &["convert", "-"],
            "some text\n",
            "a pipeline of Buildkite is wanted, with its steps under \"steps:\", line 1 column 1",
        ),
        (&["import", "azure-pool", "-"], "a: [\n", "failed to read stdin: "),
        (
            &["import", "azure-pool", "-"],
            "apiVersion: dev.azure.com/v1alpha1\nkind: AzurePipelinesPool\n",
            "has no spec",
        ),
        (&["import", "azure-pool", "-", "--max", "9999"], "", "9999 is not in 0..=2000"),
        (&["import"], "", "agent-stack-k8s"),
    ] {
        let run = podlayer(args, text);
        assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{args:?}");
        assert!(run.stderr.contains(wanted), "{args:?}: {}", run.stderr);
    }
}
