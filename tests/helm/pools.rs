//! The chart's controller of pools: it runs with the chart's rights alone, and goes without a trace.

use std::{sync::OnceLock, time::Duration};

use serde_json::{Value, json};

use crate::{
    controlplane::{ControlPlane, Output, wait_until},
    helm::{Release, enabled, pod},
    kwok::Kwok,
    process::Replica,
};

const LONG: Duration = Duration::from_secs(90);
const SAFE_TO_EVICT: &str = "cluster-autoscaler.kubernetes.io/safe-to-evict";
const DO_NOT_DISRUPT: &str = "karpenter.sh/do-not-disrupt";

/// A release with pools in one namespace.
fn install(namespace: &str) -> Release {
    let tls = json!({"mode": "ExistingSecret"});
    Release::install(json!({"tls": tls, "pools": {
        "enabled": true, "namespaces": [namespace], "pod": {"extraArgs": ["--settle-seconds=1"]}}}))
}

/// A pool of two agents and a BuildKit.
fn pool(namespace: &str) -> Value {
    let spec = json!({"nodeSelector": {"test-node": "pools"}, "terminationGracePeriodSeconds": 0,
        "tolerations": [{"key": "only", "operator": "Exists"}], "containers": [{"name": "agent", "image": "agent:1"}]});
    json!({"apiVersion": "podlayer.dev/v1alpha1", "kind": "AgentPool", "metadata": {"name": "p", "namespace": namespace},
        "spec": {"mode": "Agents", "jobSelector": {"matchLabels": {"ci": "p"}}, "minIdle": 2, "max": 3,
                 "template": {"spec": spec}, "buildkit": {"replicas": 1}}})
}

/// A node for the agents of these tests, and for nothing else: other tests rely on there being none.
fn node(plane: &ControlPlane) {
    static READY: OnceLock<()> = OnceLock::new();
    READY.get_or_init(|| {
        Kwok::shared().node(plane, "pools", 10);
        let tainted = plane.kubectl(&["taint", "node", "pools", "only=pools:NoSchedule"]);
        assert!(tainted.ok, "{}", tainted.stderr);
    });
}

/// Everything that a pool holds, whatever its state.
fn held(plane: &ControlPlane, namespace: &str) -> Vec<Value> {
    let kinds = "pods,poddisruptionbudgets,statefulsets,services";
    let all = plane.get_json(&[kinds, "-n", namespace, "-l", "podlayer.dev/pool=p"]);
    all["items"].as_array().unwrap().clone()
}

fn wait_for_two_agents(plane: &ControlPlane, namespace: &str) {
    wait_until(LONG, "two agents to run", || {
        let of_kind = "podlayer.dev/pool=p,podlayer.dev/pool-kind=agent";
        let pods = plane.get_json(&["pods", "-n", namespace, "-l", of_kind]);
        let pods = pods["items"].as_array().unwrap();
        pods.len() == 2 && pods.iter().all(|pod| pod["status"]["phase"] == "Running")
    });
    wait_until(LONG, "its other objects", || {
        // Two agents; StatefulSet, Service and pod of BuildKit; the budget.
        held(plane, namespace).len() == 6
    });
    assert!(held(plane, namespace).iter().all(|object| object["metadata"]["finalizers"].is_null()));
}

/// Deletes the pool and waits until nothing of it is left.
fn delete_pool(plane: &ControlPlane, namespace: &str, how: &str) {
    let cascade = format!("--cascade={how}");
    let deleted = plane.kubectl(&["delete", "agentpool", "p", "-n", namespace, &cascade, "--timeout=60s"]);
    assert!(deleted.ok, "{how}: {}", deleted.stderr);
    if how != "orphan" {
        wait_until(LONG, "everything to be gone", || held(plane, namespace).is_empty());
    }
}

#[test]
fn scenario_50_a_controller_with_the_charts_rights_makes_agents_and_pools_go_in_every_way() {
    let plane = ControlPlane::shared();
    let ci = plane.namespace("ci");
    let release = install(&ci);
    node(plane);
    // A bad layer is told and kept by the webhook, which has the rights for it; the controller only reads.
    let bad = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"podSpecPatch": "llamas: true"},
        "metadata": {"name": "bad", "namespace": release.own, "labels": {"podlayer.dev/layer": "default"}}});
    plane.apply(&bad.to_string());
    let controller = Replica::controller(&release);
    plane.apply(&pool(&ci).to_string());
    wait_for_two_agents(plane, &ci);
    let lease = plane.get_json(&["lease", "podlayer-controller", "-n", &release.own]);
    assert_eq!(lease["metadata"]["labels"]["app.kubernetes.io/managed-by"], "Helm", "it is the chart's own: {lease}");
    assert!(!lease["spec"]["holderIdentity"].as_str().unwrap().is_empty());
    wait_until(LONG, "an event", || {
        plane
            .kubectl(&["get", "events", "-n", &ci, "--field-selector=involvedObject.kind=AgentPool"])
            .stdout
            .contains("agentpool/p")
    });

    wait_until(LONG, "the bad layer to be seen", || controller.log().contains("the layer is bad"));
    assert!(!controller.log().contains("not allowed"), "{}", controller.log());
    let told = plane.kubectl(&["get", "events", "-n", &release.own, "--field-selector=reason=LayerInvalid"]);
    assert!(!told.stdout.contains("LayerInvalid"), "{}", told.stdout);

    // With the garbage collector's finalizers, which the policy must let it take off.
    delete_pool(plane, &ci, "foreground");
    plane.apply(&pool(&ci).to_string());
    wait_for_two_agents(plane, &ci);
    delete_pool(plane, &ci, "orphan");
    let orphans = held(plane, &ci);
    assert!(orphans.iter().filter(|object| object["kind"] == "Pod").count() >= 2, "{orphans:?}");
    let kinds = "pods,poddisruptionbudgets,statefulsets,services";
    plane.kubectl(&["delete", kinds, "-n", &ci, "-l", "podlayer.dev/pool=p"]);
    wait_until(LONG, "the orphans to be gone", || held(plane, &ci).is_empty());

    // Without a controller.
    plane.apply(&pool(&ci).to_string());
    wait_for_two_agents(plane, &ci);
    drop(controller);
    delete_pool(plane, &ci, "background");
    release.uninstall();
    assert_eq!(release.left(), Vec::<String>::new());
}

#[test]
fn scenario_50_the_chart_may_go_before_its_pools_which_stay_whole_until_they_are_deleted() {
    let plane = ControlPlane::shared();
    let ci = plane.namespace("ci");
    let mut release = install(&ci);
    node(plane);
    let mut controller = Replica::controller(&release);
    plane.apply(&pool(&ci).to_string());
    wait_for_two_agents(plane, &ci);

    // The controller outlives its rights and its Lease by a moment, as pods do.
    controller.outlives_its_release();
    release.uninstall();
    assert_eq!(release.left(), Vec::<String>::new());
    wait_until(LONG, "the controller to end", || controller.ended());
    assert_eq!(release.left(), Vec::<String>::new(), "it made nothing anew, such as its Lease");
    let stays = held(plane, &ci);
    assert_eq!(stays.len(), 6, "pool and agents stay: {stays:?}");
    assert!(stays.iter().all(|object| object["metadata"]["deletionTimestamp"].is_null()));

    // The kind is there for the next release, which goes on with the same pool.
    let back = release.helm(&["install", "podlayer", crate::helm::CHART]);
    assert!(back.ok, "{}", back.stderr);
    let controller = Replica::controller(&release);
    let change = r#"{"spec": {"minIdle": 3}}"#;
    assert!(plane.kubectl(&["patch", "agentpool", "p", "-n", &ci, "--type=merge", "-p", change]).ok);
    wait_until(LONG, "one more agent", || held(plane, &ci).len() == 7);
    // An upgrade leaves the Lease to its holder, and the kind to its pools.
    let holder =
        || plane.get_json(&["lease", "podlayer-controller", "-n", &release.own])["spec"]["holderIdentity"].clone();
    let before = holder();
    let again = release.helm(&["upgrade", "podlayer", crate::helm::CHART]);
    assert!(again.ok, "{}", again.stderr);
    assert_eq!(holder(), before);
    drop(controller);
    release.upgrade(json!({"pools": {"enabled": false}}));
    assert!(plane.kubectl(&["get", "agentpool", "p", "-n", &ci]).ok, "the kind is kept when pools are turned off too");
    release.upgrade(json!({"pools": {"enabled": true}}));
    assert!(plane.kubectl(&["get", "agentpool", "p", "-n", &ci]).ok, "and taken over when they are turned on again");

    // Last of all the kind: with it goes every pool.
    let deleted = plane.kubectl(&["delete", "crd", "agentpools.podlayer.dev", "--timeout=60s"]);
    assert!(deleted.ok, "{}", deleted.stderr);
    wait_until(LONG, "everything to be gone", || held(plane, &ci).is_empty());
    release.uninstall();
    assert_eq!(release.left(), Vec::<String>::new());
}

#[test]
fn who_may_not_create_pods_may_not_create_or_change_a_pool_of_the_chart_and_may_scale_it() {
    let plane = ControlPlane::shared();
    let ci = plane.namespace("ci");
    let _release = install(&ci);
    let allow = |role: &str, verbs: &str, resource: &str| {
        let made = plane.kubectl(&["create", "role", role, "-n", &ci, verbs, "--resource", resource]);
        assert!(made.ok, "{}", made.stderr);
        let of_role = format!("--role={role}");
        assert!(plane.kubectl(&["create", "rolebinding", role, "-n", &ci, &of_role, "--user=jane"]).ok);
    };
    let verbs = "--verb=create,get,update,patch";
    allow("pools", verbs, "agentpools.podlayer.dev");
    allow("scale", verbs, "agentpools.podlayer.dev/scale");
    let as_jane = |arguments: &[&str], stdin: &str| -> Output {
        plane.kubectl_in(&[arguments, &["-n", &ci, "--token", plane.jane_token()]].concat(), stdin)
    };
    let create = || as_jane(&["create", "-f", "-"], &pool(&ci).to_string());
    let refused = |output: &Output| !output.ok && output.stderr.contains("an AgentPool makes pods: who may not create");
    wait_until(LONG, "the policy to be in force", || {
        let made = create();
        // Before that the pool is made: away with it.
        _ = made.ok && plane.kubectl(&["delete", "agentpool", "p", "-n", &ci]).ok;
        refused(&made)
    });
    plane.apply(&pool(&ci).to_string());
    let patch = |spec: &str| as_jane(&["patch", "agentpool", "p", "--type=merge", "-p", spec], "");
    assert!(refused(&patch(r#"{"spec": {"max": 9}}"#)));
    let label = patch(r#"{"metadata": {"labels": {"team": "a"}}}"#);
    assert!(label.ok, "what leaves the spec alone makes no pods: {}", label.stderr);
    let scaled = as_jane(&["scale", "agentpool/p", "--replicas=3"], "");
    assert!(scaled.ok, "as an HPA does: {}", scaled.stderr);
    allow("pods", "--verb=create", "pods");
    wait_until(LONG, "her rights to be in force", || patch(r#"{"spec": {"max": 9}}"#).ok);
}

#[test]
fn scenario_25_job_pods_of_others_keep_autoscalers_away_from_the_moment_they_exist() {
    let plane = ControlPlane::shared();
    let (ci, elsewhere) = (plane.namespace("ci"), plane.namespace("elsewhere"));
    let pools = json!({"enabled": true, "namespaces": [ci]});
    let mut release = Release::install(json!({"presets": {"gitlab": true}, "pools": pools}));
    let _webhook = Replica::start(&release);
    let made = |namespace: &str, labels: Value, annotations: Value| {
        let made = release.dry_run(&pod(namespace, labels, annotations));
        assert!(made.ok, "{}", made.stderr);
        let made: Value = serde_json::from_str(&made.stdout).unwrap();
        made["metadata"]["annotations"].clone()
    };
    let gitlab = || json!({"job.runner.gitlab.com/pod": "runner-abc-project-1-concurrent-0"});
    let mut annotations = Value::Null;
    release.soon("the annotations", || {
        annotations = made(&ci, gitlab(), json!({}));
        !annotations[SAFE_TO_EVICT].is_null()
    });
    assert_eq!((&annotations[SAFE_TO_EVICT], &annotations[DO_NOT_DISRUPT]), (&json!("false"), &json!("true")));
    let own = made(&ci, enabled(), json!({SAFE_TO_EVICT: "true"}));
    assert_eq!(
        (&own[SAFE_TO_EVICT], &own[DO_NOT_DISRUPT]),
        (&json!("true"), &json!("true")),
        "the pod's own word counts"
    );
    let mut agent = enabled();
    agent["podlayer.dev/pool"] = json!("p");
    for (what, annotations) in [
        ("a pool's warm agent", made(&ci, agent, json!({}))),
        ("a namespace without pools", made(&elsewhere, enabled(), json!({}))),
        ("not opted in", made(&ci, json!({}), json!({}))),
    ] {
        assert!(annotations.get(SAFE_TO_EVICT).is_none_or(Value::is_null), "{what}: {annotations}");
    }
    // Once more as an object that exists: there is no moment without them.
    let mut real = pod(&ci, gitlab(), json!({}));
    real["metadata"]["name"] = json!("real");
    real["spec"]["nodeSelector"] = json!({"test-node": "none"});
    let real = plane.kubectl_in(&["create", "-o", "json", "-f", "-"], &real.to_string());
    let real: Value = serde_json::from_str(&real.stdout).unwrap();
    assert_eq!(real["metadata"]["annotations"][DO_NOT_DISRUPT], "true");
    assert_eq!(real["metadata"]["generation"].as_i64().unwrap_or(1), 1);

    release.upgrade(json!({"pools": {"protectJobs": false}}));
    release.soon("the layer to end", || {
        let made = release.dry_run(&pod(&ci, gitlab(), json!({})));
        made.ok && !made.stdout.contains(SAFE_TO_EVICT)
    });
}
