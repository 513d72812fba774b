use std::net::IpAddr;

use super::{
    options::{Dns, Options},
    tools::{Tool, ToolError},
};
use crate::azure::DnsName;

/// Below it, Azure gives its public addresses names: `LABEL.REGION.cloudapp.azure.com`.
pub const AZURE_ZONE: &str = "cloudapp.azure.com";

/// Why the name wasn't bound to the address.
#[derive(Debug, thiserror::Error)]
pub enum DnsError {
    /// az failed.
    #[error("failed to bind the name by az")]
    Az(#[from] ToolError),
    /// The load balancer has a name, which Azure's don't have.
    #[error("the address is the name {0}, so it is no public address of Azure: use --dns print")]
    NoAddress(String),
    /// az knows no such address.
    #[error(
        "az knows no public address {0} in the subscription that it uses: choose another by az account set, or use --dns \
         print"
    )]
    Unknown(IpAddr),
    /// Another region.
    #[error("the address is in another region: it is now called {there}, use that name as --dns-name")]
    OtherName {
        /// What it is called now.
        there: String,
    },
}

/// The label of a name that Azure can bind.
pub(super) fn label(name: &DnsName) -> Option<&str> {
    let (label, region) = name.as_str().strip_suffix(AZURE_ZONE)?.strip_suffix('.')?.split_once('.')?;
    (!region.contains('.')).then_some(label)
}

/// The record that somebody has to make.
pub(super) fn record(name: &DnsName, address: &str) -> String {
    let kind = match address.parse() {
        Ok(IpAddr::V4(_)) => "A",
        Ok(IpAddr::V6(_)) => "AAAA",
        Err(_) => "CNAME",
    };
    format!("{name} {kind} {address}")
}

/// Arguments of az that find the public address.
pub(super) fn find(options: &Options, address: &str) -> Vec<String> {
    let mut arguments: Vec<String> = ["network", "public-ip", "list"].map(str::to_owned).into();
    if let Dns::Az { resource_group: Some(group) } = &options.dns {
        arguments.extend(["--resource-group".to_owned(), group.clone()]);
    }
    arguments.extend(["--query".to_owned(), format!("[?ipAddress=='{address}'].id")]);
    arguments.extend(["--output".to_owned(), "tsv".to_owned()]);
    arguments
}

/// Arguments of az that give it its name, and print that.
pub(super) fn bind(id: &str, name: &DnsName) -> Vec<String> {
    let label = label(name).unwrap_or_default();
    let all = ["network", "public-ip", "update", "--ids", id, "--dns-name", label];
    let printed = ["--query", "dnsSettings.fqdn", "--output", "tsv"];
    all.into_iter().chain(printed).map(str::to_owned).collect()
}

/// Binds the name to the address by az.
pub(super) fn by_az(az: &Tool, options: &Options, address: &str) -> Result<(), DnsError> {
    let Ok(ip) = address.parse::<IpAddr>() else { return Err(DnsError::NoAddress(address.to_owned())) };
    let found = az.output(&find(options, address))?;
    let Some(id) = found.lines().map(str::trim).find(|line| !line.is_empty()) else {
        return Err(DnsError::Unknown(ip));
    };
    let there = az.output(&bind(id, &options.dns_name))?.trim().to_owned();
    if there == options.dns_name.as_str() { Ok(()) } else { Err(DnsError::OtherName { there }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_azures_own_zone_have_a_label() {
        let of = |name: &str| label(&name.parse().unwrap()).map(str::to_owned);
        assert_eq!(of("agents.westeurope.cloudapp.azure.com").as_deref(), Some("agents"));
        for other in ["agents.example.com", "westeurope.cloudapp.azure.com", "a.b.westeurope.cloudapp.azure.com"] {
            assert_eq!(of(other), None, "{other}");
        }
    }

    #[test]
    fn the_record_is_of_the_kind_that_the_address_needs() {
        let name = "agents.example.com".parse().unwrap();
        assert_eq!(record(&name, "192.0.2.1"), "agents.example.com A 192.0.2.1");
        assert_eq!(record(&name, "2001:db8::1"), "agents.example.com AAAA 2001:db8::1");
        assert_eq!(record(&name, "lb.example.net"), "agents.example.com CNAME lb.example.net");
    }
}
