//! podlayer on a real API server, and an admission policy beside it that does what it can of the same work.

use std::{
    error::Error,
    fs::{self, File},
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    path::Path,
    time::Duration,
};

use base64::{Engine, engine::general_purpose::STANDARD};
use podlayer::names;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::{
    api::Api,
    common::{
        process::{Process, certificate, free, podlayer},
        report::{recorded, review},
    },
    controlplane::ControlPlane,
};

/// The name of podlayer's webhook, as the API server's metrics call it.
pub(crate) const WEBHOOK: &str = "pods.podlayer.dev";
/// The name of the policy beside it.
pub(crate) const POLICY: &str = "layers-by-policy";
/// The label of pods that the policy is for.
const POLICY_LABEL: &str = "bench.podlayer.dev/policy";

/// Who changes a pod.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum By {
    Nobody,
    Podlayer,
    Policy,
}

/// podlayer's namespace with its layers, and its replicas.
pub(crate) struct Installation {
    folder: tempfile::TempDir,
    own: String,
    /// Where pods are made.
    pub(crate) pods: String,
    kubeconfig: String,
    pub(crate) replicas: Vec<Replica>,
}

/// One process.
pub(crate) struct Replica {
    pub(crate) address: SocketAddr,
    admin: SocketAddr,
    pub(crate) process: Process,
}

impl By {
    pub(crate) const ALL: [Self; 3] = [Self::Nobody, Self::Podlayer, Self::Policy];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Nobody => "nobody",
            Self::Podlayer => "podlayer",
            Self::Policy => "MutatingAdmissionPolicy",
        }
    }

    /// The pod of the recorded review, for this one to change.
    pub(crate) fn pod(self) -> Result<Value, Box<dyn Error>> {
        let mut review: Value = serde_json::from_slice(&review("16k")?)?;
        let mut pod = review["request"]["object"].take();
        let metadata = pod["metadata"].take();
        let mut labels = metadata["labels"].clone();
        if let Some(labels) = labels.as_object_mut() {
            // Of the same length in all three, so that they differ in who changes them alone.
            labels.remove(names::ENABLED);
            let label = match self {
                Self::Nobody => "bench.podlayer.dev/nobody",
                Self::Podlayer => names::ENABLED,
                Self::Policy => POLICY_LABEL,
            };
            labels.insert(label.into(), json!("true"));
            // Else the Job controller takes the pod for one of its own.
            labels.remove(names::JOB_NAME);
        }
        pod["metadata"] = json!({"generateName": "ci-job-", "labels": labels, "annotations": metadata["annotations"]});
        pod["status"] = json!({});
        // Nobody's to schedule, so that no scheduler's work and no condition of its comes between.
        pod["spec"]["schedulerName"] = json!("nobody");
        Ok(pod)
    }
}

impl Installation {
    /// The recorded layers as ConfigMaps, `more` of no consequence to the pods, and the service accounts of the pods.
    pub(crate) async fn new(plane: &ControlPlane, api: &Api, more: u32) -> Result<Self, Box<dyn Error>> {
        let folder = tempfile::tempdir()?;
        certificate(folder.path())?;
        let (own, pods) = (plane.namespace("podlayer"), plane.namespace("ci"));
        let pod = By::Nobody.pod()?;
        for account in ["ci-runner", pod["spec"]["serviceAccountName"].as_str().unwrap_or("default")] {
            let object = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": account}});
            let made = api.create(&format!("/api/v1/namespaces/{pods}/serviceaccounts"), bytes(&object)).await;
            made.map(drop).or_else(|error| if error.to_string().contains("exists") { Ok(()) } else { Err(error) })?;
        }
        let mut texts: Vec<_> = fs::read_dir(recorded().join("layers"))?.collect::<Result<_, _>>()?;
        texts.sort_by_key(fs::DirEntry::path);
        for (order, entry) in texts.iter().enumerate() {
            let data = json!({"podSpecPatch": fs::read_to_string(entry.path())?});
            layer(api, &own, &layer_name(&entry.path()), order, &data).await?;
        }
        for number in 0..more {
            let data = json!({"match": format!("namespaces: [\"team-{number}\"]"), "podSpecPatch": "hostname: team"});
            layer(api, &own, &format!("team-{number}"), 100, &data).await?;
        }
        let kubeconfig = plane.kubeconfig().to_owned();
        Ok(Self { folder, own, pods, kubeconfig, replicas: Vec::new() })
    }

    /// Starts replicas and waits until they are ready.
    pub(crate) async fn start(&mut self, count: usize) -> Result<(), Box<dyn Error>> {
        for number in 0..count {
            let (address, admin) = (free()?, free()?);
            let file = |name: &str| self.folder.path().join(name);
            let mut command = podlayer();
            command.args(["webhook", "--own-namespace", &self.own, "--kubeconfig", &self.kubeconfig]);
            command.args(["--addr", &address.to_string(), "--admin-addr", &admin.to_string()]);
            command.arg("--tls-cert").arg(file("tls.crt")).arg("--tls-key").arg(file("tls.key"));
            let process = Process::start(command, File::create(file(&format!("log-{number}")))?, None)?;
            self.replicas.push(Replica { address, admin, process });
        }
        for (number, replica) in self.replicas.iter().enumerate() {
            let deadline = Instant::now() + Duration::from_secs(60);
            while replica.get("/readyz").is_none() {
                if Instant::now() > deadline {
                    return Err(fs::read_to_string(self.folder.path().join(format!("log-{number}")))?.into());
                }
                sleep(Duration::from_millis(50)).await;
            }
        }
        Ok(())
    }

    /// Registers the first replica, and the policy, for pods that carry the label of either.
    pub(crate) async fn register(&self, api: &Api) -> Result<(), Box<dyn Error>> {
        let address = self.replicas.first().ok_or("no replica")?.address;
        let ca = fs::read(self.folder.path().join("ca.crt"))?;
        let rules =
            json!([{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}]);
        let webhook = json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration",
            "metadata": {"name": "zz-podlayer"},
            "webhooks": [{
                "name": WEBHOOK, "admissionReviewVersions": ["v1"], "sideEffects": "None", "timeoutSeconds": 10,
                "failurePolicy": "Fail", "reinvocationPolicy": "Never", "rules": rules,
                "clientConfig": {"url": format!("https://{address}/mutate"), "caBundle": STANDARD.encode(ca)},
                "objectSelector": {"matchLabels": {names::ENABLED: "true"}}}]});
        let group = "/apis/admissionregistration.k8s.io/v1";
        api.create(&format!("{group}/mutatingwebhookconfigurations"), bytes(&webhook)).await?;
        let policy = json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingAdmissionPolicy",
            "metadata": {"name": POLICY},
            "spec": {
                "failurePolicy": "Fail", "reinvocationPolicy": "Never",
                "matchConstraints": {"resourceRules": rules, "objectSelector": {"matchLabels": {POLICY_LABEL: "true"}}},
                "mutations": [
                    {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": include_str!("policy/apply.cel")}},
                    {"patchType": "JSONPatch", "jsonPatch": {"expression": include_str!("policy/json_patch.cel")}}]}});
        api.create(&format!("{group}/mutatingadmissionpolicies"), bytes(&policy)).await?;
        let binding = json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingAdmissionPolicyBinding",
            "metadata": {"name": POLICY}, "spec": {"policyName": POLICY}});
        api.create(&format!("{group}/mutatingadmissionpolicybindings"), bytes(&binding)).await?;
        self.wait_until_both_work(api).await
    }

    async fn wait_until_both_work(&self, api: &Api) -> Result<(), Box<dyn Error>> {
        for by in [By::Podlayer, By::Policy] {
            let pod = bytes(&by.pod()?);
            let deadline = Instant::now() + Duration::from_secs(60);
            loop {
                let made = api.create(&self.creation(true), pod.clone()).await;
                // Of the second layer; both set it.
                if made.as_ref().is_ok_and(|pod| pod.contains("NVIDIA_DRIVER_CAPABILITIES")) {
                    break;
                }
                if Instant::now() > deadline {
                    return Err(format!("{} doesn't change pods: {made:?}", by.name()).into());
                }
                sleep(Duration::from_millis(200)).await;
            }
        }
        Ok(())
    }

    /// Where pods are made.
    pub(crate) fn creation(&self, dry_run: bool) -> String {
        format!("/api/v1/namespaces/{}/pods{}", self.pods, if dry_run { "?dryRun=All" } else { "" })
    }

    /// Where one of the recorded layers is.
    pub(crate) fn path_of_first_layer(&self) -> String {
        format!("/api/v1/namespaces/{}/configmaps/{}", self.own, layer_name(Path::new("00-default.yaml")))
    }
}

impl Replica {
    /// What the admin port answers, if that is 200.
    pub(crate) fn get(&self, path: &str) -> Option<String> {
        get(self.admin, path)
    }

    pub(crate) fn admin(&self) -> SocketAddr {
        self.admin
    }
}

/// What an admin port answers, if that is 200.
pub(crate) fn get(admin: SocketAddr, path: &str) -> Option<String> {
    let mut stream = TcpStream::connect(admin).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(2))).ok()?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    answer.starts_with("HTTP/1.1 200").then_some(answer)
}

pub(crate) fn bytes(object: &Value) -> Vec<u8> {
    object.to_string().into_bytes()
}

fn layer_name(path: &Path) -> String {
    format!("layer-{}", path.file_stem().unwrap_or_default().to_string_lossy())
}

async fn layer(api: &Api, namespace: &str, name: &str, order: usize, data: &Value) -> kube::Result<()> {
    let object = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "data": data,
        "metadata": {"name": name, "labels": {names::LAYER: "default", names::ORDER: order.to_string()}}});
    api.create(&format!("/api/v1/namespaces/{namespace}/configmaps"), bytes(&object)).await.map(drop)
}
