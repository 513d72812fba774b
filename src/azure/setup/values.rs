//! The values of the two charts.

use serde_json::{Value, json};

use super::options::{Certificate, Exposure, Image, Options};
use crate::names;

/// The Secret that the chart makes for the certificate, or takes it from.
const TLS_SECRET: &str = "podlayer-azure-tls";

/// Of the chart podlayer: what is added to the values that it has.
pub(super) fn of_podlayer(options: &Options) -> Value {
    let pool = &options.pool;
    let mut values =
        json!({"azure": {"enabled": true, "namespaces": [pool.namespace], "defaultPool": pool.to_string()}});
    if let Some(Image { repository, tag, digest }) = &options.image {
        values["image"] = json!({"repository": repository, "tag": tag, "digest": digest});
    }
    values
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
