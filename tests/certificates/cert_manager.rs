//! cert-manager's mode with its real CA injector: a new CA and a new certificate lose no call.
//!
//! Its controller isn't here: the test writes the Secret that it would write. Nor is a kubelet: the test swaps a folder
//! as Secret volumes are swapped.

use std::{collections::HashSet, fs, os::unix::fs::symlink, path::Path, thread::sleep, time::Duration};

use base64::{Engine, engine::general_purpose::STANDARD};
use podlayer::{
    certs::dev::{Authority, Leaf},
    names,
};
use rustls::pki_types::{CertificateDer, pem::PemObject};
use serde::Deserialize;
use serde_json::{Value, json};
use time::OffsetDateTime;

use crate::{
    controlplane::{ControlPlane, free_port, project_root, wait_until},
    injector::{Injector, install_kinds},
    installation::KINDS,
    load::{self, Load},
    process::{Program, kubeconfig},
};

/// Pods a second.
const RATE: u64 = 20;
const WEBHOOKS: &str = "zz-podlayer";
/// Where the overlay mounts the Secret.
const MOUNTED: &str = "/etc/podlayer/tls";

/// The objects of `manifests/overlays/cert-manager`, applied.
struct Overlay<'a> {
    plane: &'a ControlPlane,
    /// The arguments of its Deployment.
    arguments: Vec<String>,
}

impl<'a> Overlay<'a> {
    /// Applies them for the pods of one namespace, which fails closed, at a port that needs no right to listen on.
    fn apply(plane: &'a ControlPlane, namespace: &str, port: u16) -> Self {
        let folder = project_root().join("manifests/overlays/cert-manager");
        let text = plane.kubectl(&["kustomize", &folder.to_string_lossy()]);
        assert!(text.ok, "{}", text.stderr);
        let documents = serde_yaml::Deserializer::from_str(&text.stdout);
        let mut objects: Vec<Value> = documents.map(|document| Value::deserialize(document).unwrap()).collect();
        let mut arguments = Vec::new();
        for object in &mut objects {
            match object["kind"].as_str().unwrap() {
                "Deployment" => {
                    // There are no nodes: its one pod is a process of this test.
                    object["spec"]["replicas"] = json!(0);
                    let all = object["spec"]["template"]["spec"]["containers"][0]["args"].as_array().unwrap();
                    arguments = all.iter().map(|argument| argument.as_str().unwrap().to_owned()).collect();
                }
                "Service" => object["spec"]["ports"][0]["port"] = json!(port),
                kind if KINDS.contains(&kind) => {
                    assert_eq!(object["metadata"]["name"], WEBHOOKS);
                    let entries = object["webhooks"].as_array_mut().unwrap();
                    entries.iter_mut().for_each(|entry| limit(entry, namespace, port));
                }
                _ => {}
            }
        }
        let list = json!({"apiVersion": "v1", "kind": "List", "items": objects});
        // Its own namespace is one of the objects, and what is in it may be refused until that is there.
        let own = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": names::NAMESPACE}});
        plane.apply(&own.to_string());
        let applied = plane.kubectl_in(&["apply", "--server-side", "-f", "-"], &list.to_string());
        assert!(applied.ok, "{}", applied.stderr);
        Self { plane, arguments }
    }

    /// Every CA of every entry's `caBundle`, if all entries hold the same.
    fn trusted(&self) -> Option<HashSet<CertificateDer<'static>>> {
        let entries = KINDS.iter().flat_map(|kind| {
            let configuration = self.plane.get_json(&[kind, WEBHOOKS]);
            configuration["webhooks"].as_array().unwrap().clone()
        });
        let mut bundles = entries.map(|entry| {
            let bundle = entry["clientConfig"]["caBundle"].as_str().unwrap_or_default();
            let bundle = STANDARD.decode(bundle).unwrap();
            CertificateDer::pem_slice_iter(&bundle).map(Result::unwrap).collect::<HashSet<_>>()
        });
        let first = bundles.next().unwrap();
        bundles.all(|bundle| bundle == first).then_some(first)
    }

    fn wait_for(&self, what: &str, authorities: &[&Authority]) {
        let want = authorities.iter().map(|authority| der(authority.certificate())).collect();
        wait_until(Duration::from_secs(30), what, || self.trusted().as_ref() == Some(&want));
    }

    /// Puts one CA alone in the place of every `caBundle`.
    fn trust_only(&self, authority: &Authority) {
        let bundle = STANDARD.encode(authority.certificate());
        for kind in KINDS {
            let entries = self.plane.get_json(&[kind, WEBHOOKS])["webhooks"].as_array().unwrap().len();
            let replace = |entry: usize| {
                let path = format!("/webhooks/{entry}/clientConfig/caBundle");
                json!({"op": "replace", "path": path, "value": bundle})
            };
            let patch = Value::from((0..entries).map(replace).collect::<Vec<_>>()).to_string();
            let patched = self.plane.kubectl(&["patch", kind, WEBHOOKS, "--type=json", "-p", &patch]);
            assert!(patched.ok, "{}", patched.stderr);
        }
    }

    /// Starts podlayer as its Deployment would: with its arguments and as its account.
    fn start(&self, address: &str, volume: &Path) -> Program {
        let token = self.plane.kubectl(&["create", "token", "podlayer", "-n", names::NAMESPACE]);
        assert!(token.ok, "{}", token.stderr);
        let volume = volume.to_string_lossy();
        // Each container has a network of its own, and these listen on all of it.
        let own_network = |argument: &&String| argument.starts_with("--addr=") || argument.starts_with("--admin-addr=");
        let mut arguments: Vec<String> =
            self.arguments.iter().skip(1).filter(|all| !own_network(all)).cloned().collect();
        for argument in &mut arguments {
            *argument = argument.replace(MOUNTED, &volume);
        }
        assert!(arguments.iter().any(|argument| argument.contains(&*volume)), "{:?}", self.arguments);
        let mut all: Vec<&str> = arguments.iter().map(String::as_str).collect();
        all.extend(["--addr", address, "--own-namespace", names::NAMESPACE]);
        Program::start(&kubeconfig(self.plane, token.stdout.trim()), &all)
    }
}

/// The API server asks about this namespace, by the entries that fail closed, and about no other: other tests of this
/// process have pods too. The time is for a busy machine; what is shown here is trust.
fn limit(entry: &mut Value, namespace: &str, port: u16) {
    entry["timeoutSeconds"] = json!(10);
    entry["clientConfig"]["service"]["port"] = json!(port);
    let name = entry["name"].as_str().unwrap().to_owned();
    let expressions = entry["namespaceSelector"]["matchExpressions"].as_array_mut().unwrap();
    if name.ends_with("-fail.podlayer.dev") {
        let named = expressions.iter_mut().find(|found| found["values"] == json!(["no.namespace"])).unwrap();
        named["values"] = json!([namespace]);
        assert_eq!(entry["failurePolicy"], "Fail");
    } else if name != "layers.podlayer.dev" {
        let none = json!({"key": "kubernetes.io/metadata.name", "operator": "In", "values": ["no.namespace"]});
        expressions.push(none);
    }
}

/// The Secret of the Certificate `podlayer-tls`, as cert-manager's controller writes it: CA and leaf at once.
fn write_secret(plane: &ControlPlane, authority: &Authority, leaf: &Leaf) {
    let issued = "cert-manager.io";
    let data = [("ca.crt", authority.certificate()), ("tls.crt", &leaf.certificate), ("tls.key", &leaf.key)];
    let data: serde_json::Map<String, Value> =
        data.into_iter().map(|(key, text)| (key.to_owned(), STANDARD.encode(text).into())).collect();
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls", "data": data,
        "metadata": {
            "name": "podlayer-tls", "namespace": names::NAMESPACE,
            "labels": {format!("controller.{issued}/fao"): "true"},
            "annotations": {
                format!("{issued}/certificate-name"): "podlayer-tls", format!("{issued}/issuer-name"): "podlayer-authority",
                format!("{issued}/issuer-kind"): "Issuer", format!("{issued}/issuer-group"): issued,
            },
        },
    });
    plane.apply(&secret.to_string());
}

/// As the kubelet does it: a new folder with what is in the Secret now, a new link to it, and the link renamed over the
/// one before.
fn mount(plane: &ControlPlane, volume: &Path, version: &str) {
    let secret = plane.get_json(&["secret", "podlayer-tls", "-n", names::NAMESPACE]);
    let folder = format!("..{version}");
    fs::create_dir(volume.join(&folder)).unwrap();
    for (key, value) in secret["data"].as_object().unwrap() {
        let value = STANDARD.decode(value.as_str().unwrap()).unwrap();
        fs::write(volume.join(&folder).join(key), value).unwrap();
        if !volume.join(key).is_symlink() {
            symlink(Path::new("..data").join(key), volume.join(key)).unwrap();
        }
    }
    symlink(&folder, volume.join("..data_tmp")).unwrap();
    fs::rename(volume.join("..data_tmp"), volume.join("..data")).unwrap();
}

fn authority() -> Authority {
    Authority::new(OffsetDateTime::now_utc()).unwrap()
}

fn leaf(authority: &Authority) -> Leaf {
    let name = format!("{}.{}.svc", names::SERVICE, names::NAMESPACE);
    authority.leaf(&[name], &[], OffsetDateTime::now_utc()).unwrap()
}

fn der(pem: &str) -> CertificateDer<'static> {
    CertificateDer::from_pem_slice(pem.as_bytes()).unwrap()
}

#[test]
fn a_renewed_ca_and_certificate_lose_no_call_for_the_injector_keeps_the_one_before() {
    let plane = ControlPlane::shared();
    install_kinds(plane);
    let port = free_port();
    let jobs = plane.namespace("ci");
    let overlay = Overlay::apply(plane, &jobs, port);
    // What the injector follows from the annotation to the Secret; the API server takes all of it.
    let certificates = project_root().join("certs/cert-manager");
    let applied = plane.kubectl(&["apply", "--validate=strict", "-f", &certificates.to_string_lossy()]);
    assert!(applied.ok, "{}", applied.stderr);

    let _injector = Injector::start(plane);
    let (old, new) = (authority(), authority());
    write_secret(plane, &old, &leaf(&old));
    overlay.wait_for("the injector to write the CA into every entry", &[&old]);
    let volume = tempfile::tempdir().unwrap();
    mount(plane, volume.path(), "1");
    let service = plane.get_json(&["service", names::SERVICE, "-n", names::NAMESPACE]);
    let address = format!("{}:{port}", service["spec"]["clusterIP"].as_str().unwrap());
    let program = overlay.start(&address, volume.path());
    wait_until(Duration::from_secs(30), "podlayer to be ready", || program.get("/readyz").starts_with("HTTP/1.1 200"));
    wait_until(Duration::from_secs(30), "the API server to call podlayer", || load::is_stamped(plane, &jobs));

    let load = Load::start(plane, &jobs, RATE);
    sleep(Duration::from_secs(1));
    // Another key, for cert-manager's users may have that, with the same name as the one before.
    write_secret(plane, &new, &leaf(&new));
    overlay.wait_for("the injector to add the new CA to the old one in every entry", &[&old, &new]);
    // The volume lags behind: what is served is still the old one's.
    sleep(Duration::from_secs(1));
    let reloads = "podlayer_certificate_reloads_total{result=\"changed\"} ";
    assert!(program.get("/metrics").contains(&format!("\n{reloads}0\n")), "{}", program.get("/metrics"));
    mount(plane, volume.path(), "2");
    wait_until(Duration::from_secs(60), "podlayer to serve the new certificate", || {
        program.get("/metrics").contains(&format!("\n{reloads}1\n"))
    });
    // As when the old one has ended, which is when the injector drops it. API servers connect anew when what they trust
    // has changed: so this also shows that the new certificate is good for them.
    overlay.trust_only(&new);
    sleep(Duration::from_secs(2));
    overlay.wait_for("the injector to leave the new CA alone", &[&new]);
    let outcome = load.stop();
    assert!(outcome.failed.is_empty() && outcome.unstamped == 0, "{outcome}");
    assert!(outcome.made >= 50, "too little load to say anything: {outcome}");
    let log = program.log();
    assert!(!log.contains("forbidden"), "it needs no right on Secrets and configurations: {log}");
}
