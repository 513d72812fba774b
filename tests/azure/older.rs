//! What k8s-poolprovider made is released by its successor, without a new registration.

use serde_json::{Value, json};

use crate::{
    controlplane::wait_until,
    support::{LONG, Serve, bytes, name, namespace, plane, pool, release},
};

/// A pod or Secret as the older provider made it.
fn older(kind: &str, namespace: &str, agent: &str) -> Value {
    let metadata = json!({"name": format!("azure-pipelines-agent-{agent}"), "namespace": namespace,
                          "labels": {"AgentId": agent, "app": "azurepipelinespool-operator"}});
    match kind {
        "Pod" => json!({"apiVersion": "v1", "kind": kind, "metadata": metadata, "spec": {
            "terminationGracePeriodSeconds": 0, "nodeSelector": {"test-node": "large"},
            "containers": [{"name": "vsts-agent", "image": "agent:0"}]}}),
        _ => json!({"apiVersion": "v1", "kind": kind, "metadata": metadata, "stringData": {".agent": "{}"}}),
    }
}

#[test]
fn p6_agents_of_the_older_provider_are_released_whatever_of_them_is_there() {
    let namespace = namespace("older");
    pool(&namespace, "p", &json!({}));
    // The path, Secret and key that it was registered with.
    let serve = Serve::start(&namespace, &["--default-pool", &format!("{namespace}/p")]);
    for (agent, kinds) in
        [("1", &["Pod", "Secret"][..]), ("2", &["Pod"]), ("3", &["Secret"]), ("4", &["Pod", "Secret"])]
    {
        for kind in kinds {
            plane().apply(&older(kind, &namespace, agent).to_string());
        }
    }
    let mut bare = older("Secret", &namespace, "1");
    bare["metadata"] = json!({"name": "somebody-elses", "namespace": namespace});
    plane().apply(&bare.to_string());
    for agent in ["1", "2", "3", "1", "5"] {
        // The older names of the keys, in its case.
        let mut call = json!({"AgentId": agent, "AccountId": "org-1", "AgentPool": "k8s"});
        if agent == "2" {
            call = release(agent);
        }
        assert_eq!(serve.signed("/release", &bytes(&call)).status, 202, "{agent}");
    }
    wait_until(LONG, "what was released to be gone, and nothing else", || {
        let left = plane().get_json(&["pods,secrets", "-n", &namespace, "-l", "AgentId"]);
        let left: Vec<&str> = left["items"].as_array().unwrap().iter().map(name).collect();
        left == ["azure-pipelines-agent-4"; 2]
    });
    assert!(plane().kubectl(&["get", "secret", "somebody-elses", "-n", &namespace]).ok);
}
