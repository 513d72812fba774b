//! An agent's pod passes the webhook like any job pod.

use std::collections::BTreeMap;

use serde_json::json;

use crate::{
    controlplane::wait_until,
    podlayer::Webhook,
    support::{LONG, Serve, acquire, at, bytes, change, namespace, plane, pods, pool, template},
};

#[test]
fn layers_reach_an_agent_and_guard_rails_hold_its_template() {
    let (plane, namespace) = (plane(), namespace("layers"));
    let webhook = Webhook::start(plane, &[]);
    webhook.register(plane, &namespace, "Fail");
    let patch = "containers:\n- name: \"*\"\n  env:\n  - {name: FROM_LAYER, value: \"1\"}\n";
    let labels = json!({"podlayer.dev/layer": "default"});
    webhook.layer(plane, "agents", &labels, &BTreeMap::from([("podSpecPatch", patch)]));
    webhook.wait_for("agents", "good");
    pool(&namespace, "p", &json!({}));
    let serve = Serve::start(&namespace, &[]);
    let ask = |agent: &str| serve.insist(&at(&namespace, "p", "acquire"), &bytes(&acquire(agent))).body;
    assert_eq!(ask("1")["accepted"], true);
    let pod = pods(&namespace).remove(0);
    let env = pod["spec"]["containers"][0]["env"].as_array().unwrap();
    let has = |name: &str| env.iter().any(|variable| variable["name"] == name);
    assert!(has("FROM_LAYER") && has("RUNNING_ON"), "{pod}");
    assert!(pod["metadata"]["annotations"]["podlayer.dev/applied"].is_string());

    let mut bold = template("large");
    bold["metadata"] = json!({"annotations": {"podlayer.dev/pod-spec-patch": "hostNetwork: true\n"}});
    change(&namespace, "p", &json!({"template": bold}));
    wait_until(LONG, "the template to be refused", || {
        ask("2")["errorMessage"].as_str().is_some_and(|text| text.starts_with("the cluster refused the agent's pod"))
    });
    wait_until(LONG, "why to be told", || {
        let events = plane.get_json(&["events", "-n", &namespace]).to_string();
        events.contains("AzureAgentRefused") && events.contains("spec.hostNetwork may not be changed by a step")
    });
    assert_eq!(pods(&namespace).len(), 1);
    Webhook::unregister(plane, &namespace);
}
