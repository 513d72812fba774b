use std::{fmt, str::FromStr};

/// The public name of the endpoint, such as `agents.example.com`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct DnsName(String);

/// Why a text is no public name.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum DnsNameError {
    /// It is an address of the internet protocol.
    #[error("{0} is an address, a certificate needs a name such as agents.example.com")]
    Address(String),
    /// It has something that no name has.
    #[error("{text:?} is no DNS name: {why}; write the name alone, such as agents.example.com")]
    Malformed {
        /// What was written.
        text: String,
        /// What is wrong with it.
        why: &'static str,
    },
}

impl DnsName {
    /// The name, in lower case.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for DnsName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for DnsName {
    type Err = DnsNameError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let malformed = |why| Err(DnsNameError::Malformed { text: text.to_owned(), why });
        let name = text.to_ascii_lowercase();
        let is_label = |label: &str| {
            let within = |c: u8| c.is_ascii_alphanumeric() || c == b'-';
            !label.is_empty() && !label.starts_with('-') && !label.ends_with('-') && label.bytes().all(within)
        };
        if name.parse::<std::net::IpAddr>().is_ok() {
            return Err(DnsNameError::Address(name));
        }
        match () {
            () if name.contains("://") => malformed("it begins as a URL does"),
            () if name.contains('/') => malformed("it has a path"),
            () if name.contains(':') => malformed("it has a port"),
            // RFC 1035, 2.3.4, without the root's dot.
            () if name.len() > 253 => malformed("it has more than 253 characters"),
            () if name.split('.').any(|label| label.len() > 63) => {
                malformed("a part of it has more than 63 characters")
            }
            () if !name.split('.').all(is_label) => malformed("its parts are letters, digits and - within"),
            () if !name.contains('.') => malformed("it has no dot, so nobody outside finds it"),
            () => Ok(Self(name)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_alone_is_taken_and_anything_else_said() {
        for good in ["agents.example.com", "a-1.b", "x.westeurope.cloudapp.azure.com"] {
            assert_eq!(good.parse::<DnsName>().unwrap().as_str(), good);
        }
        assert_eq!("Agents.Example.COM".parse::<DnsName>().unwrap().as_str(), "agents.example.com");
        for (bad, why) in [
            ("https://agents.example.com", "it begins as a URL does"),
            ("agents.example.com/acquire", "it has a path"),
            ("agents.example.com:443", "it has a port"),
            ("agents", "it has no dot, so nobody outside finds it"),
            ("agents..com", "its parts are letters, digits and - within"),
            ("agents.example.com.", "its parts are letters, digits and - within"),
            ("-a.example.com", "its parts are letters, digits and - within"),
            ("*.example.com", "its parts are letters, digits and - within"),
            ("", "its parts are letters, digits and - within"),
        ] {
            let error = bad.parse::<DnsName>().unwrap_err().to_string();
            let wanted = format!("{bad:?} is no DNS name: {why}; write the name alone, such as agents.example.com");
            assert_eq!(error, wanted);
        }
        let long = format!("{}.example.com", "a".repeat(64));
        assert!(long.parse::<DnsName>().unwrap_err().to_string().contains("more than 63"));
        let error = "192.0.2.1".parse::<DnsName>().unwrap_err().to_string();
        assert_eq!(error, "192.0.2.1 is an address, a certificate needs a name such as agents.example.com");
    }
}
