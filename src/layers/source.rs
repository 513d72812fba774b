use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// What a layer is read from: the parts of a ConfigMap that count, whoever holds it.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct LayerSource {
    /// The ConfigMap's namespace; empty for a file that names none.
    pub namespace: String,
    /// The ConfigMap's name, which is the layer's.
    pub name: String,
    /// The ConfigMap's labels.
    pub labels: BTreeMap<String, String>,
    /// The ConfigMap's data.
    pub data: BTreeMap<String, String>,
    /// The keys of its binaryData, none of which mean anything.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub binary_keys: Vec<String>,
}

impl LayerSource {
    /// How people name it: `ConfigMap podlayer/base`.
    pub fn title(&self) -> String {
        if self.namespace.is_empty() {
            format!("ConfigMap {}", self.name)
        } else {
            format!("ConfigMap {}/{}", self.namespace, self.name)
        }
    }
}
