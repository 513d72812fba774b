//! Install, upgrade, roll back, uninstall: podlayer runs as the chart's service account and is reached through the
//! chart's own Service reference.

use serde_json::{Value, json};

use crate::{
    controlplane::ControlPlane,
    helm::{Release, enabled, job, pod},
    process::{Certificate, Replica},
};

fn base(deadline: u64) -> Value {
    // The null deletes what the pod brings; Helm must not swallow it.
    json!({"layers": {"base": {"kind": "default", "order": 10,
        "podSpecPatch": {"activeDeadlineSeconds": deadline, "nodeSelector": null}}}})
}

fn stored(release: &Release, namespace: &str) -> Value {
    let mut asked = pod(namespace, enabled(), json!({}));
    asked["spec"]["nodeSelector"] = json!({"pool": "old"});
    let made = release.dry_run(&asked);
    assert!(made.ok, "{}", made.stderr);
    serde_json::from_str(&made.stdout).unwrap()
}

fn deadline(release: &Release, namespace: &str) -> Value {
    stored(release, namespace)["spec"]["activeDeadlineSeconds"].clone()
}

#[test]
fn a_release_works_as_its_account_through_its_service_from_install_to_uninstall() {
    let plane = ControlPlane::shared();
    let (ci, team) = (plane.namespace("ci"), plane.namespace("team"));
    let mut values = base(12_345_678);
    crate::helm::merge(
        &mut values,
        json!({"tls": {"mode": "ExistingSecret"}, "layerNamespaces": [team], "trustedLayerNamespaces": [team]}),
    );
    let mut release = Release::install(values);
    let notes = release.helm(&["get", "notes", "podlayer"]).stdout;
    assert!(notes.contains("Layers of this release: base.") && !notes.contains("Nothing is changed yet"), "{notes}");
    let certificate = Certificate::store(&release);
    certificate.trust(&release);
    let replica = Replica::start(&release);
    release.soon("the layer", || deadline(&release, &ci) == 12_345_678);
    let made = stored(&release, &ci);
    assert!(made["spec"].get("nodeSelector").is_none(), "the layer's null reached podlayer: {made}");
    assert!(made["metadata"]["annotations"]["podlayer.dev/applied"].as_str().unwrap().contains("default/base"));

    // A Job is checked by its template, a layer where it is written, also one that becomes a layer later.
    let bad = json!({"podlayer.dev/pod-spec-patch": "containers:\n- name: container-0\n  resource: {}\n"});
    let refused = release.dry_run(&job(&ci, enabled(), bad.clone()));
    assert!(!refused.ok && refused.stderr.contains("did you mean \"resources\"?"), "{}", refused.stderr);
    assert!(release.dry_run(&job(&ci, json!({}), bad)).ok);
    let map = |name: &str, labels: Value| {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": release.own, "labels": labels},
               "data": {"podSpecPatch": "llamas: true"}})
    };
    let refused = release.dry_run(&map("bad", json!({"podlayer.dev/layer": "default"})));
    assert!(!refused.ok && refused.stderr.contains("unknown field \"llamas\""), "{}", refused.stderr);
    plane.apply(&map("later", json!({})).to_string());
    let label = ["label", "configmap", "later", "-n", &release.own, "podlayer.dev/layer=default"];
    let refused = plane.kubectl(&label);
    assert!(!refused.ok && refused.stderr.contains("unknown field \"llamas\""), "{}", refused.stderr);
    // A namespace of layers: read with the Role there, checked there as well.
    let mut of_team = map("own", json!({"podlayer.dev/layer": "default"}));
    of_team["metadata"]["namespace"] = json!(team);
    assert!(!release.dry_run(&of_team).ok);
    of_team["data"]["podSpecPatch"] = json!("terminationGracePeriodSeconds: 7");
    plane.apply(&of_team.to_string());
    release.soon("the namespace's own layer", || stored(&release, &team)["spec"]["terminationGracePeriodSeconds"] == 7);
    assert_eq!(stored(&release, &ci)["spec"]["terminationGracePeriodSeconds"], 30);

    // Upgrades and a rollback: the layer follows, what podlayer and others wrote stays.
    let own = release.own.clone();
    let state = ["configmap", "podlayer-last-good", "-n", &own];
    let patch = [&["patch"][..], &state, &["-p", r#"{"binaryData": {"a": "YQ=="}}"#]].concat();
    assert!(plane.kubectl(&patch).ok);
    release.upgrade(base(600));
    release.soon("the changed layer", || deadline(&release, &ci) == 600);
    release.upgrade(json!({"presets": {"buildkite": true}}));
    release.upgrade(json!({"presets": {"buildkite": false}, "layers": {"base": Value::Null}}));
    release.soon("the layer to end", || deadline(&release, &ci) == Value::Null);
    let back = release.helm(&["rollback", "podlayer", "1"]);
    assert!(back.ok, "{}", back.stderr);
    release.soon("the first layer again", || deadline(&release, &ci) == 12_345_678);
    assert_eq!(plane.get_json(&state)["binaryData"]["a"], "YQ==", "an upgrade leaves podlayer's own data alone");
    let hooks = plane.get_json(&["mutatingwebhookconfiguration", &release.webhooks]);
    assert!(hooks["webhooks"][3]["clientConfig"]["caBundle"].is_string(), "and the caBundle");

    // Gone in any order, nothing is left and nothing is blocked.
    drop(replica);
    assert!(plane.kubectl(&["delete", "deployment,serviceaccount", "podlayer", "-n", &own]).ok);
    assert!(plane.kubectl(&["delete", "validatingwebhookconfiguration", &release.webhooks]).ok);
    assert_eq!(deadline(&release, &ci), Value::Null, "podlayer is away: Ignore");
    release.uninstall();
    assert_eq!(release.left(), Vec::<String>::new());
    assert_eq!(deadline(&release, &ci), Value::Null);
}

#[test]
fn by_default_podlayer_looks_after_its_certificate_and_upgrades_leave_it_alone() {
    let plane = ControlPlane::shared();
    let ci = plane.namespace("ci");
    let mut release = Release::install(base(600));
    let replicas = [Replica::start(&release), Replica::start_beside(&release)];
    release.soon("the layer", || deadline(&release, &ci) == 600);
    let bundles = |release: &Release| {
        let of = |kind: &str| {
            let webhooks = plane.get_json(&[kind, &release.webhooks])["webhooks"].clone();
            webhooks.as_array().unwrap().iter().map(|hook| hook["clientConfig"]["caBundle"].clone()).collect::<Vec<_>>()
        };
        [of("mutatingwebhookconfiguration"), of("validatingwebhookconfiguration")].concat()
    };
    let before = bundles(&release);
    assert!(before.len() == 7 && before.iter().all(Value::is_string), "every entry trusts it: {before:?}");
    release.upgrade(json!({"presets": {"buildkite": true}, "webhook": {"failNamespaces": [ci]}}));
    release.upgrade(json!({"presets": {"buildkite": false}, "webhook": {"failNamespaces": []}}));
    let back = release.helm(&["rollback", "podlayer", "1"]);
    assert!(back.ok, "{}", back.stderr);
    assert_eq!(bundles(&release), before);
    assert_eq!(deadline(&release, &ci), 600);
    let secret = plane.get_json(&["secret", "podlayer-ca", "-n", &release.own]);
    assert!(!secret["data"].as_object().unwrap().is_empty(), "the CA is still there");
    for replica in &replicas {
        assert!(replica.get("/readyz").starts_with("HTTP/1.1 200"));
    }
    drop(replicas);
    release.uninstall();
    assert_eq!(release.left(), Vec::<String>::new());
}

#[test]
fn a_presets_pods_get_layers_without_a_label_of_podlayers_and_doctor_is_content() {
    let plane = ControlPlane::shared();
    let ci = plane.namespace("ci");
    let mut values = base(600);
    crate::helm::merge(&mut values, json!({"presets": {"gitlab": true}, "expectLayers": ["base"], "replicas": 1}));
    crate::helm::merge(&mut values, json!({"test": {"namespace": ci}}));
    let release = Release::install(values);
    let replica = Replica::start(&release);
    let labels = json!({"job.runner.gitlab.com/pod": "runner-abc-project-1-concurrent-0"});
    let made = || {
        let made = release.dry_run(&pod(&ci, labels.clone(), Value::Null));
        assert!(made.ok, "{}", made.stderr);
        serde_json::from_str::<Value>(&made.stdout).unwrap()
    };
    release.soon("the layer", || made()["spec"]["activeDeadlineSeconds"] == 600);
    assert!(replica.get("/metrics").contains("\npodlayer_layers_missing 0\n"));

    // As `helm test` runs it: the hooks' account, the pod's arguments.
    let hooks = release.helm(&["get", "hooks", "podlayer"]).stdout;
    let mut objects = crate::helm::objects(&hooks);
    let test = objects.remove(&format!("Pod/{}/podlayer-test", release.own)).unwrap();
    objects.values().for_each(|object| _ = plane.apply(&object.to_string()));
    let output = crate::process::as_account(&release, &test["spec"]);
    objects.values().for_each(|object| _ = plane.kubectl_in(&["delete", "-f", "-"], &object.to_string()));
    // The Deployment's own pods never run here, for there are no nodes: that is all that may be wrong.
    let wrong = output.stdout.lines().filter(|line| line.starts_with("error ") || line.starts_with("warning "));
    let wrong: Vec<&str> = wrong.filter_map(|line| line.split([' ', ':']).nth(1)).collect();
    assert!(wrong.iter().all(|code| code.starts_with("replica")), "{}{}", output.stdout, output.stderr);
    assert!(output.stdout.contains("not-checked"), "it ran: {}{}", output.stdout, output.stderr);
    assert!(!output.stdout.contains("probe"), "{}", output.stdout);
}

#[test]
fn a_release_without_layers_says_that_nothing_is_changed_yet() {
    let release =
        Release::install(json!({"webhook": {"failNamespaces": ["ci"]}, "policies": {"stamp": {"action": "Deny"}}}));
    let notes = release.helm(&["get", "notes", "podlayer"]).stdout;
    for wanted in [
        "Nothing is changed yet: there is no layer.",
        "pods and Jobs with the label podlayer.dev/enabled: \"true\"",
        "Off in ten seconds, in this order",
        "opted-in pods and Jobs are REFUSED in: ci.",
        "opted-in pods are REFUSED everywhere (policies.stamp.action is Deny).",
    ] {
        assert!(notes.contains(wanted), "{wanted} is not in {notes}");
    }
    // What the notes say to write is a layer.
    let command = notes.lines().map(str::trim).find(|line| line.contains("create configmap base")).unwrap();
    let (_, patch) = command.split_once("--from-literal=podSpecPatch=").unwrap();
    let patch: Value = serde_yaml::from_str(patch.trim_matches('\'')).unwrap();
    assert!(patch.is_object());
}
