//! The admission policies of the chart, and that turning podlayer off never leaves one behind that blocks.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::{
    controlplane::{ControlPlane, Output},
    helm::{Release, enabled, job, pod, template_text, values},
    process::{Certificate, Replica},
};

fn stamp(action: &str) -> Value {
    json!({"policies": {"stamp": {"action": action}}, "tls": {"mode": "ExistingSecret"}})
}

const UNSEEN: &str = "this pod opted in to podlayer, and podlayer did not see it";

#[test]
fn without_podlayer_an_opted_in_pod_is_told_of_warned_of_or_refused() {
    let plane = ControlPlane::shared();
    let ci = plane.namespace("ci");
    let mut release = Release::install(stamp("Audit"));
    let opted_in = || pod(&ci, enabled(), json!({}));
    // Audit: nobody is bothered, and the API server counts. The alert asks for this metric.
    let counted = || {
        let metrics = plane.kubectl(&["get", "--raw", "/metrics"]).stdout;
        let name = "apiserver_validating_admission_policy_check_total{";
        let policy = format!("policy=\"{}-stamp\"", release.cluster);
        metrics.lines().any(|line| line.starts_with(name) && line.contains(&policy) && !line.contains("\"allow\""))
    };
    release.soon("the policy to be counted", || {
        let made = release.dry_run(&opted_in());
        assert!(made.ok && !made.stderr.contains(UNSEEN), "{}", made.stderr);
        counted()
    });
    release.upgrade(stamp("Warn"));
    release.soon("the warning", || {
        let made = release.dry_run(&opted_in());
        assert!(made.ok, "{}", made.stderr);
        made.stderr.contains(UNSEEN)
    });
    release.upgrade(stamp("Deny"));
    release.soon("the refusal", || !release.dry_run(&opted_in()).ok);
    let refused = release.dry_run(&opted_in());
    assert!(refused.stderr.contains(UNSEEN) && refused.stderr.contains(&release.own), "{}", refused.stderr);
    for (what, object) in [
        ("not opted in", pod(&ci, json!({}), json!({}))),
        ("null labels", pod(&ci, Value::Null, Value::Null)),
        ("kube-system", pod("kube-system", enabled(), json!({}))),
        ("podlayer's own namespace", pod(&release.own, enabled(), json!({}))),
    ] {
        assert!(release.dry_run(&object).ok, "{what}");
    }
    // Off with the policy on Deny: straight through `helm uninstall`, nothing else.
    release.uninstall();
    release.soon("pods to be made again", || release.dry_run(&opted_in()).ok);
    assert_eq!(release.left(), Vec::<String>::new());
}

#[test]
fn the_two_commands_turn_podlayer_off_without_a_refusal_on_the_way() {
    let plane = ControlPlane::shared();
    let ci = plane.namespace("ci");
    let mut release = Release::install(json!({"replicas": 1, "tls": {"mode": "ExistingSecret"}}));
    let certificate = Certificate::store(&release);
    certificate.trust(&release);
    let replica = Replica::start(&release);
    let opted_in = |release: &Release| release.dry_run(&pod(&ci, enabled(), json!({})));
    let stamped = |made: &Output| made.ok && made.stdout.contains("podlayer.dev/applied");
    release.soon("the stamp", || stamped(&opted_in(&release)));
    release.upgrade(stamp("Deny"));
    release.soon("the policy", || {
        plane.kubectl(&["get", "validatingadmissionpolicybinding", &format!("{}-stamp", release.cluster)]).ok
    });
    assert!(stamped(&opted_in(&release)));

    // The commands as NOTES prints them.
    let told = release.helm(&["get", "notes", "podlayer"]);
    let commands = commands(&told.stdout);
    assert_eq!(commands.len(), 2, "{}", told.stdout);
    let (first, second) = (&commands[0], &commands[1]);
    assert!(first.words.contains(&"validatingadmissionpolicybinding".to_owned()), "the policy goes first");
    for command in [first, second] {
        let output = plane.kubectl(&command.words.iter().map(String::as_str).collect::<Vec<_>>());
        assert!(output.ok, "{}", output.stderr);
        let end = Instant::now() + command.pause;
        loop {
            let made = opted_in(&release);
            assert!(made.ok, "nothing may be refused on the way: {}", made.stderr);
            if Instant::now() > end {
                break;
            }
        }
    }
    drop(replica);
    release.soon("pods without podlayer", || {
        let made = opted_in(&release);
        assert!(made.ok, "nothing may be refused on the way: {}", made.stderr);
        !made.stdout.contains("podlayer.dev/applied")
    });
    // On again.
    release.upgrade(json!({}));
    certificate.trust(&release);
    let _replica = Replica::start(&release);
    release.soon("the stamp again", || stamped(&opted_in(&release)));
}

/// `kubectl WORDS… [&& sleep SECONDS]`.
struct Deletion {
    words: Vec<String>,
    pause: Duration,
}

/// The commands in a text that delete something.
fn commands(text: &str) -> Vec<Deletion> {
    let deletion = |line: &str| {
        let (command, pause) = line.split_once(" && sleep ").unwrap_or((line, "0"));
        let words = command.split(' ').skip(1).map(str::to_owned).collect();
        Deletion { words, pause: Duration::from_secs(pause.parse().unwrap()) }
    };
    text.lines().map(str::trim).filter(|line| line.starts_with("kubectl delete")).map(deletion).collect()
}

#[test]
fn readme_and_docs_tell_the_same_two_commands_as_the_notes() {
    let wanted = [
        "kubectl delete validatingadmissionpolicybinding podlayer-stamp --ignore-not-found && sleep 5",
        "kubectl delete mutatingwebhookconfiguration,validatingwebhookconfiguration zz-podlayer",
    ];
    for file in ["README.md", "docs/install.md", "docs/failure-modes.md"] {
        let text = std::fs::read_to_string(crate::controlplane::project_root().join(file)).unwrap();
        let first = text.find(wanted[0]).unwrap_or_else(|| panic!("{file} lacks the first command"));
        let second = text.find(wanted[1]).unwrap_or_else(|| panic!("{file} lacks the second command"));
        assert!(first < second, "{file}: in this order, or pods are refused between them under Deny");
    }
}

#[test]
fn a_stamp_that_a_pod_brings_is_stripped() {
    let plane = ControlPlane::shared();
    let ci = plane.namespace("ci");
    let release = Release::install(stamp("Deny"));
    let forged = json!({"podlayer.dev/applied": "{}", "podlayer.dev/provenance": "{}", "kept": "yes"});
    let with = |labels: Value| release.dry_run(&pod(&ci, labels, forged.clone()));
    release.soon("the policy to strip", || {
        let made = with(json!({}));
        made.ok && !made.stdout.contains("podlayer.dev/")
    });
    assert!(with(json!({})).stdout.contains("\"kept\": \"yes\""));
    // One without the other.
    let one = release.dry_run(&pod(&ci, json!({}), json!({"podlayer.dev/provenance": "{}"})));
    assert!(one.ok && !one.stdout.contains("podlayer.dev/"), "{}{}", one.stdout, one.stderr);
    // So a forged stamp doesn't get an opted-in pod past the policy that wants one.
    release.soon("the stamp policy", || {
        let made = with(enabled());
        !made.ok && made.stderr.contains(UNSEEN)
    });
}

#[test]
fn pods_and_jobs_of_a_ci_system_must_carry_its_labels_where_the_policy_says_so() {
    let plane = ControlPlane::shared();
    let ci = plane.namespace("ci");
    let jane = plane.jane_token().to_owned();
    let role = json!({"apiVersion": "v1", "kind": "List", "items": [
        {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "ci", "namespace": ci},
         "rules": [{"apiGroups": ["", "batch"], "resources": ["pods", "jobs"], "verbs": ["create"]}]},
        {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": "ci", "namespace": ci},
         "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "ci"},
         "subjects": [{"kind": "User", "name": "jane"}]}]});
    plane.apply(&role.to_string());
    let rule = json!({"users": ["jane", "system:serviceaccount:buildkite:agent-stack-k8s"], "preset": "buildkite"});
    let release =
        Release::install(json!({"policies": {"requirePreset": {"ci": rule}}, "tls": {"mode": "ExistingSecret"}}));
    let as_jane = |object: &Value| {
        let arguments = ["create", "--dry-run=server", "--validate=false", "-f", "-", "--token", &jane];
        plane.kubectl_in(&arguments, &object.to_string())
    };
    let labels = || json!({"buildkite.com/job-uuid": "0190"});
    let text = "pods and Jobs made by this user must carry the labels of buildkite";
    release.soon("the policy", || !as_jane(&pod(&ci, json!({}), json!({}))).ok);
    for (what, object, wanted) in [
        ("a pod without", pod(&ci, enabled(), json!({})), false),
        ("a pod with null labels", pod(&ci, Value::Null, json!({})), false),
        ("a Job without", job(&ci, Value::Null, json!({})), false),
        ("a pod with", pod(&ci, labels(), json!({})), true),
        ("a Job with", job(&ci, labels(), json!({})), true),
    ] {
        let made = as_jane(&object);
        assert_eq!(made.ok, wanted, "{what}: {}", made.stderr);
        assert!(made.ok || made.stderr.contains(text), "{what}: {}", made.stderr);
    }
    assert!(release.dry_run(&pod(&ci, json!({}), json!({}))).ok, "others may");
}

#[test]
fn stripping_can_be_asked_for_and_left_out() {
    let has = |mode: &str| {
        template_text(&values(json!({"policies": {"stripStamp": mode}})))
            .stdout
            .contains("kind: MutatingAdmissionPolicy\n")
    };
    assert!(has("On"));
    assert!(!has("Off"));
}
