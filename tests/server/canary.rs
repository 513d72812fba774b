//! No value out of a pod is ever told, at any level of the log, on any page.

use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::support::{Client, within};

const CANARY: &str = "canary48151623";

/// Ended with the test, however that ends.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn pod(annotations: Value, env: Value) -> Value {
    json!({"metadata": {"generateName": "job-x-", "labels": {"podlayer.dev/enabled": "true"}, "annotations": annotations},
           "spec": {"containers": [{"name": "a", "image": "i", "env": env, "args": [CANARY]}]}})
}

fn review(kind: &str, group: &str, namespace: &str, object: &Value) -> String {
    json!({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": {
        "uid": "u-1", "kind": {"group": group, "version": "v1", "kind": kind}, "namespace": namespace,
        "operation": "CREATE", "object": object, "dryRun": false}})
    .to_string()
}

/// Bodies with the canary wherever a value can stand.
fn bodies() -> Vec<(&'static str, String)> {
    let step = |text: &str| json!({"podlayer.dev/pod-spec-patch": text.replace("CANARY", CANARY), "other": CANARY});
    let env = json!([{"name": "SECRET", "value": CANARY}]);
    let pods = [
        pod(json!({}), env.clone()),
        pod(step("containers: [{name: a, env: [{name: B, value: CANARY}]}]"), env.clone()),
        // A wrong type, an unknown field, a container that isn't there, text that is no YAML, a bad tag.
        pod(step("containers: [{name: a, env: [{name: B, value: [CANARY]}]}]"), env.clone()),
        pod(step("hostNetwork: CANARY"), env.clone()),
        pod(step("llamas: CANARY"), env.clone()),
        pod(step("containers: [{name: zz, args: [CANARY]}]"), env.clone()),
        pod(step("a: 'CANARY"), env.clone()),
        pod(step("a: CANARY: CANARY"), env.clone()),
        pod(step("priority: !!int CANARY"), env.clone()),
        pod(step("- CANARY"), env.clone()),
        pod(step("containers: [{name: a, $patch: CANARY}]"), env.clone()),
        pod(step("containers: [{name: a, env: [{$patch: replace}, {name: B, value: CANARY}]}]"), env.clone()),
        pod(json!({"podlayer.dev/command": CANARY, "podlayer.dev/image": "x"}), env.clone()),
        pod(json!({"podlayer.dev/applied": CANARY, "podlayer.dev/provenance": CANARY}), env.clone()),
        // Shapes that no pod has.
        pod(json!(CANARY), env.clone()),
        pod(json!({"a": [CANARY]}), json!(CANARY)),
        json!({"metadata": {"labels": {"podlayer.dev/enabled": "true"}, "ownerReferences": CANARY}, "spec": CANARY}),
        json!({"metadata": CANARY, "spec": {}}),
        json!(CANARY),
    ];
    let mut bodies = Vec::new();
    for pod in &pods {
        bodies.push(("/mutate", review("Pod", "", "ci", pod)));
        let job = json!({"metadata": {"name": "j"}, "spec": {"template": pod}});
        bodies.push(("/mutate", review("Job", "batch", "ci", &job)));
        bodies.push(("/validate", review("Job", "batch", "ci", &job)));
    }
    bodies.push((
        "/mutate",
        review("Pod", "", "ci", &pods[0]).replace("\"dryRun\":false", &format!("\"dryRun\":\"{CANARY}\"")),
    ));
    bodies.push(("/mutate", format!("\"{CANARY}\"")));
    bodies.push(("/mutate", format!("{{\"request\": {{\"object\": {{\"a\": \"{CANARY}")));
    bodies
}

#[tokio::test]
async fn a_value_in_a_pod_is_in_no_line_of_the_log_at_any_level_and_on_no_page() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    std::fs::create_dir(path("layers")).unwrap();
    std::fs::write(path("layers/base.yaml"), "containers:\n- name: a\n  env: [{name: A, value: b}]\n").unwrap();
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
    let mut running = Running(child);
    let said = || std::fs::read_to_string(path("out")).unwrap();
    let listening = within(async {
        loop {
            let line = said().lines().find(|line| line.contains("listening")).map(str::to_owned);
            if let Some(line) = line {
                return serde_json::from_str::<Value>(&line).unwrap();
            }
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    })
    .await;

    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(path("certs/ca.crt")).unwrap()).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let tcp = TcpStream::connect(listening["webhook"].as_str().unwrap()).await.unwrap();
    let tls = TlsConnector::from(Arc::new(config)).connect(ServerName::try_from("localhost").unwrap(), tcp).await;
    let mut client = Client::over(tls.unwrap());
    let (mut denied, mut patched) = (0, 0);
    for (path, body) in bodies() {
        assert!(body.contains(CANARY));
        let answer = client.post(path, body.as_bytes()).await;
        assert!([200, 400].contains(&answer.status), "{}", answer.body);
        denied += usize::from(answer.body.contains("\"allowed\":false"));
        patched += usize::from(answer.body.contains("\"patch\""));
    }
    assert!(denied >= 15 && patched >= 3, "{denied} denied, {patched} patched: the bodies are what they should be");
    let mut pages = String::new();
    for page in ["/metrics", "/layers", "/readyz"] {
        let mut admin = TcpStream::connect(listening["admin"].as_str().unwrap()).await.unwrap();
        let request = format!("GET {page} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        admin.write_all(request.as_bytes()).await.unwrap();
        within(admin.read_to_string(&mut pages)).await.unwrap();
    }
    assert!(pages.contains("\"used\":") && pages.contains("podlayer_decisions_total"), "{pages}");
    assert!(!pages.contains(CANARY), "{pages}");
    running.0.kill().unwrap();
    running.0.wait().unwrap();

    let log = said();
    let decided: Vec<Value> = log.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let decided: Vec<&Value> = decided.iter().filter(|event| event["message"] == "decided").collect();
    assert!(log.contains("\"DEBUG\""), "more than the usual levels are on");
    let whole =
        |event: &&&Value| event["uid"] == "u-1" && event["namespace"] == "ci" && event["generate_name"] == "job-x-";
    assert!(
        decided.iter().any(|event| whole(&event) && event["layers"] == "default/base" && event["outcome"] == "patched")
    );
    assert!(decided.iter().any(|event| whole(&event) && event["outcome"] == "denied"));
    let told: Vec<&str> = log.lines().filter(|line| line.contains(CANARY)).collect();
    assert!(told.is_empty(), "{}", told.join("\n"));
}
