//! Who may call the webhook, where that is restricted: the CA of the callers' certificates, reloaded.

use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::ring;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{VerifierBuilderError, WebPkiClientVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, Error, RootCertStore, SignatureScheme};

/// Why no caller could be known by a file.
#[derive(Debug, thiserror::Error)]
pub enum ClientsError {
    /// A certificate in it can't be a CA.
    #[error("{file:?} holds a certificate that can't be a CA")]
    Authority {
        /// The file.
        file: PathBuf,
        /// What is wrong.
        source: Error,
    },
    /// It has no certificate.
    #[error("{file:?} has no block \"BEGIN CERTIFICATE\"; write the CA that signs the API server's client certificate")]
    Empty {
        /// The file.
        file: PathBuf,
    },
    /// It isn't PEM.
    #[error("{file:?} isn't whole PEM")]
    Pem {
        /// The file.
        file: PathBuf,
        /// What is wrong.
        source: pem::Error,
    },
    /// It can't be read.
    #[error("{file:?} can't be read")]
    Read {
        /// The file.
        file: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// TLS can't use it.
    #[error("{file:?} can't be used to check callers")]
    Unusable {
        /// The file.
        file: PathBuf,
        /// Why.
        source: VerifierBuilderError,
    },
}

/// Accepts callers whose certificate a CA of a file has signed, and nobody else. The file is read again when it changes;
/// one that can't be used leaves the one before in force.
pub struct Clients {
    file: PathBuf,
    // Held for the length of one clone of an `Arc`.
    current: RwLock<Current>,
}

struct Current {
    text: Vec<u8>,
    verifier: Arc<dyn ClientCertVerifier>,
}

impl Clients {
    /// Reads the file for the first time.
    ///
    /// # Errors
    /// [`ClientsError`].
    pub fn load(file: PathBuf) -> Result<Arc<Self>, ClientsError> {
        let text = read(&file)?;
        let verifier = verifier(&file, &text)?;
        Ok(Arc::new(Self { file, current: RwLock::new(Current { text, verifier }) }))
    }

    /// Looks at the file once; says whether another CA is in force now.
    ///
    /// # Errors
    /// [`ClientsError`]; what was in force before still is.
    pub fn look(&self) -> Result<bool, ClientsError> {
        let text = read(&self.file)?;
        if self.current.read().unwrap_or_else(PoisonError::into_inner).text == text {
            return Ok(false);
        }
        let verifier = verifier(&self.file, &text)?;
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = Current { text, verifier };
        Ok(true)
    }

    /// Looks at the file at this interval until the future is dropped.
    pub async fn keep_looking(self: Arc<Self>, interval: Duration) -> ! {
        let mut told = String::new();
        loop {
            tokio::time::sleep(interval).await;
            let clients = Arc::clone(&self);
            // Off the threads that answer calls: a volume may hang.
            match tokio::task::spawn_blocking(move || clients.look()).await {
                Ok(Ok(changed)) => {
                    if changed {
                        tracing::info!(file = ?self.file, "callers are known by a new CA");
                    }
                    told.clear();
                }
                Ok(Err(error)) => {
                    let text = error.to_string();
                    if told != text {
                        tracing::warn!(error = text, "callers are still known by the CA before");
                        told = text;
                    }
                }
                // The runtime is ending.
                Err(_) => {}
            }
        }
    }

    fn verifier(&self) -> Arc<dyn ClientCertVerifier> {
        Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner).verifier)
    }
}

impl ClientCertVerifier for Clients {
    /// None: it is a hint only, and would have to outlive a reload. An API server sends the one certificate that it is
    /// configured with.
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        self.verifier().verify_client_cert(end_entity, intermediates, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verifier().verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verifier().verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.verifier().supported_verify_schemes()
    }
}

impl fmt::Debug for Clients {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Clients").field("file", &self.file).finish_non_exhaustive()
    }
}

fn read(file: &std::path::Path) -> Result<Vec<u8>, ClientsError> {
    std::fs::read(file).map_err(|source| ClientsError::Read { file: file.to_owned(), source })
}

fn verifier(file: &std::path::Path, text: &[u8]) -> Result<Arc<dyn ClientCertVerifier>, ClientsError> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(text) {
        let certificate = certificate.map_err(|source| ClientsError::Pem { file: file.to_owned(), source })?;
        roots.add(certificate).map_err(|source| ClientsError::Authority { file: file.to_owned(), source })?;
    }
    if roots.is_empty() {
        return Err(ClientsError::Empty { file: file.to_owned() });
    }
    let builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::new(ring::default_provider()));
    let verifier = builder.build().map_err(|source| ClientsError::Unusable { file: file.to_owned(), source })?;
    Ok(verifier)
}
