//! Calls that were captured, and are sent again to where they do harm.

use serde_json::json;

use crate::support::{
    Serve, acquire, at, bytes, namespace, plane, pods, pool, release, shared_secret, wait_nothing_left,
};

#[test]
fn a_captured_acquire_sent_to_release_kills_nothing() {
    let namespace = namespace("replay");
    pool(&namespace, "p", &json!({}));
    let serve = Serve::start(&namespace, &["--default-pool", &format!("{namespace}/p")]);
    let captured = bytes(&acquire("1"));
    assert_eq!(serve.signed("/acquire", &captured).body["accepted"], true);
    for path in ["/release".to_owned(), at(&namespace, "p", "release"), at(&namespace, "p", "status")] {
        assert_eq!(serve.signed(&path, &captured).status, 403, "{path}");
    }
    assert_eq!(pods(&namespace).len(), 1);
    // The other way round it makes nothing.
    assert_eq!(serve.signed("/acquire", &bytes(&release("2"))).status, 400);
    assert_eq!(pods(&namespace).len(), 1);
}

#[test]
fn a_release_that_was_meant_for_another_pool_or_account_releases_nothing() {
    let namespace = namespace("binding");
    let azure = |name: &str| json!({"azure": {"secretName": "azurepipelines", "agentPool": name}});
    pool(&namespace, "k8s", &azure("k8s"));
    pool(&namespace, "other", &azure("other"));
    let serve = Serve::start(&namespace, &[]);
    let answer = serve.signed(&at(&namespace, "k8s", "acquire"), &bytes(&acquire("1")));
    assert_eq!(answer.body["accepted"], true, "{answer:?}");
    let mut call = release("1");
    assert_eq!(serve.signed(&at(&namespace, "other", "release"), &bytes(&call)).status, 403, "the path isn't signed");
    call["accountId"] = json!("org-2");
    assert_eq!(serve.signed(&at(&namespace, "k8s", "release"), &bytes(&call)).status, 403);
    let mut call = release("1");
    call["agentData"] = json!({"pool": format!("{namespace}/other"), "pod": "x"});
    assert_eq!(serve.signed(&at(&namespace, "k8s", "release"), &bytes(&call)).status, 403);
    assert_eq!(pods(&namespace).len(), 1);
    assert_eq!(serve.signed(&at(&namespace, "k8s", "release"), &bytes(&release("1"))).status, 202);
    wait_nothing_left(&namespace);
}

#[test]
fn two_pools_with_one_secret_take_no_calls_until_they_can_be_told_apart() {
    let namespace = plane().namespace("shared");
    shared_secret(&namespace, &json!({"VSTS_SECRET": crate::support::SECRET}));
    pool(&namespace, "a", &json!({}));
    let serve = Serve::start(&namespace, &[]);
    let ask = || serve.signed(&at(&namespace, "a", "acquire"), &bytes(&acquire("1"))).status;
    assert_eq!(ask(), 200);
    pool(&namespace, "b", &json!({}));
    crate::controlplane::wait_until(crate::support::LONG, "the other pool to be seen", || ask() == 403);
}
