//! The chart that lets Azure DevOps in: what it renders, and what a real API server with the kinds of Gateway API and
//! cert-manager makes of it.

use std::{collections::BTreeMap, fs};

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

use crate::{
    controlplane::{ControlPlane, Output},
    crds,
    helm::{merge, objects, offline, on, turn},
};

const CHART: &str = "charts/podlayer-ingress";
const NAME: &str = "agents.example.com";

fn with_name(more: Value) -> Value {
    let mut values = json!({"dnsName": NAME});
    merge(&mut values, more);
    values
}

fn render(namespace: &str, values: &Value, more: &[&str]) -> Output {
    offline(&[&["template", "podlayer-ingress", CHART, "--namespace", namespace], more].concat(), values)
}

fn rendered(values: &Value) -> BTreeMap<String, Value> {
    let output = render("podlayer", values, &[]);
    assert!(output.ok, "{values}: {}", output.stderr);
    objects(&output.stdout)
}

/// A certificate with its key, as files and as arguments of helm.
struct Pair {
    _folder: tempfile::TempDir,
    certificate: String,
    key: String,
    arguments: [String; 4],
}

impl Pair {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let made = rcgen::generate_simple_self_signed(vec![NAME.to_owned()]).unwrap();
        let (certificate, key) = (made.cert.pem(), made.signing_key.serialize_pem());
        let file = |name: &str, text: &str| {
            fs::write(folder.path().join(name), text).unwrap();
            folder.path().join(name).display().to_string()
        };
        let files = [("certificate", file("tls.crt", &certificate)), ("key", file("tls.key", &key))];
        let [first, second] = files.map(|(value, file)| format!("tls.{value}={file}"));
        let arguments = ["--set-file".into(), first, "--set-file".into(), second];
        Self { _folder: folder, certificate, key, arguments }
    }

    fn arguments(&self) -> Vec<&str> {
        self.arguments.iter().map(String::as_str).collect()
    }
}

/// Both ways to come in with each way to get a certificate.
fn varieties() -> Vec<(&'static str, Value)> {
    let pools = json!([{"namespace": "ci", "name": "linux"}, {"namespace": "ci", "name": "gpu.v2"}]);
    let gateway = json!({"kind": "Gateway", "gateway": {"className": "test"}});
    let on_gateway = |more: Value| {
        let mut values = gateway.clone();
        merge(&mut values, more);
        values
    };
    vec![
        ("Ingress, Secret", json!({"ingress": {"className": "test", "annotations": {"a/b": "c"}}, "pools": pools})),
        ("Ingress, files", json!({"tls": {"mode": "Files"}})),
        (
            "Ingress, Let's Encrypt",
            json!({"ingress": {"className": "test"}, "tls": {"mode": "LetsEncrypt"},
                                          "letsEncrypt": {"email": "ci@example.com"}}),
        ),
        (
            "Ingress of the default class, staging",
            json!({"tls": {"mode": "LetsEncrypt"}, "letsEncrypt": {"staging": true}}),
        ),
        (
            "Ingress, an issuer that is there",
            json!({"tls": {"mode": "LetsEncrypt"},
                                                    "letsEncrypt": {"createIssuer": false, "issuerName": "ours"}}),
        ),
        ("Gateway, Secret", on_gateway(json!({"pools": pools, "gateway": {"annotations": {"a/b": "c"}}}))),
        ("Gateway, files", on_gateway(json!({"tls": {"mode": "Files"}, "defaultPool": false, "pools": pools}))),
        ("Gateway, Let's Encrypt", on_gateway(json!({"tls": {"mode": "LetsEncrypt"}}))),
        (
            "a Gateway that is there",
            json!({"kind": "Gateway", "tls": {"mode": "Gateway"},
            "gateway": {"existing": {"name": "main", "namespace": "infra", "sectionName": "https"}}}),
        ),
    ]
}

#[test]
fn ingress_and_gateway_let_in_exact_paths_of_one_name_and_nothing_else() {
    let pools = json!([{"namespace": "ci", "name": "linux"}]);
    let wanted = [
        "/acquire",
        "/release",
        "/v1/pools/ci/linux/acquire",
        "/v1/pools/ci/linux/release",
        "/v1/pools/ci/linux/status",
    ];
    let ingress = &rendered(&with_name(json!({"pools": pools, "ingress": {"className": "nginx"}})))["Ingress/podlayer/podlayer-azure"]
        ["spec"];
    assert_eq!(ingress["ingressClassName"], "nginx");
    assert_eq!(ingress["tls"], json!([{"hosts": [NAME], "secretName": "podlayer-azure-tls"}]));
    assert_eq!(ingress["rules"].as_array().unwrap().len(), 1);
    assert_eq!(ingress["rules"][0]["host"], NAME);
    let backend = json!({"service": {"name": "azure-pipelines-pool", "port": {"number": 80}}});
    let paths: Vec<Value> =
        wanted.iter().map(|path| json!({"path": path, "pathType": "Exact", "backend": backend})).collect();
    assert_eq!(ingress["rules"][0]["http"]["paths"], json!(paths));
    assert!(ingress.get("defaultBackend").is_none());

    let values = json!({"pools": pools, "kind": "Gateway", "gateway": {"className": "envoy"}});
    let objects = rendered(&with_name(values));
    let mut there: Vec<String> = Vec::new();
    for (_, route) in objects.iter().filter(|(key, _)| key.starts_with("HTTPRoute/")) {
        let spec = &route["spec"];
        assert_eq!((&spec["hostnames"], spec["rules"].as_array().unwrap().len()), (&json!([NAME]), 1));
        assert_eq!(spec["parentRefs"], json!([{"name": "podlayer-azure", "sectionName": "https"}]));
        assert_eq!(spec["rules"][0]["backendRefs"], json!([{"name": "azure-pipelines-pool", "port": 80}]));
        for matched in spec["rules"][0]["matches"].as_array().unwrap() {
            assert_eq!(matched["path"]["type"], "Exact");
            there.push(matched["path"]["value"].as_str().unwrap().to_owned());
        }
    }
    assert_eq!(there, wanted);
    let listeners = objects["Gateway/podlayer/podlayer-azure"]["spec"]["listeners"].as_array().unwrap();
    assert_eq!(listeners.len(), 1, "nothing listens without TLS");
    assert_eq!(listeners[0]["tls"]["certificateRefs"], json!([{"name": "podlayer-azure-tls"}]));
}

#[test]
fn lets_encrypt_proves_the_name_where_calls_come_in() {
    let certificate =
        |objects: &BTreeMap<String, Value>| objects["Certificate/podlayer/podlayer-azure"]["spec"].clone();
    let objects = rendered(&with_name(json!({"tls": {"mode": "LetsEncrypt"}, "ingress": {"className": "nginx"}})));
    let acme = &objects["ClusterIssuer//podlayer-letsencrypt"]["spec"]["acme"];
    assert_eq!(acme["server"], "https://acme-v02.api.letsencrypt.org/directory");
    assert_eq!(acme["solvers"], json!([{"http01": {"ingress": {"ingressClassName": "nginx"}}}]));
    assert_eq!(certificate(&objects)["secretName"], "podlayer-azure-tls");
    assert_eq!(certificate(&objects)["dnsNames"], json!([NAME]));

    let staging = rendered(&with_name(json!({"tls": {"mode": "LetsEncrypt"}, "letsEncrypt": {"staging": true}})));
    let acme = &staging["ClusterIssuer//podlayer-letsencrypt-staging"]["spec"]["acme"];
    assert_eq!(acme["server"], "https://acme-staging-v02.api.letsencrypt.org/directory");
    assert_eq!(
        certificate(&staging)["issuerRef"]["name"],
        "podlayer-letsencrypt-staging",
        "so a change brings a new one"
    );

    let values = json!({"tls": {"mode": "LetsEncrypt"}, "kind": "Gateway", "gateway": {"className": "envoy"}});
    let objects = rendered(&with_name(values));
    let solver = &objects["ClusterIssuer//podlayer-letsencrypt"]["spec"]["acme"]["solvers"][0]["http01"];
    assert_eq!(solver["gatewayHTTPRoute"]["parentRefs"][0]["sectionName"], "http");
    let listeners = &objects["Gateway/podlayer/podlayer-azure"]["spec"]["listeners"];
    assert_eq!((&listeners[1]["name"], &listeners[1]["port"]), (&json!("http"), &json!(80)));
    // The challenge's listener leads nowhere else.
    assert_eq!(objects["HTTPRoute/podlayer/podlayer-azure"]["spec"]["parentRefs"][0]["sectionName"], "https");

    let ours = json!({"tls": {"mode": "LetsEncrypt"}, "letsEncrypt": {"createIssuer": false, "issuerName": "ours", "staging": true}});
    let objects = rendered(&with_name(ours));
    assert!(!objects.keys().any(|key| key.starts_with("ClusterIssuer")));
    assert_eq!(certificate(&objects)["issuerRef"]["name"], "ours");
}

#[test]
fn two_files_become_the_secret_that_is_served() {
    let pair = Pair::new();
    let output = render("podlayer", &with_name(json!({"tls": {"mode": "Files"}})), &pair.arguments());
    assert!(output.ok, "{}", output.stderr);
    let secret = &objects(&output.stdout)["Secret/podlayer/podlayer-azure-tls"];
    assert_eq!(secret["type"], "kubernetes.io/tls");
    let text = |key: &str| String::from_utf8(STANDARD.decode(secret["data"][key].as_str().unwrap()).unwrap()).unwrap();
    assert_eq!((text("tls.crt"), text("tls.key")), (pair.certificate.clone(), pair.key.clone()));
}

#[test]
fn the_same_values_render_the_same_bytes() {
    let pair = Pair::new();
    for (what, values) in varieties() {
        let files = if values["tls"]["mode"] == "Files" { pair.arguments() } else { Vec::new() };
        let render = || render("podlayer", &with_name(values.clone()), &files);
        let (first, second) = (render(), render());
        assert!(first.ok, "{what}: {}", first.stderr);
        assert!(first.stdout == second.stdout, "{what}");
    }
}

#[test]
fn the_api_server_takes_every_variety() {
    crds::install();
    let plane = ControlPlane::shared();
    let namespace = plane.namespace("ingress");
    let pair = Pair::new();
    for (what, values) in varieties() {
        let files = if values["tls"]["mode"] == "Files" { pair.arguments() } else { Vec::new() };
        let output = render(&namespace, &with_name(values), &files);
        assert!(output.ok, "{what}: {}", output.stderr);
        let applied = plane.kubectl_in(&["apply", "--dry-run=server", "-f", "-"], &output.stdout);
        assert!(applied.ok && !applied.stderr.to_lowercase().contains("warning"), "{what}: {}", applied.stderr);
    }
}

#[test]
fn a_release_comes_changes_its_certificate_and_leaves_nothing() {
    let _turn = turn();
    crds::install();
    let plane = ControlPlane::shared();
    let namespace = plane.namespace("ingress");
    let issuer = format!("{namespace}-issuer");
    let pair = Pair::new();
    let helm = |arguments: &[&str], values: &Value| {
        let output = on(plane, &[arguments, &["--namespace", &namespace]].concat(), values);
        assert!(output.ok, "{arguments:?}: {}", output.stderr);
        output.stdout
    };
    let files = with_name(json!({"tls": {"mode": "Files"}}));
    helm(&[&["install", "podlayer-ingress", CHART][..], &pair.arguments()].concat(), &files);
    let stored = plane.get_json(&["secret", "podlayer-azure-tls", "-n", &namespace]);
    assert_eq!(stored["data"]["tls.crt"], json!(STANDARD.encode(&pair.certificate)));
    let encrypt =
        with_name(json!({"kind": "Gateway", "gateway": {"className": "test"}, "tls": {"mode": "LetsEncrypt"},
                                   "letsEncrypt": {"issuerName": issuer}}));
    helm(&["upgrade", "podlayer-ingress", CHART], &encrypt);
    let kinds = "ingresses,gateways.gateway.networking.k8s.io,httproutes,certificates.cert-manager.io";
    let there = || plane.kubectl(&["get", kinds, "-n", &namespace, "-o", "name"]).stdout;
    let wanted = "gateway.gateway.networking.k8s.io/podlayer-azure\nhttproute.gateway.networking.k8s.io/podlayer-azure\n\
                  certificate.cert-manager.io/podlayer-azure\n";
    assert_eq!(there(), wanted, "the Ingress is gone");
    assert!(plane.kubectl(&["get", "clusterissuer", &issuer]).ok);
    let notes = helm(&["get", "notes", "podlayer-ingress"], &Value::Null);
    for wanted in [
        "  https://agents.example.com/acquire\n  https://agents.example.com/release\n",
        &format!("kubectl -n {namespace} get gateway podlayer-azure"),
        &format!("kubectl -n {namespace} wait certificate podlayer-azure"),
        "https://agents.example.com/acquire\n\nThen: podlayer azure register",
    ] {
        assert!(notes.contains(wanted), "{wanted} is not in {notes}");
    }
    helm(&["uninstall", "podlayer-ingress"], &Value::Null);
    assert_eq!(there(), "");
    assert!(!plane.kubectl(&["get", "clusterissuer", &issuer]).ok);
}

#[test]
fn values_that_would_not_work_are_refused_with_what_to_write() {
    let refused = |values: Value, more: &[&str], wanted: &str| {
        let output = render("podlayer", &values, more);
        assert!(!output.ok, "{values} was let through");
        assert!(output.stderr.contains(wanted), "{wanted} is not in: {}", output.stderr);
    };
    refused(json!({}), &[], "dnsName is required: the public name by which Azure DevOps calls");
    for (more, wanted) in [
        (json!({"dnsNames": []}), "dnsNames"),
        (json!({"dnsName": "https://agents.example.com"}), "/dnsName"),
        (json!({"dnsName": "agents"}), "/dnsName"),
        (json!({"kind": "Route"}), "/kind"),
        (json!({"ingress": {"class": "nginx"}}), "class"),
        (json!({"gateway": {"existing": {"names": "x"}}}), "names"),
        (json!({"tls": {"mode": "None"}}), "/tls/mode"),
        (json!({"letsEncrypt": {"email": "me"}}), "/letsEncrypt/email"),
        (json!({"pools": [{"namespace": "ci"}]}), "/pools/0"),
        (json!({"pools": [{"namespace": "ci", "name": "../metrics"}]}), "/pools/0/name"),
        (json!({"endpoints": ["metrics"]}), "/endpoints/0"),
        (json!({"service": {"port": 0}}), "/service/port"),
        (json!({"defaultPool": false}), "nothing is let in: set defaultPool to true or list pools"),
        (json!({"kind": "Gateway"}), "kind Gateway needs gateway.className"),
        (json!({"kind": "Gateway", "gateway": {"className": "a", "existing": {"name": "b"}}}), "set one of them"),
        (
            json!({"kind": "Gateway", "gateway": {"existing": {"name": "main"}}}),
            "tls.mode is ExistingSecret, but the Gateway main ends TLS with a certificate of its own: set tls.mode to Gateway",
        ),
        (json!({"tls": {"mode": "Gateway"}}), "tls.mode Gateway is for kind Gateway with gateway.existing.name"),
        (json!({"gateway": {"className": "a"}}), "are for kind Gateway, and kind is Ingress"),
        (
            json!({"kind": "Gateway", "gateway": {"className": "a"}, "ingress": {"className": "nginx"}}),
            "are for kind Ingress, and kind is Gateway",
        ),
        (json!({"tls": {"mode": "Files"}}), "--set-file tls.certificate=tls.crt --set-file tls.key=tls.key"),
        (json!({"tls": {"certificate": "x"}}), "are for tls.mode Files, and tls.mode is ExistingSecret"),
        (
            json!({"tls": {"mode": "Files", "certificate": "tls.crt", "key": "tls.key"}}),
            "given with --set and not --set-file?",
        ),
    ] {
        refused(with_name(more), &[], wanted);
    }
    let pair = Pair::new();
    let with_key = |key: &str| json!({"tls": {"mode": "Files", "certificate": pair.certificate, "key": key}});
    refused(with_name(with_key(&pair.certificate)), &[], "tls.key is no PEM key");
    let encrypted = "-----BEGIN ENCRYPTED PRIVATE KEY-----\nx\n-----END ENCRYPTED PRIVATE KEY-----\n";
    refused(with_name(with_key(encrypted)), &[], "tls.key is encrypted; write it without a passphrase");
    let mut swapped = pair.arguments();
    let first = swapped[1].replace("tls.certificate=", "tls.key=");
    let second = swapped[3].replace("tls.key=", "tls.certificate=");
    (swapped[1], swapped[3]) = (&first, &second);
    refused(with_name(json!({"tls": {"mode": "Files"}})), &swapped, "tls.certificate is no PEM certificate");
}

#[test]
fn the_chart_passes_the_strict_linter_and_its_readme_shows_values_that_render() {
    let output = offline(&["lint", "--strict", CHART], &with_name(json!({})));
    assert!(output.ok, "{}{}", output.stdout, output.stderr);
    let text = fs::read_to_string(crate::controlplane::project_root().join(CHART).join("README.md")).unwrap();
    let example = text.split("```yaml\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let shown: Value = serde_yaml::from_str(example).unwrap();
    assert!(rendered(&shown).contains_key("HTTPRoute/podlayer/podlayer-azure.ci.linux"));
}
