//! The JSON endpoint as KEDA's metrics-api scaler reads it: a status other than 200 is an error, on which it leaves the
//! scale as it is; the number is found by a path of names in the body (`valueLocation`).

use serde_json::{Value, json};

use crate::{
    controlplane::wait_until,
    support::{Controller, LONG, plane, pool},
    way::Way,
};

/// One reading: the number, or the status and what the body says.
fn keda(controller: &Controller, namespace: &str, value_location: &str) -> Result<i64, String> {
    let answer = controller.get(&format!("/v1/pools/{namespace}/p"));
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    let status = head.split(' ').nth(1).unwrap_or("no answer");
    if status != "200" {
        return Err(format!("{status} {body}"));
    }
    let body: Value = serde_json::from_str(body).unwrap();
    let found = value_location.split('.').fold(&body, |at, name| &at[name]);
    found.as_i64().ok_or_else(|| format!("no number at {value_location} of {body}"))
}

fn is_503(answer: &Result<i64, String>, why: &str) -> bool {
    matches!(answer, Err(text) if text.starts_with("503 ") && text.contains(why))
}

/// A pool that counts, and so many jobs that wait.
fn counted(namespace: &str, jobs: usize) {
    let plane = plane();
    plane.apply(&pool(namespace, "p", &json!({"mode": "Observe", "max": 50})).to_string());
    let job = |number: usize| {
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": format!("j{number}"), "namespace": namespace, "labels": {"ci": "p"}},
               "spec": {"nodeSelector": {"test-node": "none"}, "containers": [{"name": "j", "image": "j"}]}})
    };
    let jobs: Vec<_> = (0..jobs).map(job).collect();
    plane.apply(&json!({"apiVersion": "v1", "kind": "List", "items": jobs}).to_string());
}

#[test]
fn keda_gets_its_numbers_and_503_while_nothing_was_listed_or_a_watch_fails() {
    let plane = plane();
    let namespace = plane.namespace("keda");
    counted(&namespace, 3);
    let way = Way::to(plane);
    way.cut();
    let controller = Controller::spawn(&namespace, &way.kubeconfig());
    wait_until(LONG, "503 before anything was listed", || {
        is_503(&keda(&controller, &namespace, "queued"), "not everything was listed yet")
    });
    assert!(controller.get("/readyz").starts_with("HTTP/1.1 503"));

    way.open();
    // Never a 0 on the way: KEDA would take it for an empty queue.
    let mut answer = Err(String::new());
    wait_until(LONG, "the numbers", || {
        answer = keda(&controller, &namespace, "queued");
        answer.is_ok()
    });
    assert_eq!(answer, Ok(3));
    assert_eq!(keda(&controller, &namespace, "inFlight"), Ok(3));

    way.cut();
    wait_until(LONG, "503 while watches fail", || is_503(&keda(&controller, &namespace, "queued"), "may be old"));
    way.open();
    wait_until(LONG, "the numbers again", || keda(&controller, &namespace, "queued").is_ok());
    assert_eq!(keda(&controller, &namespace, "queued"), Ok(3));
}

#[test]
fn keda_gets_503_from_a_follower_whose_api_server_says_nothing_any_more() {
    let plane = plane();
    let namespace = plane.namespace("keda");
    counted(&namespace, 1);
    let _leader = Controller::start(plane, &namespace);
    let way = Way::to(plane);
    let follower = Controller::start_as(&namespace, &way.kubeconfig());
    wait_until(LONG, "the number", || keda(&follower, &namespace, "queued") == Ok(1));
    // Its connections stay open: no watch fails, and no event comes.
    way.block();
    plane.kubectl(&["delete", "pods", "-n", &namespace, "-l", "ci=p", "--grace-period=0", "--force"]);
    let mut answer = Ok(1);
    wait_until(LONG, "503 of one that hears nothing", || {
        answer = keda(&follower, &namespace, "queued");
        answer != Ok(1)
    });
    assert!(is_503(&answer, "may be old"), "{answer:?}");
    way.open();
    wait_until(LONG, "what is so now", || keda(&follower, &namespace, "queued") == Ok(0));
}
