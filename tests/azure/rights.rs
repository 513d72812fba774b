//! Who may do what.

use serde_json::{Value, json};

use crate::support::{Serve, acquire, at, bytes, namespace, plane, pods, pool, release, wait_nothing_left};

/// The kubeconfig of a service account.
fn account(namespace: &str, name: &str) -> (tempfile::NamedTempFile, String) {
    let plane = plane();
    let token = plane.kubectl(&["create", "token", name, "-n", namespace]).stdout.trim().to_owned();
    let kubeconfig = json!({"apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": plane.server(), "certificate-authority": plane.ca()}}],
        "users": [{"name": "c", "user": {"token": token}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c", "namespace": namespace}}]});
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), kubeconfig.to_string()).unwrap();
    (file, token)
}

/// Whether whoever has this token may do something.
fn may(namespace: &str, token: &str, verb: &str, resource: &str, subresource: &str, name: &str) -> bool {
    let review = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "spec": {
        "resourceAttributes": {"namespace": namespace, "verb": verb, "resource": resource,
                               "subresource": subresource, "name": name}}});
    let arguments = ["create", "--validate=false", "--token", token, "-o", "json", "-f", "-"];
    let made = plane().kubectl_in(&arguments, &review.to_string());
    assert!(made.ok, "{}", made.stderr);
    serde_json::from_str::<Value>(&made.stdout).unwrap()["status"]["allowed"] == true
}

#[test]
fn the_rights_in_the_manifests_are_enough_and_no_secret_can_be_listed_with_them() {
    let (plane, namespace) = (plane(), namespace("rights"));
    let made =
        plane.kubectl_in(&["apply", "-n", &namespace, "-f", "-"], include_str!("../../manifests/azure/roles.yaml"));
    assert!(made.ok, "{}", made.stderr);
    assert!(plane.kubectl(&["create", "serviceaccount", "azure", "-n", &namespace]).ok);
    let to = format!("--serviceaccount={namespace}:azure");
    let bound = plane.kubectl(&["create", "rolebinding", "azure", "-n", &namespace, "--role=podlayer-azure", &to]);
    assert!(bound.ok, "{}", bound.stderr);
    let (kubeconfig, token) = account(&namespace, "azure");
    pool(&namespace, "p", &json!({"max": 1}));
    let serve = Serve::start_as(&namespace, kubeconfig.path().to_str().unwrap(), &[]);
    let acquires = at(&namespace, "p", "acquire");
    let answer = serve.insist(&acquires, &bytes(&acquire("1")));
    assert_eq!(answer.body["accepted"], true, "{answer:?}");
    assert_eq!(serve.insist(&acquires, &bytes(&acquire("2"))).body["accepted"], false);
    assert_eq!(serve.signed(&at(&namespace, "p", "status"), &bytes(&release("1"))).status, 200);
    // A second call finds what is there, which takes other rights.
    assert_eq!(serve.insist(&acquires, &bytes(&acquire("1"))).body["accepted"], true);
    assert_eq!(serve.insist(&at(&namespace, "p", "release"), &bytes(&release("1"))).status, 202);
    wait_nothing_left(&namespace);
    assert!(!serve.log().contains(" cannot "), "{}", serve.log());
    let may = |verb: &str, resource: &str, subresource: &str| may(&namespace, &token, verb, resource, subresource, "");
    assert!(may("get", "secrets", "") && may("list", "pods", ""), "the question is put well");
    for (verb, resource, subresource) in [
        ("list", "secrets", ""),
        ("watch", "secrets", ""),
        ("update", "secrets", ""),
        ("patch", "pods", ""),
        ("create", "pods", "exec"),
        ("get", "configmaps", ""),
    ] {
        assert!(!may(verb, resource, subresource), "{verb} {resource}/{subresource}");
    }
}

#[test]
fn p12_an_agent_may_build_on_buildkit_and_reads_no_other_agents_credentials() {
    let (plane, namespace) = (plane(), namespace("builder"));
    let made =
        plane.kubectl_in(&["apply", "-n", &namespace, "-f", "-"], include_str!("../../manifests/azure/builder.yaml"));
    // The RoleBinding's account is in its own namespace, which `apply -n` fills in.
    assert!(made.ok, "{}", made.stderr);
    let (_kubeconfig, token) = account(&namespace, "podlayer-agent");
    let mut template = crate::support::template("large");
    template["spec"]["serviceAccountName"] = json!("podlayer-agent");
    pool(&namespace, "linux", &json!({"template": template}));
    let serve = Serve::start(&namespace, &[]);
    assert_eq!(serve.signed(&at(&namespace, "linux", "acquire"), &bytes(&acquire("1"))).body["accepted"], true);
    let agent = pods(&namespace).remove(0);
    assert_eq!(agent["spec"]["serviceAccountName"], "podlayer-agent");
    let allowed = |verb: &str, resource: &str, subresource: &str, name: &str| {
        may(&namespace, &token, verb, resource, subresource, name)
    };
    assert!(allowed("list", "pods", "", "") && allowed("create", "pods", "exec", "linux-buildkit-1"));
    let name = agent["metadata"]["name"].as_str().unwrap();
    for (verb, resource, subresource) in [
        ("create", "pods", "exec"),
        ("get", "secrets", ""),
        ("list", "secrets", ""),
        ("create", "pods", ""),
        ("delete", "pods", ""),
        ("get", "pods", "log"),
    ] {
        assert!(!allowed(verb, resource, subresource, name), "{verb} {resource}/{subresource}");
    }
}
