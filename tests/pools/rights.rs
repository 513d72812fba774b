//! Who may do what.

use serde_json::json;

use crate::{
    controlplane::wait_until,
    support::{Controller, LONG, condition, plane, pool, template, wait_running},
};

#[test]
fn the_rights_in_the_manifests_are_enough_and_a_quota_is_told() {
    let plane = plane();
    let namespace = plane.namespace("rights");
    // The rights and the Lease of the manifests, for a controller whose pools are in its own namespace.
    let manifests =
        [include_str!("../../manifests/pools/controller.yaml"), include_str!("../../manifests/pools/roles.yaml")];
    let kinds = ["ServiceAccount", "Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding", "Lease"];
    for document in manifests.iter().flat_map(|text| text.split("---\n")) {
        if kinds.iter().any(|kind| document.contains(&format!("\nkind: {kind}\n"))) {
            let own = format!("namespace: {namespace}");
            plane.apply(&document.replace("namespace: podlayer", &own).replace("namespace: ci", &own));
        }
    }
    let token = plane.kubectl(&["create", "token", "podlayer-controller", "-n", &namespace]).stdout;
    let kubeconfig = json!({"apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": plane.server(), "certificate-authority": plane.ca()}}],
        "users": [{"name": "c", "user": {"token": token.trim()}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c", "namespace": namespace}}]});
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), kubeconfig.to_string()).unwrap();
    let controller = Controller::start_as(&namespace, file.path().to_str().unwrap());

    // Room for one pod of three: told, and no failure of the pool.
    plane.kubectl(&["create", "quota", "few", "-n", &namespace, "--hard=pods=1"]);
    wait_until(LONG, "the quota to be in force", || {
        plane.get_json(&["quota", "few", "-n", &namespace])["status"]["used"]["pods"] == "0"
    });
    let spec = json!({"mode": "Agents", "minIdle": 3, "max": 5, "template": template("large", 1), "buildkit": {"replicas": 0}});
    plane.apply(&pool(&namespace, "p", &spec).to_string());
    wait_running(plane, &namespace, "podlayer.dev/pool=p", 1);
    wait_until(LONG, "the quota to be told", || {
        condition(plane, &namespace, "p", "ScalingLimited") == ("True".into(), "QuotaExceeded".into())
    });
    assert_eq!(condition(plane, &namespace, "p", "Degraded").0, "False");
    wait_until(LONG, "an event", || {
        plane.kubectl(&["get", "events", "-n", &namespace]).stdout.contains("QuotaExceeded")
    });
    for child in ["service/p-buildkit", "pdb/p-busy", "statefulset/p-buildkit"] {
        wait_until(LONG, child, || plane.kubectl(&["get", child, "-n", &namespace]).ok);
    }
    // How the API server words it when somebody lacks a right.
    assert!(!controller.log().contains(" cannot "), "{}", controller.log());
    assert!(controller.get("/metrics").contains("podlayer_pool_limited{"), "{}", controller.get("/metrics"));

    // What people see.
    let shown = std::process::Command::new(env!("CARGO_BIN_EXE_podlayer"))
        .args(["pools", "p", "-n", &namespace, "--kubeconfig", plane.kubeconfig()])
        .output()
        .unwrap();
    let shown = String::from_utf8(shown.stdout).unwrap();
    assert!(shown.starts_with("NAMESPACE") && shown.contains("QuotaExceeded: a ResourceQuota refused pods"), "{shown}");
}

#[test]
fn who_may_not_create_pods_may_not_create_or_change_a_pool() {
    let plane = plane();
    let namespace = plane.namespace("policy");
    plane.apply(include_str!("../../manifests/pools/policy.yaml"));
    let allow = |role: &str, resource: &str| {
        let verbs = "--verb=create,get,update,patch";
        assert!(plane.kubectl(&["create", "role", role, "-n", &namespace, verbs, "--resource", resource]).ok);
        let role_flag = format!("--role={role}");
        assert!(plane.kubectl(&["create", "rolebinding", role, "-n", &namespace, &role_flag, "--user=jane"]).ok);
    };
    allow("pools", "agentpools.podlayer.dev");
    let spec = json!({"mode": "Agents", "max": 5, "template": template("large", 1)});
    let create = |name: &str| {
        plane.kubectl_in(
            &["create", "--token", plane.jane_token(), "-f", "-"],
            &pool(&namespace, name, &spec).to_string(),
        )
    };
    let mut number = 0;
    wait_until(LONG, "the policy to be in force", || {
        number += 1;
        let made = create(&format!("p{number}"));
        !made.ok && made.stderr.contains("an AgentPool makes pods")
    });
    allow("pods", "pods");
    wait_until(LONG, "her rights to be in force", || {
        number += 1;
        create(&format!("p{number}")).ok
    });
}
