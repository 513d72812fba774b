use std::{fmt, net::IpAddr, str::FromStr};

use hyper::Uri;

/// An organisation of Azure DevOps, or a collection of a server: what its REST calls begin with.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Organization(String);

/// Why a text isn't the URI of an organisation. It isn't shown where it may hold a credential.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum OrganizationError {
    /// Not a URI.
    #[error("it is no URI; write https://dev.azure.com/ORGANISATION")]
    NoUri,
    /// There is something before the host.
    #[error(
        "it has a user or a password, which belong into AZURE_DEVOPS_EXT_PAT; write https://dev.azure.com/ORGANISATION"
    )]
    Credential,
    /// A PAT would cross the network in the clear.
    #[error("it begins with {0:?}, and a PAT goes over https only")]
    Scheme(String),
    /// More than scheme, host and path.
    #[error("it goes on after the organisation with {0:?}; write https://dev.azure.com/ORGANISATION")]
    More(char),
    /// The name is missing.
    #[error("it names no organisation; write https://dev.azure.com/ORGANISATION")]
    Unnamed,
}

impl Organization {
    /// The URI of one of its REST calls; `path` begins with a slash.
    pub(super) fn call(&self, path: &str) -> String {
        format!("{}{path}", self.0)
    }
}

impl fmt::Display for Organization {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for Organization {
    type Err = OrganizationError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let text = text.trim_end_matches('/');
        if let Some(more) = text.chars().find(|c| matches!(c, '?' | '#')) {
            return Err(OrganizationError::More(more));
        }
        let uri: Uri = text.parse().map_err(|_| OrganizationError::NoUri)?;
        let (Some(scheme), Some(authority)) = (uri.scheme_str(), uri.authority()) else {
            return Err(OrganizationError::NoUri);
        };
        if authority.as_str().contains('@') {
            return Err(OrganizationError::Credential);
        }
        // Nobody else hears what doesn't leave the machine.
        if scheme != "https" && !(scheme == "http" && is_loopback(authority.host())) {
            return Err(OrganizationError::Scheme(scheme.to_owned()));
        }
        // An old organisation's name is in the host: NAME.visualstudio.com.
        let named_by_host = authority.host().to_ascii_lowercase().ends_with(".visualstudio.com");
        if uri.path() == "/" && !named_by_host {
            return Err(OrganizationError::Unnamed);
        }
        Ok(Self(text.to_owned()))
    }
}

fn is_loopback(host: &str) -> bool {
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn organisations_and_collections_are_taken() {
        for (text, wanted) in [
            ("https://dev.azure.com/example", "https://dev.azure.com/example/_apis"),
            ("https://dev.azure.com/example/", "https://dev.azure.com/example/_apis"),
            ("https://example.visualstudio.com", "https://example.visualstudio.com/_apis"),
            ("https://server.example.com:8443/tfs/Default", "https://server.example.com:8443/tfs/Default/_apis"),
            ("http://127.0.0.1:8080/example", "http://127.0.0.1:8080/example/_apis"),
            ("http://localhost:8080/example", "http://localhost:8080/example/_apis"),
            ("http://[::1]:8080/example", "http://[::1]:8080/example/_apis"),
        ] {
            assert_eq!(text.parse::<Organization>().unwrap().call("/_apis"), wanted);
        }
    }

    #[test]
    fn what_would_leak_a_pat_or_goes_nowhere_is_refused() {
        let error = |text: &str| text.parse::<Organization>().unwrap_err();
        assert_eq!(error("example"), OrganizationError::NoUri);
        assert_eq!(error("dev.azure.com/example"), OrganizationError::NoUri);
        assert_eq!(error("https://dev.azure.com"), OrganizationError::Unnamed);
        assert_eq!(error("https://me:pat@dev.azure.com/example"), OrganizationError::Credential);
        assert_eq!(error("https://dev.azure.com/example?api-version=1"), OrganizationError::More('?'));
        assert_eq!(error("https://dev.azure.com/example#x"), OrganizationError::More('#'));
        for text in ["http://dev.azure.com/example", "http://127.0.0.1.example.com/x", "http://localhost.example/x"] {
            assert_eq!(error(text), OrganizationError::Scheme("http".into()), "{text}");
        }
        assert_eq!(error("ftp://127.0.0.1/x"), OrganizationError::Scheme("ftp".into()));
    }
}
