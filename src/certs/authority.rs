//! A certificate authority and what it signs.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
    PKCS_ECDSA_P256_SHA256, SanType,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, DnsName};
use sha2::{Digest, Sha256};
use time::OffsetDateTime;

use super::expiry::{self, Fields};
use super::serving::{Pair, PairError};

/// The subject of every leaf: another one than any CA's, for a leaf whose subject is its issuer's passes for self-signed.
const LEAF_SUBJECT: &str = "podlayer webhook";

/// The certificate of a CA: what somebody needs who is to trust its leaves.
#[derive(Clone, Eq, PartialEq)]
pub struct Certificate {
    der: CertificateDer<'static>,
    /// The first moment at which it holds.
    pub not_before: OffsetDateTime,
    /// The last moment at which it holds.
    pub not_after: OffsetDateTime,
}

/// A CA: its certificate and the key that signs. Two are equal when their certificates are.
#[derive(Clone)]
pub struct Ca {
    certificate: Certificate,
    key: String,
    issuer: Arc<Issuer<'static, KeyPair>>,
}

/// What a server needs to be trusted by who trusts its CA.
pub struct Leaf {
    /// The certificate, as PEM.
    pub certificate: String,
    /// Its private key, as PEM in PKCS #8.
    pub key: String,
}

/// From when to when a certificate holds; whole seconds, as certificates can say no finer.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Window {
    /// The first moment.
    pub from: OffsetDateTime,
    /// The last one.
    pub to: OffsetDateTime,
}

/// Why a certificate can't be made.
#[derive(Debug, thiserror::Error)]
pub enum MakeError {
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

/// Why two texts aren't a CA of podlayer's.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The certificate's DER can't be read.
    #[error("the certificate isn't one")]
    Certificate,
    /// Leaves that name it as their issuer would not be found to be its.
    #[error("the certificate's subject isn't the one that podlayer gives to this key, so podlayer didn't make it")]
    Foreign,
    /// The key's kind isn't podlayer's.
    #[error("the key isn't one for ECDSA with P-256")]
    Key(#[source] rcgen::Error),
    /// Certificate and key don't belong together, or one isn't PEM.
    #[error(transparent)]
    Pair(#[from] PairError),
}

impl Certificate {
    /// Reads a certificate; `None` when that isn't one.
    pub fn from_der(der: CertificateDer<'_>) -> Option<Self> {
        let der = der.into_owned();
        let Fields { not_before, not_after, .. } = expiry::fields(&der)?;
        Some(Self { der, not_before, not_after })
    }

    /// Every certificate in a PEM text, each once; what is none is left out.
    pub fn all_in(pem: &[u8]) -> Vec<Self> {
        let mut found: Vec<Self> = Vec::new();
        for certificate in CertificateDer::pem_slice_iter(pem).map_while(Result::ok).filter_map(Self::from_der) {
            if !found.contains(&certificate) {
                found.push(certificate);
            }
        }
        found
    }

    /// The certificate as PEM: always the same text for the same certificate.
    pub fn pem(&self) -> String {
        let text = STANDARD.encode(&self.der);
        let mut pem = String::from("-----BEGIN CERTIFICATE-----\n");
        // Base64 is ASCII, so that each byte is a character.
        for line in text.as_bytes().chunks(64) {
            pem.push_str(&String::from_utf8_lossy(line));
            pem.push('\n');
        }
        pem.push_str("-----END CERTIFICATE-----\n");
        pem
    }

    /// Whether it holds at this moment.
    pub fn holds_at(&self, now: OffsetDateTime) -> bool {
        self.not_before <= now && now <= self.not_after
    }

    /// Its DER, by which certificates are compared and put in order.
    pub fn der(&self) -> &[u8] {
        &self.der
    }
}

impl fmt::Debug for Certificate {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Certificate").field("not_after", &self.not_after).finish_non_exhaustive()
    }
}

impl Ca {
    /// Makes a new CA with a P-256 key. Its subject is of its key, so that the CAs of two rotations have two names.
    ///
    /// # Errors
    /// [`MakeError::Make`] when there is no randomness to be had.
    pub fn create(window: Window) -> Result<Self, MakeError> {
        let key = new_key()?;
        let subject = subject_of(&key);
        Self::with_key(key, &subject, window)
    }

    /// Makes a CA of this key and subject.
    ///
    /// # Errors
    /// [`MakeError::Make`] when the library refuses.
    pub(super) fn with_key(key: KeyPair, subject: &str, window: Window) -> Result<Self, MakeError> {
        let params = ca_params(subject, window);
        let signed = params.self_signed(&key).map_err(|source| MakeError::Make("CA", source))?;
        let certificate = Certificate::from_der(signed.der().clone())
            .ok_or(MakeError::Make("CA", rcgen::Error::CouldNotParseCertificate))?;
        Ok(Self { certificate, key: key.serialize_pem(), issuer: Arc::new(Issuer::new(params, key)) })
    }

    /// Reads a CA that [`Ca::create`] made.
    ///
    /// # Errors
    /// [`ReadError`] with what is wrong.
    pub fn from_pem(certificate: &[u8], key: &[u8]) -> Result<Self, ReadError> {
        // That the two belong together, and how PEM may be wrong, is looked into there.
        Pair::from_pem(certificate, key)?;
        let der = CertificateDer::from_pem_slice(certificate).map_err(PairError::CertificatePem)?;
        let Fields { not_before, not_after, subject } = expiry::fields(&der).ok_or(ReadError::Certificate)?;
        let text = String::from_utf8_lossy(key).into_owned();
        let key = KeyPair::from_pkcs8_pem_and_sign_algo(&text, &PKCS_ECDSA_P256_SHA256).map_err(ReadError::Key)?;
        let name = subject_of(&key);
        if !subject.ends_with(name.as_bytes()) {
            return Err(ReadError::Foreign);
        }
        let params = ca_params(&name, Window { from: not_before, to: not_after });
        let certificate = Certificate { der, not_before, not_after };
        Ok(Self { certificate, key: text, issuer: Arc::new(Issuer::new(params, key)) })
    }

    /// Its certificate.
    pub fn certificate(&self) -> &Certificate {
        &self.certificate
    }

    /// Its key as PEM: for the Secret, and for nothing else.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Makes a leaf for a server that is reached under these DNS names and IP addresses.
    ///
    /// # Errors
    /// [`MakeError::Name`] for what isn't a DNS name, [`MakeError::Nameless`] without any name and address.
    pub fn leaf(&self, names: &[String], addresses: &[IpAddr], window: Window) -> Result<Leaf, MakeError> {
        let key = new_key()?;
        let mut params = params(LEAF_SUBJECT, window);
        params.subject_alt_names = alternative_names(names, addresses)?;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.use_authority_key_identifier_extension = true;
        let made = params.signed_by(&key, &self.issuer);
        let certificate = made.map_err(|source| MakeError::Make("leaf certificate", source))?.pem();
        Ok(Leaf { certificate, key: key.serialize_pem() })
    }
}

impl PartialEq for Ca {
    fn eq(&self, other: &Self) -> bool {
        self.certificate == other.certificate
    }
}

impl fmt::Debug for Ca {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Never the key.
        formatter.debug_struct("Ca").field("not_after", &self.certificate.not_after).finish_non_exhaustive()
    }
}

/// The names as they stand in a leaf.
///
/// # Errors
/// [`MakeError::Name`] and [`MakeError::Nameless`].
pub(super) fn alternative_names(names: &[String], addresses: &[IpAddr]) -> Result<Vec<SanType>, MakeError> {
    if names.is_empty() && addresses.is_empty() {
        return Err(MakeError::Nameless);
    }
    let mut found = Vec::new();
    for name in names {
        let bad = || MakeError::Name(name.clone());
        DnsName::try_from(name.strip_prefix("*.").unwrap_or(name)).map_err(|_| bad())?;
        found.push(SanType::DnsName(name.as_str().try_into().map_err(|_| bad())?));
    }
    found.extend(addresses.iter().copied().map(SanType::IpAddress));
    Ok(found)
}

/// A new P-256 key: the one kind that every TLS library knows and that is small and quick.
pub(super) fn new_key() -> Result<KeyPair, MakeError> {
    KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).map_err(|source| MakeError::Make("key", source))
}

/// The common name of the CA with this key. It follows from the key, so that nothing but the key is needed to sign.
pub(super) fn subject_of(key: &KeyPair) -> String {
    let digest = Sha256::digest(key.public_key_raw());
    let digits: String = digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    format!("podlayer CA {digits}")
}

fn ca_params(subject: &str, window: Window) -> CertificateParams {
    let mut params = params(subject, window);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params
}

fn params(subject: &str, window: Window) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name.remove(DnType::CommonName);
    params.distinguished_name.push(DnType::CommonName, subject);
    params.not_before = window.from;
    params.not_after = window.to;
    params
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn window() -> Window {
        let now = OffsetDateTime::now_utc();
        Window { from: now - Duration::from_secs(300), to: now + Duration::from_secs(3600) }
    }

    #[test]
    fn a_ca_read_again_signs_what_those_trust_who_trusted_it_before() {
        let made = Ca::create(window()).unwrap();
        let read = Ca::from_pem(made.certificate().pem().as_bytes(), made.key().as_bytes()).unwrap();
        assert_eq!(read, made);
        let leaf = read.leaf(&["a.example".to_owned()], &[], window()).unwrap();
        let leaf = CertificateDer::from_pem_slice(leaf.certificate.as_bytes()).unwrap();
        let mut roots = rustls::RootCertStore::empty();
        roots.add(made.certificate().der.clone()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier =
            rustls::client::WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build().unwrap();
        let verify = |name: &'static str| {
            use rustls::client::danger::ServerCertVerifier;
            let name = name.try_into().unwrap();
            verifier.verify_server_cert(&leaf, &[], &name, &[], rustls::pki_types::UnixTime::now()).is_ok()
        };
        assert!(verify("a.example"));
        assert!(!verify("b.example"));
        let subject = expiry::fields(&leaf).unwrap().subject;
        assert_ne!(subject, expiry::fields(&made.certificate().der).unwrap().subject);
    }

    #[test]
    fn what_is_no_ca_of_ours_is_told_apart() {
        let [one, two] = [(), ()].map(|()| Ca::create(window()).unwrap());
        let read = |certificate: &str, key: &str| match Ca::from_pem(certificate.as_bytes(), key.as_bytes()) {
            Ok(_) => String::new(),
            Err(error) => error.to_string(),
        };
        let pem = one.certificate().pem();
        assert_eq!(read(&pem, one.key()), "");
        assert_eq!(read(&pem, two.key()), "the key doesn't belong to the certificate");
        assert_eq!(read("", one.key()), "the certificate has no block \"BEGIN CERTIFICATE\"");
        assert_eq!(read(&pem[..200], one.key()), "the certificate isn't whole PEM");
        let foreign = Ca::with_key(new_key().unwrap(), "somebody's CA", window()).unwrap();
        let told = read(&foreign.certificate().pem(), foreign.key());
        assert!(told.contains("podlayer didn't make it"), "{told}");
    }

    #[test]
    fn a_text_with_several_certificates_gives_each_once_and_leaves_out_what_is_none() {
        let [one, two] = [(), ()].map(|()| Ca::create(window()).unwrap().certificate().clone());
        let nonsense = "-----BEGIN CERTIFICATE-----\nbm9uc2Vuc2U=\n-----END CERTIFICATE-----\n";
        let text = format!("# a comment\n{}{nonsense}{}{}", one.pem(), two.pem(), one.pem());
        assert_eq!(Certificate::all_in(text.as_bytes()), [one, two]);
        assert_eq!(Certificate::all_in(b"nothing"), []);
    }

    #[test]
    fn no_key_is_ever_in_what_is_printed() {
        let ca = Ca::create(window()).unwrap();
        let shown = format!("{ca:?}");
        assert!(!shown.contains("PRIVATE") && shown.len() < 120, "{shown}");
    }
}
