//! `helm test`. There is no kubelet: this test says how the pod ended.

use std::thread;

use serde_json::json;

use crate::helm::Release;

/// What the test's account may do, asked of the API server.
fn may(release: &Release, verb: &str, resource: &str, namespace: &str) -> bool {
    let account = format!("--as=system:serviceaccount:{}:podlayer-test", release.own);
    release.plane.kubectl(&["auth", "can-i", verb, resource, "-n", namespace, &account]).ok
}

#[test]
fn helm_test_runs_doctor_as_an_account_of_its_own_that_goes_again() {
    let release = Release::install(json!({"tls": {"mode": "ExistingSecret"}}));
    let plane = release.plane;
    for (phase, wanted) in [("Succeeded", true), ("Failed", false)] {
        let output = thread::scope(|scope| {
            let tested = scope.spawn(|| release.helm(&["test", "podlayer", "--timeout", "60s"]));
            release.soon("the pod", || plane.kubectl(&["get", "pod", "podlayer-test", "-n", &release.own]).ok);
            let pod = plane.get_json(&["pod", "podlayer-test", "-n", &release.own]);
            let arguments = pod["spec"]["containers"][0]["args"].clone();
            let own = format!("--namespace={}", release.own);
            let webhooks = format!("--webhook-configuration={}", release.webhooks);
            assert_eq!(arguments, json!(["doctor", own, webhooks, "--probe-namespace=default"]));
            assert!(may(&release, "create", "pods", "default") && may(&release, "get", "configmaps", &release.own));
            assert!(may(&release, "get", &format!("mutatingwebhookconfigurations/{}", release.webhooks), "default"));
            for (verb, resource) in [("delete", "pods"), ("get", "secrets"), ("get", "configmaps"), ("create", "jobs")]
            {
                assert!(!may(&release, verb, resource, "default"), "{verb} {resource}");
            }
            assert!(!may(&release, "get", "secrets", &release.own));
            let status = json!({"status": {"phase": phase}}).to_string();
            let ended = ["patch", "pod", "podlayer-test", "-n", &release.own, "--subresource=status", "-p", &status];
            assert!(plane.kubectl(&ended).ok);
            tested.join().unwrap()
        });
        assert_eq!(output.ok, wanted, "{}", output.stderr);
        // A pod that failed stays for its log; its rights don't.
        assert!(!may(&release, "create", "pods", "default"), "{phase}");
        let left = release.left();
        assert!(!left.iter().any(|name| name.ends_with("-test")), "{phase}: {left:?}");
    }
    release.uninstall();
    assert_eq!(release.left(), Vec::<String>::new());
}
