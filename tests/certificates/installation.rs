//! What a chart installs: an empty Secret and two webhook configurations without `caBundle`.

use serde_json::{Value, json};

use crate::controlplane::ControlPlane;

/// One installation's objects; its configurations are for the pods, Jobs and layers of one namespace only.
pub(crate) struct Installation<'a> {
    plane: &'a ControlPlane,
    /// podlayer's own namespace.
    pub(crate) own: String,
    /// The namespace whose pods it is for.
    pub(crate) jobs: String,
    /// The name of both configurations.
    pub(crate) name: String,
    port: u16,
}

/// The kinds of configurations.
pub(crate) const KINDS: [&str; 2] = ["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"];

impl<'a> Installation<'a> {
    pub(crate) fn new(plane: &'a ControlPlane, port: u16) -> Self {
        let own = plane.namespace("podlayer");
        let jobs = plane.namespace("ci");
        let name = format!("zz-{own}");
        let made = plane.kubectl(&["create", "secret", "generic", "podlayer-ca", "-n", &own]);
        assert!(made.ok, "{}", made.stderr);
        let installation = Self { plane, own, jobs, name, port };
        installation.apply();
        installation
    }

    /// Applies the configurations as Helm 4 does: server-side, and without any `caBundle`.
    pub(crate) fn apply(&self) {
        let arguments = ["apply", "--server-side", "--field-manager=helm", "-f", "-"];
        let applied = self.plane.kubectl_in(&arguments, &self.manifests());
        assert!(applied.ok, "{}", applied.stderr);
    }

    /// Puts the configurations in the place of what is there, `caBundle` and all.
    pub(crate) fn replace(&self) {
        let replaced = self.plane.kubectl_in(&["replace", "-f", "-"], &self.manifests());
        assert!(replaced.ok, "{}", replaced.stderr);
    }

    /// A configuration as it stands, with its managed fields.
    pub(crate) fn configuration(&self, kind: &str) -> Value {
        self.plane.get_json(&[kind, &self.name, "--show-managed-fields"])
    }

    /// The `caBundle` of every entry of both.
    pub(crate) fn bundles(&self) -> Vec<String> {
        let entries = KINDS.iter().flat_map(|kind| self.configuration(kind)["webhooks"].as_array().unwrap().clone());
        entries.map(|entry| entry["clientConfig"]["caBundle"].as_str().unwrap_or_default().to_owned()).collect()
    }

    fn manifests(&self) -> String {
        let hook = |name: &str, path: &str, namespace: &str, group: &str, resource: &str| {
            json!({
                "name": format!("{name}.podlayer.dev"), "admissionReviewVersions": ["v1"], "sideEffects": "None",
                "timeoutSeconds": 5, "failurePolicy": "Fail",
                "clientConfig": {"service": {"namespace": self.own, "name": "podlayer", "path": path, "port": self.port}},
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
                "rules": [{"apiGroups": [group], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": [resource]}],
            })
        };
        let jobs = &self.jobs;
        let hooks = [
            json!([hook("pods", "/mutate", jobs, "", "pods"), hook("jobs", "/mutate", jobs, "batch", "jobs")]),
            json!([hook("jobs", "/validate", jobs, "batch", "jobs")]),
        ];
        let manifest = |(kind, hooks): (&str, Value)| {
            json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": {"name": self.name},
                   "webhooks": hooks})
        };
        let items: Vec<Value> = KINDS.into_iter().zip(hooks).map(manifest).collect();
        json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string()
    }
}

impl Drop for Installation<'_> {
    fn drop(&mut self) {
        for kind in KINDS {
            self.plane.kubectl(&["delete", kind, &self.name]);
        }
    }
}
