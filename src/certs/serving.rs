//! The certificate that the webhook serves now, and how it is changed while it serves.

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use rustls::crypto::ring;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use time::OffsetDateTime;

use super::expiry;
use crate::telemetry::{CertificateUse, Metrics};

/// A certificate chain and the key that belongs to it. A `Pair` can be served; there is none that can't.
#[derive(Clone)]
pub struct Pair(Arc<CertifiedKey>);

/// Why a chain and a key can't be served.
#[derive(Debug, thiserror::Error)]
pub enum PairError {
    /// The chain isn't PEM.
    #[error("the certificate isn't whole PEM")]
    CertificatePem(#[source] pem::Error),
    /// The key is encrypted.
    #[error("the key is encrypted; write it without a passphrase, as PKCS #8")]
    KeyEncrypted,
    /// The key isn't PEM.
    #[error("the key isn't whole PEM")]
    KeyPem(#[source] pem::Error),
    /// No certificate in the chain.
    #[error("the certificate has no block \"BEGIN CERTIFICATE\"")]
    NoCertificate,
    /// No key.
    #[error("the key has no block \"BEGIN PRIVATE KEY\"")]
    NoKey,
    /// The key is another certificate's.
    #[error("the key doesn't belong to the certificate")]
    OtherKey,
    /// TLS can't use it.
    #[error("certificate and key can't be used for TLS")]
    Unusable(#[source] rustls::Error),
}

/// The pair that is served. TLS asks it at each handshake, so a change is in force with the next one; connections that are
/// open go on.
pub struct Serving {
    // Held for the length of one clone of an `Arc`; a whole pair is swapped, never half of it.
    pair: RwLock<Option<Arc<CertifiedKey>>>,
    metrics: Metrics,
}

impl Pair {
    /// Reads a chain (the leaf first) and its key.
    ///
    /// # Errors
    /// [`PairError`] with what is wrong.
    pub fn from_pem(chain: &[u8], key: &[u8]) -> Result<Self, PairError> {
        let chain: Vec<CertificateDer<'static>> =
            CertificateDer::pem_slice_iter(chain).collect::<Result<_, _>>().map_err(PairError::CertificatePem)?;
        if chain.is_empty() {
            return Err(PairError::NoCertificate);
        }
        let key = PrivateKeyDer::from_pem_slice(key).map_err(|error| match error {
            pem::Error::NoItemsFound if contains(key, b"BEGIN ENCRYPTED PRIVATE KEY") => PairError::KeyEncrypted,
            pem::Error::NoItemsFound => PairError::NoKey,
            _ => PairError::KeyPem(error),
        })?;
        match CertifiedKey::from_der(chain, key, &ring::default_provider()) {
            Ok(pair) => Ok(Self(Arc::new(pair))),
            Err(rustls::Error::InconsistentKeys(_)) => Err(PairError::OtherKey),
            Err(error) => Err(PairError::Unusable(error)),
        }
    }

    /// When the leaf ends; `None` if that can't be read out of it.
    pub fn not_after(&self) -> Option<OffsetDateTime> {
        self.0.cert.first().and_then(expiry::not_after)
    }
}

impl fmt::Debug for Pair {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Pair").field("not_after", &self.not_after()).finish_non_exhaustive()
    }
}

impl Serving {
    /// Serves this pair first.
    pub fn new(pair: Pair, metrics: Metrics) -> Arc<Self> {
        let serving = Self::empty(metrics);
        serving.replace(pair);
        serving
    }

    /// Has nothing to serve yet: until the first pair comes, handshakes fail with an alert.
    pub fn empty(metrics: Metrics) -> Arc<Self> {
        Arc::new(Self { pair: RwLock::default(), metrics })
    }

    /// Serves this pair from the next handshake on.
    pub fn replace(&self, pair: Pair) {
        self.tell(&pair);
        *self.pair.write().unwrap_or_else(PoisonError::into_inner) = Some(pair.0);
    }

    /// The pair that is served now, if there is one.
    pub fn pair(&self) -> Option<Pair> {
        self.pair.read().unwrap_or_else(PoisonError::into_inner).clone().map(Pair)
    }

    fn tell(&self, pair: &Pair) {
        if let Some(end) = pair.not_after() {
            self.metrics.certificate_expires(CertificateUse::Serving, end.unix_timestamp());
        }
    }
}

impl ResolvesServerCert for Serving {
    fn resolve(&self, _client: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.pair().map(|pair| pair.0)
    }
}

impl fmt::Debug for Serving {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Serving").field(&self.pair()).finish()
    }
}

fn contains(text: &[u8], word: &[u8]) -> bool {
    text.windows(word.len()).any(|window| window == word)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::certs::dev::Authority;

    #[test]
    fn each_way_to_be_wrong_is_told_apart() {
        let now = OffsetDateTime::now_utc();
        let authority = Authority::new(now).unwrap();
        let [one, two] =
            ["one.example", "two.example"].map(|name| authority.leaf(&[name.to_owned()], &[], now).unwrap());
        let read = |chain: &str, key: &str| match Pair::from_pem(chain.as_bytes(), key.as_bytes()) {
            Ok(_) => String::new(),
            Err(error) => format!("{error:?}").split(['(', ' ']).next().unwrap_or_default().to_owned(),
        };
        assert_eq!(read(&one.certificate, &one.key), "");
        assert_eq!(read(&format!("{}{}", one.certificate, authority.certificate()), &one.key), "");
        assert_eq!(read(&one.certificate, &two.key), "OtherKey");
        assert_eq!(read("", &one.key), "NoCertificate");
        assert_eq!(read(&one.key, &one.key), "NoCertificate");
        assert_eq!(read(&one.certificate, &one.certificate), "NoKey");
        assert_eq!(read(&one.certificate[..200], &one.key), "CertificatePem");
        assert_eq!(read(&one.certificate, &one.key[..60]), "KeyPem");
        assert_eq!(
            read(
                &one.certificate,
                &one.key
                    .replace("BEGIN PRIVATE", "BEGIN ENCRYPTED PRIVATE")
                    .replace("END PRIVATE", "END ENCRYPTED PRIVATE")
            ),
            "KeyEncrypted"
        );
        let nonsense = "-----BEGIN CERTIFICATE-----\nbm9uc2Vuc2U=\n-----END CERTIFICATE-----\n";
        assert_eq!(read(nonsense, &one.key), "Unusable");
        let nonsense = "-----BEGIN PRIVATE KEY-----\nbm9uc2Vuc2U=\n-----END PRIVATE KEY-----\n";
        assert_eq!(read(&one.certificate, nonsense), "Unusable");
    }

    #[test]
    fn the_expiry_of_what_is_served_is_a_metric() {
        let now = OffsetDateTime::now_utc();
        let leaf = Authority::new(now).unwrap().leaf(&["a.example".to_owned()], &[], now).unwrap();
        let pair = Pair::from_pem(leaf.certificate.as_bytes(), leaf.key.as_bytes()).unwrap();
        let metrics = Metrics::new();
        let _serving = Serving::new(pair.clone(), metrics.clone());
        let line =
            format!("timestamp_seconds{{certificate=\"serving\"}} {}\n", pair.not_after().unwrap().unix_timestamp());
        assert!(metrics.text().contains(&line), "{}", metrics.text());
    }
}
