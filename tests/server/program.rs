//! The real `podlayer webhook` with layers in files.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::Value;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::support::{Client, within};

/// A running webhook; ended when dropped.
pub(crate) struct Program {
    child: Child,
    folder: TempDir,
    /// Its line in the log that says where it listens.
    listening: Value,
}

impl Program {
    /// Starts it with layers in these files, everything in its log, and waits until it listens.
    pub(crate) async fn start(layers: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        std::fs::create_dir(path("layers")).unwrap();
        for (name, text) in layers {
            std::fs::write(path("layers").join(name), text).unwrap();
        }
        let program = env!("CARGO_BIN_EXE_podlayer");
        let made = Command::new(program).args(["certs", "--out"]).arg(path("certs")).output().unwrap();
        assert!(made.status.success());
        let out = std::fs::File::create(path("out")).unwrap();
        let child = Command::new(program)
            .args(["webhook", "--addr", "127.0.0.1:0", "--admin-addr", "127.0.0.1:0"])
            .args(["--log-format", "json", "--log-filter", "trace"])
            .arg("--layers")
            .arg(path("layers"))
            .arg("--tls-cert")
            .arg(path("certs/tls.crt"))
            .arg("--tls-key")
            .arg(path("certs/tls.key"))
            .stdout(out.try_clone().unwrap())
            .stderr(out)
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        let mut program = Self { child, folder, listening: Value::Null };
        program.listening = within(async {
            loop {
                if let Some(line) = program.log().lines().find(|line| line.contains("listening")) {
                    return serde_json::from_str(line).unwrap();
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        })
        .await;
        program
    }

    /// One of its layer files.
    pub(crate) fn layer(&self, name: &str) -> PathBuf {
        self.folder.path().join("layers").join(name)
    }

    /// A file of the kernel's about its process.
    pub(crate) fn of_kernel(&self, file: &str) -> String {
        std::fs::read_to_string(format!("/proc/{}/{file}", self.child.id())).unwrap()
    }

    /// All that it wrote so far.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("out")).unwrap()
    }

    pub(crate) async fn connect(&self) -> Client {
        let mut roots = RootCertStore::empty();
        let ca = self.folder.path().join("certs/ca.crt");
        roots.add(CertificateDer::from_pem_file(ca).unwrap()).unwrap();
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let tcp = TcpStream::connect(self.listening["webhook"].as_str().unwrap()).await.unwrap();
        let name = ServerName::try_from("localhost").unwrap();
        Client::over(TlsConnector::from(Arc::new(config)).connect(name, tcp).await.unwrap())
    }

    /// What the admin port answers, head and body.
    pub(crate) async fn page(&self, page: &str) -> String {
        let mut admin = TcpStream::connect(self.listening["admin"].as_str().unwrap()).await.unwrap();
        let request = format!("GET {page} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        admin.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        within(admin.read_to_string(&mut answer)).await.unwrap();
        answer
    }

    /// Ends it; gives all that it wrote.
    pub(crate) fn end(&mut self) -> String {
        let _ = self.child.kill();
        let _ = self.child.wait();
        self.log()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.end();
    }
}
