//! The real helm, and the chart as it renders.

use std::{
    collections::BTreeMap,
    fs,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use serde::Deserialize;
use serde_json::{Value, json};

use crate::{
    controlplane::{ControlPlane, Output, free_port, project_root, wait_until},
    helm_program::{RELEASE, run},
};

/// Runs helm without any cluster.
pub(crate) fn offline(arguments: &[&str], values: &Value) -> Output {
    run("/dev/null", arguments, values)
}

/// Runs helm on a control plane as admin.
pub(crate) fn on(plane: &ControlPlane, arguments: &[&str], values: &Value) -> Output {
    run(plane.kubeconfig(), arguments, values)
}

#[test]
fn helm_is_the_release_that_its_module_names() {
    let module = fs::read_to_string(project_root().join("tests/helm/helm/go.mod")).unwrap();
    assert!(module.contains(&format!("helm.sh/helm/v4 {RELEASE}")), "set RELEASE to what go.mod requires");
    assert!(offline(&["version"], &Value::Null).stdout.contains(RELEASE));
}

/// The chart's folder, relative to the project's, where helm runs.
pub(crate) const CHART: &str = "charts/podlayer";

/// The least values that render, with more merged in.
pub(crate) fn values(more: Value) -> Value {
    let mut all = json!({"image": {"repository": "registry.example.com/podlayer"}});
    merge(&mut all, more);
    all
}

pub(crate) fn merge(into: &mut Value, more: Value) {
    match (into, more) {
        (Value::Object(into), Value::Object(more)) => {
            more.into_iter().for_each(|(key, value)| merge(into.entry(key).or_insert(Value::Null), value));
        }
        (into, more) => *into = more,
    }
}

/// `helm template` of these values, as text.
pub(crate) fn template_text(values: &Value) -> Output {
    offline(&["template", "podlayer", CHART, "--namespace", "podlayer"], values)
}

/// `helm template` of these values, by `Kind/namespace/name`.
///
/// # Panics
/// Where they don't render.
pub(crate) fn template(values: &Value) -> BTreeMap<String, Value> {
    let output = template_text(values);
    assert!(output.ok, "{}", output.stderr);
    objects(&output.stdout)
}

/// The objects of a text with many YAML documents, by `Kind/namespace/name`.
pub(crate) fn objects(text: &str) -> BTreeMap<String, Value> {
    let documents = serde_yaml::Deserializer::from_str(text).map(|document| Value::deserialize(document).unwrap());
    let mut all = BTreeMap::new();
    for object in documents.filter(|object| !object.is_null()) {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (kind, metadata) = (text(&object["kind"]), &object["metadata"]);
        let key = format!("{kind}/{}/{}", text(&metadata["namespace"]), text(&metadata["name"]));
        assert!(all.insert(key.clone(), object).is_none(), "{key} is there twice");
    }
    all
}

/// Waits for the turn of a test that installs something for the whole cluster.
pub(crate) fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    // A test that failed left things behind, under names of its own.
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An installed release with a namespace and names of its own; uninstalled when dropped.
pub(crate) struct Release {
    pub(crate) plane: &'static ControlPlane,
    /// podlayer's own namespace.
    pub(crate) own: String,
    /// Of the webhook configurations.
    pub(crate) webhooks: String,
    /// `clusterName`.
    pub(crate) cluster: String,
    values: Value,
    _turn: MutexGuard<'static, ()>,
}

impl Release {
    /// `helm install` with these values.
    pub(crate) fn install(more: Value) -> Self {
        let turn = turn();
        let plane = ControlPlane::shared();
        let own = plane.namespace("podlayer");
        let (webhooks, cluster) = (format!("zz-{own}"), own.clone());
        // A port that needs no rights: the API server calls the Service's own, there is no kube-proxy.
        let service = json!({"port": free_port()});
        let mut values = values(json!({"webhook": {"name": webhooks}, "clusterName": cluster, "service": service}));
        merge(&mut values, more);
        let release = Self { plane, own, webhooks, cluster, values, _turn: turn };
        let output = release.helm(&["install", "podlayer", CHART]);
        assert!(output.ok, "{}", output.stderr);
        release
    }

    /// Runs helm in the release's namespace, with its values.
    pub(crate) fn helm(&self, arguments: &[&str]) -> Output {
        let takes_values = matches!(arguments.first(), Some(&"install" | &"upgrade"));
        let values = if takes_values { self.values.clone() } else { Value::Null };
        on(self.plane, &[arguments, &["--namespace", &self.own]].concat(), &values)
    }

    /// `helm upgrade` with more values merged into those that it has.
    pub(crate) fn upgrade(&mut self, more: Value) {
        merge(&mut self.values, more);
        let output = self.helm(&["upgrade", "podlayer", CHART]);
        assert!(output.ok, "{}", output.stderr);
    }

    pub(crate) fn uninstall(&self) {
        let output = self.helm(&["uninstall", "podlayer"]);
        assert!(output.ok, "{}", output.stderr);
    }

    /// What is left of the release in the whole cluster, as `kind/name`.
    pub(crate) fn left(&self) -> Vec<String> {
        let kinds = "mutatingwebhookconfigurations,validatingwebhookconfigurations,validatingadmissionpolicies,\
                     validatingadmissionpolicybindings,mutatingadmissionpolicies,mutatingadmissionpolicybindings,\
                     clusterroles,clusterrolebindings,priorityclasses";
        let mine = |name: &&str| name.contains(&self.own);
        let output = self.plane.kubectl(&["get", kinds, "-o", "name"]);
        assert!(output.ok, "{}", output.stderr);
        let mut left: Vec<String> = output.stdout.lines().filter(mine).map(str::to_owned).collect();
        let kinds = "deployments,services,serviceaccounts,roles,rolebindings,secrets,configmaps,networkpolicies,\
                     poddisruptionbudgets,leases";
        let label = "app.kubernetes.io/name in (podlayer,podlayer-controller,podlayer-azure)";
        let output = self.plane.kubectl(&["get", kinds, "--all-namespaces", "-l", label, "-o", "name"]);
        assert!(output.ok, "{}", output.stderr);
        left.extend(output.stdout.lines().map(str::to_owned));
        left
    }

    /// Creates an object as a dry run: what the API server would store.
    pub(crate) fn dry_run(&self, object: &Value) -> Output {
        self.plane.kubectl_in(&["create", "--dry-run=server", "-o", "json", "-f", "-"], &object.to_string())
    }

    /// Waits until an attempt comes out as wanted: policies and webhooks are in force a moment after they were written.
    pub(crate) fn soon(&self, what: &str, condition: impl FnMut() -> bool) {
        wait_until(Duration::from_secs(30), what, condition);
    }
}

impl Drop for Release {
    fn drop(&mut self) {
        // Gone already where the test uninstalled it.
        self.helm(&["uninstall", "podlayer", "--ignore-not-found"]);
        if self.values["pools"].is_object() {
            // The chart leaves it. The next release of another name couldn't take it over.
            self.plane.kubectl(&["delete", "crd", "agentpools.podlayer.dev", "--ignore-not-found", "--timeout=30s"]);
        }
    }
}

/// A pod with labels and annotations.
pub(crate) fn pod(namespace: &str, labels: Value, annotations: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod",
           "metadata": {"name": "p", "namespace": namespace, "labels": labels, "annotations": annotations},
           "spec": {"containers": [{"name": "container-0", "image": "busybox:1"}]}})
}

/// A Job whose pod template has these labels and annotations.
pub(crate) fn job(namespace: &str, labels: Value, annotations: Value) -> Value {
    json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j", "namespace": namespace},
           "spec": {"template": {"metadata": {"labels": labels, "annotations": annotations},
                    "spec": {"restartPolicy": "Never", "containers": [{"name": "container-0", "image": "busybox:1"}]}}}})
}

/// `podlayer.dev/enabled: "true"`.
pub(crate) fn enabled() -> Value {
    json!({"podlayer.dev/enabled": "true"})
}
