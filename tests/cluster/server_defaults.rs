//! What the API server fills in by itself is what our table says, no more and no less.

use std::collections::BTreeSet;

use podlayer::{
    schema::{
        POD, Type, TypeId,
        defaults::{DEFAULTS, default_of, is_default_item},
    },
    value::{JsonLimits, Value, from_json},
};
use serde_json::json;

use crate::controlplane::ControlPlane;

/// What a walk of a pod as sent and as made has found.
#[derive(Default)]
struct Found {
    /// Rows of the table that were seen.
    seen: BTreeSet<(String, String)>,
    /// Filled fields that the table doesn't have, or has with another value.
    unknown: Vec<String>,
}

impl Found {
    fn fields(&mut self, ty: TypeId, sent: &Value<'_>, made: &Value<'_>, path: &str) {
        let (Type::Struct(owner), Some(made)) = (POD.target(ty).1, made.as_object()) else { return };
        for (field, value) in made.iter() {
            let path = format!("{path}.{field}");
            let Some(known) = owner.field(field) else { continue };
            match sent.get(field) {
                None => {
                    let fits = default_of(&owner.name, field).is_some_and(|row| row.fits(value, made));
                    if fits {
                        self.seen.insert((owner.name.to_string(), field.to_owned()));
                    } else {
                        self.unknown.push(format!("{path} of {} is {value:?}", owner.name));
                    }
                }
                Some(sent) => self.value(&owner.name, field, known.ty, known.list_key(), sent, value, &path),
            }
        }
    }

    fn value(
        &mut self,
        owner: &str,
        field: &str,
        ty: TypeId,
        key: Option<&str>,
        sent: &Value<'_>,
        made: &Value<'_>,
        path: &str,
    ) {
        let (Type::Slice(item_ty), Some(sent), Some(made)) = (POD.target(ty).1, sent.as_list(), made.as_list()) else {
            return self.fields(ty, sent, made, path);
        };
        for (at, item) in made.iter().enumerate() {
            let same = |other: &&Value<'_>| key.is_some_and(|key| other.get(key) == item.get(key));
            let found = if key.is_some() { sent.iter().find(same) } else { sent.get(at) };
            match found {
                Some(sent) => self.fields(*item_ty, sent, item, &format!("{path}[{at}]")),
                None if is_default_item(field, item) => _ = self.seen.insert((owner.to_owned(), field.to_owned())),
                None => self.unknown.push(format!("{path}[{at}] is {item:?}")),
            }
        }
    }
}

#[test]
fn the_table_of_defaults_is_what_a_real_api_server_fills_in() {
    let plane = ControlPlane::shared();
    let namespace = plane.namespace("defaults");
    let image = |name: &str, image: &str| json!({"name": name, "image": image});
    let bare = json!({"containers": [image("a", "b:1")]});
    let mut full = image("full", "b");
    full["env"] = json!([
        {"name": "N", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        {"name": "R", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}},
    ]);
    full["ports"] = json!([{"containerPort": 80}]);
    full["livenessProbe"] = json!({"httpGet": {"port": 80}});
    full["readinessProbe"] = json!({"grpc": {"port": 80}});
    full["lifecycle"] = json!({"preStop": {"httpGet": {"port": 80}}});
    full["volumeMounts"] = json!([{"name": "empty", "mountPath": "/empty"}]);
    full["resources"] = json!({"limits": {"cpu": "1"}, "requests": {"cpu": "1"}});
    let items = json!([{"path": "x", "fieldRef": {"fieldPath": "metadata.name"}}]);
    let sources = json!([{"serviceAccountToken": {"path": "t"}}, {"downwardAPI": {"items": items}}]);
    let claim = json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}});
    let rich = json!({
        "containers": [full, image("latest", "b:latest"), image("digest", "host:5000/b@sha256:0000000000000000000000000000000000000000000000000000000000000000")],
        "initContainers": [image("init", "host:5000/b")],
        "tolerations": [{"key": "ci", "operator": "Exists"}],
        "volumes": [
            {"name": "empty", "emptyDir": {}},
            {"name": "config", "configMap": {"name": "c"}},
            {"name": "secret", "secret": {"secretName": "s"}},
            {"name": "projected", "projected": {"sources": sources}},
            {"name": "downward", "downwardAPI": {"items": items}},
            {"name": "host", "hostPath": {"path": "/x"}},
            {"name": "claim", "ephemeral": {"volumeClaimTemplate": {"spec": claim}}},
        ],
    });
    let mut found = Found::default();
    for (name, spec) in [("bare", bare), ("rich", rich)] {
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": namespace}, "spec": spec});
        let made = plane.kubectl_in(&["create", "-o", "json", "-f", "-"], &pod.to_string());
        assert!(made.ok, "{}", made.stderr);
        let (sent, made) = (pod.to_string(), made.stdout);
        let parse = |text| from_json(text, JsonLimits::DEFAULT).unwrap();
        let (sent, made) = (parse(&sent), parse(&made));
        found.fields(POD.pod_spec(), sent.get("spec").unwrap(), made.get("spec").unwrap(), name);
    }
    assert!(found.unknown.is_empty(), "the API server also fills in\n{}", found.unknown.join("\n"));
    let rows = DEFAULTS.iter().map(|row| (row.owner.to_owned(), row.field.to_owned()));
    let idle: Vec<_> = rows.filter(|row| !found.seen.contains(row)).collect();
    assert!(idle.is_empty(), "the API server doesn't fill in {idle:?}");
}
