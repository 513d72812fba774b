use std::{fmt, str::FromStr};

use crate::{azure::DnsName, names};

/// Where Azure DevOps calls the endpoint.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Endpoints {
    /// Asks for an agent.
    pub acquire: String,
    /// Gives one back.
    pub release: String,
    /// Asks what became of a request.
    pub status: Option<String>,
    /// Lists the images that there are.
    pub definitions: Option<String>,
    /// Asks how many agents there may be.
    pub parallelism: Option<String>,
}

/// What Azure DevOps needn't be told.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Optional {
    /// Agent definitions.
    Definitions,
    /// Account parallelism.
    Parallelism,
    /// The status of a request.
    Status,
}

/// An AgentPool, `NAMESPACE/NAME`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct PoolPath {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

/// Why a text names no AgentPool.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{0:?} names no AgentPool; write NAMESPACE/NAME, such as ci/linux")]
pub struct PoolPathError(String);

impl FromStr for PoolPath {
    type Err = PoolPathError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let is_name = |name: &str, dots: bool| {
            let ends = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit();
            let within = |c: u8| ends(c) || c == b'-' || dots && c == b'.';
            let bytes = name.as_bytes();
            bytes.first().is_some_and(|&c| ends(c))
                && bytes.last().is_some_and(|&c| ends(c))
                && bytes.iter().all(|&c| within(c))
        };
        match text.split_once('/') {
            // The lengths are a namespace's and an AgentPool's.
            Some((namespace, name))
                if namespace.len() <= 63 && name.len() <= 40 && is_name(namespace, false) && is_name(name, true) =>
            {
                Ok(Self { namespace: namespace.to_owned(), name: name.to_owned() })
            }
            _ => Err(PoolPathError(text.to_owned())),
        }
    }
}

impl fmt::Display for PoolPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

impl Endpoints {
    /// Those of the default pool, at the original provider's paths.
    pub fn of_default_pool(name: &DnsName) -> Self {
        Self {
            acquire: format!("https://{name}{}", names::PATH_ACQUIRE),
            release: format!("https://{name}{}", names::PATH_RELEASE),
            status: None,
            definitions: None,
            parallelism: None,
        }
    }

    /// Those of one AgentPool, at paths of its own.
    pub fn of_pool(name: &DnsName, pool: &PoolPath, optional: &[Optional]) -> Self {
        let at = |end: &str| format!("https://{name}{}/{pool}{end}", names::PATH_POOLS);
        let with = |wanted: Optional, end: &str| optional.contains(&wanted).then(|| at(end));
        Self {
            acquire: at(names::PATH_ACQUIRE),
            release: at(names::PATH_RELEASE),
            status: with(Optional::Status, names::PATH_STATUS),
            definitions: with(Optional::Definitions, names::PATH_DEFINITIONS),
            parallelism: with(Optional::Parallelism, names::PATH_PARALLELISM),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_original_paths_are_the_default_pools_and_each_pool_has_its_own() {
        let name: DnsName = "agents.example.com".parse().unwrap();
        let endpoints = Endpoints::of_default_pool(&name);
        assert_eq!(endpoints.acquire, "https://agents.example.com/acquire");
        assert_eq!(endpoints.release, "https://agents.example.com/release");
        let pool: PoolPath = "ci/linux".parse().unwrap();
        let endpoints = Endpoints::of_pool(&name, &pool, &[Optional::Status]);
        assert_eq!(endpoints.acquire, "https://agents.example.com/v1/pools/ci/linux/acquire");
        assert_eq!(endpoints.status.unwrap(), "https://agents.example.com/v1/pools/ci/linux/status");
        assert_eq!(endpoints.definitions, None);
    }

    #[test]
    fn what_is_no_pool_is_refused() {
        for bad in ["linux", "ci/", "/linux", "ci/linux/x", "CI/linux", "c.i/linux", "ci/lin ux", "-a/b"] {
            assert!(bad.parse::<PoolPath>().is_err(), "{bad}");
        }
        let error = "linux".parse::<PoolPath>().unwrap_err().to_string();
        assert_eq!(error, "\"linux\" names no AgentPool; write NAMESPACE/NAME, such as ci/linux");
    }
}
