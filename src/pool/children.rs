//! What a pool holds beside pods: a budget over its busy agents, and a BuildKit.

use kube::Resource;
use serde_json::{Value, json};

use super::api::{AgentPool, Mode, PdbMode};
use crate::names;

/// More than any pool has busy agents: an eviction of one always leaves too few. Only an integer works here: for a
/// percentage, or `maxUnavailable`, the disruption controller must know the size that the pods' owner should have.
const ALL_OF_THEM: i32 = 100_000;
/// BuildKit's port.
const BUILDKIT_PORT: u16 = 1234;
/// BuildKit without root.
const BUILDKIT_IMAGE: &str = "moby/buildkit:rootless";

/// One object that a pool should have, or should not.
#[derive(Clone, Debug)]
pub struct Child {
    /// `policy/v1` and the like.
    pub api_version: &'static str,
    /// Its kind.
    pub kind: &'static str,
    /// Its name.
    pub name: String,
    /// What it should be; `None` if it should not be.
    pub object: Option<Value>,
    /// Whether its name isn't the pool's own, so that somebody else's object of that name is left alone.
    pub yields: bool,
}

/// All of them, as the spec wants them.
pub fn children(pool: &AgentPool) -> Vec<Child> {
    let name = pool.metadata.name.clone().unwrap_or_default();
    let buildkit = format!("{name}-buildkit");
    let guarded = pool.spec.mode == Mode::Agents && pool.spec.pdb() == PdbMode::Busy;
    vec![
        Child {
            api_version: "policy/v1",
            kind: "PodDisruptionBudget",
            object: guarded.then(|| budget(pool, &name)),
            name: format!("{name}-busy"),
            yields: false,
        },
        Child {
            api_version: "apps/v1",
            kind: "StatefulSet",
            object: stateful_set(pool, &name, &buildkit),
            name: buildkit.clone(),
            yields: false,
        },
        Child {
            api_version: "v1",
            kind: "Service",
            object: pool.spec.buildkit.as_ref().map(|_| service(pool, &name, &buildkit)),
            name: buildkit,
            yields: false,
        },
        Child {
            api_version: "v1",
            kind: "Service",
            object: (pool.spec.azure.is_some() && pool.spec.buildkit.is_some())
                .then(|| service(pool, &name, names::AZURE_BUILDKIT_SERVICE)),
            name: names::AZURE_BUILDKIT_SERVICE.into(),
            yields: true,
        },
    ]
}

fn metadata(pool: &AgentPool, name: &str) -> Value {
    json!({"name": name, "namespace": pool.metadata.namespace, "labels": {names::POOL: pool.metadata.name},
           "ownerReferences": [pool.controller_owner_ref(&())]})
}

fn budget(pool: &AgentPool, name: &str) -> Value {
    json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": metadata(pool, &format!("{name}-busy")),
           "spec": {"minAvailable": ALL_OF_THEM, "unhealthyPodEvictionPolicy": "AlwaysAllow",
                    "selector": {"matchLabels": {names::POOL: name, names::POOL_BUSY: "true"}}}})
}

fn stateful_set(pool: &AgentPool, pool_name: &str, name: &str) -> Option<Value> {
    let buildkit = pool.spec.buildkit.as_ref()?;
    let labels = json!({names::POOL: pool_name, names::POOL_KIND: names::POOL_KIND_BUILDKIT});
    let mut pod_labels = labels.clone();
    if pool.spec.azure.is_some() {
        // The task ContainerBuild@0 looks for its builders by this label.
        pod_labels[names::AZURE_BUILDKIT_LABEL] = json!(names::POOL_KIND_BUILDKIT);
    }
    let image = buildkit.image.as_deref().unwrap_or(BUILDKIT_IMAGE);
    let address = format!("tcp://0.0.0.0:{BUILDKIT_PORT}");
    Some(json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": metadata(pool, name), "spec": {
    "replicas": buildkit.replicas, "serviceName": name, "podManagementPolicy": "Parallel",
    "selector": {"matchLabels": labels},
    "template": {"metadata": {"labels": pod_labels}, "spec": {
        "automountServiceAccountToken": false,
        "securityContext": {"runAsNonRoot": true, "runAsUser": 1000, "runAsGroup": 1000, "fsGroup": 1000},
        "containers": [{
            "name": "buildkit", "image": image,
            "args": ["--addr", address, "--oci-worker-no-process-sandbox"],
            "ports": [{"name": "buildkit", "containerPort": BUILDKIT_PORT}],
            "readinessProbe": {"tcpSocket": {"port": BUILDKIT_PORT}},
        }]}}}}))
}

fn service(pool: &AgentPool, pool_name: &str, name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Service", "metadata": metadata(pool, name), "spec": {
        "clusterIP": "None", "selector": {names::POOL: pool_name, names::POOL_KIND: names::POOL_KIND_BUILDKIT},
        "ports": [{"name": "buildkit", "port": BUILDKIT_PORT, "targetPort": BUILDKIT_PORT, "protocol": "TCP"}]}})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(spec: &Value) -> AgentPool {
        serde_json::from_value(json!({"apiVersion": "podlayer.dev/v1alpha1", "kind": "AgentPool",
            "metadata": {"name": "p", "namespace": "ci", "uid": "u"}, "spec": spec}))
        .unwrap()
    }

    #[test]
    fn scenario_26_the_budget_has_an_integer_and_looks_for_busy_agents_only() {
        let spec = json!({"mode": "Agents", "jobSelector": {"matchLabels": {"a": "b"}}, "max": 1});
        let budget = children(&pool(&spec)).remove(0).object.unwrap();
        assert!(budget["spec"]["minAvailable"].is_i64());
        assert_eq!(
            budget["spec"]["selector"]["matchLabels"],
            json!({"podlayer.dev/pool": "p", "podlayer.dev/busy": "true"})
        );
        assert_eq!(budget["metadata"]["ownerReferences"][0]["kind"], "AgentPool");
    }

    #[test]
    fn what_the_spec_does_not_ask_for_should_not_be() {
        let spec = json!({"mode": "Headroom", "jobSelector": {"matchLabels": {"a": "b"}}, "max": 1});
        assert!(children(&pool(&spec)).iter().all(|child| child.object.is_none()));
        let spec = json!({"mode": "Observe", "jobSelector": {"matchLabels": {"a": "b"}}, "max": 1, "buildkit": {"replicas": 3}});
        let made: Vec<Child> = children(&pool(&spec)).into_iter().filter(|child| child.object.is_some()).collect();
        assert_eq!(made.iter().map(|child| child.kind).collect::<Vec<_>>(), ["StatefulSet", "Service"]);
        assert_eq!(made[0].object.as_ref().unwrap()["spec"]["replicas"], 3);
    }

    #[test]
    fn builds_of_azure_pipelines_find_buildkit_by_the_names_that_they_know() {
        let spec = json!({"mode": "Agents", "max": 1, "buildkit": {"replicas": 1}, "azure": {"secretName": "s"},
                          "template": {"spec": {"containers": []}}});
        let made = children(&pool(&spec));
        let of = |kind: &str, name: &str| {
            let found = made.iter().find(|child| child.kind == kind && child.name == name).unwrap();
            (found.object.clone().unwrap(), found.yields)
        };
        let (set, _) = of("StatefulSet", "p-buildkit");
        assert_eq!(set["spec"]["template"]["metadata"]["labels"]["role"], "buildkit");
        assert!(set["spec"]["selector"]["matchLabels"].get("role").is_none(), "a selector can't be changed later");
        let (service, yields) = of("Service", "buildkitd");
        assert!(yields);
        assert_eq!(
            service["spec"]["selector"],
            json!({"podlayer.dev/pool": "p", "podlayer.dev/pool-kind": "buildkit"})
        );
    }
}
