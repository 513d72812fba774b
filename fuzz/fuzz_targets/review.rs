//! The endpoints: whatever bytes are sent, the answer is an AdmissionReview as the API server reads it, or a 400 that holds one.

#![no_main]

use std::{cell::RefCell, sync::Arc};

use axum::{
    Router,
    body::{Body, to_bytes},
    http::{Request, StatusCode},
};
use base64::{Engine, engine::general_purpose::STANDARD};
use libfuzzer_sys::{fuzz_mutator, fuzz_target};
use podlayer::{
    admission::{Policy, handler::Handler},
    layers::{LayerSource, Scope, Snapshot, parse},
    telemetry::Metrics,
};
use serde_json::Value;
use tokio::{runtime::Runtime, sync::watch};
use tower::ServiceExt;

fuzz_mutator!(|data: &mut [u8], size: usize, most: usize, seed: u32| { podlayer_fuzz::mutate(data, size, most, seed) });

thread_local! {
    static ENDPOINTS: RefCell<Option<(Runtime, Router)>> = const { RefCell::new(None) };
}

fuzz_target!(init: podlayer_fuzz::corpus::fill("review"), |data: &[u8]| {
    ENDPOINTS.with_borrow_mut(|endpoints| {
        let (runtime, router) = endpoints.get_or_insert_with(endpoints_of);
        for path in ["/mutate", "/validate"] {
            let request = Request::post(path).body(Body::from(data.to_vec())).expect("it is a request");
            let answered = runtime.block_on(router.clone().oneshot(request)).expect("the router always answers");
            let status = answered.status();
            let body = runtime.block_on(to_bytes(answered.into_body(), usize::MAX)).expect("the body is at hand");
            check(data, status, &body);
        }
    });
});

fn endpoints_of() -> (Runtime, Router) {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let layer = |kind: &str, name: &str, data: &[(&str, &str)]| {
        let source = LayerSource {
            namespace: "podlayer".into(),
            name: name.into(),
            labels: [("podlayer.dev/layer".to_owned(), kind.to_owned())].into(),
            data: data.iter().map(|(key, text)| ((*key).to_owned(), (*text).to_owned())).collect(),
            ..LayerSource::default()
        };
        Arc::new(parse(&source, Scope { own_namespace: "podlayer" }).expect("the layer is right"))
    };
    let layers = [
        layer("default", "base", &[("podSpecPatch", "serviceAccountName: ci\ncontainers: [{name: '*', tty: true}]\n")]),
        layer("class", "dind", &[("match", "{}"), ("podSpecPatch", "containers: [{name: dind, image: d}]\n")]),
        layer("default", "team", &[("match", "matchLabels: {team: a}"), ("podSpecPatch", "tolerations: [{key: a}]\n")]),
    ];
    let snapshot = Snapshot::build(layers).expect("the layers have names of their own");
    let (_, snapshots) = watch::channel(Some(Arc::new(snapshot)));
    let handler = Handler { snapshots, policy: Arc::new(Policy::default()), metrics: Metrics::new() };
    (runtime, handler.router())
}

fn check(data: &[u8], status: StatusCode, body: &[u8]) {
    let answer: Value = serde_json::from_slice(body).expect("the answer is JSON");
    assert_eq!((&answer["apiVersion"], &answer["kind"]), (&"admission.k8s.io/v1".into(), &"AdmissionReview".into()));
    let response = &answer["response"];
    let allowed = response["allowed"].as_bool().expect("allowed is told");
    let code = response["status"]["code"].as_u64();
    let message = response["status"]["message"].as_str().unwrap_or_default();
    assert_eq!(allowed, code.is_none(), "{answer}");
    assert!(allowed || code.is_some_and(|code| (400..500).contains(&code)) && !message.is_empty(), "{answer}");
    if status == StatusCode::BAD_REQUEST {
        assert!(!allowed, "{answer}");
        return;
    }
    assert_eq!(status, StatusCode::OK);
    assert!(message.chars().all(|c| c == '\n' || !c.is_control()), "{message:?}");
    // What is broken in a part that nobody reads isn't seen (docs/decisions/0021).
    let Ok(asked) = serde_json::from_slice::<Value>(data) else { return };
    assert_eq!(response["uid"], asked["request"]["uid"], "the API server knows its answer by the uid");
    assert_eq!(response.get("patch").is_some(), response["patchType"] == "JSONPatch", "{answer}");
    if let Some(patch) = response.get("patch") {
        let text = STANDARD.decode(patch.as_str().expect("base64")).expect("base64");
        let patch: json_patch::Patch = serde_json::from_slice(&text).expect("the patch is one");
        assert!(!patch.0.is_empty());
        let mut object = asked["request"]["object"].clone();
        json_patch::patch(&mut object, &patch).expect("the patch applies to the object");
    }
    for warning in response["warnings"].as_array().into_iter().flatten() {
        let warning = warning.as_str().expect("a warning is a text");
        assert!(
            !warning.is_empty() && warning.chars().count() <= 120 && !warning.contains(char::is_control),
            "{warning:?}"
        );
    }
}
