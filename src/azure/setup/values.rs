//! The values of the two charts.

use serde_json::{Value, json};

use super::options::{Certificate, Exposure, Image, Options};
use crate::names;

/// The Secret that the chart makes for the certificate, or takes it from.
const TLS_SECRET: &str = "podlayer-azure-tls";

/// Of the chart podlayer: what is added to the values that it has.
pub(super) fn of_podlayer(options: &Options) -> Value {
    let pool = &options.pool;
    let mut values = json!({
        "azure": {"enabled": true, "namespaces": [pool.namespace], "defaultPool": pool.to_string()},
        "pools": {"enabled": true, "namespaces": [pool.namespace]},
    });
    if let Some(Image { repository, tag, digest }) = &options.image {
        values["image"] = json!({"repository": repository, "tag": tag, "digest": digest});
    }
    values
}

/// Where a release of the chart podlayer lists namespaces, to which ours is added.
const LISTS: [&str; 2] = ["/azure/namespaces", "/pools/namespaces"];

/// The default pool is another one.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error(
    "the release podlayer has {there} as azure.defaultPool, so /acquire and /release are taken: set {there} up again, or give \
     {wanted} paths of its own by hand (docs/azure-setup.md)"
)]
pub struct OtherDefaultPool {
    there: String,
    wanted: String,
}

/// These values with what a release has that they would overwrite.
pub(super) fn joined(values: &Value, there: &Value) -> Result<Value, OtherDefaultPool> {
    let text =
        |values: &Value| values.pointer("/azure/defaultPool").and_then(Value::as_str).unwrap_or_default().to_owned();
    let (wanted, held) = (text(values), text(there));
    if !held.is_empty() && held != wanted {
        return Err(OtherDefaultPool { there: held, wanted });
    }
    let mut joined = values.clone();
    for pointer in LISTS {
        let held = there.pointer(pointer).and_then(Value::as_array);
        if let (Some(held), Some(Value::Array(list))) = (held, joined.pointer_mut(pointer)) {
            let missing: Vec<Value> = held.iter().filter(|name| !list.contains(name)).cloned().collect();
            list.extend(missing);
        }
    }
    Ok(joined)
}

/// Of the chart podlayer-ingress, all of them.
pub(super) fn of_ingress(options: &Options) -> Value {
    let mut values =
        json!({"dnsName": options.dns_name.as_str(), "service": {"name": names::AZURE_SERVICE, "port": 80}});
    match &options.exposure {
        Exposure::Ingress(class) => {
            values["kind"] = json!("Ingress");
            values["ingress"] = json!({"className": class.as_deref().unwrap_or_default()});
        }
        Exposure::Gateway(class) => {
            values["kind"] = json!("Gateway");
            values["gateway"] = json!({"className": class});
        }
        Exposure::Existing(gateway) => {
            values["kind"] = json!("Gateway");
            values["gateway"] = json!({"existing": {"name": gateway.name, "namespace": gateway.namespace}});
        }
    }
    values["tls"] = match &options.certificate {
        Certificate::Secret(name) => json!({"mode": "ExistingSecret", "secretName": name}),
        // The files themselves are given to helm.
        Certificate::Files { .. } => json!({"mode": "Files", "secretName": TLS_SECRET}),
        Certificate::LetsEncrypt { .. } => json!({"mode": "LetsEncrypt", "secretName": TLS_SECRET}),
        Certificate::Gateway => json!({"mode": "Gateway"}),
    };
    if let Certificate::LetsEncrypt { email, staging } = &options.certificate {
        values["letsEncrypt"] = json!({"staging": staging, "email": email.as_deref().unwrap_or_default()});
    }
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_release_serves_already_stays() {
        let azure = json!({"enabled": true, "namespaces": ["ci"], "defaultPool": "ci/linux"});
        let ours = json!({"azure": azure, "pools": {"enabled": true, "namespaces": ["ci"]}});
        assert_eq!(joined(&ours, &Value::Null), Ok(ours.clone()));
        let there = json!({"azure": {"namespaces": ["other", "ci"], "defaultPool": ""}, "replicas": 3,
                           "pools": {"namespaces": ["warm"]}});
        let both = joined(&ours, &there).unwrap();
        assert_eq!(both["azure"]["namespaces"], json!(["ci", "other"]));
        assert_eq!(both["pools"]["namespaces"], json!(["ci", "warm"]));
        let there = json!({"azure": {"defaultPool": "other/linux"}});
        let error = joined(&ours, &there).unwrap_err().to_string();
        assert!(error.starts_with("the release podlayer has other/linux as azure.defaultPool"), "{error}");
        assert!(error.ends_with("give ci/linux paths of its own by hand (docs/azure-setup.md)"), "{error}");
    }
}
