use std::{path::PathBuf, str::FromStr, time::Duration};

use super::dns;
use crate::azure::{DnsName, SharedSecret, registration::PoolPath};

/// What is to be set up.
pub struct Options {
    /// What Azure DevOps signs with.
    pub shared_secret: SharedSecret,
    /// The Secret that it is kept in, in the pool's namespace.
    pub secret_name: String,
    /// Whether a Secret that holds another one is written over.
    pub replace_secret: bool,
    /// The AgentPool that `/acquire` and `/release` are for.
    pub pool: PoolPath,
    /// A manifest of it.
    pub pool_file: Option<PoolFile>,
    /// podlayer's own namespace.
    pub own_namespace: String,
    /// podlayer's image; left out where podlayer is installed already.
    pub image: Option<Image>,
    /// Folder or address that the two charts are below.
    pub charts: String,
    /// The public name.
    pub dns_name: DnsName,
    /// How calls come in.
    pub exposure: Exposure,
    /// Where the certificate comes from.
    pub certificate: Certificate,
    /// Who binds the name to the address.
    pub dns: Dns,
    /// How long one wait may take.
    pub timeout: Duration,
    /// Which cluster.
    pub target: Target,
}

/// A manifest of an AgentPool.
#[derive(Clone, Debug)]
pub struct PoolFile {
    /// The file.
    pub path: PathBuf,
    /// What is in it.
    pub manifest: serde_json::Value,
}

/// An image, as the chart has it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Image {
    /// Where it is.
    pub repository: String,
    /// Its tag; the chart's own if empty.
    pub tag: String,
    /// Its digest, which wins over the tag.
    pub digest: String,
}

/// Why a text is no image.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{0:?} is no image; write REPOSITORY, REPOSITORY:TAG or REPOSITORY@sha256:DIGEST")]
pub struct ImageError(String);

/// How calls come in.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Exposure {
    /// By an Ingress of this class; the cluster's default one if there is none.
    Ingress(Option<String>),
    /// By a Gateway of this class, made for it.
    Gateway(String),
    /// By a Gateway that is there, `NAMESPACE/NAME`.
    Existing(PoolPath),
}

/// Where the certificate comes from.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Certificate {
    /// A Secret that is there.
    Secret(String),
    /// Files.
    Files {
        /// The chain.
        certificate: PathBuf,
        /// Its key.
        key: PathBuf,
    },
    /// Let's Encrypt, by cert-manager.
    LetsEncrypt {
        /// Whom Let's Encrypt writes to.
        email: Option<String>,
        /// Certificates that nobody trusts.
        staging: bool,
    },
    /// The Gateway that is there has its own.
    Gateway,
}

/// Who binds the name to the address.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Dns {
    /// The command line of Azure, among the public addresses of this resource group or of all.
    Az {
        /// The resource group.
        resource_group: Option<String>,
    },
    /// A person, who is told what to do.
    Print,
}

/// Which cluster, as helm and kubectl name it.
#[derive(Clone, Debug, Default)]
pub struct Target {
    /// The kubeconfig.
    pub kubeconfig: Option<PathBuf>,
    /// The context in it.
    pub context: Option<String>,
}

/// Why options don't go together.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum OptionsError {
    /// An existing Gateway with another certificate.
    #[error("the Gateway {0} ends TLS with a certificate of its own: leave the certificate out")]
    CertificateOfGateway(PoolPath),
    /// The name isn't Azure's to bind.
    #[error(
        "--dns az binds names such as LABEL.REGION.{zone}, and {0} is none: use --dns print and make the record yourself",
        zone = dns::AZURE_ZONE
    )]
    NotOfAzure(DnsName),
    /// The manifest is of something else.
    #[error("{file} is of {kind} {there}, not of the AgentPool {wanted}; --namespace and --pool say which")]
    OtherPool {
        /// The file.
        file: String,
        /// Its kind.
        kind: String,
        /// What it is of.
        there: String,
        /// What it should be of.
        wanted: PoolPath,
    },
    /// Agents would never get their layers.
    #[error("the pool is in podlayer's own namespace {0}, where pods get no layers: choose another with --namespace")]
    OwnNamespace(String),
}

impl FromStr for Image {
    type Err = ImageError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let bad = || ImageError(text.to_owned());
        let (rest, digest) = text.split_once('@').unwrap_or((text, ""));
        // A colon before a slash is a registry's port.
        let (repository, tag) = match rest.rsplit_once(':') {
            Some((repository, tag)) if !tag.contains('/') => (repository, tag),
            _ => (rest, ""),
        };
        let is_digest = digest.strip_prefix("sha256:").is_some_and(|hex| {
            hex.len() == 64 && hex.bytes().all(|c| c.is_ascii_digit() || (b'a'..=b'f').contains(&c))
        });
        let blank = text.chars().any(|c| c.is_whitespace() || c.is_control());
        if repository.is_empty() || blank || text.contains('@') && !is_digest || rest.ends_with(':') {
            return Err(bad());
        }
        Ok(Self { repository: repository.into(), tag: tag.into(), digest: digest.into() })
    }
}

impl Options {
    /// Looks whether they go together.
    ///
    /// # Errors
    /// [`OptionsError`].
    pub fn check(&self) -> Result<(), OptionsError> {
        if self.pool.namespace == self.own_namespace {
            return Err(OptionsError::OwnNamespace(self.own_namespace.clone()));
        }
        if let Exposure::Existing(gateway) = &self.exposure
            && self.certificate != Certificate::Gateway
        {
            return Err(OptionsError::CertificateOfGateway(gateway.clone()));
        }
        if matches!(self.dns, Dns::Az { .. }) && dns::label(&self.dns_name).is_none() {
            return Err(OptionsError::NotOfAzure(self.dns_name.clone()));
        }
        if let Some(PoolFile { path, manifest }) = &self.pool_file {
            let word =
                |pointer: &str| manifest.pointer(pointer).and_then(serde_json::Value::as_str).unwrap_or_default();
            let kind = if word("/kind").is_empty() { "no kind," } else { word("/kind") };
            let namespace =
                if word("/metadata/namespace").is_empty() { &self.pool.namespace } else { word("/metadata/namespace") };
            let there = format!("{namespace}/{}", word("/metadata/name"));
            if kind != "AgentPool" || there != self.pool.to_string() {
                let (file, kind) = (path.display().to_string(), kind.to_owned());
                return Err(OptionsError::OtherPool { file, kind, there, wanted: self.pool.clone() });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_are_taken_apart_as_registries_do() {
        let digest = format!("sha256:{}", "a".repeat(64));
        for (text, repository, tag, with_digest) in [
            ("podlayer", "podlayer", "", ""),
            ("registry.example.com/podlayer:0.1.0", "registry.example.com/podlayer", "0.1.0", ""),
            ("localhost:5000/podlayer", "localhost:5000/podlayer", "", ""),
            (&format!("localhost:5000/podlayer:1@{digest}"), "localhost:5000/podlayer", "1", &digest),
        ] {
            let wanted = Image { repository: repository.into(), tag: tag.into(), digest: with_digest.into() };
            assert_eq!(text.parse::<Image>(), Ok(wanted));
        }
        for bad in ["", ":1", "a b", "podlayer:", "podlayer@sha256:12", "podlayer@"] {
            assert!(bad.parse::<Image>().is_err(), "{bad}");
        }
    }
}
