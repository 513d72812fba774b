use serde_json::Value;

use crate::{folder, podlayer};

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
        "{layers}/bad.yaml:9:7: error: unknown field \"resource\" in a, did you mean \"resources\"?\n\
         {job}:10:11: error: unknown field \"llamas\" in the pod spec, annotation podlayer.dev/pod-spec-patch\n"
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
