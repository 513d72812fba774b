//! A certificate authority that lives as long as the command that made it, for trying podlayer out and for tests.

use std::net::IpAddr;

use time::{Duration, OffsetDateTime};

use super::authority::{Ca, Window, new_key};

pub use super::authority::{Leaf, MakeError};

/// How far back certificates begin: clocks of two machines differ, and a caller whose clock is behind would otherwise
/// find them not yet valid.
const BACKDATED: Duration = Duration::minutes(5);
/// How long they last: clients of Apple's refuse more than 825 days, and nobody should run on these for even one year.
const LIFETIME: Duration = Duration::days(365);

/// A development CA. Its key is never given out, so nothing but leaves of this process will ever be trusted through it.
pub struct Authority {
    ca: Ca,
    certificate: String,
}

impl Authority {
    /// Makes a new CA with a P-256 key, valid from five minutes before `now` on.
    ///
    /// # Errors
    /// [`MakeError::Make`] when there is no randomness to be had.
    pub fn new(now: OffsetDateTime) -> Result<Self, MakeError> {
        let ca = Ca::with_key(new_key()?, "podlayer development CA", window(now))?;
        Ok(Self { certificate: ca.certificate().pem(), ca })
    }

    /// The certificate of the CA, as PEM: what goes into `caBundle`.
    pub fn certificate(&self) -> &str {
        &self.certificate
    }

    /// Makes a leaf for a server that is reached under these DNS names and IP addresses.
    ///
    /// # Errors
    /// [`MakeError::Name`] for what isn't a DNS name, [`MakeError::Nameless`] without any name and address.
    pub fn leaf(&self, names: &[String], addresses: &[IpAddr], now: OffsetDateTime) -> Result<Leaf, MakeError> {
        self.ca.leaf(names, addresses, window(now))
    }
}

fn window(now: OffsetDateTime) -> Window {
    Window { from: now - BACKDATED, to: now + LIFETIME }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_name_is_refused_by_name() {
        let now = OffsetDateTime::now_utc();
        let authority = Authority::new(now).unwrap();
        for name in ["", "a b", "ü.example", "-", "a..b", "10.0.0.1/8", "*"] {
            let Err(error) = authority.leaf(&["good.example".to_owned(), name.to_owned()], &[], now) else {
                panic!("{name:?} was taken");
            };
            assert!(error.to_string().starts_with(&format!("{name:?} isn't a DNS name")), "{error}");
        }
        assert!(matches!(authority.leaf(&[], &[], now), Err(MakeError::Nameless)));
        assert!(authority.leaf(&["*.example".to_owned()], &[], now).is_ok());
    }
}
