//! The kind `AgentPool`, podlayer.dev/v1alpha1: what people write, and what the controller tells them.
//!
//! Fields that people leave out stay out: the defaults are in the functions here (and in `docs/defaults.md`), not in the
//! schema, so that nothing is ever written back into a spec. The one exception is `replicas`, for the API server can't
//! answer `/scale` without it.

mod azure;
mod selector;
mod spec;
mod status;

pub use azure::Azure;
pub use selector::{JobSelector, Operator, Requirement};
pub use spec::{
    AgentPool, AgentPoolSpec, Backoff, Buildkit, Busy, BusySource, Mode, Order, PdbMode, PoolImage, Protection,
    ScaleDown, ScaleUp, Schedule, ShapeFrom, Template, TemplateMetadata,
};
pub use status::{AgentPoolStatus, Condition, Inputs, LastDecision, condition};

use kube::CustomResourceExt;

/// A pool: its namespace and name.
pub type Key = (String, String);

impl AgentPool {
    /// Which pool it is.
    pub fn key(&self) -> Key {
        (self.metadata.namespace.clone().unwrap_or_default(), self.metadata.name.clone().unwrap_or_default())
    }
}

/// The CustomResourceDefinition as YAML: what `podlayer crd` prints and `manifests/crd` holds.
///
/// # Errors
/// When it can't be written as YAML, which is a bug.
pub fn crd_yaml() -> Result<String, serde_yaml::Error> {
    serde_yaml::to_string(&AgentPool::crd())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether a JSON path such as `.status.conditions[?(@.type=="Ready")].status` exists in the schema.
    fn exists(schema: &serde_json::Value, path: &str) -> bool {
        let mut at = schema;
        for part in path.trim_start_matches('.').split('.').filter(|part| !part.contains("@")) {
            let (name, filtered) = match part.split_once('[') {
                Some((name, _)) => (name, true),
                None => (part, false),
            };
            let name = name.split(']').next_back().unwrap_or_default();
            if name == "metadata" {
                return true;
            }
            if name.starts_with("type==") {
                continue;
            }
            at = &at["properties"][name];
            if filtered {
                at = &at["items"];
            }
            if at.is_null() {
                return false;
            }
        }
        true
    }

    #[test]
    fn every_printer_column_and_scale_path_exists_in_the_schema() {
        let crd = serde_json::to_value(AgentPool::crd()).unwrap();
        let version = &crd["spec"]["versions"][0];
        let schema = &version["schema"]["openAPIV3Schema"];
        let columns = version["additionalPrinterColumns"].as_array().unwrap();
        assert_eq!(columns.len(), 14);
        for column in columns {
            // The filter's own dots would split: they are cut out.
            let path = column["jsonPath"].as_str().unwrap();
            let path = match (path.find("[?"), path.find(")]")) {
                (Some(from), Some(to)) => format!("{}[]{}", &path[..from], &path[to + 2..]),
                _ => path.to_owned(),
            };
            assert!(exists(schema, &path), "{column}");
        }
        let scale = &version["subresources"]["scale"];
        for key in ["specReplicasPath", "statusReplicasPath", "labelSelectorPath"] {
            assert!(exists(schema, scale[key].as_str().unwrap()), "{key}");
        }
        assert!(!exists(schema, ".status.nothing"));
    }

    #[test]
    fn the_committed_definition_is_the_one_that_the_code_makes() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/manifests/crd/agentpools.podlayer.dev.yaml");
        let committed = std::fs::read_to_string(path).unwrap_or_default();
        assert!(committed == crd_yaml().unwrap(), "{path} is old: run .ci/generate and commit what it writes");
    }

    #[test]
    fn nothing_but_replicas_has_a_default_in_the_schema() {
        fn defaults(value: &serde_json::Value, at: &str, out: &mut Vec<String>) {
            if let Some(map) = value.as_object() {
                for (key, inner) in map {
                    if key == "default" && map.contains_key("type") {
                        out.push(at.to_owned());
                    }
                    defaults(inner, &format!("{at}/{key}"), out);
                }
            }
        }
        let crd = serde_json::to_value(AgentPool::crd()).unwrap();
        let mut found = Vec::new();
        defaults(&crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"], "", &mut found);
        assert_eq!(found, ["/properties/replicas"]);
    }
}
