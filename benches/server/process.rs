//! The webhook as a process.

use std::{
    error::Error,
    fs,
    net::{Ipv4Addr, SocketAddr, TcpListener},
    path::Path,
    process::{Child, Command, Stdio},
    sync::Arc,
    time::Duration,
};

use rustls::{
    ClientConfig, RootCertStore,
    crypto::ring,
    pki_types::{CertificateDer, pem::PemObject},
};

/// Ended when dropped.
pub(crate) struct Webhook {
    child: Child,
    pub(crate) address: SocketAddr,
    pub(crate) tls: Arc<ClientConfig>,
    _folder: tempfile::TempDir,
}

impl Webhook {
    /// Starts it with the recorded layers and waits until it serves.
    pub(crate) async fn start() -> Result<Self, Box<dyn Error>> {
        let program = env!("CARGO_BIN_EXE_podlayer");
        let folder = tempfile::tempdir()?;
        let made = Command::new(program).args(["certs", "--out"]).arg(folder.path()).output()?;
        if !made.status.success() {
            return Err(String::from_utf8_lossy(&made.stderr).into_owned().into());
        }
        let (address, admin) = (free()?, free()?);
        let layers = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/reviews/layers");
        let child = Command::new(program)
            .args([
                "webhook",
                "--log-filter",
                "warn",
                "--addr",
                &address.to_string(),
                "--admin-addr",
                &admin.to_string(),
            ])
            .arg("--layers")
            .arg(layers)
            .arg("--tls-cert")
            .arg(folder.path().join("tls.crt"))
            .arg("--tls-key")
            .arg(folder.path().join("tls.key"))
            .stdin(Stdio::null())
            .spawn()?;
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(folder.path().join("ca.crt"))?)?;
        let tls = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        let webhook = Self { child, address, tls: Arc::new(tls), _folder: folder };
        for _ in 0..200 {
            if tokio::net::TcpStream::connect(admin).await.is_ok() {
                return Ok(webhook);
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Err("the webhook doesn't start".into())
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Its resident memory in KiB.
    pub(crate) fn resident(&self) -> Result<u64, Box<dyn Error>> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).ok_or("no VmRSS")?;
        Ok(line.trim().trim_end_matches(" kB").parse()?)
    }
}

impl Drop for Webhook {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn free() -> std::io::Result<SocketAddr> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()
}
