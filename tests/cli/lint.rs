use serde_json::Value;

use crate::{folder, podlayer, root};

#[test]
fn findings_stand_in_the_file_with_line_and_column() {
    let folder = folder(&[
        (
            "layers/bad.yaml",
            "kind: ConfigMap\nmetadata:\n  name: bad\n  labels: {podlayer.dev/layer: default}\ndata:\n  podSpecPatch: |\n    containers:\n    - name: a\n      resource: {}\n",
        ),
        ("layers/good.yaml", "hostNetwork: yes\n"),
        (
            "job.yaml",
            "kind: Job\nmetadata: {name: j}\nspec:\n  template:\n    metadata:\n      labels: {podlayer.dev/enabled: \"true\"}\n      annotations:\n        podlayer.dev/pod-spec-patch: |\n          # a comment\n          llamas: true\n    spec: {}\n",
        ),
    ]);
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (layers, job) = (path("layers"), path("job.yaml"));
    let run = podlayer(&["lint", &layers, &job], "");
    assert_eq!(run.code, 1, "{}", run.stderr);
    let wanted = format!(
        "{layers}/bad.yaml:9:7: error: unknown field \"resource\" in a, did you mean \"resources\"? [unknown-field]\n\
         {job}:10:11: error: unknown field \"llamas\" in the pod spec, annotation podlayer.dev/pod-spec-patch [unknown-field]\n"
    );
    assert_eq!(run.stdout, wanted);
    let json = podlayer(&["lint", "-o", "json", &job], "");
    let findings: Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!((json.code, &findings[0]["line"], &findings[0]["severity"]), (1, &10.into(), &"error".into()));
}

#[test]
fn right_files_have_no_findings_and_missing_ones_are_a_failure() {
    let run = podlayer(&["lint", "examples/buildkite/fleet-default.yaml", "examples/demo/layers"], "");
    assert_eq!((run.code, run.stdout.as_str()), (0, ""), "{}", run.stderr);
    let run = podlayer(&["lint", "no/such/file"], "");
    assert_eq!(run.code, 2);
    assert!(run.stderr.contains("no/such/file"), "{}", run.stderr);
}

/// The findings of one file, without its name: `line:column: severity: text [code]`.
fn lint(name: &str, text: &str, more: &[&str]) -> Vec<String> {
    let folder = folder(&[(name, text)]);
    let path = folder.path().join(name).to_str().unwrap().to_owned();
    let run = podlayer(&[&["lint", &path][..], more].concat(), "");
    assert_ne!(run.code, 2, "{}", run.stderr);
    assert_eq!(run.code == 0, run.stdout.is_empty());
    run.stdout.lines().map(|line| line.strip_prefix(&format!("{path}:")).unwrap().to_owned()).collect()
}

#[test]
fn the_page_of_codes_is_what_the_program_prints() {
    let run = podlayer(&["lint", "--codes"], "");
    let page = std::fs::read_to_string(root("docs/lint.md")).unwrap();
    assert_eq!(run.stdout, page, "write it anew: podlayer lint --codes > docs/lint.md");
}

#[test]
fn what_can_be_read_and_yet_not_be_meant_is_found_in_a_layer() {
    for (text, wanted) in [
        (
            "tolerations:\n- $patch: delete\n  key: a\n",
            "2:3: warning: $patch in an item of tolerations does nothing: the list is replaced as a whole [ignored-directive]",
        ),
        (
            "containers:\n- name: a\n  env:\n  - name: A\n    $patch: replace\n",
            "5:5: error: $patch: replace beside other keys replaces the whole list env: write it as an item of its own [replace-with-name]",
        ),
        (
            "securityContext:\n  $patch: replace\n  runAsUser: 1\n",
            "2:3: warning: $patch: replace sets nothing where the pod has no securityContext: write the object plainly, with null for what must go [replace-on-absent]",
        ),
        (
            "containers:\n- name: a\n  env:\n  - {name: A, value: b, valueFrom: {fieldRef: {fieldPath: metadata.name}}}\n",
            "4:25: error: value and valueFrom in one variable: a pod may have one of them, set the other to null [two-sources]",
        ),
        (
            "volumes:\n- name: v\n  emptyDir: {}\n  configMap: {name: c}\n",
            "4:3: error: emptyDir and configMap in one volume: a pod may have one of them, set the other to null [two-sources]",
        ),
        (
            "containers:\n- name: a\n  livenessProbe:\n    exec: {command: [x]}\n    tcpSocket: {port: 1}\n",
            "5:5: error: exec and tcpSocket in one probe: a pod may have one of them, set the other to null [two-sources]",
        ),
        (
            "containers:\n- name: a\n  ports:\n  - {containerPort: 53, protocol: UDP}\n",
            "4:5: warning: ports are merged by containerPort alone: a pod that has this port in another protocol than UDP loses it [port-protocol]",
        ),
        (
            "containers:\n- name: a\n  env:\n  - {name: DB_PASSWORD, value: hunter2}\n",
            "4:5: warning: DB_PASSWORD is given in plain text: take it from a Secret by valueFrom.secretKeyRef [literal-secret]",
        ),
        (
            "containers:\n- name: a\n  args: [ghp_0123456789abcdef0123]\n",
            "3:10: warning: args holds what looks like a secret: take it from a Secret by valueFrom [literal-secret]",
        ),
        (
            "containers:\n- name: a\n  resources: {limits: {cpu: 1.50}}\n",
            "3:29: warning: 1.50 is read as 1.5: put it in quotes if the text is meant [ambiguous-scalar]",
        ),
        (
            "containers:\n- name: a\n  livenessProbe: {tcpSocket: {port: 0644}}\n",
            "3:37: warning: 0644 is read as 420: put it in quotes if the text is meant [ambiguous-scalar]",
        ),
        (
            "nodeSelector:\n  on: a\n",
            "2:3: warning: key on is read as true: put it in quotes if the text is meant [ambiguous-scalar]",
        ),
    ] {
        assert_eq!(lint("a.yaml", text, &[]), [wanted], "{text}");
        // The same in a ConfigMap, where the text stands in the file.
        let indented: String = text.lines().map(|line| format!("    {line}\n")).collect();
        let map = format!(
            "kind: ConfigMap\nmetadata:\n  name: l\n  labels: {{podlayer.dev/layer: default}}\ndata:\n  podSpecPatch: |\n{indented}"
        );
        let mut place = wanted.splitn(3, ':');
        let (line, column, rest) = (place.next().unwrap(), place.next().unwrap(), place.next().unwrap());
        let moved = format!("{}:{}:{rest}", line.parse::<u32>().unwrap() + 6, column.parse::<u32>().unwrap() + 4);
        assert_eq!(lint("map.yaml", &map, &[]), [moved], "{map}");
    }
    for text in [
        "hostNetwork: yes\n",
        "volumes:\n- name: v\n  secret: {secretName: s, defaultMode: 0400}\n",
        "containers:\n- name: a\n  env:\n  - name: A\n    value: null\n    valueFrom: {fieldRef: {fieldPath: metadata.name}}\n  - {name: TOKEN_FILE, value: /run/token}\n",
        "containers:\n- $patch: replace\n- {name: a, image: b}\n",
    ] {
        assert_eq!(lint("a.yaml", text, &[]), [""; 0], "{text}");
    }
    let env = lint(
        "a.yaml",
        "containers:\n- name: a\n  env:\n  - {name: A, value: on}\n  - {name: B, value: 1.20}\n  - {name: C, value: 0644}\n",
        &[],
    );
    assert_eq!(env.len(), 3, "{env:?}");
    for (line, written) in env.iter().zip(["on", "1.20", "0644"]) {
        assert!(line.contains("[wrong-type]") && line.contains(&format!("write \"{written}\" in quotes")), "{line}");
    }
}

#[test]
fn a_step_patch_is_found_in_the_files_of_every_system() {
    let indented =
        |by: usize, text: &str| -> String { text.lines().map(|line| format!("{}{line}\n", " ".repeat(by))).collect() };
    let step = "containers:\n- name: a\n  resource: {}\n";
    for (head, by) in [
        (
            "steps:\n- command: x\n  plugins:\n  - kubernetes:\n      metadata:\n        annotations:\n          podlayer.dev/pod-spec-patch: |\n",
            12,
        ),
        (
            "apiVersion: tekton.dev/v1\nkind: PipelineRun\nspec:\n  taskRunSpecs:\n  - metadata:\n      annotations:\n        podlayer.dev/pod-spec-patch: |\n",
            10,
        ),
        (
            "apiVersion: argoproj.io/v1alpha1\nkind: Workflow\nspec:\n  templates:\n  - name: t\n    metadata:\n      annotations:\n        podlayer.dev/pod-spec-patch: |\n",
            10,
        ),
        (
            "build:\n  script: [make]\n  variables:\n    KUBERNETES_POD_ANNOTATIONS_1: |\n      podlayer.dev/pod-spec-patch=\n",
            6,
        ),
    ] {
        let text = format!("{head}{}", indented(by, step));
        let line = text.lines().count();
        assert_eq!(
            lint("f.yml", &text, &[]),
            [format!(
                "{line}:{}: error: unknown field \"resource\" in a, did you mean \"resources\"? annotation podlayer.dev/pod-spec-patch [unknown-field]",
                by + 3
            )],
            "{text}"
        );
    }
    let misplaced =
        "kind: Job\nmetadata:\n  annotations:\n    podlayer.dev/pod-spec-patch: \"\"\nspec: {template: {}}\n";
    assert_eq!(
        lint("j.yaml", misplaced, &[]),
        [
            "4:5: warning: podlayer.dev/pod-spec-patch on the Job itself is not read: write it on spec.template.metadata [misplaced-step]"
        ]
    );
}

#[test]
fn a_dollar_that_is_taken_for_a_variables_is_found_and_so_is_what_it_leaves() {
    let annotation = |patch: &str| {
        format!(
            "steps:\n- plugins:\n  - kubernetes:\n      metadata:\n        annotations:\n          podlayer.dev/pod-spec-patch: |\n            volumes:\n            - name: v\n              {patch}: delete\n            - name: w\n              emptyDir: {{sizeLimit: \"${{SIZE}}\"}}\n"
        )
    };
    assert_eq!(
        lint("p.yml", &annotation("$patch"), &[]),
        ["9:15: error: $patch is expanded to nothing by Buildkite's pipeline upload: write $$patch [unescaped-dollar]"]
    );
    assert_eq!(lint("p.yml", &annotation("$$patch"), &[]), [""; 0]);
    let plugin = |key: &str| {
        format!(
            "steps:\n- plugins:\n  - https://github.com/x/kubernetes#v1:\n      podSpecPatch:\n        containers:\n        - name: a\n          {key}: delete\n        - name: b\n          imag: c\n"
        )
    };
    let typo = "9:11: error: unknown field \"imag\" in b, did you mean \"image\"? [unknown-field]";
    assert_eq!(
        lint("p.yml", &plugin("$patch"), &[]),
        [
            "7:11: error: $patch is expanded to nothing by Buildkite's pipeline upload: write $$patch [unescaped-dollar]",
            typo
        ]
    );
    assert_eq!(lint("p.yml", &plugin("$$patch"), &[]), [typo]);
    let gitlab = "job:\n  script: [x]\n  variables:\n    KUBERNETES_POD_ANNOTATIONS_1: \"podlayer.dev/pod-spec-patch={nodeSelector: {$patch: delete}}\"\n";
    assert_eq!(
        lint("g.yml", gitlab, &[]),
        ["4:35: error: $patch is expanded to nothing by GitLab's variables: write $$patch [unescaped-dollar]"]
    );

    // What is left of it in the pod is told there.
    for (remains, wanted) in [
        ("\"\": delete", "was expanded to nothing"),
        (": delete", "was expanded to nothing"),
        ("/env: []", "was expanded to nothing"),
    ] {
        let pod = format!(
            "kind: Pod\nmetadata:\n  labels: {{podlayer.dev/enabled: \"true\"}}\n  annotations:\n    podlayer.dev/pod-spec-patch: |\n      containers:\n      - name: a\n        {remains}\nspec: {{containers: [{{name: a, image: b}}]}}\n"
        );
        let run = podlayer(&["render", "-f", "-"], &pod);
        assert_eq!(run.code, 1, "{remains}");
        assert!(run.stderr.contains(wanted) && run.stderr.contains("$$patch"), "{remains}: {}", run.stderr);
    }
}

#[test]
fn the_items_of_a_list_are_looked_at_as_files_of_their_own() {
    let list = "apiVersion: v1\nitems:\n- data:\n    podSpecPatch: |\n      # a comment\n      restartPolicy: alway\n      llamas: 1\n  kind: ConfigMap\n  metadata:\n    labels: {podlayer.dev/layer: default}\n    name: a\n- data: {ca.crt: x}\n  kind: ConfigMap\n  metadata: {name: kube-root-ca.crt}\n- kind: Pod\n  metadata:\n    annotations:\n      podlayer.dev/pod-spec-patch: |\n        containers:\n        - name: a\n          imag: b\nkind: List\n";
    let wanted = [
        "6:22: error: restartPolicy can't be \"alway\", did you mean \"Always\"? [unknown-value]",
        "7:7: error: unknown field \"llamas\" in the pod spec [unknown-field]",
        "21:11: error: unknown field \"imag\" in a, did you mean \"image\"? annotation podlayer.dev/pod-spec-patch [unknown-field]",
    ];
    assert_eq!(lint("list.yaml", list, &[]), wanted);
    // A key that is set twice spoils the whole, and the rest is told all the same.
    let twice = list.replace("    name: a\n- data: {ca", "    name: a\n    name: a\n- data: {ca");
    let found = lint("list.yaml", &twice, &[]);
    assert!(found.iter().any(|line| line.starts_with("12:5: error: key \"name\" is set twice")), "{found:#?}");
    assert_eq!(found.len(), 4, "{found:#?}");

    let files = folder(&[(
        "list.yaml",
        &list.replace("restartPolicy: alway", "restartPolicy: Never").replace("llamas: 1", "hostPID: true"),
    )]);
    let path = files.path().join("list.yaml").to_str().unwrap().to_owned();
    let pod =
        "kind: Pod\nmetadata: {labels: {podlayer.dev/enabled: \"true\"}}\nspec: {containers: [{name: a, image: b}]}\n";
    let run = podlayer(&["render", "-f", "-", "--layers", &path], pod);
    assert_eq!(run.code, 2, "{}", run.stderr);
    assert!(run.stderr.contains("a Pod is no layer") && run.stderr.contains("line 15 column 3"), "{}", run.stderr);
    let only_maps = std::fs::read_to_string(&path).unwrap();
    let (start, end) = (only_maps.find("- kind: Pod").unwrap(), only_maps.find("kind: List").unwrap());
    std::fs::write(&path, [&only_maps[..start], &only_maps[end..]].concat()).unwrap();
    let run = podlayer(&["render", "-f", "-", "--layers", files.path().to_str().unwrap()], pod);
    assert!(run.code == 0 && run.stdout.contains("hostPID: true"), "{}{}", run.stdout, run.stderr);
}

#[test]
fn slips_of_newcomers_are_told_with_what_to_write() {
    for (text, wanted) in [
        (
            "containers:\n- name: a\n\timage: b\n",
            "3:1: error: found a tab character that violates indentation: indent with spaces",
        ),
        ("containers:\n- name:a\n  image: b\n", "\"name:a\" lacks the blank behind its colon: write \"name: a\""),
        ("containers:\n-name: a\n", "did you mean \"- name\"?"),
        (
            "containers:\n- name: a\n  env:\n    - name: A\n    value: b\n",
            "indent it like \"name\", whose item it belongs to",
        ),
        ("containers:\n- name: a\n  resources: {limits: {cpu: 500 m}}\n", "write 500m"),
        ("terminationGracePeriodSeconds: 5m\n", "write 300 without a unit (seconds)"),
        ("containers:\n- name: a\n  image: {{ .Values.image }}\n", "helm template CHART | podlayer lint -"),
        (
            "kind: ConfigMap\nmetadata:\n  name: l\n  labels: {podlayer.dev/layer: default}\ndata:\n  podSpecPatch: |\n    containers:\n    - name: {{ .Values.x }}\n",
            "8:14: error: an object, as {{ … }} is one, can't be a key: put the text in quotes; a template is read once",
        ),
        (
            "kind: ConfigMap\nmetadata:\n  name: l\n  labels:\n    podlayer.dev/layer: default\n    podlayer.dev/order: 10\n",
            "6:25: error: label \"podlayer.dev/order\" must be text: write \"10\" [layer]",
        ),
        (
            "kind: ConfigMap\nmetadata:\n  name: l\n  labels: {podlayer.dev/layers: default}\n",
            "label podlayer.dev/layer is missing",
        ),
        (
            "kind: ConfigMap\nmetadata:\n  name: l\n  labels: {podlayer.dev/layer: default}\ndata: {patch.yaml: \"\"}\n",
            "unknown key \"patch.yaml\", did you mean \"podSpecPatch\"?",
        ),
        ("podSpecPatch:\n  hostNetwork: true\n", "1:1: error: podSpecPatch is the patch's key in a ConfigMap"),
        ("spec:\n  template:\n    spec: {}\n", "write only what stands below its \"spec.template.spec:\""),
        ("[{\"op\": \"add\"}]", "a JSON patch is not read"),
        ("containers:\r\n- name: a\r\n  imag: b\r\n", "3:3: error: unknown field \"imag\""),
        ("\u{feff}containers:\n- name: a\n  imag: b\n", "3:3: error: unknown field \"imag\""),
        (
            "{\"containers\": [{\"name\": \"a\", \"image\": \"\\ud800\"}]}",
            "1:40: error: found half of a surrogate pair in a string: write both halves",
        ),
        ("nodeSelector:\n  \"a b\": 1\n", "nodeSelector[\"a b\"]: a string is wanted"),
        (
            "- plugins:\n  - kubernetes:\n      podSpecPatch: {hostPid: true}\n",
            "3:22: error: unknown field \"hostPid\"",
        ),
    ] {
        let found = lint("a.yaml", text, &[]);
        assert!(found.len() == 1 && found[0].contains(wanted), "{text}\n{wanted}\n{found:#?}");
    }
}

#[test]
fn what_was_named_and_is_passed_over_is_noted() {
    for (text, wanted) in [
        (
            "kind: Pod\nspec: {containers: []}\n",
            "1:1: note: kind \"Pod\": without the annotation podlayer.dev/pod-spec-patch",
        ),
        ("kind: ConfigMap\ndata: {a: b}\n", "1:1: note: a ConfigMap without the label podlayer.dev/layer is no layer"),
        (
            "kind: configMap\ndata: {podSpecPatch: a}\n",
            "unknown kind \"configMap\" is passed over, did you mean \"ConfigMap\"?",
        ),
        ("steps: [{command: make}]\n", "neither a layer nor anything with the annotation"),
        ("# nothing\n", "1:1: note: nothing stands in it"),
    ] {
        let files = folder(&[("a.yaml", text)]);
        let path = files.path().join("a.yaml").to_str().unwrap().to_owned();
        let run = podlayer(&["lint", &path], "");
        assert_eq!((run.code, run.stdout.as_str()), (0, ""), "{text}");
        assert!(run.stderr.contains(wanted), "{text}: {}", run.stderr);
        // In a folder there may be anything.
        let run = podlayer(&["lint", files.path().to_str().unwrap()], "");
        assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{text}");
    }
}

#[test]
fn a_folder_of_other_things_has_no_findings() {
    let folder = folder(&[
        (
            "deployment.yaml",
            "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d}\nspec: {template: {spec: {containers: []}}}\n---\napiVersion: v1\nkind: Service\nmetadata: {name: s}\n",
        ),
        ("configmap.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata: {a: b}\n"),
        (
            "values.yaml",
            "replicaCount: 1\nimage: {repository: x}\nresources: {}\ntolerations: []\nservice: {port: 80}\ningress: {}\n",
        ),
        ("template.yaml", "{{- if .Values.x }}\nkind: Pod\n{{- end }}\n"),
        (".gitlab-ci.yml", "stages: [a]\nbuild: {script: [make], stage: a}\n"),
        ("pipeline.yml", "steps:\n- command: make\n"),
        ("list.json", "[1, 2]"),
        ("empty.yaml", "# nothing\n"),
        ("pod.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containers: []}\n"),
    ]);
    let run = podlayer(&["lint", folder.path().to_str().unwrap()], "");
    assert_eq!((run.code, run.stdout.as_str()), (0, ""), "{}", run.stderr);
}

#[test]
fn machines_get_sarif_and_github_commands() {
    let folder = folder(&[("a b.yaml", "containers:\n- name: \"a%\"\n  llamas: 1\n")]);
    let path = folder.path().join("a b.yaml").to_str().unwrap().to_owned();
    let run = podlayer(&["lint", "-o", "github", &path], "");
    assert!(
        run.stdout.starts_with(&format!(
            "::error file={path},line=3,col=3,title=podlayer unknown-field::unknown field \"llamas\" in a%25"
        )),
        "{}",
        run.stdout
    );
    let run = podlayer(&["lint", "-o", "sarif", &path], "");
    let log: Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!(log["version"], "2.1.0");
    let result = &log["runs"][0]["results"][0];
    let rule = result["ruleIndex"].as_u64().unwrap() as usize;
    assert_eq!(log["runs"][0]["tool"]["driver"]["rules"][rule]["id"], result["ruleId"]);
    assert_eq!((&result["ruleId"], &result["level"]), (&"unknown-field".into(), &"error".into()));
    let place = &result["locations"][0]["physicalLocation"];
    assert_eq!(place["region"], serde_json::json!({"startLine": 3, "startColumn": 3}));
    assert!(place["artifactLocation"]["uri"].as_str().unwrap().ends_with("/a%20b.yaml"), "{place}");
}
