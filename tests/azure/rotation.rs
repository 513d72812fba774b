//! A shared secret is changed while calls come.

use std::{
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    thread,
    time::Duration,
};

use serde_json::json;

use crate::{
    controlplane::wait_until,
    support::{LONG, SECRET, Serve, at, bytes, namespace, pool, release},
};

#[test]
fn a_secret_is_changed_without_a_refused_call() {
    const NEW: &str = "the secret that comes after it";
    let namespace = namespace("rotation");
    pool(&namespace, "p", &json!({"azure": {"secretName": "azurepipelines", "secretKeys": ["VSTS_SECRET", "next"]}}));
    let replicas = [Serve::start(&namespace, &[]), Serve::start(&namespace, &[])];
    let path = at(&namespace, "p", "release");
    let (done, changed) = (AtomicBool::new(false), AtomicBool::new(false));
    let (calls, refused) = (AtomicUsize::new(0), AtomicUsize::new(0));
    thread::scope(|scope| {
        // Azure Pipelines, which is told of the new secret at some moment.
        scope.spawn(|| {
            while !done.load(Ordering::SeqCst) {
                let number = calls.fetch_add(1, Ordering::SeqCst);
                let secret = if changed.load(Ordering::SeqCst) { NEW } else { SECRET };
                let body = bytes(&release(&format!("r{}", number % 7)));
                let answer = replicas[number % 2].signed_with(secret, "POST", &path, &body);
                if answer.status != 202 {
                    refused.fetch_add(1, Ordering::SeqCst);
                }
                thread::sleep(Duration::from_millis(20));
            }
        });
        let more = |count: usize| {
            let from = calls.load(Ordering::SeqCst);
            wait_until(LONG, "calls", || calls.load(Ordering::SeqCst) >= from + count);
        };
        more(10);
        // Both, a second later (a replica reads the Secret at most once a second) Azure Pipelines, then the new one alone.
        let patch = json!({"stringData": {"next": NEW}}).to_string();
        let patched =
            crate::support::plane().kubectl(&["patch", "secret", "azurepipelines", "-n", &namespace, "-p", &patch]);
        assert!(patched.ok, "{}", patched.stderr);
        thread::sleep(Duration::from_millis(1100));
        changed.store(true, Ordering::SeqCst);
        more(10);
        let patch = json!({"data": {"VSTS_SECRET": null}}).to_string();
        let patched =
            crate::support::plane().kubectl(&["patch", "secret", "azurepipelines", "-n", &namespace, "-p", &patch]);
        assert!(patched.ok, "{}", patched.stderr);
        more(10);
        done.store(true, Ordering::SeqCst);
    });
    assert_eq!(refused.load(Ordering::SeqCst), 0, "of {} calls", calls.load(Ordering::SeqCst));
    // What was taken out of the Secret is refused within seconds.
    wait_until(LONG, "the old secret to be refused", || {
        replicas.iter().all(|replica| replica.signed_with(SECRET, "POST", &path, &bytes(&release("r1"))).status == 403)
    });
}
