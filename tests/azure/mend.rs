//! Replicas that die, agents that don't start or come too late, quotas that let half of an agent through: nothing leaks,
//! and a repeated call mends it.

use std::{
    collections::BTreeSet,
    io::{Read, Write},
    net::TcpListener,
    process::Command,
    sync::{Arc, Mutex},
    thread,
    time::Duration,
};

use rustls::{
    ServerConfig, ServerConnection, StreamOwned,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
};
use serde_json::{Value, json};

use crate::{
    controlplane::wait_until,
    support::{
        CANARY, LONG, Serve, acquire, at, bytes, has_event, namespace, plane, pods, pool, release, secrets, template,
        wait_nothing_left,
    },
};

#[test]
fn p2_a_pod_whose_secret_is_refused_goes_again_and_the_next_call_makes_both() {
    let namespace = namespace("half");
    pool(&namespace, "p", &json!({}));
    let serve = Serve::start(&namespace, &[]);
    let path = at(&namespace, "p", "acquire");
    // Room for the shared secret only: the pod can be made, its Secret can't.
    assert!(plane().kubectl(&["create", "quota", "none", "-n", &namespace, "--hard=secrets=1"]).ok);
    wait_until(LONG, "the quota to be in force", || {
        plane().get_json(&["quota", "none", "-n", &namespace])["status"]["used"]["secrets"] == "1"
    });
    let answer = serve.insist(&path, &bytes(&acquire("1")));
    assert_eq!((answer.status, &answer.body["accepted"]), (200, &json!(false)), "{answer:?}");
    wait_nothing_left(&namespace);
    assert!(plane().kubectl(&["delete", "quota", "none", "-n", &namespace]).ok);
    wait_until(LONG, "the agent to be accepted", || {
        serve.signed(&path, &bytes(&acquire("1"))).body["accepted"] == true
    });
    assert_eq!((pods(&namespace).len(), secrets(&namespace).len()), (1, 1));

    // Its Secret lost, as if a replica had died before it: the same call makes it, for the same pod.
    let before = pods(&namespace)[0]["metadata"]["uid"].clone();
    assert!(plane().kubectl(&["delete", "secrets", "-l", "AgentId", "-n", &namespace]).ok);
    assert_eq!(serve.insist(&path, &bytes(&acquire("1"))).body["accepted"], true);
    assert_eq!(pods(&namespace)[0]["metadata"]["uid"], before);
    assert_eq!(secrets(&namespace)[0]["metadata"]["ownerReferences"][0]["uid"], before, "p3: a true owner");
}

#[test]
fn p5_replicas_that_are_killed_at_any_moment_leave_nothing_that_a_repeated_call_does_not_mend() {
    let namespace = namespace("killed");
    pool(&namespace, "p", &json!({"max": 12}));
    let (acquires, releases) = (at(&namespace, "p", "acquire"), at(&namespace, "p", "release"));
    let steady = Serve::start(&namespace, &[]);
    let bodies: Vec<Vec<u8>> = (0..20).map(|agent| bytes(&acquire(&agent.to_string()))).collect();
    for round in 0..4u64 {
        let mut victim = Serve::start(&namespace, &[]);
        thread::scope(|scope| {
            for body in &bodies[round as usize * 5..][..5] {
                let (victim, acquires) = (&victim, &acquires);
                scope.spawn(move || victim.signed(acquires, body));
            }
            // Somewhere between the first and the last write.
            thread::sleep(Duration::from_millis(15 + 25 * round));
            let pid = victim.pid();
            assert!(Command::new("kill").args(["-9", &pid.to_string()]).status().unwrap().success());
        });
        victim.kill();
    }
    // Azure Pipelines heard nothing, so it calls again.
    let answers: Vec<Value> = bodies.iter().map(|body| steady.insist(&acquires, body).body).collect();
    let accepted: BTreeSet<String> =
        (0..20).filter(|agent| answers[*agent]["accepted"] == true).map(|agent| agent.to_string()).collect();
    assert_eq!(accepted.len(), 12, "{answers:?}");
    let ids = |objects: &[Value]| -> Vec<String> {
        let id = |object: &Value| object["metadata"]["labels"]["AgentId"].as_str().unwrap().to_owned();
        let mut ids: Vec<String> = objects.iter().map(id).collect();
        ids.sort();
        ids
    };
    let mut want: Vec<String> = accepted.iter().cloned().collect();
    want.sort();
    assert_eq!(ids(&pods(&namespace)), want);
    assert_eq!(ids(&secrets(&namespace)), want);
    for agent in 0..20 {
        assert_eq!(steady.insist(&releases, &bytes(&release(&agent.to_string()))).status, 202);
    }
    wait_nothing_left(&namespace);
}

#[test]
fn p5_a_caller_that_leaves_and_comes_again_elsewhere_finds_its_one_agent() {
    let namespace = namespace("leaves");
    pool(&namespace, "p", &json!({"max": 6}));
    let replicas = [Serve::start(&namespace, &[]), Serve::start(&namespace, &[])];
    let acquires = at(&namespace, "p", "acquire");
    for agent in 0..6usize {
        let body = bytes(&acquire(&agent.to_string()));
        replicas[agent % 2].leave(&acquires, &body);
        replicas[agent % 2].leave(&acquires, &body);
        assert_eq!(replicas[(agent + 1) % 2].insist(&acquires, &body).body["accepted"], true);
    }
    assert_eq!((pods(&namespace).len(), secrets(&namespace).len()), (6, 6));
    let one_more = replicas[0].insist(&acquires, &bytes(&acquire("7")));
    assert_eq!(one_more.body["accepted"], false, "none of them has two places");
}

#[test]
fn a_late_starter_is_taken_away_and_an_agent_that_is_released_before_it_was_asked_for_does_not_come() {
    let namespace = namespace("late");
    pool(&namespace, "p", &json!({}));
    let serve = Serve::start(&namespace, &[]);
    let (acquires, releases) = (at(&namespace, "p", "acquire"), at(&namespace, "p", "release"));
    assert_eq!(serve.signed(&acquires, &bytes(&acquire("1"))).body["accepted"], true);
    let made = pods(&namespace).remove(0);
    assert_eq!(serve.signed(&releases, &bytes(&release("1"))).status, 202);
    wait_nothing_left(&namespace);
    // What a replica would make that was held up between two calls.
    let metadata = &made["metadata"];
    let mut late = json!({"apiVersion": "v1", "kind": "Pod", "spec": made["spec"], "metadata": {
        "name": metadata["name"], "namespace": namespace, "labels": metadata["labels"],
        "annotations": metadata["annotations"], "ownerReferences": metadata["ownerReferences"]}});
    late["spec"].as_object_mut().unwrap().remove("nodeName");
    plane().apply(&late.to_string());
    wait_nothing_left(&namespace);
    assert!(serve.admin("/metrics").contains("podlayer_azure_reaped_total{reason=\"late\"} 1"));

    assert_eq!(serve.signed(&releases, &bytes(&release("2"))).status, 202, "absent is as good as released");
    assert_eq!(serve.signed(&acquires, &bytes(&acquire("2"))).body["accepted"], false);
    assert!(pods(&namespace).is_empty());
}

#[test]
fn p8_an_agent_that_does_not_start_in_time_is_told_of_and_taken_away() {
    let (azure, heard) = azure_devops();
    let folder = &azure.folder;
    let namespace = namespace("timeout");
    pool(&namespace, "p", &json!({"template": template("none"), "startTimeoutSeconds": 5}));
    let host = format!("localhost:{}", azure.port);
    let ca = folder.path().join("certs/ca.crt");
    let more = ["--callback-hosts", &host, "--callback-ca", ca.to_str().unwrap()];
    // Both replicas look; one of them tells.
    let replicas = [Serve::start(&namespace, &more), Serve::start(&namespace, &more)];
    let mut call = acquire("1");
    call["failRequestUrl"] = json!(format!("https://{host}/fail"));
    call["appendRequestMessageUrl"] = json!(format!("https://{host}/redirect"));
    assert_eq!(replicas[0].signed(&at(&namespace, "p", "acquire"), &bytes(&call)).body["accepted"], true);
    wait_until(LONG, "Azure DevOps to be told", || {
        heard.lock().unwrap().iter().any(|text| text.contains("POST /fail"))
    });
    wait_nothing_left(&namespace);
    wait_until(LONG, "the event", || has_event(&namespace, "AzureAgentFailed"));
    let heard = heard.lock().unwrap().clone();
    assert_eq!(heard.len(), 2, "{heard:?}");
    let fail = heard.iter().find(|text| text.contains("POST /fail")).unwrap();
    assert!(fail.contains("no node has room for its pod"), "{fail}");
    assert!(fail.to_lowercase().contains(&format!("authorization: bearer token-{CANARY}")), "{fail}");
    assert!(heard.iter().all(|text| !text.contains("GET")), "no redirect is followed: {heard:?}");
    assert!(replicas.iter().all(|replica| !replica.log().contains(CANARY)));
    // It doesn't come back when the call is repeated.
    assert_eq!(replicas[1].signed(&at(&namespace, "p", "acquire"), &bytes(&call)).body["accepted"], false);
}

struct AzureDevOps {
    port: u16,
    folder: tempfile::TempDir,
}

/// Takes calls back over TLS; answers `/redirect` by sending elsewhere.
fn azure_devops() -> (AzureDevOps, Arc<Mutex<Vec<String>>>) {
    let folder = tempfile::tempdir().unwrap();
    let certs = folder.path().join("certs");
    let made = Command::new(env!("CARGO_BIN_EXE_podlayer")).args(["certs", "--out"]).arg(&certs).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let chain = CertificateDer::pem_file_iter(certs.join("tls.crt")).unwrap().map(Result::unwrap).collect();
    let key = PrivateKeyDer::from_pem_file(certs.join("tls.key")).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .unwrap();
    let (config, heard) = (Arc::new(config), Arc::new(Mutex::new(Vec::new())));
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let keep = Arc::clone(&heard);
    thread::spawn(move || {
        for tcp in listener.incoming().map_while(Result::ok) {
            let Ok(connection) = ServerConnection::new(Arc::clone(&config)) else { continue };
            let mut stream = StreamOwned::new(connection, tcp);
            let mut text = Vec::new();
            let mut buffer = [0; 4096];
            while !whole(&text) {
                match stream.read(&mut buffer) {
                    Ok(count) if count > 0 => text.extend_from_slice(&buffer[..count]),
                    _ => break,
                }
            }
            let text = String::from_utf8_lossy(&text).into_owned();
            let answer = if text.contains("/redirect") {
                format!(
                    "HTTP/1.1 302 Found\r\nLocation: https://localhost:{port}/elsewhere\r\nContent-Length: 0\r\n\r\n"
                )
            } else {
                "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n".to_owned()
            };
            let _ = stream.write_all(answer.as_bytes());
            keep.lock().unwrap().push(text);
        }
    });
    (AzureDevOps { port, folder }, heard)
}

/// Whether a request has come to its end.
fn whole(text: &[u8]) -> bool {
    let text = String::from_utf8_lossy(text).to_lowercase();
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    let length = head.split("content-length: ").nth(1).and_then(|rest| rest.lines().next()?.trim().parse().ok());
    body.len() >= length.unwrap_or(0) || (head.contains("chunked") && body.ends_with("0\r\n\r\n"))
}
