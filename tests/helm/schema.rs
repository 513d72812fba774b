//! What `helm install` refuses before anything runs.

use std::time::Duration;

use serde_json::{Value, json};

use crate::helm::{CHART, offline, template, template_text, values};

/// Refuses these values, naming what is wrong.
fn refused(more: Value, wanted: &[&str]) {
    let output = template_text(&values(more.clone()));
    assert!(!output.ok, "{more} was let through");
    for wanted in wanted {
        assert!(output.stderr.contains(wanted), "{wanted} is not in: {}", output.stderr);
    }
}

fn layer(layer: Value) -> Value {
    json!({"layers": {"base": layer}})
}

fn patch(patch: Value) -> Value {
    layer(json!({"kind": "default", "podSpecPatch": patch}))
}

#[test]
fn an_unknown_value_is_refused_at_every_level() {
    refused(json!({"replica": 3}), &["replica"]);
    refused(json!({"image": {"repo": "x"}}), &["/image", "repo"]);
    refused(json!({"presets": {"buildkit": true}}), &["/presets", "buildkit"]);
    refused(json!({"policies": {"stamp": {"actions": "Deny"}}}), &["/policies/stamp", "actions"]);
    refused(json!({"webhook": {"failurePolicy": "Fail"}}), &["/webhook", "failurePolicy"]);
    refused(json!({"tls": {"caBundle": "x"}}), &["/tls", "caBundle"]);
    refused(json!({"pod": {"resources": {"request": {}}}}), &["/pod/resources", "request"]);
    refused(json!({"pod": {"terminationGracePeriodSeconds": 60}}), &["/pod/terminationGracePeriodSeconds", "106"]);
    refused(json!({"networkPolicy": {"enable": true}}), &["/networkPolicy", "enable"]);
    refused(json!({"pools": {"enable": true}}), &["/pools", "enable"]);
    refused(json!({"pools": {"pod": {"image": "x"}}}), &["/pools/pod", "image"]);
    refused(json!({"pools": {"replicas": 0}}), &["/pools/replicas"]);
}

#[test]
fn a_bad_layer_is_refused() {
    let container = |more: Value| {
        let mut container = json!({"name": "container-0"});
        crate::helm::merge(&mut container, more);
        patch(json!({"containers": [container]}))
    };
    refused(patch(json!({"llamas": true})), &["/layers/base/podSpecPatch", "llamas"]);
    refused(container(json!({"resource": {}})), &["/layers/base/podSpecPatch/containers/0", "resource"]);
    refused(container(json!({"resources": {"limits": {"cpu": "many"}}})), &["limits/cpu"]);
    refused(container(json!({"stdin": "yes"})), &["containers/0/stdin"]);
    refused(container(json!({"$patch": "remove"})), &["containers/0/$patch"]);
    refused(patch(json!({"containers": [{"image": "a:1"}]})), &["/layers/base/podSpecPatch/containers/0", "name"]);
    refused(patch(json!({"$setElementOrder/container": []})), &["$setElementOrder/container"]);
    refused(patch(json!({"ephemeralContainers": []})), &["ephemeralContainers"]);
    refused(patch(json!("a text")), &["/layers/base/podSpecPatch"]);
    let metadata = json!({"labels": {"podlayer.dev/enabled": "true"}});
    refused(
        layer(json!({"kind": "default", "podMetadata": metadata})),
        &["/layers/base/podMetadata/labels/podlayer.dev"],
    );
    refused(layer(json!({"kind": "default", "order": "10"})), &["/layers/base/order"]);
    refused(layer(json!({"kind": "default", "order": 1.5})), &["/layers/base/order"]);
    refused(layer(json!({"kind": "class", "podSpecPatch": {}})), &["/layers/base", "match"]);
    refused(layer(json!({"kind": "defaults"})), &["/layers/base/kind"]);
    refused(layer(json!({"kind": "step-rules"})), &["/layers/base", "rules"]);
    refused(layer(json!({"kind": "default", "rules": {}})), &["/layers/base/rules"]);
    refused(layer(json!({"kind": "step-rules", "rules": {"alow": []}})), &["/layers/base/rules", "alow"]);
    refused(json!({"layers": {"Base": {"kind": "default"}}}), &["Base"]);
}

/// Every directive, quantities, numbers that YAML could write otherwise, and nulls.
fn rich() -> Value {
    json!({
        "$setElementOrder/containers": [{"name": "container-0"}],
        "activeDeadlineSeconds": 12_345_678,
        "tolerations": null,
        "securityContext": {"$retainKeys": ["runAsUser"], "runAsUser": 1000},
        "nodeSelector": {"$patch": "replace", "on": "yes"},
        "containers": [
            {"$patch": "replace"},
            {"name": "container-0",
             "resources": {"requests": {"cpu": 0.5, "memory": "1Gi"}, "limits": null},
             "securityContext": {"capabilities": {"$deleteFromPrimitiveList/add": ["ALL"]}},
             "livenessProbe": {"httpGet": {"port": "http"}}, "readinessProbe": {"httpGet": {"port": 80}}},
            {"name": "dind", "$patch": "delete"},
        ],
    })
}

#[test]
fn a_good_layer_arrives_in_its_config_map_as_it_was_written() {
    let layers = json!({"base": {"kind": "default", "order": -1_000_000, "podSpecPatch": rich(),
            "podMetadata": {"labels": {"a": "1", "b": null}}, "options": {"absentContainers": "Skip"}},
        "gpu": {"kind": "class", "match": {}, "podSpecPatch": {"nodeSelector": {"pool": "gpu"}}}});
    let objects = template(&values(json!({"layers": layers})));
    let base = &objects["ConfigMap/podlayer/base"];
    assert_eq!(base["metadata"]["labels"]["podlayer.dev/layer"], "default");
    assert_eq!(base["metadata"]["labels"]["podlayer.dev/order"], "-1000000");
    let read = |key: &str| serde_yaml::from_str::<Value>(base["data"][key].as_str().unwrap()).unwrap();
    assert_eq!(read("podSpecPatch"), rich());
    assert_eq!(read("podMetadata"), json!({"labels": {"a": "1", "b": null}}));
    let keys: Vec<&String> = base["data"].as_object().unwrap().keys().collect();
    assert_eq!(keys, ["options", "podMetadata", "podSpecPatch"]);
    assert_eq!(objects["ConfigMap/podlayer/gpu"]["data"]["match"].as_str().unwrap().trim(), "{}");
}

#[test]
fn what_the_schema_lets_through_podlayer_reads_too() {
    let folder = tempfile::tempdir().unwrap();
    let layers = json!({"base": {"kind": "default", "podSpecPatch": rich()}});
    let base = &template(&values(json!({"layers": layers})))["ConfigMap/podlayer/base"];
    std::fs::write(folder.path().join("base.json"), base.to_string()).unwrap();
    let program = env!("CARGO_BIN_EXE_podlayer");
    let output = std::process::Command::new(program).arg("lint").arg(folder.path()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    // The marker makes of the list what stands beside it, which lint may remark on; it must not be an error.
    assert!(!said.contains("error"), "{said}");
}

#[test]
fn without_a_repository_of_the_image_the_error_says_what_to_do() {
    let output = template_text(&json!({}));
    assert!(!output.ok);
    let wanted = "image.repository is required: build the image (docs/install.md) and say where it is, such as \
                  --set image.repository=registry.example.com/podlayer";
    assert!(output.stderr.contains(wanted), "{}", output.stderr);
}

#[test]
fn values_that_contradict_each_other_are_refused() {
    for left_alone in ["kube-system", "podlayer", "batch"] {
        let webhook = json!({"failNamespaces": [left_alone], "excludedNamespaces": ["batch"]});
        refused(json!({"webhook": webhook}), &[&format!("webhook.failNamespaces: {left_alone} is left alone")]);
    }
    refused(json!({"pools": {"enabled": true}}), &["pools.namespaces: name the namespaces whose pools"]);
    for left_alone in ["kube-system", "podlayer"] {
        let pools = json!({"enabled": true, "namespaces": ["ci", left_alone]});
        refused(json!({"pools": pools}), &[&format!("pools.namespaces: {left_alone} is left alone by podlayer")]);
    }
    refused(json!({"pod": {"hostNetwork": true}}), &["port 10250 is the kubelet's"]);
    refused(json!({"pod": {"port": 8080}}), &["pod.port and pod.adminPort must differ"]);
}

#[test]
fn the_chart_passes_the_strict_linter() {
    let output = offline(&["lint", "--strict", CHART], &values(json!({})));
    assert!(output.ok, "{}{}", output.stdout, output.stderr);
}

#[test]
fn pods_have_longer_to_stop_than_podlayer_and_the_endpoints_need() {
    let pod = &template(&values(json!({})))["Deployment/podlayer/podlayer"]["spec"]["template"]["spec"];
    let seconds = |value: &Value| Duration::from_secs(value.as_u64().unwrap());
    let probe = &pod["containers"][0]["readinessProbe"];
    let endpoints =
        seconds(&probe["periodSeconds"]) * u32::try_from(probe["failureThreshold"].as_u64().unwrap()).unwrap();
    let drain = podlayer::server::Limits::default().drain;
    assert!(seconds(&pod["terminationGracePeriodSeconds"]) > drain + endpoints);
    // The schema lets nobody go below.
    assert_eq!(drain + endpoints + Duration::from_secs(1), Duration::from_secs(106));
}
