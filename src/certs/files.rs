//! A certificate and its key in two files, such as those of a mounted Secret, looked at again and again.

use std::fs::File;
use std::io;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::serving::{Pair, PairError, Serving};
use crate::telemetry::{Metrics, Reload, log::with_causes};

/// How often the files are looked at: a renewed Secret reaches its volume within about a minute, so this adds little, and
/// two small reads cost nothing. Their content is compared: a Secret volume is changed by swapping a symbolic link, which
/// leaves a watch on the file with the old one for ever.
pub const POLL_INTERVAL: Duration = Duration::from_secs(10);

/// A chain is a few KiB; this keeps a wrong path (a log, a device) from filling the memory.
const MAX_BYTES: u64 = 1 << 20;

/// Where the certificate chain and its key stand.
#[derive(Clone, Debug)]
pub struct Files {
    /// PEM, the leaf first: `tls.crt`.
    pub certificate: PathBuf,
    /// PEM: `tls.key`.
    pub key: PathBuf,
}

/// Why the files can't be used.
#[derive(Debug, thiserror::Error)]
pub enum FilesError {
    /// Too large.
    #[error("the file {file:?} is over 1 MiB, so it is no certificate or key")]
    Large {
        /// The file.
        file: PathBuf,
    },
    /// They were read, and can't be served.
    #[error("the certificate {certificate:?} with the key {key:?} can't be served")]
    Pair {
        /// The file with the chain.
        certificate: PathBuf,
        /// The file with the key.
        key: PathBuf,
        /// What is wrong with which of the two.
        #[source]
        source: PairError,
    },
    /// Not readable.
    #[error("the file {file:?} can't be read")]
    Read {
        /// The file.
        file: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
}

/// Files whose content is served, and looked at for a newer one.
#[derive(Debug)]
pub struct Watched {
    files: Files,
    content: Content,
    serving: Arc<Serving>,
    /// What the last look found wrong, if it did.
    complaint: Option<String>,
    metrics: Metrics,
}

/// What one look at the files found.
#[derive(Debug)]
pub enum Look {
    /// A new pair, which is now served.
    Changed,
    /// Something that can't be served; what was served before still is.
    Failed(FilesError),
    /// What is served already.
    Same,
}

#[derive(Debug, Eq, PartialEq)]
struct Content {
    certificate: Vec<u8>,
    key: Vec<u8>,
}

impl Files {
    /// Reads the files for the first time.
    ///
    /// # Errors
    /// [`FilesError`] at once when they can't be served: a webhook that can't be reached must not look as if it ran.
    pub fn load(self, metrics: Metrics) -> Result<Watched, FilesError> {
        let content = self.read()?;
        let serving = Serving::new(self.pair(&content)?, metrics.clone());
        Ok(Watched { files: self, content, serving, complaint: None, metrics })
    }

    fn read(&self) -> Result<Content, FilesError> {
        Ok(Content { certificate: read(&self.certificate)?, key: read(&self.key)? })
    }

    fn pair(&self, content: &Content) -> Result<Pair, FilesError> {
        Pair::from_pem(&content.certificate, &content.key).map_err(|source| FilesError::Pair {
            certificate: self.certificate.clone(),
            key: self.key.clone(),
            source,
        })
    }
}

impl Watched {
    /// What is served.
    pub fn serving(&self) -> Arc<Serving> {
        Arc::clone(&self.serving)
    }

    /// Looks at the files once. A pair of which one half is new and the other old is a failure like any other: the next
    /// look finds it whole.
    pub fn look(&mut self) -> Look {
        let content = self.files.read();
        self.compare(content)
    }

    /// Looks at the files at this interval until the future is dropped.
    pub async fn keep_looking(mut self, interval: Duration) -> ! {
        loop {
            tokio::time::sleep(interval).await;
            let files = self.files.clone();
            // Off the threads that answer calls: a volume may hang.
            if let Ok(content) = tokio::task::spawn_blocking(move || files.read()).await {
                self.compare(content);
            }
        }
    }

    fn compare(&mut self, content: Result<Content, FilesError>) -> Look {
        let pair = match content {
            Ok(content) if content == self.content => {
                if self.complaint.take().is_some() {
                    tracing::info!("the certificate files are as they were before");
                }
                return Look::Same;
            }
            Ok(content) => self.files.pair(&content).map(|pair| (content, pair)),
            Err(error) => Err(error),
        };
        match pair {
            Ok((content, pair)) => {
                tracing::info!(certificate = ?self.files.certificate, not_after = ?pair.not_after(), "new certificate");
                self.serving.replace(pair);
                self.content = content;
                self.complaint = None;
                self.metrics.reloaded(Reload::Changed);
                Look::Changed
            }
            Err(error) => {
                self.metrics.reloaded(Reload::Failed);
                // Counted at each look, told once: it may last for hours.
                let complaint = with_causes(&error);
                if self.complaint.as_ref() != Some(&complaint) {
                    tracing::warn!(error = complaint, "the certificate before is still served");
                    self.complaint = Some(complaint);
                }
                Look::Failed(error)
            }
        }
    }
}

fn read(path: &Path) -> Result<Vec<u8>, FilesError> {
    let fail = |source| FilesError::Read { file: path.to_owned(), source };
    let mut content = Vec::new();
    File::open(path).map_err(fail)?.take(MAX_BYTES + 1).read_to_end(&mut content).map_err(fail)?;
    if content.len() as u64 > MAX_BYTES {
        return Err(FilesError::Large { file: path.to_owned() });
    }
    Ok(content)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::certs::dev::{Authority, Leaf};

    struct Folder(tempfile::TempDir, Authority);

    impl Folder {
        fn new() -> Self {
            Self(tempfile::tempdir().unwrap(), Authority::new(time::OffsetDateTime::now_utc()).unwrap())
        }

        fn files(&self) -> Files {
            Files { certificate: self.0.path().join("tls.crt"), key: self.0.path().join("tls.key") }
        }

        fn leaf(&self) -> Leaf {
            self.1.leaf(&["a.example".to_owned()], &[], time::OffsetDateTime::now_utc()).unwrap()
        }

        fn write(&self, certificate: &str, key: &str) {
            std::fs::write(self.files().certificate, certificate).unwrap();
            std::fs::write(self.files().key, key).unwrap();
        }
    }

    #[test]
    fn the_first_load_fails_fast_and_names_the_file() {
        let folder = Folder::new();
        let [one, two] = [folder.leaf(), folder.leaf()];
        let load = || with_causes(&folder.files().load(Metrics::new()).unwrap_err());
        assert!(load().contains("tls.crt\" can't be read: "), "{}", load());
        std::fs::write(folder.files().certificate, &one.certificate).unwrap();
        assert!(load().contains("tls.key\" can't be read: "), "{}", load());
        folder.write(&one.certificate, &two.key);
        assert!(load().ends_with("tls.key\" can't be served: the key doesn't belong to the certificate"), "{}", load());
        folder.write("", &two.key);
        assert!(load().contains("tls.crt\" with") && load().contains("the certificate has no block"), "{}", load());
        folder.write(&"x".repeat(MAX_BYTES as usize + 1), &two.key);
        assert!(load().contains("tls.crt\" is over 1 MiB"), "{}", load());
        folder.write(&one.certificate, &one.key);
        assert!(folder.files().load(Metrics::new()).is_ok());
    }

    #[test]
    fn a_half_written_pair_keeps_the_old_one_and_is_counted_each_time() {
        let folder = Folder::new();
        let [one, two] = [folder.leaf(), folder.leaf()];
        folder.write(&one.certificate, &one.key);
        let metrics = Metrics::new();
        let mut watched = folder.files().load(metrics.clone()).unwrap();
        assert!(matches!(watched.look(), Look::Same));
        folder.write(&two.certificate, &one.key);
        assert!(matches!(watched.look(), Look::Failed(_)));
        assert!(matches!(watched.look(), Look::Failed(_)));
        folder.write(&two.certificate, &two.key);
        assert!(matches!(watched.look(), Look::Changed));
        assert!(matches!(watched.look(), Look::Same));
        let text = metrics.text();
        assert!(text.contains("reloads_total{result=\"failed\"} 2\n"), "{text}");
        assert!(text.contains("reloads_total{result=\"changed\"} 1\n"), "{text}");
    }

    #[test]
    fn files_that_come_back_as_they_were_end_the_complaint() {
        let folder = Folder::new();
        let one = folder.leaf();
        folder.write(&one.certificate, &one.key);
        let mut watched = folder.files().load(Metrics::new()).unwrap();
        std::fs::remove_file(folder.files().key).unwrap();
        assert!(matches!(watched.look(), Look::Failed(FilesError::Read { .. })));
        folder.write(&one.certificate, &one.key);
        assert!(matches!(watched.look(), Look::Same));
        assert!(watched.complaint.is_none());
    }
}
