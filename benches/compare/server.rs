use std::{
    env,
    error::Error,
    fs::{self, File},
    io::ErrorKind,
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
    time::Duration,
};

use rustls::ClientConfig;
use tokio::time::sleep;

use crate::{
    client::{Client, tcp, tls},
    common::{
        process::{Process, certificate, free, podlayer, trust},
        report::recorded,
    },
};

/// Who is compared.
#[derive(Clone, Copy, Debug, Eq, PartialEq, clap::ValueEnum)]
pub(crate) enum Kind {
    /// The program of this project.
    Podlayer,
    /// A Rust server that does nothing.
    NullRust,
    /// What people would write: Go on controller-runtime.
    Go,
    /// The same on net/http alone.
    GoRaw,
    /// The best that Go's libraries give.
    GoTuned,
    /// A Go server that does nothing.
    NullGo,
}

/// The word that makes the benchmark be the null server.
pub(crate) const SERVE_NULL: &str = "serve-null";

/// What all servers share.
pub(crate) struct Ground {
    folder: tempfile::TempDir,
    peers: PathBuf,
    core: Option<usize>,
}

/// One of them, serving.
pub(crate) struct Server {
    pub(crate) kind: Kind,
    pub(crate) address: SocketAddr,
    pub(crate) tls: Arc<ClientConfig>,
    pub(crate) process: Process,
    /// Its memory once it has answered one review, in KiB.
    pub(crate) idle: u64,
}

impl Kind {
    pub(crate) const ALL: [Self; 6] =
        [Self::Podlayer, Self::NullRust, Self::Go, Self::GoRaw, Self::GoTuned, Self::NullGo];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Podlayer => "podlayer",
            Self::NullRust => "null Rust",
            Self::Go => "Go",
            Self::GoRaw => "Go raw",
            Self::GoTuned => "Go tuned",
            Self::NullGo => "null Go",
        }
    }
}

impl Ground {
    /// Makes a certificate; the Go servers must be [built](build).
    pub(crate) fn new(core: Option<usize>) -> Result<Self, Box<dyn Error>> {
        let folder = tempfile::tempdir()?;
        certificate(folder.path())?;
        let peers = peers();
        Ok(Self { folder, peers, core })
    }

    /// Starts one with the recorded layers and waits until it answers a review.
    pub(crate) async fn serve(&self, kind: Kind, review: &[u8]) -> Result<Server, Box<dyn Error>> {
        let address = free()?;
        let certificates = self.folder.path();
        let (certificate, key, layers) =
            (certificates.join("tls.crt"), certificates.join("tls.key"), recorded().join("layers"));
        let go = |program: &str| {
            let mut command = Command::new(self.peers.join(program));
            command.args(["-addr", &address.to_string(), "-cert"]).arg(&certificate).arg("-key").arg(&key);
            command.arg("-layers").arg(&layers);
            command
        };
        let plain = |mode: &str| {
            let mut command = go("plain");
            command.args(["-mode", mode]);
            command
        };
        let command = match kind {
            Kind::Podlayer => {
                let mut command = podlayer();
                command.args(["webhook", "--log-filter", "warn", "--addr", &address.to_string()]);
                command.args(["--admin-addr", &free()?.to_string(), "--layers"]).arg(&layers);
                command.arg("--tls-cert").arg(&certificate).arg("--tls-key").arg(&key);
                command
            }
            Kind::NullRust => {
                let mut command = Command::new(env::current_exe()?);
                command.args([SERVE_NULL, &address.to_string()]).arg(certificates);
                command
            }
            Kind::Go => go("webhook"),
            Kind::GoRaw => plain("raw"),
            Kind::GoTuned => plain("tuned"),
            Kind::NullGo => plain("null"),
        };
        let log = certificates.join(format!("log-{}", address.port()));
        let mut process = Process::start(command, File::create(&log)?, self.core)
            .map_err(|error| format!("can't start {}: {error}", kind.name()))?;
        let tls = trust(certificates)?;
        let mut last = String::new();
        for _ in 0..400 {
            match ask(address, &tls, review).await {
                Ok(answer) => {
                    right(kind, review, &answer)?;
                    let idle = process.resident()?;
                    return Ok(Server { kind, address, tls, process, idle });
                }
                Err(error) => last = error.to_string(),
            }
            if let Some(status) = process.ended()? {
                let log = fs::read_to_string(&log).unwrap_or_default();
                return Err(format!("{} ended ({status}):\n{log}", kind.name()).into());
            }
            sleep(Duration::from_millis(50)).await;
        }
        Err(format!("{} doesn't answer: {last}", kind.name()).into())
    }
}

impl Server {
    /// A new connection with a whole handshake.
    pub(crate) async fn connect(&self) -> std::io::Result<Client> {
        connect(self.address, &self.tls).await
    }
}

pub(crate) async fn connect(address: SocketAddr, config: &Arc<ClientConfig>) -> std::io::Result<Client> {
    let stream = tcp(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), address).await?;
    Ok(Client::new(tls(stream, config, "localhost").await?))
}

async fn ask(address: SocketAddr, config: &Arc<ClientConfig>, review: &[u8]) -> std::io::Result<Vec<u8>> {
    match connect(address, config).await?.ask(review).await? {
        (200, answer) => Ok(answer),
        (status, _) => Err(std::io::Error::other(format!("it answers {status}"))),
    }
}

/// Fails unless this is an answer to the review that allows the pod; with a patch, unless the server is a null one.
fn right(kind: Kind, review: &[u8], answer: &[u8]) -> Result<(), Box<dyn Error>> {
    let text = String::from_utf8_lossy(answer);
    let review: serde_json::Value = serde_json::from_slice(review)?;
    let uid = review["request"]["uid"].as_str().unwrap_or_default();
    let null = matches!(kind, Kind::NullRust | Kind::NullGo);
    let patched = text.contains(r#""patchType":"JSONPatch""#);
    let spaceless = text.replace(r#"": "#, r#"":"#);
    if spaceless.contains(&format!(r#""uid":"{uid}""#)) && spaceless.contains(r#""allowed":true"#) && patched != null {
        return Ok(());
    }
    Err(format!("{} answers wrongly:\n{text}", kind.name()).into())
}

fn peers() -> PathBuf {
    crate::common::report::folder().join("peers")
}

/// Builds the Go servers, if any of them is wanted.
pub(crate) fn build(kinds: &[Kind]) -> Result<(), Box<dyn Error>> {
    const NEEDS: &str = "the comparison needs Go 1.26 or newer on the PATH (without it: --servers podlayer,null-rust)";
    if kinds.iter().all(|kind| matches!(kind, Kind::Podlayer | Kind::NullRust)) {
        return Ok(());
    }
    let peers = peers();
    fs::create_dir_all(&peers)?;
    let output = Command::new("go")
        .args(["build", "-trimpath", "-buildvcs=false", "-o"])
        .arg(&peers)
        .args(["./webhook", "./plain"])
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/peer"))
        .env("CGO_ENABLED", "0")
        .env("GOWORK", "off")
        .output();
    match output {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => Err(format!(
            "{NEEDS}, and for its first build a reachable Go module proxy (`go env GOPROXY`). `go build` failed:\n{}",
            String::from_utf8_lossy(&output.stderr)
        )
        .into()),
        Err(error) if error.kind() == ErrorKind::NotFound => Err(format!("{NEEDS}, there is no `go` there").into()),
        Err(error) => Err(format!("{NEEDS}, and `go` can't be run: {error}").into()),
    }
}
