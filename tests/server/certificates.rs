use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::Duration;

use podlayer::certs::dev::{Authority, Leaf};
use podlayer::certs::files::Files;
use podlayer::telemetry::Metrics;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use tempfile::TempDir;
use time::OffsetDateTime;
use tokio::task::AbortHandle;

use crate::support::{HANG, Served, local_authority, measuring, patient};

/// A webhook whose certificate comes from a folder that looks like a Secret's volume: `tls.crt` is a link to
/// `..data/tls.crt`, and `..data` a link to the folder of the version in force.
struct Mounted {
    served: Served,
    folder: TempDir,
    authority: Authority,
    watch: AbortHandle,
}

impl Mounted {
    async fn start() -> (Self, CertificateDer<'static>) {
        let (authority, roots) = local_authority();
        let folder = tempfile::tempdir().unwrap();
        let first = leaf(&authority);
        publish(folder.path(), "1", &first);
        for name in ["tls.crt", "tls.key"] {
            symlink(Path::new("..data").join(name), folder.path().join(name)).unwrap();
        }
        let metrics = Metrics::new();
        let files = Files { certificate: folder.path().join("tls.crt"), key: folder.path().join("tls.key") };
        let watched = files.load(metrics.clone()).unwrap();
        let serving = watched.serving();
        let watch = tokio::spawn(watched.keep_looking(Duration::from_millis(20))).abort_handle();
        let served = Served::start_with(serving, roots, measuring(), patient(), metrics).await;
        (Self { served, folder, authority, watch }, der(&first))
    }

    /// What a new handshake is shown.
    async fn shown(&self) -> CertificateDer<'static> {
        let client = self.served.connect().await;
        client.stream.get_ref().1.peer_certificates().unwrap()[0].clone().into_owned()
    }

    async fn until_shown(&self, want: &CertificateDer<'static>) {
        let start = tokio::time::Instant::now();
        while self.shown().await != *want {
            assert!(start.elapsed() < HANG, "the new certificate is never served");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Waits until the files have been looked at and found wanting this many times more.
    async fn until_failed(&self, times: usize) {
        let target = self.failures() + times;
        let start = tokio::time::Instant::now();
        while self.failures() < target {
            assert!(start.elapsed() < HANG, "no look fails");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    fn failures(&self) -> usize {
        let text = self.served.metrics.text();
        let name = "podlayer_certificate_reloads_total{result=\"failed\"} ";
        text.lines().find_map(|line| line.strip_prefix(name)).unwrap().parse().unwrap()
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        self.watch.abort();
        self.served.task.abort();
    }
}

fn leaf(authority: &Authority) -> Leaf {
    authority.leaf(&["localhost".to_owned()], &[], OffsetDateTime::now_utc()).unwrap()
}

fn der(leaf: &Leaf) -> CertificateDer<'static> {
    CertificateDer::from_pem_slice(leaf.certificate.as_bytes()).unwrap()
}

/// As the kubelet does it: a new folder, a new link to it, and the link renamed over the one before.
fn publish(folder: &Path, version: &str, leaf: &Leaf) {
    let name = format!("..{version}");
    std::fs::create_dir(folder.join(&name)).unwrap();
    std::fs::write(folder.join(&name).join("tls.crt"), &leaf.certificate).unwrap();
    std::fs::write(folder.join(&name).join("tls.key"), &leaf.key).unwrap();
    symlink(&name, folder.join("..data_tmp")).unwrap();
    std::fs::rename(folder.join("..data_tmp"), folder.join("..data")).unwrap();
}

#[tokio::test]
async fn a_renewed_secret_is_served_to_the_next_handshake_while_open_connections_go_on() {
    let (mounted, first) = Mounted::start().await;
    assert_eq!(mounted.shown().await, first);
    let mut open = mounted.served.connect().await;
    for version in ["2", "3", "4"] {
        let next = leaf(&mounted.authority);
        publish(mounted.folder.path(), version, &next);
        mounted.until_shown(&der(&next)).await;
        assert_eq!(open.post("/mutate", b"{}").await.status, 200);
    }
    let text = mounted.served.metrics.text();
    assert!(text.contains("podlayer_certificate_reloads_total{result=\"changed\"} 3\n"), "{text}");
    assert!(text.contains("podlayer_certificate_expiry_timestamp_seconds{certificate=\"serving\"} "), "{text}");
}

#[tokio::test]
async fn a_pair_that_does_not_fit_keeps_the_one_before() {
    let (mounted, first) = Mounted::start().await;
    let (certificate, key) = (leaf(&mounted.authority), leaf(&mounted.authority));
    publish(mounted.folder.path(), "2", &Leaf { certificate: certificate.certificate, key: key.key });
    mounted.until_failed(2).await;
    assert_eq!(mounted.shown().await, first);
    let next = leaf(&mounted.authority);
    publish(mounted.folder.path(), "3", &next);
    mounted.until_shown(&der(&next)).await;
}

#[tokio::test]
async fn files_that_vanish_for_a_while_are_missed_counted_and_read_again() {
    let (mounted, first) = Mounted::start().await;
    let data = mounted.folder.path().join("..data");
    std::fs::remove_file(&data).unwrap();
    mounted.until_failed(3).await;
    assert_eq!(mounted.shown().await, first);
    let next = leaf(&mounted.authority);
    publish(mounted.folder.path(), "2", &next);
    mounted.until_shown(&der(&next)).await;
}

#[tokio::test]
async fn a_file_written_in_place_and_half_is_not_served() {
    let (mounted, first) = Mounted::start().await;
    let next = leaf(&mounted.authority);
    let file = |name: &str| mounted.folder.path().join("..1").join(name);
    std::fs::write(file("tls.crt"), &next.certificate[..next.certificate.len() / 2]).unwrap();
    mounted.until_failed(2).await;
    assert_eq!(mounted.shown().await, first);
    std::fs::write(file("tls.crt"), &next.certificate).unwrap();
    mounted.until_failed(2).await;
    assert_eq!(mounted.shown().await, first, "the key is still the other's");
    std::fs::write(file("tls.key"), &next.key).unwrap();
    mounted.until_shown(&der(&next)).await;
}
