//! What the API server puts into a pod by itself before podlayer sees it, where the author wrote nothing.
//!
//! From outside such a field looks like one that somebody wrote, so a layer that only fills in what is missing must know
//! the values. They are those of Kubernetes' defaulting (`pkg/apis/core/v1/defaults.go`) and of its admission plugins as
//! they run without configuration; a test makes pods on a real API server and compares in both directions.

use super::{Form, POD, Quantity, Struct, Type, TypeId};
use crate::value::{Map, Value};

/// One field that the API server fills in.
#[derive(Clone, Copy, Debug)]
pub struct ServerDefault {
    /// The type that has the field, by Go's name: `PodSpec`.
    pub owner: &'static str,
    /// The field.
    pub field: &'static str,
    /// What stands in it.
    pub value: Filled,
}

/// What the API server fills in.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Filled {
    /// This value.
    Bool(bool),
    /// An object without fields.
    Empty,
    /// `Always` for an image without tag or with `latest`, else `IfNotPresent`.
    ByImageTag,
    /// This value.
    Number(i64),
    /// This value.
    Text(&'static str),
    /// The volume with the service account's token, whose name ends at random, and its mounts (ServiceAccount).
    Token,
    /// Two tolerations of 300 s for a node that is gone (DefaultTolerationSeconds).
    Tolerations,
}

/// All of them, by owner and field.
pub const DEFAULTS: &[ServerDefault] = &[
    of("ConfigMapVolumeSource", "defaultMode", Filled::Number(0o644)),
    of("Container", "imagePullPolicy", Filled::ByImageTag),
    of("Container", "resources", Filled::Empty),
    of("Container", "terminationMessagePath", Filled::Text("/dev/termination-log")),
    of("Container", "terminationMessagePolicy", Filled::Text("File")),
    of("Container", "volumeMounts", Filled::Token),
    of("ContainerPort", "protocol", Filled::Text("TCP")),
    of("DownwardAPIVolumeSource", "defaultMode", Filled::Number(0o644)),
    of("GRPCAction", "service", Filled::Text("")),
    of("HTTPGetAction", "path", Filled::Text("/")),
    of("HTTPGetAction", "scheme", Filled::Text("HTTP")),
    of("HostPathVolumeSource", "type", Filled::Text("")),
    of("ObjectFieldSelector", "apiVersion", Filled::Text("v1")),
    of("PersistentVolumeClaimSpec", "volumeMode", Filled::Text("Filesystem")),
    of("PersistentVolumeClaimTemplate", "metadata", Filled::Empty),
    of("PodSpec", "dnsPolicy", Filled::Text("ClusterFirst")),
    of("PodSpec", "enableServiceLinks", Filled::Bool(true)),
    of("PodSpec", "preemptionPolicy", Filled::Text("PreemptLowerPriority")),
    of("PodSpec", "priority", Filled::Number(0)),
    of("PodSpec", "restartPolicy", Filled::Text("Always")),
    of("PodSpec", "schedulerName", Filled::Text("default-scheduler")),
    of("PodSpec", "securityContext", Filled::Empty),
    of("PodSpec", "serviceAccount", Filled::Text("default")),
    of("PodSpec", "serviceAccountName", Filled::Text("default")),
    of("PodSpec", "terminationGracePeriodSeconds", Filled::Number(30)),
    of("PodSpec", "tolerations", Filled::Tolerations),
    of("PodSpec", "volumes", Filled::Token),
    of("Probe", "failureThreshold", Filled::Number(3)),
    of("Probe", "periodSeconds", Filled::Number(10)),
    of("Probe", "successThreshold", Filled::Number(1)),
    of("Probe", "timeoutSeconds", Filled::Number(1)),
    of("ProjectedVolumeSource", "defaultMode", Filled::Number(0o644)),
    of("ResourceFieldSelector", "divisor", Filled::Text("0")),
    of("SecretVolumeSource", "defaultMode", Filled::Number(0o644)),
    of("ServiceAccountTokenProjection", "expirationSeconds", Filled::Number(3600)),
];

const fn of(owner: &'static str, field: &'static str, value: Filled) -> ServerDefault {
    ServerDefault { owner, field, value }
}

/// What the token's volume is called, before five random characters.
const TOKEN: &str = "kube-api-access-";
/// Where the token is mounted.
const TOKEN_PATH: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// The row for a field.
pub fn default_of(owner: &str, field: &str) -> Option<&'static ServerDefault> {
    let found = DEFAULTS.binary_search_by(|row| (row.owner, row.field).cmp(&(owner, field)));
    found.ok().map(|at| &DEFAULTS[at])
}

impl ServerDefault {
    /// Whether a value is what the API server fills in; `around` is the object that has the field.
    ///
    /// For a list by key it is so if every item is: see [`is_default_item`].
    pub fn fits(&self, value: &Value<'_>, around: &Map<'_>) -> bool {
        match self.value {
            Filled::Bool(filled) => matches!(value, Value::Bool(found) if *found == filled),
            Filled::Empty => value.as_object().is_some_and(Map::is_empty),
            Filled::ByImageTag => {
                let image = around.get("image").and_then(Value::as_str).unwrap_or_default();
                value.as_str() == Some(if is_latest(image) { "Always" } else { "IfNotPresent" })
            }
            Filled::Number(filled) => matches!(value, Value::Int(found) if *found == filled),
            Filled::Text(filled) => value.as_str() == Some(filled),
            Filled::Token | Filled::Tolerations => {
                value.as_list().is_some_and(|items| items.iter().all(|item| is_default_item(self.field, item)))
            }
        }
    }
}

/// Whether an item of a list is one that the API server puts in.
pub fn is_default_item(field: &str, item: &Value<'_>) -> bool {
    let text = |key: &str| item.get(key).and_then(Value::as_str);
    match field {
        "tolerations" => {
            matches!(text("key"), Some("node.kubernetes.io/not-ready" | "node.kubernetes.io/unreachable"))
                && text("operator") == Some("Exists")
                && text("effect") == Some("NoExecute")
                && matches!(item.get("tolerationSeconds"), Some(Value::Int(300)))
        }
        "volumes" => text("name").is_some_and(|name| name.starts_with(TOKEN)) && item.get("projected").is_some(),
        "volumeMounts" => {
            text("name").is_some_and(|name| name.starts_with(TOKEN)) && text("mountPath") == Some(TOKEN_PATH)
        }
        _ => false,
    }
}

/// Whether an image has no tag and no digest, or the tag `latest`.
fn is_latest(image: &str) -> bool {
    if image.is_empty() || image.contains('@') {
        return false;
    }
    // A colon before the last slash is a registry's port.
    let name = image.rsplit('/').next().unwrap_or(image);
    name.split_once(':').is_none_or(|(_, tag)| tag == "latest")
}

/// Whether two values of a type mean the same: quantities whatever their notation.
pub fn same(ty: Option<TypeId>, one: &Value<'_>, other: &Value<'_>) -> bool {
    let is_quantity = |ty| matches!(POD.target(ty).1, Type::Struct(Struct { form: Form::Quantity, .. }));
    one == other
        || ty.is_some_and(is_quantity)
            && matches!((Quantity::of(one), Quantity::of(other)), (Ok(one), Ok(other)) if one == other)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::{JsonLimits, from_json};

    #[test]
    fn the_table_is_sorted_and_names_real_fields() {
        assert!(DEFAULTS.is_sorted_by_key(|row| (row.owner, row.field)));
        for row in DEFAULTS {
            let ty = POD.named(&format!("v1.{}", row.owner)).unwrap_or_else(|| panic!("{}", row.owner));
            let Type::Struct(owner) = POD.ty(ty) else { panic!("{}", row.owner) };
            assert!(owner.field(row.field).is_some(), "{}.{}", row.owner, row.field);
        }
    }

    #[test]
    fn pull_policies_follow_the_tag() {
        for (image, latest) in [
            ("a", true),
            ("a:latest", true),
            ("a:1", false),
            ("host:5000/a", true),
            ("host:5000/a:1", false),
            ("a@sha256:0", false),
            ("a:latest@sha256:0", false),
            ("", false),
        ] {
            assert_eq!(is_latest(image), latest, "{image}");
        }
    }

    #[test]
    fn lists_are_the_api_servers_if_every_item_is() {
        let fits = |field: &str, json: &str| {
            let value = from_json(json, JsonLimits::DEFAULT).unwrap();
            default_of("PodSpec", field).unwrap().fits(&value, &Map::new())
        };
        let gone = r#"{"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}"#;
        assert!(fits("tolerations", &format!("[{gone}]")));
        assert!(!fits("tolerations", &format!("[{}]", gone.replace("300", "10"))));
        assert!(!fits("tolerations", &format!("[{gone}, {{\"key\": \"ci\"}}]")));
        assert!(fits("priority", "0") && !fits("priority", "1") && !fits("priority", "\"0\""));
    }
}
