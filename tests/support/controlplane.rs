//! A real Kubernetes control plane for integration tests, and two oracles that
//! answer with the Go libraries' own reading.
//!
//! Everything comes out of one binary, built from the Go module in
//! `tests/controlplane`; see the `main.go` there. There are no nodes: pods are
//! admitted, stored, created by controllers, and stay Pending.
//!
//! A control plane costs a few seconds and half a gigabyte, so tests share one
//! per process ([`ControlPlane::shared`]) and keep apart by namespaces. Webhook
//! configurations are cluster-wide: give them unique names and a
//! `namespaceSelector` on `kubernetes.io/metadata.name`. A test that restarts or
//! breaks things starts its own ([`ControlPlane::start`]).
//!
//! Tests never skip for want of it: what is missing is a panic that says what to
//! install.
#![allow(dead_code, unused_imports, reason = "each test binary uses its own part of the harness")]
#![allow(clippy::panic, clippy::print_stderr, reason = "a harness that can't go on tells the person at the terminal")]

use std::hash::{BuildHasher, RandomState};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

#[path = "../controlplane/harness/build.rs"]
mod build;
#[path = "../controlplane/harness/oracle.rs"]
mod oracle;

pub(crate) use build::{Program, binary, minor_of_this_build, project_root};
pub(crate) use oracle::Oracle;

/// What a kubectl call printed and whether it succeeded.
#[derive(Debug, Clone)]
pub(crate) struct Output {
    /// All of standard output.
    pub(crate) stdout: String,
    /// All of standard error; warnings of the API server appear here.
    pub(crate) stderr: String,
    /// Whether the exit code was 0.
    pub(crate) ok: bool,
}

/// A running control plane. Its processes and files go when this is dropped, or
/// when the test process ends, however it ends.
#[derive(Debug)]
pub(crate) struct ControlPlane {
    supervisor: Child,
    ready: Value,
    folder: PathBuf,
}

impl ControlPlane {
    /// Starts one, whose Services get addresses from a random part of
    /// 127.0.0.0/8.
    pub(crate) fn start() -> Self {
        Self::start_with(&[])
    }

    /// Starts one with more arguments for the supervisor, such as
    /// `["--service-cluster-ip-range", "127.100.0.0/24"]`. Keep that range inside
    /// 127.0.0.0/8: anywhere else another machine may answer.
    ///
    /// # Panics
    ///
    /// When it doesn't get ready, with what the part that failed logged.
    pub(crate) fn start_with(arguments: &[&str]) -> Self {
        let folder = std::env::temp_dir().join(unique("podlayer-controlplane"));
        let mut supervisor = Command::new(binary())
            .arg("up")
            .arg("--dir")
            .arg(&folder)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("can't run the test control plane: {error}; delete target/controlplane"));

        // Shown at once, for a part can die in the middle of a test, and kept for
        // the panic below.
        let said = Arc::new(Mutex::new(String::new()));
        let listener = supervisor.stderr.take().map(|stderr| {
            let said = Arc::clone(&said);
            thread::spawn(move || {
                for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                    eprintln!("{line}");
                    let mut said = said.lock().unwrap_or_else(PoisonError::into_inner);
                    *said += &line;
                    said.push('\n');
                }
            })
        });
        let mut line = String::new();
        if let Some(stdout) = supervisor.stdout.take() {
            // An error leaves the line empty, which is reported below.
            let _ = BufReader::new(stdout).read_line(&mut line);
        }
        match serde_json::from_str(&line) {
            Ok(ready) => Self { supervisor, ready, folder },
            Err(_) => {
                let status = supervisor.wait();
                if let Some(listener) = listener {
                    let _ = listener.join();
                }
                let said = said.lock().unwrap_or_else(PoisonError::into_inner);
                panic!("the test control plane didn't start ({status:?}):\n{said}");
            }
        }
    }

    /// The one that all tests of this process share, started on first use.
    pub(crate) fn shared() -> &'static Self {
        static SHARED: OnceLock<ControlPlane> = OnceLock::new();
        // A static is never dropped: the end of this process closes the
        // supervisor's stdin, and that ends it.
        SHARED.get_or_init(Self::start)
    }

    /// Path of a kubeconfig of the admin, which names no other file.
    pub(crate) fn kubeconfig(&self) -> &str {
        self.fact("kubeconfig")
    }

    /// The API server's URL, `https://127.0.0.1:PORT`.
    pub(crate) fn server(&self) -> &str {
        self.fact("server")
    }

    /// Bearer token of `admin`, a member of system:masters.
    pub(crate) fn token(&self) -> &str {
        self.fact("token")
    }

    /// Bearer token of `jane`, who is in no group (but system:authenticated) and
    /// may do nothing until a test binds a role to her.
    pub(crate) fn jane_token(&self) -> &str {
        self.fact("janeToken")
    }

    /// Path of the CA certificate that signed the API server's.
    pub(crate) fn ca(&self) -> &str {
        self.fact("ca")
    }

    /// CIDR that Services get their addresses from.
    pub(crate) fn service_range(&self) -> &str {
        self.fact("serviceClusterIPRange")
    }

    /// Folder with `etcd.log`, `kube-apiserver.log`, `kube-controller-manager.log`
    /// and `kube-scheduler.log`.
    pub(crate) fn logs(&self) -> &str {
        self.fact("logs")
    }

    fn fact(&self, name: &str) -> &str {
        let fact = self.ready[name].as_str();
        fact.unwrap_or_else(|| panic!("`controlplane up` no longer reports {name}: adapt this harness to it"))
    }

    /// Runs kubectl as admin (`--token` makes it someone else).
    pub(crate) fn kubectl(&self, arguments: &[&str]) -> Output {
        self.kubectl_in(arguments, "")
    }

    /// Runs kubectl as admin with a text on its stdin.
    pub(crate) fn kubectl_in(&self, arguments: &[&str], stdin: &str) -> Output {
        let mut child = Command::new(binary())
            .arg("kubectl")
            .args(arguments)
            .env("KUBECONFIG", self.kubeconfig())
            // The user's own preferences and caches stay out of tests.
            .env("KUBERC", "off")
            .env("KUBECACHEDIR", self.folder.join("kubectl-cache"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("can't run kubectl: {error}; delete target/controlplane"));
        let pipe = child.stdin.take();
        thread::scope(|scope| {
            // Beside the reading below, so that neither waits for the other.
            scope.spawn(move || {
                // kubectl may end without reading it all: its exit code tells.
                pipe.map(|mut pipe| pipe.write_all(stdin.as_bytes()))
            });
            let output = child.wait_with_output().unwrap_or_else(|error| panic!("can't wait for kubectl: {error}"));
            Output {
                stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
                stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
                ok: output.status.success(),
            }
        })
    }

    /// Applies manifests (`kubectl apply -f -`).
    ///
    /// # Panics
    ///
    /// When the API server refuses them; use [`Self::kubectl_in`] to expect that.
    pub(crate) fn apply(&self, yaml: &str) -> Output {
        let output = self.kubectl_in(&["apply", "-f", "-"], yaml);
        assert!(output.ok, "kubectl apply failed: {}\n{yaml}", output.stderr);
        output
    }

    /// `kubectl get ARGUMENTS -o json`.
    ///
    /// # Panics
    ///
    /// When it fails, also with "not found"; use [`Self::kubectl`] to expect that.
    pub(crate) fn get_json(&self, arguments: &[&str]) -> Value {
        let output = self.kubectl(&[&["get", "-o", "json"], arguments].concat());
        assert!(output.ok, "kubectl get {arguments:?} failed: {}", output.stderr);
        serde_json::from_str(&output.stdout)
            .unwrap_or_else(|error| panic!("kubectl get {arguments:?} printed no JSON ({error}): {}", output.stdout))
    }

    /// Creates a namespace named `PREFIX-` and something unique, in which pods can
    /// be created: its default service account is there.
    pub(crate) fn namespace(&self, prefix: &str) -> String {
        let name = unique(prefix);
        let output = self.kubectl(&["create", "namespace", &name]);
        assert!(output.ok, "can't create the namespace {name}: {}", output.stderr);
        wait_until(Duration::from_secs(30), "the namespace's default service account", || {
            self.kubectl(&["get", "serviceaccount", "default", "-n", &name]).ok
        });
        name
    }
}

impl Drop for ControlPlane {
    fn drop(&mut self) {
        drop(self.supervisor.stdin.take()); // its sign to end
        // It gives each of four parts three seconds.
        let deadline = Instant::now() + Duration::from_secs(30);
        while matches!(self.supervisor.try_wait(), Ok(None)) {
            if Instant::now() > deadline {
                // Its children die with it (Linux), only the folder is left. No
                // panic: this may run during one.
                eprintln!("the test control plane doesn't end: killing it, {} stays", self.folder.display());
                let _ = self.supervisor.kill();
                let _ = self.supervisor.wait();
                return;
            }
            thread::sleep(Duration::from_millis(10));
        }
    }
}

/// A port of 127.0.0.1 that nobody listens on. It is outside the range from which
/// the system serves port 0 and outgoing connections, so that it is still free
/// when its user gets to it.
pub(crate) fn free_port() -> u16 {
    for _ in 0..100 {
        let candidate = 11000 + u16::try_from(random() % 21000).unwrap_or_default();
        if TcpListener::bind(("127.0.0.1", candidate)).is_ok() {
            return candidate;
        }
    }
    panic!("none of 100 ports of 127.0.0.1 between 11000 and 32000 is free: what listens on all of them?");
}

/// What podlayer's admin port answers on a path, head and body; nothing where nobody listens.
pub(crate) fn http_get(port: u16, path: &str) -> String {
    let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port)) else { return String::new() };
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    let mut answer = String::new();
    // What came before an error is given back: whoever asked looks at it.
    let _ = stream
        .set_read_timeout(Some(Duration::from_secs(5)))
        .and_then(|()| stream.write_all(request.as_bytes()))
        .and_then(|()| stream.read_to_string(&mut answer));
    answer
}

/// Polls until the closure returns true.
///
/// # Panics
///
/// When that takes longer than `timeout`, naming `what` was waited for.
pub(crate) fn wait_until(timeout: Duration, what: &str, mut condition: impl FnMut() -> bool) {
    wait_for(timeout, what, || condition().then_some(()));
}

/// Polls until the closure returns something, and returns that.
///
/// # Panics
///
/// When that takes longer than `timeout`, naming `what` was waited for.
pub(crate) fn wait_for<T>(timeout: Duration, what: &str, mut attempt: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + timeout;
    loop {
        if let Some(found) = attempt() {
            return found;
        }
        assert!(Instant::now() < deadline, "waited {timeout:?} in vain for {what}");
        thread::sleep(Duration::from_millis(20));
    }
}

fn unique(prefix: &str) -> String {
    format!("{prefix}-{:010x}", random() & 0xff_ffff_ffff)
}

/// The standard library seeds each hasher with something random.
fn random() -> u64 {
    RandomState::new().hash_one(std::process::id())
}
