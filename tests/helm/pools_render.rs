//! What the chart renders of pools, without a cluster.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::{
    helm::{template, values},
    render::everything,
};

const CONTROLLER: &str = "Deployment/podlayer/podlayer-controller";
const WEBHOOK: &str = "Deployment/podlayer/podlayer";

fn arguments(objects: &BTreeMap<String, Value>, deployment: &str) -> Vec<String> {
    let arguments = &objects[deployment]["spec"]["template"]["spec"]["containers"][0]["args"];
    arguments.as_array().unwrap().iter().map(|argument| argument.as_str().unwrap().to_owned()).collect()
}

fn with_pools(more: Value) -> BTreeMap<String, Value> {
    let mut all = values(json!({"pools": {"enabled": true, "namespaces": ["ci"]}}));
    crate::helm::merge(&mut all, more);
    template(&all)
}

#[test]
fn without_pools_nothing_of_them_is_there() {
    let objects = template(&values(json!({})));
    for (key, object) in &objects {
        for word in ["controller", "agentpool", "headroom", "protect-jobs"] {
            assert!(!key.contains(word), "{key}");
        }
        assert!(!object.to_string().contains("podlayer-controller"), "{key}");
    }
}

#[test]
fn the_controller_decides_by_the_same_flags_as_the_webhook() {
    let mut all = everything();
    crate::helm::merge(&mut all, json!({"policy": {"privileged": "LayersOnly", "defaultImage": "busybox:1"}}));
    crate::helm::merge(&mut all, json!({"trustedLayerNamespaces": ["team-a"]}));
    let objects = template(&all);
    let controller = arguments(&objects, CONTROLLER);
    let own = ["--addr", "--admin-addr", "--client-ca", "--expect-layers", "--log-filter", "--log-format"];
    let flag = |argument: &String| argument.split('=').next().unwrap_or_default().to_owned();
    let shared: Vec<String> = arguments(&objects, WEBHOOK).into_iter().skip(1).collect();
    let shared: Vec<String> = shared.into_iter().filter(|argument| !own.contains(&flag(argument).as_str())).collect();
    assert_eq!(shared.len(), 9, "{shared:?}");
    for argument in shared {
        assert!(controller.contains(&argument), "{argument} is not in {controller:?}");
    }
    for argument in ["controller", "--pool-namespaces=batch,ci", "--headroom-priority-class=podlayer-headroom"] {
        assert!(controller.contains(&argument.to_owned()), "{argument} is not in {controller:?}");
    }
    let mirror =
        with_pools(json!({"pools": {"placeholderImage": "mirror.example.com/pause:3.10"}, "clusterName": "two"}));
    let controller = arguments(&mirror, CONTROLLER);
    assert!(controller.contains(&"--placeholder-image=mirror.example.com/pause:3.10".to_owned()), "{controller:?}");
    assert!(controller.contains(&"--headroom-priority-class=two-headroom".to_owned()), "{controller:?}");
    assert_eq!(mirror["PriorityClass//two-headroom"]["value"], -10);
}

#[test]
fn nothing_of_the_webhooks_finds_the_controllers_pods_and_the_reverse() {
    let objects = with_pools(json!({}));
    let labels = |deployment: &str| objects[deployment]["spec"]["template"]["metadata"]["labels"].clone();
    for (name, own, other) in [("podlayer", WEBHOOK, CONTROLLER), ("podlayer-controller", CONTROLLER, WEBHOOK)] {
        let selector = |kind: &str, path: &str| {
            objects[&format!("{kind}/podlayer/{name}")].pointer(path).unwrap().as_object().unwrap().clone()
        };
        for selector in [
            selector("Service", "/spec/selector"),
            selector("Deployment", "/spec/selector/matchLabels"),
            selector("PodDisruptionBudget", "/spec/selector/matchLabels"),
            selector("NetworkPolicy", "/spec/podSelector/matchLabels"),
        ] {
            let finds = |labels: &Value| selector.iter().all(|(key, value)| &labels[key] == value);
            assert!(finds(&labels(own)) && !finds(&labels(other)), "{name}: {selector:?}");
        }
    }
}

#[test]
fn the_controllers_account_may_see_nodes_and_else_nothing_beyond_its_namespaces() {
    let objects = with_pools(json!({"layerNamespaces": ["team"], "pools": {"namespaces": ["ci", "batch", "ci"]}}));
    let of_controller = |object: &Value| {
        object["subjects"].as_array().is_some_and(|subjects| subjects[0]["name"] == "podlayer-controller")
    };
    let bound: Vec<&str> =
        objects.iter().filter(|(_, object)| of_controller(object)).map(|(key, _)| key.as_str()).collect();
    let wanted = [
        "ClusterRoleBinding//podlayer-controller",
        "RoleBinding/batch/podlayer-pools",
        "RoleBinding/ci/podlayer-pools",
        "RoleBinding/podlayer/podlayer-controller",
        "RoleBinding/team/podlayer-controller",
    ];
    assert_eq!(bound, wanted);
    let nodes = json!([{"apiGroups": [""], "resources": ["nodes"], "verbs": ["list", "watch"]}]);
    assert_eq!(objects["ClusterRole//podlayer-controller"]["rules"], nodes);
    let secrets = objects.iter().filter(|(key, _)| key.contains("Role/") && key.contains("-controller"));
    assert!(secrets.into_iter().all(|(_, role)| !role.to_string().contains("secrets")));
}

#[test]
fn the_controller_is_locked_down_and_one_replica_gets_no_disruption_budget() {
    let objects = with_pools(json!({}));
    let pod = &objects[CONTROLLER]["spec"]["template"]["spec"];
    assert_eq!(pod["securityContext"]["runAsNonRoot"], true);
    let locked = &objects[WEBHOOK]["spec"]["template"]["spec"]["containers"][0]["securityContext"];
    assert_eq!(&pod["containers"][0]["securityContext"], locked);
    assert_eq!(objects[CONTROLLER]["spec"]["replicas"], 2);
    let budget = "PodDisruptionBudget/podlayer/podlayer-controller";
    assert_eq!(objects[budget]["spec"]["maxUnavailable"], 1);
    assert!(!with_pools(json!({"pools": {"replicas": 1}})).contains_key(budget));
}

#[test]
fn who_may_ask_for_demand_is_everybody_or_those_that_two_values_name() {
    let ingress = |more: Value| {
        let objects = with_pools(more);
        objects["NetworkPolicy/podlayer/podlayer-controller"]["spec"]["ingress"][0]["from"].clone()
    };
    let from = |name: &str| json!({"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": name}}});
    assert_eq!(ingress(json!({})), Value::Null);
    assert_eq!(ingress(json!({"pools": {"demandFrom": [from("keda")]}})), Value::Null, "adminFrom is empty: everybody");
    let both = json!({"networkPolicy": {"adminFrom": [from("monitoring")]}, "pools": {"demandFrom": [from("keda")]}});
    assert_eq!(ingress(both), json!([from("monitoring"), from("keda")]));
}
