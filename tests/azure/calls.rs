//! Single calls, and what is answered.

use std::{
    io::{Read, Write},
    net::TcpStream,
    process::Command,
    sync::Arc,
};

use rustls::{
    ClientConfig, ClientConnection, RootCertStore, StreamOwned,
    pki_types::{CertificateDer, pem::PemObject},
};
use serde_json::{Value, json};

use crate::{
    controlplane::wait_until,
    support::{
        CANARY, LONG, SECRET, Serve, acquire, at, bytes, change, has_event, name, namespace, plane, pods, pool,
        release, secrets, shared_secret, wait_nothing_left,
    },
};

#[test]
fn p1_what_is_not_signed_well_is_403_and_every_other_mistake_has_its_own_code() {
    let namespace = namespace("codes");
    pool(&namespace, "p", &json!({}));
    let mut serve = Serve::start(&namespace, &[]);
    let path = at(&namespace, "p", "acquire");
    let body = bytes(&acquire("1"));
    let json_type = "Content-Type: application/json\r\n";
    for signature in
        ["", "zz", "not hexadecimal at all", &"0".repeat(127), &"z".repeat(128), &"0".repeat(128), "\u{ff}"]
    {
        let answer = serve.call("POST", &path, &format!("{json_type}X-Azure-Signature: {signature}\r\n"), &body);
        assert!(answer.status == 403 && answer.body["error"].is_string(), "{signature:?}: {answer:?}");
    }
    assert_eq!(serve.call("POST", &path, json_type, &body).body["error"], "the header X-Azure-Signature is missing");
    assert_eq!(serve.signed_with("another secret: 16", "POST", &path, &body).status, 403);
    assert_eq!(serve.signed(&at(&namespace, "none", "acquire"), &body).status, 403, "no word on which pools there are");
    assert_eq!(serve.signed("/acquire", &body).status, 403, "there is no default pool");
    assert_eq!(serve.call("GET", &path, "", b"").status, 405);
    assert_eq!(serve.call("DELETE", "/acquire", "", b"").status, 405);
    assert_eq!(serve.call("GET", "/metrics", "", b"").status, 404, "nothing else is served here");
    assert_eq!(serve.call("POST", &path, "Content-Type: text/plain\r\n", &body).status, 415);
    assert_eq!(serve.call("POST", &path, json_type, &vec![b' '; (256 << 10) + 1]).status, 413);
    for (bad, want) in [
        (json!({}), "AgentId is missing or empty"),
        (json!({"AgentId": ""}), "AgentId is missing or empty"),
        (json!({"AgentId": "a,b"}), "AgentId is no id"),
        (json!({"AgentId": "1"}), "AgentConfiguration is missing or empty"),
        (json!([]), "the body is no JSON object"),
    ] {
        let answer = serve.signed(&path, &bytes(&bad));
        let error = answer.body["error"].as_str().unwrap_or_default();
        assert!(answer.status == 400 && error.starts_with(want), "{bad}: {answer:?}");
    }
    assert!(serve.is_alive() && pods(&namespace).is_empty());
}

#[test]
fn p10_an_agent_comes_and_goes_and_neither_the_spec_nor_any_log_learns_of_it() {
    let namespace = namespace("whole");
    let images = json!([{"name": "small", "image": "small:1"}, {"name": "tools", "image": "tools:1"}]);
    pool(
        &namespace,
        "p",
        &json!({"azure": {"secretName": "azurepipelines", "images": images, "accountId": "org-1", "agentPool": "k8s"}}),
    );
    let serve = Serve::start(&namespace, &["--default-pool", &format!("{namespace}/p")]);

    let mut wanted = acquire("17");
    wanted["agentSpecification"] = json!({"image": "tools", "containerImage": "evil.example/x"});
    wanted["failRequestUrl"] = json!("https://169.254.169.254/latest");
    let answer = serve.signed("/acquire", &bytes(&wanted));
    assert!(answer.status == 200 && answer.body["accepted"] == true, "{answer:?}");
    let made = pods(&namespace);
    assert_eq!(made.len(), 1);
    let (pod, labels) = (&made[0], &made[0]["metadata"]["labels"]);
    assert_eq!(answer.body["agentData"], json!({"pool": format!("{namespace}/p"), "pod": name(pod)}));
    assert_eq!((&labels["AgentId"], &labels["podlayer.dev/enabled"]), (&json!("17"), &json!("true")));
    assert_eq!(pod["spec"]["containers"][0]["image"], "tools:1");
    let secret = plane().get_json(&["secret", name(pod), "-n", &namespace]);
    let file = |key: &str| {
        use base64::Engine;
        let text = secret["data"][key].as_str().unwrap();
        String::from_utf8(base64::engine::general_purpose::STANDARD.decode(text).unwrap()).unwrap()
    };
    assert!(file(".credentials").contains(CANARY) && file(".agent").contains("\"PoolId\":\"3\""));
    assert_eq!(file(".url"), "https://vstsagentpackage.azureedge.net/agent.tar.gz");
    assert_eq!(file(".agentVersion"), "2.200.0");
    assert!(!file("callback").contains("169.254"), "only hosts of Azure DevOps are called back");

    // Beside it: another image of the pipeline's own, another account, another pool.
    for (key, value, status) in [
        ("agentSpecification", json!({"image": "evil.example/x:1"}), 400),
        ("accountId", json!("org-2"), 403),
        ("agentPool", json!("other"), 403),
    ] {
        let mut other = acquire("18");
        other[key] = value;
        let answer = serve.signed("/acquire", &bytes(&other));
        assert_eq!(answer.status, status, "{key}: {answer:?}");
    }

    let status = |agent: &str| serve.signed(&at(&namespace, "p", "status"), &bytes(&release(agent)));
    wait_until(LONG, "the agent to run", || status("17").body["statusMessage"] == "the agent's pod runs");
    assert_eq!(status("99").status, 204);
    let get = |path: &str| serve.signed_with(SECRET, "GET", &at(&namespace, "p", path), b"");
    let list = get("definitions");
    assert_eq!((&list.body["count"], &list.body["value"][1]["identifier"]), (&json!(2), &json!("tools")));
    assert_eq!(get("definitions/small").body["identifier"], "small");
    assert_eq!(get("definitions/none").status, 404);
    let parallelism = serve.signed(&at(&namespace, "p", "parallelism"), br#"{"accountId":"a","agentCloudId":"b"}"#);
    assert_eq!(parallelism.body, json!({"maxParallelism": 10}));

    let mut gone = release("17");
    gone["agentData"] = answer.body["agentData"].clone();
    assert_eq!(serve.signed("/release", &bytes(&gone)).status, 202);
    wait_nothing_left(&namespace);

    // Nothing is written into the pool's spec, and no credential anywhere but into the Secret.
    let pool = plane().get_json(&["agentpool", "p", "-n", &namespace]);
    assert_eq!(pool["metadata"]["generation"], 1);
    let log = serve.log();
    assert!(log.contains("route=\"acquire\"") && log.contains("outcome=\"accepted\""), "{log}");
    assert!(log.contains("o.job1"), "what a call belongs to is logged");
    let told =
        [log, serve.admin("/metrics"), plane().get_json(&["leases,events,agentpools", "-n", &namespace]).to_string()];
    for text in &told {
        assert!(!text.contains(CANARY) && !text.contains(SECRET));
    }
    assert!(told[1].contains("podlayer_azure_requests_total{route=\"acquire\",outcome=\"accepted\"} 1"), "{}", told[1]);
}

#[test]
fn p8_p9_max_pause_quota_and_a_refused_pod_are_told_as_not_accepted_and_every_change_takes_effect() {
    let namespace = namespace("declined");
    pool(&namespace, "p", &json!({"max": 0}));
    let serve = Serve::start(&namespace, &[]);
    let path = at(&namespace, "p", "acquire");
    let ask = |agent: &str| {
        let answer = serve.insist(&path, &bytes(&acquire(agent)));
        assert_eq!(answer.status, 200, "{answer:?}");
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        (answer.body["accepted"] == true, text(&answer.body["errorMessage"]))
    };
    let declined = |text: &str| (false, text.to_owned());
    assert_eq!(ask("1"), declined("the pool is at its max"));
    change(&namespace, "p", &json!({"max": 3}));
    assert!(ask("1").0, "max was raised");
    change(&namespace, "p", &json!({"paused": true}));
    assert_eq!(ask("2"), declined("the pool is paused"));
    assert!(ask("1").0, "the one that is there is still coming");
    change(&namespace, "p", &json!({"paused": false, "azure": {"images": [{"name": "new", "image": "new:1"}]}}));
    assert!(ask("2").0);
    let images: Vec<Value> = pods(&namespace).iter().map(|pod| pod["spec"]["containers"][0]["image"].clone()).collect();
    assert!(images.contains(&json!("agent:1")) && images.contains(&json!("new:1")), "{images:?}");

    // A quota with no room for another.
    assert!(plane().kubectl(&["create", "quota", "few", "-n", &namespace, "--hard=pods=2"]).ok);
    wait_until(LONG, "the quota to be in force", || {
        plane().get_json(&["quota", "few", "-n", &namespace])["status"]["used"]["pods"] == "2"
    });
    assert_eq!(ask("3"), declined("a ResourceQuota of the pool's namespace is used up"));
    assert!(plane().kubectl(&["delete", "quota", "few", "-n", &namespace]).ok);
    wait_until(LONG, "the agent to be accepted once the quota is gone", || ask("3").0);
    assert_eq!(serve.signed(&at(&namespace, "p", "release"), &bytes(&release("3"))).status, 202);

    // A pod that the API server refuses.
    let bad = json!({"spec": {"containers": [{"name": "agent", "image": "a", "volumeMounts": [{"name": "no", "mountPath": "/x"}]}]}});
    change(&namespace, "p", &json!({"template": bad}));
    wait_until(LONG, "the refusal to be told", || ask("4").1.starts_with("the cluster refused the agent's pod"));
    wait_until(LONG, "events", || {
        ["AzureDeclined", "AzureQuota", "AzureAgentRefused"].iter().all(|reason| has_event(&namespace, reason))
    });
    assert!(secrets(&namespace).iter().all(|secret| secret["metadata"]["labels"]["AgentId"] != "4"), "p2");
}

#[test]
fn too_many_calls_are_turned_away_before_anything_is_looked_at() {
    let namespace = namespace("rate");
    pool(&namespace, "p", &json!({}));
    let serve = Serve::start(&namespace, &["--calls-per-second", "1"]);
    let path = at(&namespace, "p", "acquire");
    let statuses: Vec<u16> =
        (0..10).map(|_| serve.signed_with("another secret: 16", "POST", &path, b"{}").status).collect();
    assert!(statuses.contains(&403) && statuses.contains(&429), "{statuses:?}");
    let refused = (0..20).map(|_| serve.signed(&path, b"{}")).find(|answer| answer.status == 429).unwrap();
    assert!(refused.text.to_lowercase().contains("retry-after: 1"), "{refused:?}");
}

#[test]
fn p4_a_secret_that_is_missing_or_too_short_is_told_and_no_call_is_taken() {
    let namespace = plane().namespace("secret");
    pool(&namespace, "p", &json!({"azure": {"secretName": "azurepipelines", "secretKeys": ["one", "two"]}}));
    let mut serve = Serve::start(&namespace, &[]);
    let ask = |serve: &Serve| serve.signed(&at(&namespace, "p", "acquire"), &bytes(&acquire("1"))).status;
    assert_eq!(ask(&serve), 503);
    wait_until(LONG, "the event", || has_event(&namespace, "AzureSecretUnusable"));
    shared_secret(&namespace, &json!({"one": "short", "two": ""}));
    assert_eq!(ask(&serve), 503);
    assert!(serve.log().contains("shared secret has 5 characters, at least 16 are needed"));
    shared_secret(&namespace, &json!({"one": "short", "two": format!("{SECRET}\n")}));
    wait_until(LONG, "the secret to be read", || ask(&serve) == 200);
    assert!(serve.is_alive());
}

#[test]
fn a_replica_that_is_told_to_stop_says_so_and_answers_on() {
    let namespace = namespace("drain");
    pool(&namespace, "p", &json!({}));
    let mut serve = Serve::start(&namespace, &[]);
    let ask = |serve: &Serve| serve.signed(&at(&namespace, "p", "acquire"), &bytes(&acquire("1")));
    assert_eq!(ask(&serve).status, 200);
    serve.terminate();
    wait_until(LONG, "it to be taken out of the Service", || serve.admin("/readyz").starts_with("HTTP/1.1 503"));
    let answer = ask(&serve);
    assert_eq!((answer.status, &answer.body["accepted"]), (200, &json!(true)), "endpoints learn it only later");
    // Told so again, it doesn't wait for them.
    serve.terminate();
    wait_until(LONG, "it to end", || !serve.is_alive());
}

#[test]
fn it_speaks_tls_itself_when_it_is_given_a_certificate() {
    let (namespace, folder) = (namespace("tls"), tempfile::tempdir().unwrap());
    pool(&namespace, "p", &json!({}));
    let certs = folder.path().join("certs");
    let made = Command::new(env!("CARGO_BIN_EXE_podlayer")).args(["certs", "--out"]).arg(&certs).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let file = |name: &str| certs.join(name).to_str().unwrap().to_owned();
    let serve = Serve::start(&namespace, &["--tls-cert", &file("tls.crt"), "--tls-key", &file("tls.key")]);
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(file("ca.crt")).unwrap() {
        roots.add(certificate.unwrap()).unwrap();
    }
    let config = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let connection = ClientConnection::new(Arc::new(config), "localhost".try_into().unwrap()).unwrap();
    let mut stream = StreamOwned::new(connection, TcpStream::connect(("127.0.0.1", serve.port)).unwrap());
    let head = "POST /acquire HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\
                Connection: close\r\n\r\n{}";
    stream.write_all(head.as_bytes()).unwrap();
    let mut answer = String::new();
    let _ = stream.read_to_string(&mut answer);
    assert!(answer.starts_with("HTTP/1.1 403"), "{answer}");
}
