//! A layer that turns bad stays in force as it was, also when every replica is started anew.

use std::{collections::BTreeMap, time::Duration};

use serde_json::{Value, json};

use crate::{
    controlplane::{ControlPlane, wait_for, wait_until},
    podlayer::Webhook,
};

const STORE: &str = "podlayer-last-good";
const GOOD: &str = "serviceAccountName: ci\n";
const BAD: &str = "hostNetwork: CANARY\n";

fn labels() -> Value {
    json!({"podlayer.dev/layer": "default"})
}

/// As the chart makes it: without data.
fn make_store(plane: &ControlPlane, own: &str) {
    plane.apply(
        &json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": STORE, "namespace": own}}).to_string(),
    );
}

fn write(plane: &ControlPlane, webhook: &Webhook, name: &str, patch: &str) {
    webhook.layer(plane, name, &labels(), &BTreeMap::from([("podSpecPatch", patch)]));
}

/// The names of the entries that are kept.
fn kept(plane: &ControlPlane, own: &str) -> Vec<String> {
    let store = plane.get_json(&["configmap", STORE, "-n", own]);
    store["binaryData"].as_object().map(|data| data.keys().cloned().collect()).unwrap_or_default()
}

fn wait_kept(plane: &ControlPlane, own: &str, names: &[&str]) {
    let slots: Vec<String> = names.iter().map(|name| format!("{own}_{name}")).collect();
    wait_until(Duration::from_secs(30), &format!("{slots:?} to be kept"), || kept(plane, own) == slots);
}

fn standing(webhook: &Webhook, name: &str) -> Value {
    let source = format!("ConfigMap {}/{name}", webhook.own);
    let layers = webhook.layers()["layers"].as_array().cloned().unwrap_or_default();
    layers.into_iter().find(|layer| layer["source"] == source.as_str()).unwrap_or_default()
}

/// The Events about a layer, by reason, with their notes.
fn told(plane: &ControlPlane, own: &str, name: &str) -> Vec<(String, String)> {
    let selector = format!("regarding.kind=ConfigMap,regarding.name={name}");
    let events = plane.get_json(&["events.events.k8s.io", "-n", own, "--field-selector", &selector]);
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let items = events["items"].as_array().cloned().unwrap_or_default();
    items.iter().map(|event| (text(&event["reason"]), text(&event["note"]))).collect()
}

#[test]
fn the_last_good_version_of_a_bad_layer_survives_a_restart_of_all_replicas() {
    let plane = ControlPlane::shared();
    let own = plane.namespace("podlayer");
    make_store(plane, &own);
    let mut replicas = [Webhook::start_in(plane, &own, &[]), Webhook::start_in(plane, &own, &[])];
    write(plane, &replicas[0], "base", GOOD);
    replicas.iter().for_each(|replica| replica.wait_for("base", "good"));
    let hash = standing(&replicas[0], "base")["hash"].clone();
    assert_eq!(replicas[0].layers()["snapshot"]["hash"], replicas[1].layers()["snapshot"]["hash"]);
    assert_eq!(kept(plane, &own), Vec::<String>::new(), "nothing is bad");

    write(plane, &replicas[0], "base", BAD);
    replicas.iter().for_each(|replica| replica.wait_for("base", "stale"));
    wait_kept(plane, &own, &["base"]);
    // Several at once, of which both replicas write.
    let several = |patch: &str| {
        let items: Vec<Value> = ["more-a", "more-b", "more-c"]
            .map(|name| replicas[0].config_map(name, &labels(), &BTreeMap::from([("podSpecPatch", patch)])))
            .into();
        plane.apply(&json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string());
    };
    several(GOOD);
    replicas.iter().for_each(|replica| replica.wait_for("more-c", "good"));
    several(BAD);
    wait_kept(plane, &own, &["base", "more-a", "more-b", "more-c"]);
    plane.kubectl(&["delete", "configmap", "more-a", "more-b", "more-c", "-n", &own]);
    wait_kept(plane, &own, &["base"]);
    // Told once for both, without a value out of the layer.
    let invalid = wait_for(Duration::from_secs(30), "the Event", || {
        let told = told(plane, &own, "base");
        (!told.is_empty()).then_some(told)
    });
    let text = format!("hostNetwork: true or false is wanted, ConfigMap {own}/base podSpecPatch, line 1 column 14");
    assert_eq!(invalid, [("LayerInvalid".to_owned(), text.clone())]);
    let described = plane.kubectl(&["describe", "configmap", "base", "-n", &own]);
    assert!(described.stdout.contains("LayerInvalid"), "{}", described.stdout);

    for replica in &mut replicas {
        assert!(replica.stop());
    }
    drop(replicas);
    let again = Webhook::start_in(plane, &own, &[]);
    // It isn't ready before the kept version is in force.
    let now = standing(&again, "base");
    assert_eq!((&now["state"], &now["hash"], &now["layer"]), (&json!("stale"), &hash, &json!("default/base")));
    wait_until(Duration::from_secs(30), "it to be counted", || {
        again.metric("podlayer_last_good_versions{place=\"config_map\"}") == 1.0
    });
    assert_eq!(told(plane, &own, "base").len(), 1, "the same version is not told again");

    write(plane, &again, "base", GOOD);
    again.wait_for("base", "good");
    wait_kept(plane, &own, &[]);
    wait_until(Duration::from_secs(30), "the Event that it is mended", || {
        told(plane, &own, "base").iter().any(|(reason, _)| reason == "LayerMended")
    });
    // Deleted while it is bad, it leaves nothing behind.
    write(plane, &again, "base", BAD);
    wait_kept(plane, &own, &["base"]);
    plane.kubectl(&["delete", "configmap", "base", "-n", &own]);
    wait_kept(plane, &own, &[]);
}

#[test]
fn a_layer_that_turned_bad_while_no_replica_ran_is_left_out_and_a_damaged_entry_is_no_version() {
    let plane = ControlPlane::shared();
    let own = plane.namespace("podlayer");
    let store = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": STORE, "namespace": own},
                       "binaryData": {format!("{own}_base"): "H4sIAAAAAAAAA6vm5QIAAAA="}});
    plane.apply(&store.to_string());
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "base", "namespace": own, "labels": labels()},
                     "data": {"podSpecPatch": BAD}});
    plane.apply(&map.to_string());
    let webhook = Webhook::start_in(plane, &own, &["--expect-layers", "base,gone"]);
    assert_eq!(standing(&webhook, "base")["state"], "bad");
    assert_eq!(standing(&webhook, "gone")["state"], "missing");
    assert_eq!(webhook.metric("podlayer_layers{state=\"bad\"}"), 1.0);
    assert_eq!(webhook.metric("podlayer_layers_missing"), 1.0);
    assert!(webhook.metric("podlayer_last_good_failures_total{reason=\"damaged\"}") >= 1.0);
    wait_until(Duration::from_secs(30), "both Events", || {
        let told = told(plane, &own, "base");
        ["LayerInvalid", "LastGoodMissing"].iter().all(|reason| told.iter().any(|(told, _)| told == reason))
    });
    write(plane, &webhook, "gone", GOOD);
    webhook.wait_for("gone", "good");
    assert_eq!(webhook.metric("podlayer_layers_missing"), 0.0);
}

#[test]
fn without_the_config_map_or_the_right_the_version_stays_in_memory_and_the_metrics_say_so() {
    let plane = ControlPlane::shared();
    let own = plane.namespace("podlayer");
    let webhook = Webhook::start_in(plane, &own, &[]);
    write(plane, &webhook, "base", GOOD);
    webhook.wait_for("base", "good");
    write(plane, &webhook, "base", BAD);
    webhook.wait_for("base", "stale");
    let reason = "podlayer_last_good_failures_total{reason=\"absent\"}";
    wait_until(Duration::from_secs(30), "the metric", || {
        webhook.metric("podlayer_last_good_versions{place=\"memory\"}") == 1.0 && webhook.metric(reason) >= 1.0
    });
    assert_eq!(webhook.log().matches("are kept in memory only").count(), 1, "told once");

    // A stranger may read layers, and nothing else.
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "layers", "namespace": own},
        "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list", "watch"]}]});
    let binding = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": "layers", "namespace": own},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "layers"},
        "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "jane"}]});
    plane.apply(&role.to_string());
    plane.apply(&binding.to_string());
    let folder = tempfile::tempdir().unwrap();
    let kubeconfig = folder.path().join("kubeconfig");
    let text = std::fs::read_to_string(plane.kubeconfig()).unwrap().replace(plane.token(), plane.jane_token());
    std::fs::write(&kubeconfig, text).unwrap();
    let stranger = Webhook::spawn(&own, kubeconfig.to_str().unwrap(), &[]);
    stranger.wait_ready();
    stranger.wait_for("base", "bad");
    assert!(stranger.metric("podlayer_last_good_failures_total{reason=\"forbidden\"}") >= 1.0);
}

#[test]
fn what_does_not_fit_beside_the_others_stays_in_memory_with_an_event() {
    let plane = ControlPlane::shared();
    let own = plane.namespace("podlayer");
    make_store(plane, &own);
    let webhook = Webhook::start_in(plane, &own, &[]);
    // Text that can't be compressed to less than three quarters: hashes in base64.
    let noise = |seed: u64| {
        let mut state = seed;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            char::from(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"[(state >> 58) as usize])
        };
        let lines = (0..7_000).map(|_| format!("# {}\n", (0..98).map(|_| next()).collect::<String>()));
        lines.collect::<String>()
    };
    for (at, name) in ["first", "second"].into_iter().enumerate() {
        let mut map = webhook.config_map(name, &labels(), &BTreeMap::from([("podSpecPatch", GOOD)]));
        map["data"]["podSpecPatch"] = json!(format!("{}{GOOD}", noise(at as u64)));
        let made = plane.kubectl_in(&["create", "-f", "-"], &map.to_string());
        assert!(made.ok, "{}", made.stderr);
        webhook.wait_for(name, "good");
        map["data"]["podSpecPatch"] = json!(BAD);
        let replaced = plane.kubectl_in(&["replace", "-f", "-"], &map.to_string());
        assert!(replaced.ok, "{}", replaced.stderr);
        webhook.wait_for(name, "stale");
        wait_kept(plane, &own, &["first"]);
    }
    wait_until(Duration::from_secs(30), "the Event and the metrics", || {
        told(plane, &own, "second").iter().any(|(reason, _)| reason == "LastGoodTooLarge")
            && webhook.metric("podlayer_last_good_versions{place=\"memory\"}") == 1.0
            && webhook.metric("podlayer_last_good_failures_total{reason=\"too_large\"}") >= 1.0
    });
    assert_eq!(standing(&webhook, "second")["layer"], "default/second", "it is in force all the same");
}
