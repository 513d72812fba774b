//! The real podlayer, run as the chart's Deployment says: its arguments, its environment, its service account. What a
//! kubelet would do is done here: the token, the folders of volumes, and the address, which is the Service's own since
//! there is no kube-proxy.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

use crate::{
    controlplane::{Output, free_port, http_get, wait_until},
    helm::Release,
};

/// A running podlayer; ended when dropped.
pub(crate) struct Replica {
    child: Child,
    admin: u16,
    log: PathBuf,
    /// Whether the release is gone, and its rights with it.
    may_lack_rights: bool,
    _folder: tempfile::TempDir,
}

impl Replica {
    /// Starts one at the Service's address and waits until it is ready.
    pub(crate) fn start(release: &Release) -> Self {
        let service = release.plane.get_json(&["service", "podlayer", "-n", &release.own]);
        let port = service["spec"]["ports"].as_array().unwrap().iter().find(|port| port["name"] == "webhook").unwrap();
        Self::at(release, "podlayer", &format!("{}:{}", service["spec"]["clusterIP"].as_str().unwrap(), port["port"]))
    }

    /// Starts one that the API server doesn't call, and waits until it is ready.
    pub(crate) fn start_beside(release: &Release) -> Self {
        Self::at(release, "podlayer", &format!("127.0.0.1:{}", free_port()))
    }

    /// Starts a controller of pools, and waits until it is ready.
    pub(crate) fn controller(release: &Release) -> Self {
        Self::at(release, "podlayer-controller", "")
    }

    /// Starts an endpoint for Azure Pipelines at this port of 127.0.0.1, and waits until it is ready.
    pub(crate) fn azure(release: &Release, port: u16) -> Self {
        Self::at(release, "podlayer-azure", &format!("127.0.0.1:{port}"))
    }

    fn at(release: &Release, name: &str, address: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let plane = release.plane;
        let own = release.own.as_str();
        let deployment = plane.get_json(&["deployment", name, "-n", own]);
        let pod = &deployment["spec"]["template"]["spec"];
        let container = &pod["containers"][0];
        let admin = free_port();

        let mut arguments: Vec<String> = Vec::new();
        for argument in container["args"].as_array().unwrap().iter().map(|argument| argument.as_str().unwrap()) {
            let flag = argument.split('=').next().unwrap_or_default();
            match flag {
                "--addr" => arguments.push(format!("--addr={address}")),
                "--admin-addr" => arguments.push(format!("--admin-addr=127.0.0.1:{admin}")),
                _ => arguments.push(argument.replace("/etc/podlayer", &folder.path().to_string_lossy())),
            }
        }
        mount(release, folder.path(), pod, container);
        let kubeconfig = folder.path().join("kubeconfig");
        fs::write(&kubeconfig, kubeconfig_of(release, pod).to_string()).unwrap();
        let log = folder.path().join("log");
        let mut command = Command::new(program());
        command.args(&arguments).arg("--kubeconfig").arg(&kubeconfig).stdin(Stdio::null());
        for variable in container["env"].as_array().unwrap() {
            let name = variable["name"].as_str().unwrap();
            let from = &variable["valueFrom"]["fieldRef"]["fieldPath"];
            assert_eq!(from, "metadata.namespace", "{name}: only this one is done here");
            command.env(name, own);
        }
        let child = command.stdout(Stdio::null()).stderr(fs::File::create(&log).unwrap()).spawn().unwrap();
        let mut replica = Self { child, admin, log, may_lack_rights: false, _folder: folder };
        wait_until(Duration::from_secs(60), "podlayer to be ready", || {
            assert!(replica.child.try_wait().unwrap().is_none(), "podlayer ended:\n{}", replica.log());
            replica.get("/readyz").starts_with("HTTP/1.1 200")
        });
        replica
    }

    /// What the admin port answers, head and body.
    pub(crate) fn get(&self, path: &str) -> String {
        http_get(self.admin, path)
    }

    /// Whether it has ended by itself.
    pub(crate) fn ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    /// From now on it may lack rights, for the release that gave them goes.
    pub(crate) fn outlives_its_release(&mut self) {
        self.may_lack_rights = true;
    }

    /// What it logged so far.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }
}

impl Drop for Replica {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let log = self.log();
        if std::thread::panicking() {
            #[allow(clippy::print_stderr, reason = "what podlayer logged is shown where a test fails")]
            {
                eprintln!("podlayer's log:\n{log}");
            }
        } else {
            let lacks = !self.may_lack_rights && log.to_ascii_lowercase().contains("forbidden");
            assert!(!lacks, "the chart gives too few rights:\n{log}");
        }
    }
}

/// Makes the certificate of `tls.mode: ExistingSecret` as docs/certificates.md says: a Secret before the chart is
/// installed, and its CA in the webhook configurations afterwards.
pub(crate) struct Certificate {
    folder: tempfile::TempDir,
}

impl Certificate {
    /// Makes one for the release's Service and puts it into the Secret that the chart mounts.
    pub(crate) fn store(release: &Release) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let name = format!("podlayer.{}.svc", release.own);
        let made =
            Command::new(program()).args(["certs", "--name", &name, "--out"]).arg(folder.path()).output().unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let file = |name: &str| format!("{}", folder.path().join(name).display());
        let (certificate, key) = (format!("--cert={}", file("tls.crt")), format!("--key={}", file("tls.key")));
        let secret = ["create", "secret", "tls", "podlayer-tls", "-n", &release.own, &certificate, &key];
        let output = release.plane.kubectl(&secret);
        assert!(output.ok, "{}", output.stderr);
        Self { folder }
    }

    /// Writes its CA into every entry of the webhook configurations, as somebody does by hand.
    pub(crate) fn trust(&self, release: &Release) {
        let ca = STANDARD.encode(fs::read(self.folder.path().join("ca.crt")).unwrap());
        for kind in ["mutatingwebhookconfiguration", "validatingwebhookconfiguration"] {
            let count = release.plane.get_json(&[kind, &release.webhooks])["webhooks"].as_array().unwrap().len();
            let patch: Vec<Value> = (0..count)
                .map(|at| json!({"op": "add", "path": format!("/webhooks/{at}/clientConfig/caBundle"), "value": ca}))
                .collect();
            let patch = Value::from(patch).to_string();
            let output: Output =
                release.plane.kubectl(&["patch", kind, &release.webhooks, "--type=json", "--patch", &patch]);
            assert!(output.ok, "{}", output.stderr);
        }
    }
}

/// Writes the Secrets and ConfigMaps that the container mounts below `/etc/podlayer`.
fn mount(release: &Release, folder: &Path, pod: &Value, container: &Value) {
    for mounted in container["volumeMounts"].as_array().into_iter().flatten() {
        let volume =
            pod["volumes"].as_array().unwrap().iter().find(|volume| volume["name"] == mounted["name"]).unwrap();
        let path = mounted["mountPath"].as_str().unwrap().strip_prefix("/etc/podlayer/").unwrap();
        fs::create_dir_all(folder.join(path)).unwrap();
        let (kind, name) = match volume["secret"]["secretName"].as_str() {
            Some(name) => ("secret", name),
            None => ("configmap", volume["configMap"]["name"].as_str().unwrap()),
        };
        let object = release.plane.get_json(&[kind, name, "-n", &release.own]);
        for (key, value) in object["data"].as_object().unwrap() {
            let value = value.as_str().unwrap();
            let value = if kind == "secret" { STANDARD.decode(value).unwrap() } else { value.as_bytes().to_vec() };
            fs::write(folder.join(path).join(key), value).unwrap();
        }
    }
}

/// Runs the program to its end as a pod's first container would: its arguments, its account.
pub(crate) fn as_account(release: &Release, pod: &Value) -> Output {
    let folder = tempfile::tempdir().unwrap();
    let kubeconfig = folder.path().join("kubeconfig");
    fs::write(&kubeconfig, kubeconfig_of(release, pod).to_string()).unwrap();
    let arguments = pod["containers"][0]["args"].as_array().unwrap().iter().map(|argument| argument.as_str().unwrap());
    let output = Command::new(program()).args(arguments).arg("--kubeconfig").arg(&kubeconfig).output().unwrap();
    Output {
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
        ok: output.status.success(),
    }
}

/// A kubeconfig with a token of the account that the pod names.
fn kubeconfig_of(release: &Release, pod: &Value) -> Value {
    let account = pod["serviceAccountName"].as_str().unwrap();
    let token = release.plane.kubectl(&["create", "token", account, "-n", &release.own]);
    assert!(token.ok, "{}", token.stderr);
    let ca = STANDARD.encode(fs::read(release.plane.ca()).unwrap());
    json!({"apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": release.plane.server(), "certificate-authority-data": ca}}],
        "users": [{"name": "u", "user": {"token": token.stdout.trim()}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u", "namespace": release.own}}]})
}

fn program() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_podlayer"))
}
