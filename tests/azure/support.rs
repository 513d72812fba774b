//! The real `podlayer azure serve`, as a process, and a caller that does what Azure Pipelines does.

#![allow(clippy::print_stderr, reason = "what a replica logged is shown where a test fails")]

use std::{
    io::{Read, Write},
    net::TcpStream,
    path::PathBuf,
    process::{Child, Command, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

use ::podlayer::azure::{SharedSecret, sign};
use serde_json::{Value, json};

use crate::controlplane::{free_port, wait_until};

pub(crate) use crate::kwok::plane_of_pools as plane;

/// How long anything may take here: many times what it does on an idle machine.
pub(crate) const LONG: Duration = Duration::from_secs(120);

/// What pools and callers share here.
pub(crate) const SECRET: &str = "a shared secret of the tests";

/// Stands in the credentials of every call; must be nowhere but in Secrets.
pub(crate) const CANARY: &str = "canary-4f1d0c9b7e";

/// A namespace with the Secret of the older provider's name and key.
pub(crate) fn namespace(prefix: &str) -> String {
    let namespace = plane().namespace(prefix);
    shared_secret(&namespace, &json!({"VSTS_SECRET": SECRET}));
    namespace
}

/// Writes the Secret that calls are signed with.
pub(crate) fn shared_secret(namespace: &str, keys: &Value) {
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "stringData": keys,
                        "metadata": {"name": "azurepipelines", "namespace": namespace}});
    let made = plane().kubectl_in(&["replace", "--force", "-f", "-"], &secret.to_string());
    let made = if made.ok { made } else { plane().kubectl_in(&["create", "-f", "-"], &secret.to_string()) };
    assert!(made.ok, "{}", made.stderr);
}

/// Makes a pool for Azure Pipelines.
pub(crate) fn pool(namespace: &str, name: &str, more: &Value) {
    plane().apply(&pool_object(namespace, name, more).to_string());
}

/// Such a pool, not made.
pub(crate) fn pool_object(namespace: &str, name: &str, more: &Value) -> Value {
    let mut spec =
        json!({"mode": "Agents", "max": 10, "azure": {"secretName": "azurepipelines"}, "template": template("large")});
    for (key, value) in more.as_object().unwrap() {
        spec[key] = value.clone();
    }
    json!({"apiVersion": "podlayer.dev/v1alpha1", "kind": "AgentPool",
           "metadata": {"name": name, "namespace": namespace}, "spec": spec})
}

/// A template of one container on a node.
pub(crate) fn template(node: &str) -> Value {
    json!({"spec": {"nodeSelector": {"test-node": node}, "terminationGracePeriodSeconds": 0,
                    "containers": [{"name": "agent", "image": "agent:1"}]}})
}

/// Changes a pool's spec, and waits until a replica knows.
pub(crate) fn change(namespace: &str, name: &str, spec: &Value) {
    let patch = json!({"spec": spec}).to_string();
    let changed = plane().kubectl(&["patch", "agentpool", name, "-n", namespace, "--type=merge", "-p", &patch]);
    assert!(changed.ok, "{}", changed.stderr);
}

/// A running replica; ended when dropped.
pub(crate) struct Serve {
    child: Option<Child>,
    log: PathBuf,
    _folder: tempfile::TempDir,
    pub(crate) port: u16,
    admin: u16,
}

/// What came back for a call.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: Value,
    pub(crate) text: String,
}

impl Serve {
    /// Starts one for the pools of a namespace; gives it back once it is ready.
    pub(crate) fn start(namespace: &str, more: &[&str]) -> Self {
        Self::start_as(namespace, plane().kubeconfig(), more)
    }

    /// Starts one with somebody's kubeconfig.
    pub(crate) fn start_as(namespace: &str, kubeconfig: &str, more: &[&str]) -> Self {
        let serve = Self::spawn(namespace, kubeconfig, more);
        serve.wait_ready();
        serve
    }

    pub(crate) fn wait_ready(&self) {
        wait_until(LONG, "a replica to be ready", || self.admin("/readyz").starts_with("HTTP/1.1 200"));
    }

    /// Starts one and waits for nothing.
    pub(crate) fn spawn(namespace: &str, kubeconfig: &str, more: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (port, admin, log) = (free_port(), free_port(), folder.path().join("log"));
        let child = Command::new(env!("CARGO_BIN_EXE_podlayer"))
            .args(["azure", "serve", "--kubeconfig", kubeconfig, "--pool-namespaces", namespace])
            .args(["--addr", &format!("127.0.0.1:{port}"), "--admin-addr", &format!("127.0.0.1:{admin}")])
            .args(["--look-every-seconds", "1", "--log-filter", "podlayer=trace,debug"])
            .args(more)
            .stdin(Stdio::null())
            .stderr(std::fs::File::create(&log).unwrap())
            .spawn()
            .unwrap();
        Self { child: Some(child), log, _folder: folder, port, admin }
    }

    /// A call as it is given.
    pub(crate) fn call(&self, method: &str, path: &str, headers: &str, body: &[u8]) -> Answer {
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {}\r\n{headers}\r\n",
            body.len()
        );
        let text = exchange(self.port, head.as_bytes(), body);
        let status = text.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
        let body = text.split("\r\n\r\n").nth(1).and_then(|body| serde_json::from_str(body).ok()).unwrap_or_default();
        Answer { status, body, text }
    }

    /// A call signed with the secret of these tests.
    pub(crate) fn signed(&self, path: &str, body: &[u8]) -> Answer {
        self.signed_with(SECRET, "POST", path, body)
    }

    /// A call signed with some secret.
    pub(crate) fn signed_with(&self, secret: &str, method: &str, path: &str, body: &[u8]) -> Answer {
        let signature = sign(&SharedSecret::new(secret.as_bytes()).unwrap(), body);
        let headers = format!(
            "Content-Type: application/json\r\nX-Azure-Signature: {signature}\r\nX-VSS-OrchestrationId: o.job1\r\n"
        );
        self.call(method, path, &headers, body)
    }

    /// A signed call that is sent again, as Azure Pipelines does, for as long as the answer is to come again or nothing.
    pub(crate) fn insist(&self, path: &str, body: &[u8]) -> Answer {
        let end = Instant::now() + LONG;
        loop {
            let answer = self.signed(path, body);
            if !matches!(answer.status, 0 | 429 | 503) || Instant::now() > end {
                return answer;
            }
            sleep(Duration::from_millis(200));
        }
    }

    /// Sends a signed call and leaves before the answer, as somebody whose time is over.
    pub(crate) fn leave(&self, path: &str, body: &[u8]) {
        let signature = sign(&SharedSecret::new(SECRET.as_bytes()).unwrap(), body);
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nX-Azure-Signature: \
             {signature}\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body)).unwrap();
        stream.shutdown(std::net::Shutdown::Both).unwrap();
    }

    /// SIGTERM.
    pub(crate) fn terminate(&self) {
        assert!(Command::new("kill").args(["-TERM", &self.pid().to_string()]).status().unwrap().success());
    }

    /// What the admin port answers, head and body.
    pub(crate) fn admin(&self, path: &str) -> String {
        let head = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        exchange(self.admin, head.as_bytes(), b"")
    }

    /// What it logged.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Whether it still runs.
    pub(crate) fn is_alive(&mut self) -> bool {
        self.child.as_mut().is_some_and(|child| child.try_wait().unwrap().is_none())
    }

    /// Its process.
    pub(crate) fn pid(&self) -> u32 {
        self.child.as_ref().unwrap().id()
    }

    /// kill -9.
    pub(crate) fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }
}

impl Drop for Serve {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let log = self.log();
            let tail: Vec<&str> = log.lines().filter(|line| line.contains("podlayer")).collect();
            eprintln!("a replica's log:\n{}", tail[tail.len().saturating_sub(60)..].join("\n"));
        }
        self.kill();
    }
}

/// Sends and reads until the other side closes; what came, or nothing.
fn exchange(port: u16, head: &[u8], body: &[u8]) -> String {
    let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port)) else { return String::new() };
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    // The server may answer before it has read all; then writing fails and the answer is there all the same.
    let _ = stream.write_all(head).and_then(|()| stream.write_all(body));
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).into_owned()
}

/// Where a pool takes calls.
pub(crate) fn at(namespace: &str, pool: &str, what: &str) -> String {
    format!("/v1/pools/{namespace}/{pool}/{what}")
}

/// The body of a call for an agent, as Azure Pipelines sends it.
pub(crate) fn acquire(agent: &str) -> Value {
    json!({
        "agentId": agent, "agentPool": "k8s", "accountId": "org-1", "isScheduled": false,
        "authenticationToken": format!("token-{CANARY}"),
        "failRequestUrl": "https://dev.azure.com/org/_apis/fail", "appendRequestMessageUrl": "https://dev.azure.com/org/_apis/message",
        "agentConfiguration": {
            "agentSettings": {"AgentName": agent, "PoolId": "3", "ServerUrl": "https://dev.azure.com/org"},
            "agentCredentials": {"scheme": "OAuth", "data": {"clientId": CANARY, "authorizationUrl": "https://x"}},
            "agentVersion": "2.200.0",
            "agentDownloadUrls": {"linux-x64": "https://vstsagentpackage.azureedge.net/agent.tar.gz"},
        },
    })
}

/// The body of a call that an agent may go.
pub(crate) fn release(agent: &str) -> Value {
    json!({"agentId": agent, "agentPool": "k8s", "accountId": "org-1"})
}

pub(crate) fn bytes(value: &Value) -> Vec<u8> {
    value.to_string().into_bytes()
}

/// The agents' pods that aren't going.
pub(crate) fn pods(namespace: &str) -> Vec<Value> {
    let all = plane().get_json(&["pods", "-n", namespace, "-l", "AgentId"]);
    let pods = all["items"].as_array().unwrap();
    pods.iter().filter(|pod| pod["metadata"]["deletionTimestamp"].is_null()).cloned().collect()
}

/// The agents' Secrets.
pub(crate) fn secrets(namespace: &str) -> Vec<Value> {
    plane().get_json(&["secrets", "-n", namespace, "-l", "AgentId"])["items"].as_array().unwrap().clone()
}

/// Waits until nothing of any agent is left.
pub(crate) fn wait_nothing_left(namespace: &str) {
    wait_until(LONG, "every agent's pod and Secret to be gone", || {
        let left = plane().get_json(&["pods,secrets", "-n", namespace, "-l", "AgentId"]);
        left["items"].as_array().unwrap().is_empty()
    });
}

pub(crate) fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap()
}

/// Whether an event of this reason was written.
pub(crate) fn has_event(namespace: &str, reason: &str) -> bool {
    let events = plane().kubectl(&["get", "events", "-n", namespace, "-o", "jsonpath={.items[*].reason}"]);
    events.stdout.split(' ').any(|found| found == reason)
}
