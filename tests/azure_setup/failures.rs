//! What is said when Azure DevOps says no, nothing, or something else.

use std::time::Duration;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::PrivateKeyDer;

use crate::{
    devops::DevOps,
    program::{Files, PAT, Run, azure_owned, register},
};

fn registered(devops: &DevOps, more: &[&str]) -> Run {
    let files = Files::new();
    azure_owned(&register(&devops.uri(), &files.secret(), more))
}

const JSON: &str = "application/json";

#[test]
fn each_refusal_is_told_with_what_to_do_about_it() {
    let said = |message: &str| format!(r#"{{"message": "{message}"}}"#);
    for (status, kind, body, wanted) in [
        (
            401,
            JSON,
            String::new(),
            "Azure DevOps doesn't accept the PAT (401): it is wrong, has expired or is another organisation's",
        ),
        (
            403,
            JSON,
            said("Access denied."),
            "the PAT may not do this (403): it needs the scope Agent Pools (read and manage), and its owner must be an \
             administrator of the organisation's agent pools: Access denied.",
        ),
        (
            404,
            JSON,
            String::new(),
            "there is nothing at this URI (404): the organisation's name is wrong, or agent clouds, a private preview, \
             aren't available to it",
        ),
        (
            400,
            JSON,
            said("Line one\\nline two"),
            "Azure DevOps answered 400 Bad Request: Line one\\nline two; what was made so far is found when this is run \
             again",
        ),
        (
            203,
            "text/html",
            "<html>Sign in</html>".into(),
            "Azure DevOps answered with a page to sign in at: the PAT is wrong, has expired or is another organisation's",
        ),
        (
            200,
            "text/html; charset=utf-8",
            "<html>Sign in</html>".into(),
            "Azure DevOps answered with a page to sign in at: the PAT is wrong, has expired or is another organisation's",
        ),
    ] {
        let devops = DevOps::start();
        devops.instead(move |_| Some((status, kind, body.clone())));
        let run = registered(&devops, &[]);
        assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{status}");
        let wanted = format!(
            "podlayer: failed to register linux with {}: failed to list the agent clouds: {wanted}\n",
            devops.uri()
        );
        assert_eq!(run.stderr, wanted);
        assert_eq!(devops.calls(), ["GET /agentclouds"], "{status} isn't tried again");
    }
}

#[test]
fn a_busy_or_broken_service_is_asked_again_where_nothing_can_be_made_twice() {
    let devops = DevOps::start();
    let mut broken = 2;
    devops.instead(move |call| {
        let fails = call.method == "GET" && broken > 0;
        broken -= i32::from(fails);
        fails.then(|| (if broken == 1 { 500 } else { 429 }, JSON, String::new()))
    });
    let run = registered(&devops, &[]);
    assert_eq!(run.code, 0, "{}", run.stderr);

    let devops = DevOps::start();
    devops.instead(|_| Some((502, JSON, String::new())));
    let run = registered(&devops, &[]);
    assert_eq!(devops.calls(), ["GET /agentclouds"; 3], "and then it is told");
    assert!(run.stderr.contains("Azure DevOps answered 502 Bad Gateway; what was made"), "{}", run.stderr);

    let devops = DevOps::start();
    devops.instead(|call| (call.method == "POST").then(|| (500, JSON, String::new())));
    assert_eq!(registered(&devops, &[]).code, 2);
    assert_eq!(devops.calls(), ["GET /agentclouds", "POST /agentclouds"], "a POST isn't tried again");
}

#[test]
fn no_redirect_is_followed_with_the_pat() {
    let (devops, elsewhere) = (DevOps::start(), DevOps::start());
    for status in [301, 302, 303, 307, 308] {
        let to = elsewhere.uri();
        devops.instead(move |_| Some((status, "text/html", to.clone())));
        let run = registered(&devops, &[]);
        assert!(run.code == 2 && run.stderr.contains("a redirect ("), "{status}: {}", run.stderr);
    }
    assert_eq!(elsewhere.held(|held| held.connections), 0);
}

#[test]
fn what_answers_too_late_or_too_much_or_nonsense_is_given_up() {
    let devops = DevOps::start();
    devops.held(|held| held.delay = Duration::from_secs(60));
    let run = registered(&devops, &["--timeout-seconds", "1"]);
    assert!(run.code == 2 && run.stderr.contains("gave no answer within 1s"), "{}", run.stderr);

    let devops = DevOps::start();
    devops.instead(|_| Some((200, JSON, r#"{"count": 1, "value": [{"name": "#.into())));
    let run = registered(&devops, &[]);
    assert!(run.stderr.contains("an answer that isn't the expected JSON"), "{}", run.stderr);

    let devops = DevOps::start();
    devops.instead(|_| Some((200, JSON, format!("[{}]", " ".repeat(9 << 20)))));
    let run = registered(&devops, &[]);
    assert!(run.stderr.contains("the answer is larger than 8 MiB"), "{}", run.stderr);

    // Nobody listens there.
    let port = crate::controlplane::free_port();
    let files = Files::new();
    let run = azure_owned(&register(&format!("http://127.0.0.1:{port}/example"), &files.secret(), &[]));
    assert!(run.code == 2 && run.stderr.contains("Azure DevOps can't be reached"), "{}", run.stderr);
}

#[test]
fn a_message_that_repeats_what_it_was_sent_is_shown_without_it() {
    let devops = DevOps::start();
    devops.instead(|call| {
        let secret = call.authorization.clone();
        Some((403, JSON, format!(r#"{{"message": "Denied to {PAT}, that is {secret}, \u001b[31mred"}}"#)))
    });
    let run = registered(&devops, &[]);
    assert!(run.stderr.contains("Denied to …, that is Basic …, \\u{1b}[31mred"), "{}", run.stderr);

    let devops = DevOps::start();
    devops.instead(|call| {
        (call.method == "POST").then(|| {
            let quoted = serde_json::json!({"message": format!("Can't read {}", call.body)});
            (400, JSON, quoted.to_string())
        })
    });
    let run = registered(&devops, &[]);
    assert!(run.stderr.contains("Can't read "), "{}", run.stderr);
}

#[test]
fn over_tls_only_an_authority_that_is_trusted_gets_the_pat() {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(params, key).unwrap();
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
    let certificate = params.signed_by(&key, &authority).unwrap();
    let tls = rustls::ServerConfig::builder_with_provider(rustls::crypto::ring::default_provider().into())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], PrivateKeyDer::Pkcs8(key.serialize_der().into()))
        .unwrap();
    let (devops, files) = (DevOps::start_tls(tls), Files::new());
    let run = azure_owned(&register(&devops.uri(), &files.secret(), &[]));
    assert!(run.code == 2 && run.stderr.contains("Azure DevOps can't be reached"), "{}", run.stderr);
    assert_eq!(devops.calls(), [""; 0]);

    let ca = files.write("ca.crt", &authority.pem());
    let run = azure_owned(&register(&devops.uri(), &files.secret(), &["--ca-file", &ca]));
    assert_eq!(run.stdout, "agent cloud linux: made, id 7\npool linux: made, id 8, target size 10\n", "{}", run.stderr);

    for (text, wanted) in [
        ("nothing\n", "the file of certificate authorities has no certificate that can be one"),
        (
            "-----BEGIN CERTIFICATE-----\n%\n-----END CERTIFICATE-----\n",
            "the file of certificate authorities isn't whole PEM",
        ),
    ] {
        let bad = files.write("bad.crt", text);
        let run = azure_owned(&register(&devops.uri(), &files.secret(), &["--ca-file", &bad]));
        assert!(run.code == 2 && run.stderr.contains(wanted), "{}", run.stderr);
    }
}
