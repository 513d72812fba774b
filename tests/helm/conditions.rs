//! Which pods and Jobs the API server asks podlayer about. Nobody answers here and the entries say Fail: whatever is
//! asked about is refused with the entry's name, whatever isn't is made.

use serde_json::{Value, json};

use crate::helm::{Release, enabled, job, pod};

/// The entry that the API server called for this object.
fn asked(release: &Release, object: &Value) -> Option<String> {
    let output = release.dry_run(object);
    if output.ok {
        return None;
    }
    let name = output.stderr.split("failed calling webhook \"").nth(1).and_then(|rest| rest.split('"').next());
    Some(name.unwrap_or_else(|| panic!("{object}: {}", output.stderr)).to_owned())
}

const POD: Option<&str> = Some("pods-fail.podlayer.dev");
const JOB: Option<&str> = Some("jobs-fail.podlayer.dev");

/// A pod as the job's system labels it, and whether it must be asked about with that system's preset on.
fn labelled() -> Vec<(&'static str, Value, bool)> {
    vec![
        ("buildkite", json!({"buildkite.com/job-uuid": "0190"}), true),
        ("buildkite", json!({"buildkite.com/job-id": "0190"}), false),
        ("arc-runner", json!({"actions-ephemeral-runner": "True"}), true),
        ("arc-runner", json!({"actions-ephemeral-runner": "False"}), false),
        ("arc-workflow", json!({"runner-pod": "set-abcde-runner-fghij"}), true),
        ("gitlab", json!({"job.runner.gitlab.com/pod": "runner-abc-project-1-concurrent-0"}), true),
        ("gitlab", json!({"job.runner.gitlab.com/pod": "a", "runner.gitlab.com/pause-pod": "true"}), false),
        ("jenkins", json!({"kubernetes.jenkins.io/controller": "jenkins"}), true),
        ("jenkins", json!({"jenkins/label-digest": "0"}), true),
        ("jenkins", json!({"jenkins": "slave"}), false),
        ("tekton", json!({"tekton.dev/taskRunUID": "0190"}), true),
        ("argo", json!({"workflows.argoproj.io/workflow": "build"}), true),
        ("argo", json!({"workflows.argoproj.io/workflow": "build", "workflows.argoproj.io/component": "agent"}), false),
    ]
}

#[test]
fn the_api_server_asks_about_opted_in_pods_and_jobs_and_about_nothing_else() {
    let plane = crate::controlplane::ControlPlane::shared();
    let (ci, off) = (plane.namespace("ci"), plane.namespace("off"));
    let webhook = json!({"failNamespaces": [ci, off]});
    let mut release = Release::install(json!({"webhook": webhook, "tls": {"mode": "ExistingSecret"}, "replicas": 1}));
    plane.kubectl(&["label", "namespace", &off, "podlayer.dev/enabled=false"]);
    let none = || json!({});
    release.soon("the API server to ask", || asked(&release, &pod(&ci, enabled(), none())).is_some());

    let cases = [
        ("opted in", pod(&ci, enabled(), none()), POD),
        ("no label", pod(&ci, none(), none()), None),
        ("null labels and annotations", pod(&ci, Value::Null, Value::Null), None),
        ("opted in, null annotations", pod(&ci, enabled(), Value::Null), POD),
        ("another value", pod(&ci, json!({"podlayer.dev/enabled": "True"}), none()), None),
        ("yes is no true", pod(&ci, json!({"podlayer.dev/enabled": "yes"}), none()), None),
        ("an annotation is no label", pod(&ci, none(), enabled()), None),
        ("a namespace labelled false", pod(&off, enabled(), none()), None),
        ("kube-system", pod("kube-system", enabled(), none()), None),
        ("podlayer's own namespace", pod(&release.own, enabled(), none()), None),
        ("a namespace that is not listed: Ignore", pod("default", enabled(), none()), None),
        ("a Job by its template", job(&ci, enabled(), none()), JOB),
        ("a Job with null labels", job(&ci, Value::Null, Value::Null), None),
        ("a Job without opt-in", job(&ci, none(), none()), None),
        ("a Job in a namespace labelled false", job(&off, enabled(), none()), None),
    ];
    for (what, object, wanted) in cases {
        assert_eq!(asked(&release, &object).as_deref(), wanted, "{what}");
    }
    let mut own_label = job(&ci, json!({}), json!({}));
    own_label["metadata"]["labels"] = enabled();
    assert_eq!(asked(&release, &own_label), None, "the Job's own label is not its template's");
    let mut bare = job(&ci, json!({}), json!({}));
    bare["spec"]["template"].as_object_mut().unwrap().remove("metadata");
    assert_eq!(asked(&release, &bare), None, "a template without metadata");

    // The API server refuses this one itself, for it names no node, but only after the mutating webhooks.
    let mirror = release.dry_run(&pod(&ci, enabled(), json!({"kubernetes.io/config.mirror": "0190"})));
    assert!(!mirror.ok && !mirror.stderr.contains("failed calling webhook"), "{}", mirror.stderr);

    // Every preset is off: their labels mean nothing.
    for (preset, labels, _) in labelled() {
        assert_eq!(asked(&release, &pod(&ci, labels, json!({}))), None, "{preset} is off");
    }
    let presets = ["buildkite", "arc-runner", "arc-workflow", "gitlab", "jenkins", "tekton", "argo"];
    let all = |on: bool| {
        let every = presets.iter().map(|name| ((*name).to_owned(), json!(on)));
        json!({"presets": every.collect::<serde_json::Map<_, _>>()})
    };
    release.upgrade(all(true));
    let (_, buildkite, _) = &labelled()[0];
    release.soon("the preset to be on", || asked(&release, &pod(&ci, buildkite.clone(), json!({}))).is_some());
    for (preset, labels, wanted) in labelled() {
        let asked_pod = asked(&release, &pod(&ci, labels.clone(), Value::Null));
        assert_eq!(asked_pod.as_deref(), POD.filter(|_| wanted), "{preset} {labels}");
        let asked_job = asked(&release, &job(&ci, labels.clone(), Value::Null));
        assert_eq!(asked_job.as_deref(), JOB.filter(|_| wanted), "Job of {preset} {labels}");
    }
    assert_eq!(asked(&release, &pod(&ci, json!({}), json!({}))), None);
    release.upgrade(all(false));
    release.soon("the preset to be off", || asked(&release, &pod(&ci, buildkite.clone(), json!({}))).is_none());
    release.uninstall();
    assert_eq!(asked(&release, &pod(&ci, enabled(), json!({}))), None, "nothing is blocked afterwards");
}
