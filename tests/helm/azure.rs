//! The chart's part for Azure Pipelines: off by default, with an account of its own that may do what it needs.

use std::{
    io::{Read, Write},
    net::TcpStream,
};

use podlayer::azure::SharedSecret;
use serde_json::{Value, json};

use crate::{
    controlplane::{ControlPlane, free_port},
    helm::{Release, merge, template, template_text, values},
    process::Replica,
};

const SECRET: &str = "a-secret-of-the-tests";

/// Values that turn it on, with more merged in.
fn on(more: Value) -> Value {
    let pools = json!({"enabled": true, "namespaces": ["ci"]});
    let mut all = values(json!({"azure": {"enabled": true, "namespaces": ["ci"]}, "pools": pools}));
    merge(&mut all, more);
    all
}

#[test]
fn nothing_of_it_is_there_unless_it_is_turned_on() {
    let is_azure = |key: &&String| key.contains("azure");
    assert_eq!(template(&values(json!({}))).keys().find(is_azure), None);
    let objects = template(&on(json!({"azure": {"defaultPool": "ci/linux", "replicas": 3}})));
    let spec = &objects["Deployment/podlayer/podlayer-azure"]["spec"];
    assert_eq!(spec["replicas"], 3);
    let arguments = spec["template"]["spec"]["containers"][0]["args"].as_array().unwrap();
    assert_eq!(
        arguments[..4],
        [json!("azure"), json!("serve"), json!("--pool-namespaces=ci"), json!("--default-pool=ci/linux")]
    );
    assert_eq!(objects["Service/podlayer/azure-pipelines-pool"]["spec"]["ports"].as_array().unwrap().len(), 1);
    // The webhook's Service, budget and policy don't find its pods.
    let labels = &spec["template"]["metadata"]["labels"];
    for key in ["Service/podlayer/podlayer", "PodDisruptionBudget/podlayer/podlayer", "NetworkPolicy/podlayer/podlayer"]
    {
        let spec = &objects[key]["spec"];
        let selector = spec["selector"].get("matchLabels").or_else(|| spec["podSelector"].get("matchLabels"));
        let selector = selector.unwrap_or_else(|| &spec["selector"]);
        assert_ne!(selector["app.kubernetes.io/name"], labels["app.kubernetes.io/name"], "{key}");
    }
    assert!(objects.contains_key("PodDisruptionBudget/podlayer/podlayer-azure"));
    let one = template(&on(json!({"azure": {"replicas": 1}})));
    assert!(!one.contains_key("PodDisruptionBudget/podlayer/podlayer-azure"), "it would block every drain");
}

#[test]
fn calls_come_from_whom_one_says_and_go_to_azure_devops() {
    let from = json!([{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "ingress"}}}]);
    let ca = json!({"azure": {"callsFrom": from, "callbackHosts": ["tfs.example.com"], "callbackCA": {"configMap": "ours"}}});
    let objects = template(&on(ca));
    let policy = &objects["NetworkPolicy/podlayer/podlayer-azure"]["spec"];
    assert_eq!(policy["ingress"][0], json!({"ports": [{"port": "azure", "protocol": "TCP"}], "from": from}));
    let ports: Vec<&Value> =
        policy["egress"][0]["ports"].as_array().unwrap().iter().map(|port| &port["port"]).collect();
    assert_eq!(ports, [443, 6443, 8443, 16443]);
    let pod = &objects["Deployment/podlayer/podlayer-azure"]["spec"]["template"]["spec"];
    let arguments = pod["containers"][0]["args"].to_string();
    assert!(arguments.contains("--callback-hosts=tfs.example.com"), "{arguments}");
    assert!(arguments.contains("--callback-ca=/etc/podlayer/callback-ca/ca.crt"), "{arguments}");
    assert_eq!(pod["volumes"], json!([{"name": "callback-ca", "configMap": {"name": "ours"}}]));
}

#[test]
fn values_that_would_not_work_are_refused_with_what_to_write() {
    for (more, wanted) in [
        (json!({"namespaces": []}), "azure.namespaces: name the namespaces whose pools are served"),
        (json!({"namespaces": ["podlayer"]}), "azure.namespaces: podlayer is left alone by podlayer"),
        (json!({"namespaces": ["kube-system"]}), "azure.namespaces: kube-system is left alone by podlayer"),
        (json!({"namespaces": ["other"]}), "azure.namespaces: other isn't in pools.namespaces"),
        (json!({"defaultPool": "other/linux"}), "azure.defaultPool: other/linux is in a namespace that isn't served"),
        (json!({"defaultPool": "linux"}), "/azure/defaultPool"),
        (json!({"secret": "x"}), "secret"),
        (json!({"service": {"type": "LoadBalancer"}}), "type"),
        (
            json!({"imageBuilds": [{"namespace": "other", "pool": "linux", "replicas": 1, "serviceAccount": "agents"}]}),
            "azure.imageBuilds: other is no namespace of azure.namespaces",
        ),
        (json!({"imageBuilds": [{"namespace": "ci", "pool": "linux"}]}), "/azure/imageBuilds/0"),
    ] {
        let output = template_text(&on(json!({"azure": more.clone()})));
        assert!(!output.ok, "{more} was let through");
        assert!(output.stderr.contains(wanted), "{wanted} is not in: {}", output.stderr);
    }
}

#[test]
fn its_role_is_that_of_the_manifests() {
    let objects = template(&on(json!({})));
    let text = std::fs::read_to_string(crate::controlplane::project_root().join("manifests/azure/roles.yaml")).unwrap();
    let manifest: Value = serde_yaml::from_str(&text).unwrap();
    assert_eq!(objects["Role/ci/podlayer-azure"]["rules"], manifest["rules"]);
}

#[test]
fn without_the_controller_of_pools_it_is_refused() {
    let output = template_text(&on(json!({"pools": {"enabled": false, "namespaces": []}})));
    assert!(!output.ok && output.stderr.contains("azure.enabled needs pools.enabled"), "{}", output.stderr);
}

#[test]
fn the_endpoint_may_do_what_it_needs_and_an_agent_that_builds_images_just_that() {
    let plane = ControlPlane::shared();
    let (ci, other) = (plane.namespace("ci"), plane.namespace("other"));
    let builds = json!([{"namespace": ci, "pool": "linux", "replicas": 2, "serviceAccount": "agents"}]);
    let azure = json!({"enabled": true, "namespaces": [ci], "imageBuilds": builds});
    let pools = json!({"enabled": true, "namespaces": [ci]});
    let release = Release::install(json!({"azure": azure, "pools": pools}));
    let endpoint = format!("{}:podlayer-azure", release.own);
    let rights = [
        ("create", "pods", true),
        ("delete", "pods", true),
        ("get", "secrets", true),
        ("create", "secrets", true),
        ("watch", "podlayer.dev/agentpools", true),
        ("update", "coordination.k8s.io/leases", true),
        ("list", "secrets", false),
        ("update", "secrets", false),
        ("patch", "pods", false),
        ("update", "podlayer.dev/agentpools", false),
        ("create", "pods#exec#linux-buildkit-0", false),
        ("get", "configmaps", false),
    ];
    let agent = format!("{ci}:agents");
    let of_agent = [
        ("list", "pods", true),
        ("get", "pods", true),
        ("create", "pods#exec#linux-buildkit-0", true),
        ("create", "pods#exec#linux-buildkit-1", true),
        ("create", "pods#exec#linux-buildkit-2", false),
        ("create", "pods#exec#an-agent", false),
        ("create", "pods", false),
        ("delete", "pods", false),
        ("get", "secrets", false),
    ];
    let mut asked: Vec<(String, &str, &str, &str, bool)> = Vec::new();
    for (verb, what, is_allowed) in rights {
        asked.push((endpoint.clone(), verb, what, &ci, is_allowed));
        asked.push((endpoint.clone(), verb, what, &other, false));
    }
    asked.extend(of_agent.map(|(verb, what, is_allowed)| (agent.clone(), verb, what, ci.as_str(), is_allowed)));
    // The webhook has nothing of it.
    asked.push((format!("{}:podlayer", release.own), "get", "secrets", &ci, false));
    let reviews: Vec<String> = asked
        .iter()
        .map(|(account, verb, what, namespace, _)| {
            let mut parts = what.split('#');
            let resource = parts.next().unwrap();
            let (group, resource) = resource.split_once('/').unwrap_or(("", resource));
            let attributes = json!({"verb": verb, "group": group, "resource": resource, "namespace": namespace,
                                    "subresource": parts.next().unwrap_or(""), "name": parts.next().unwrap_or("")});
            json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": {
                "user": format!("system:serviceaccount:{account}"), "resourceAttributes": attributes}})
            .to_string()
        })
        .collect();
    let answered = plane.kubectl_in(&["create", "-o", "json", "-f", "-"], &reviews.join("\n---\n"));
    assert!(answered.ok, "{}", answered.stderr);
    let answers = serde_json::Deserializer::from_str(&answered.stdout).into_iter::<Value>().map(Result::unwrap);
    let answers: Vec<Value> =
        answers.flat_map(|answer| answer["items"].as_array().cloned().unwrap_or_else(|| vec![answer])).collect();
    assert_eq!(answers.len(), asked.len());
    for (answer, (account, verb, what, namespace, is_allowed)) in answers.iter().zip(&asked) {
        assert_eq!(answer["status"]["allowed"], *is_allowed, "{account} {verb} {what} in {namespace}: {answer}");
    }
    release.uninstall();
    assert_eq!(release.left(), Vec::<String>::new());
}

/// One call, signed as Azure Pipelines signs it; the answer, head and body.
fn call(port: u16, path: &str, body: &Value) -> String {
    let body = body.to_string();
    let signature = podlayer::azure::sign(&SharedSecret::new(SECRET.as_bytes()).unwrap(), body.as_bytes());
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n\
         X-Azure-Signature: {signature}\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    let mut answer = String::new();
    stream.write_all((head + &body).as_bytes()).unwrap();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn with_the_charts_rights_alone_an_agent_comes_and_goes() {
    let plane = ControlPlane::shared();
    let ci = plane.namespace("ci");
    let azure = json!({"enabled": true, "namespaces": [ci], "defaultPool": format!("{ci}/linux")});
    let pools = json!({"enabled": true, "namespaces": [ci]});
    let release = Release::install(json!({"azure": azure, "pools": pools}));
    let secret = format!("--from-literal=VSTS_SECRET={SECRET}");
    let made = plane.kubectl(&["create", "secret", "generic", "azurepipelines", "-n", &ci, &secret]);
    assert!(made.ok, "{}", made.stderr);
    let spec = json!({"mode": "Agents", "max": 2, "azure": {"secretName": "azurepipelines"},
                      "template": {"spec": {"containers": [{"name": "agent", "image": "agent:1"}]}}});
    plane.apply(
        &json!({"apiVersion": "podlayer.dev/v1alpha1", "kind": "AgentPool", "metadata": {"name": "linux", "namespace": ci},
                "spec": spec})
        .to_string(),
    );
    let port = free_port();
    let endpoint = Replica::azure(&release, port);
    let acquire = json!({"agentId": "7", "agentPool": "linux", "accountId": "a", "agentConfiguration": {
        "agentSettings": {"AgentId": 7}, "agentCredentials": {"Scheme": "OAuth", "Data": {}}, "agentVersion": "4.1",
        "agentDownloadUrls": {"linux-x64": "https://example.com/agent.tar.gz"}}});
    let mut answer = String::new();
    // A pool that was made a moment ago may not have been seen yet.
    release.soon("an agent", || {
        answer = call(port, "/acquire", &acquire);
        answer.contains(r#""accepted":true"#)
    });
    let held = || {
        let both = plane.get_json(&["pods,secrets", "-n", &ci, "-l", "AgentId=7"]);
        both["items"].as_array().unwrap().len()
    };
    release.soon("pod and Secret", || held() == 2);
    let release_of_it = json!({"agentId": "7", "agentPool": "linux", "accountId": "a"});
    let answer = call(port, "/release", &release_of_it);
    assert!(answer.starts_with("HTTP/1.1 202"), "{answer}");
    release.soon("nothing of it", || held() == 0);
    // It fails if the log tells of a right that is missing.
    drop(endpoint);
    release.uninstall();
}
