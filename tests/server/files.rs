//! Layers in files: how each stands is told as it is for a cluster's.

use std::time::Duration;

use serde_json::{Value, json};

use crate::program::Program;
use crate::support::within;

/// State by layer, as `/layers` tells it.
async fn states(program: &Program) -> Vec<(String, String)> {
    let page = program.page("/layers").await;
    let page: Value = serde_json::from_str(page.split("\r\n\r\n").nth(1).unwrap()).unwrap();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    page["layers"].as_array().unwrap().iter().map(|layer| (text(&layer["layer"]), text(&layer["state"]))).collect()
}

async fn until_states(program: &Program, wanted: &[(&str, &str)]) {
    let wanted: Vec<(String, String)> =
        wanted.iter().map(|(layer, state)| ((*layer).to_owned(), (*state).to_owned())).collect();
    within(async {
        while states(program).await != wanted {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_broken_file_is_told_while_its_last_good_layers_and_all_others_go_on() {
    let program = Program::start(&[("a.yaml", "hostNetwork: true\n"), ("b.yaml", "hostPID: true\n")]).await;
    until_states(&program, &[("default/a", "good"), ("default/b", "good")]).await;
    assert!(program.page("/metrics").await.contains("\npodlayer_layers{state=\"good\"} 2\n"));

    std::fs::write(program.layer("a.yaml"), "llamas: true\n").unwrap();
    std::fs::write(program.layer("b.yaml"), "hostIPC: true\n").unwrap();
    until_states(&program, &[("default/a", "stale"), ("default/b", "good")]).await;
    let metrics = program.page("/metrics").await;
    for line in [
        "podlayer_layers{state=\"good\"} 1\n",
        "podlayer_layers{state=\"stale\"} 1\n",
        "podlayer_snapshot_info{hash=\"",
    ] {
        assert!(metrics.contains(line), "{line}: {metrics}");
    }
    let pod = json!({"metadata": {"labels": {"podlayer.dev/enabled": "true"}}, "spec": {"containers": [{"name": "a", "image": "b"}]}});
    let review = json!({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": {"uid": "u", "kind": {"group": "",
        "version": "v1", "kind": "Pod"}, "namespace": "ci", "operation": "CREATE", "object": pod, "dryRun": false}});
    let answer = program.connect().await.post("/mutate?timeout=10s", review.to_string().as_bytes()).await;
    let patch = serde_json::from_str::<Value>(&answer.body).unwrap()["response"]["patch"].clone();
    use base64::{Engine, engine::general_purpose::STANDARD};
    let patch = String::from_utf8(STANDARD.decode(patch.as_str().unwrap()).unwrap()).unwrap();
    assert!(patch.contains("hostNetwork") && patch.contains("hostIPC") && !patch.contains("hostPID"), "{patch}");
    let page = program.page("/layers").await;
    assert!(page.contains("\"used\":1") && page.contains("unknown field \\\"llamas\\\""), "{page}");

    std::fs::remove_file(program.layer("b.yaml")).unwrap();
    std::fs::write(program.layer("a.yaml"), "hostNetwork: false\n").unwrap();
    until_states(&program, &[("default/a", "good")]).await;
}
