use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use super::until;
use crate::controlplane::free_port;

/// A running `podlayer controller`; ended when dropped.
pub(crate) struct Controller {
    child: Child,
    admin: u16,
    log: PathBuf,
    _folder: tempfile::TempDir,
}

impl Controller {
    /// Starts one for the pools of a namespace, in which its Lease is too, and waits until it is ready.
    pub(crate) async fn start(kubeconfig: &str, namespace: &str) -> Self {
        Self::start_program(Path::new(env!("CARGO_BIN_EXE_podlayer")), kubeconfig, namespace).await
    }

    /// The same of another build.
    pub(crate) async fn start_program(program: &Path, kubeconfig: &str, namespace: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (admin, log) = (free_port(), folder.path().join("log"));
        let child = Command::new(program)
            .args(["controller", "--kubeconfig", kubeconfig, "--own-namespace", namespace])
            .args(["--admin-addr", &format!("127.0.0.1:{admin}"), "--settle-seconds", "1"])
            .stdin(Stdio::null())
            .stderr(File::create(&log).unwrap())
            .spawn()
            .unwrap();
        let controller = Self { child, admin, log, _folder: folder };
        until("a controller to be ready", async || controller.get("/readyz").await.filter(|(code, _)| *code == 200))
            .await;
        controller
    }

    /// What its port answers: status and body. Nothing if it doesn't.
    pub(crate) async fn get(&self, path: &str) -> Option<(u16, String)> {
        let ask = async {
            let mut stream = TcpStream::connect(("127.0.0.1", self.admin)).await.ok()?;
            let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
            stream.write_all(request.as_bytes()).await.ok()?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await.ok()?;
            let (head, body) = answer.split_once("\r\n\r\n")?;
            Some((head.split(' ').nth(1)?.parse().ok()?, body.to_owned()))
        };
        tokio::time::timeout(Duration::from_secs(5), ask).await.ok().flatten()
    }

    /// Whether it is the one at work.
    pub(crate) async fn leads(&self) -> bool {
        self.metrics().await.lines().any(|line| line == "podlayer_pool_leader 1")
    }

    pub(crate) async fn metrics(&self) -> String {
        self.get("/metrics").await.map(|(_, body)| body).unwrap_or_default()
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Resident memory in KiB: now, and the most so far.
    pub(crate) fn resident(&self) -> [u64; 2] {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap_or_default();
        ["VmRSS:", "VmHWM:"].map(|name| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok()).unwrap_or_default()
        })
    }

    /// The time that it has had of all cores.
    pub(crate) fn cpu(&self) -> Duration {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap_or_default();
        // The name before the last parenthesis may hold anything. Linux counts hundredths of a second for programs,
        // whatever its own clock is.
        let fields = stat.rsplit(')').next().unwrap_or_default();
        let ticks: u64 = fields.split_whitespace().skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum();
        Duration::from_millis(ticks * 10)
    }

    /// What it logged.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// kill -9.
    pub(crate) fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Whether it ended by itself.
    pub(crate) fn has_ended(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(Some(_)))
    }
}

impl Drop for Controller {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the controller's log:\n{}", self.log());
        }
        self.kill();
    }
}
