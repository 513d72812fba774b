//! A certificate authority that lives as long as the command that made it, for trying podlayer out and for tests.

use std::net::IpAddr;

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
    PKCS_ECDSA_P256_SHA256, SanType,
};
use rustls::pki_types::DnsName;
use time::{Duration, OffsetDateTime};

/// How far back certificates begin: clocks of two machines differ, and a caller whose clock is behind would otherwise
/// find them not yet valid.
const BACKDATED: Duration = Duration::minutes(5);
/// How long they last: clients of Apple's refuse more than 825 days, and nobody should run on these for even one year.
const LIFETIME: Duration = Duration::days(365);

/// A development CA. Its key is never given out, so nothing but leaves of this process will ever be trusted through it.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate: String,
}

/// What a server needs to be trusted by who trusts the [`Authority`].
pub struct Leaf {
    /// The certificate, as PEM.
    pub certificate: String,
    /// Its private key, as PEM in PKCS #8.
    pub key: String,
}

/// Why a certificate can't be made.
#[derive(Debug, thiserror::Error)]
pub enum DevError {
    /// The library refuses.
    #[error("the {0} can't be made")]
    Make(&'static str, #[source] rcgen::Error),
    /// A name isn't one.
    #[error("{0:?} isn't a DNS name; write one such as \"podlayer.podlayer.svc\"")]
    Name(String),
    /// Nobody could reach it under any name.
    #[error("the certificate needs at least one DNS name or IP address")]
    Nameless,
}

impl Authority {
    /// Makes a new CA with a P-256 key, valid from five minutes before `now` on.
    ///
    /// # Errors
    /// [`DevError::Make`] when there is no randomness to be had.
    pub fn new(now: OffsetDateTime) -> Result<Self, DevError> {
        let key = key()?;
        // Another subject than the leaf's: a leaf whose subject is its issuer's passes for self-signed.
        let mut params = params("podlayer development CA", now);
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let certificate = params.self_signed(&key).map_err(|source| DevError::Make("CA", source))?.pem();
        Ok(Self { issuer: Issuer::new(params, key), certificate })
    }

    /// The certificate of the CA, as PEM: what goes into `caBundle`.
    pub fn certificate(&self) -> &str {
        &self.certificate
    }

    /// Makes a leaf for a server that is reached under these DNS names and IP addresses.
    ///
    /// # Errors
    /// [`DevError::Name`] for what isn't a DNS name, [`DevError::Nameless`] without any name and address.
    pub fn leaf(&self, names: &[String], addresses: &[IpAddr], now: OffsetDateTime) -> Result<Leaf, DevError> {
        if names.is_empty() && addresses.is_empty() {
            return Err(DevError::Nameless);
        }
        let make = |source| DevError::Make("leaf certificate", source);
        let key = key()?;
        let mut params = params("podlayer development webhook", now);
        for name in names {
            let bad = || DevError::Name(name.clone());
            DnsName::try_from(name.strip_prefix("*.").unwrap_or(name)).map_err(|_| bad())?;
            params.subject_alt_names.push(SanType::DnsName(name.as_str().try_into().map_err(|_| bad())?));
        }
        params.subject_alt_names.extend(addresses.iter().copied().map(SanType::IpAddress));
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.use_authority_key_identifier_extension = true;
        let certificate = params.signed_by(&key, &self.issuer).map_err(make)?.pem();
        Ok(Leaf { certificate, key: key.serialize_pem() })
    }
}

fn key() -> Result<KeyPair, DevError> {
    KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).map_err(|source| DevError::Make("key", source))
}

fn params(subject: &str, now: OffsetDateTime) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name.remove(DnType::CommonName);
    params.distinguished_name.push(DnType::CommonName, subject);
    params.not_before = now - BACKDATED;
    params.not_after = now + LIFETIME;
    params
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
        assert!(matches!(authority.leaf(&[], &[], now), Err(DevError::Nameless)));
        assert!(authority.leaf(&["*.example".to_owned()], &[], now).is_ok());
    }
}
