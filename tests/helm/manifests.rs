//! `manifests/` agrees with the chart, and the API server takes all of it.

use std::{collections::BTreeMap, fs};

use serde_json::{Value, json};

use crate::{
    controlplane::{ControlPlane, project_root},
    generated::{base_values, pools_values},
    helm::{merge, objects, template, turn, values},
};

/// Each overlay, with the chart's values that it stands for.
fn overlays() -> Vec<(&'static str, Value)> {
    let on = |more: Value| {
        let mut all = values(base_values());
        merge(&mut all, more);
        all
    };
    vec![
        ("base", on(json!({}))),
        ("overlays/buildkite", on(json!({"presets": {"buildkite": true}}))),
        ("overlays/cert-manager", on(json!({"tls": {"mode": "CertManager"}}))),
        ("overlays/pools", {
            let mut all = pools_values();
            merge(&mut all, json!({"pools": {"crd": true}}));
            all
        }),
        ("overlays/stamp-deny", on(json!({"policies": {"stamp": {"action": "Deny"}, "stripStamp": "On"}}))),
    ]
}

fn kustomize(folder: &str) -> BTreeMap<String, Value> {
    let path = project_root().join("manifests").join(folder);
    let output = ControlPlane::shared().kubectl(&["kustomize", &path.to_string_lossy()]);
    assert!(output.ok, "{}", output.stderr);
    objects(&output.stdout)
}

#[test]
fn every_overlay_is_what_the_chart_renders_with_the_same_values() {
    for (folder, values) in overlays() {
        let mut there = kustomize(folder);
        assert!(there.remove("Namespace//podlayer").is_some(), "{folder}: the chart leaves it to helm");
        let mut wanted: BTreeMap<String, Value> = template(&values);
        wanted.retain(|_, object| object["metadata"]["annotations"].get("helm.sh/hook").is_none());
        for object in wanted.values_mut() {
            let labels = object["metadata"]["labels"].as_object_mut().unwrap();
            labels.remove("helm.sh/chart");
            labels.remove("app.kubernetes.io/managed-by");
        }
        assert_eq!(there.keys().collect::<Vec<_>>(), wanted.keys().collect::<Vec<_>>(), "{folder}");
        for (key, object) in &wanted {
            if key.starts_with("CustomResourceDefinition/") {
                // Its metadata say that Helm keeps it. Kustomize writes 100.0 as 100.
                let spec = |object: &Value| object["spec"].to_string().replace(".0", "");
                assert!(spec(&there[key]) == spec(object), "{folder}: {key}");
                continue;
            }
            assert_eq!(&there[key], object, "{folder}: {key}");
        }
    }
}

#[test]
fn the_api_server_takes_every_overlay() {
    let _turn = turn();
    let plane = ControlPlane::shared();
    // What is in a namespace is judged only where there is one.
    plane.apply(&fs::read_to_string(project_root().join("manifests/base/namespace.yaml")).unwrap());
    plane.apply(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ci"}}).to_string());
    let mut folders: Vec<String> = overlays().iter().map(|(folder, _)| (*folder).to_owned()).collect();
    let all = fs::read_dir(project_root().join("manifests/overlays")).unwrap();
    for entry in all {
        let folder = format!("overlays/{}", entry.unwrap().file_name().to_string_lossy());
        assert!(folders.contains(&folder), "{folder} is compared with no values");
    }
    folders.sort();
    for folder in folders {
        let path = project_root().join("manifests").join(&folder);
        let output = plane.kubectl(&["apply", "--dry-run=server", "-k", &path.to_string_lossy()]);
        assert!(output.ok, "{folder}: {}", output.stderr);
        assert!(!output.stderr.to_lowercase().contains("warning"), "{folder}: {}", output.stderr);
    }
}

#[test]
fn the_api_server_takes_whatever_the_chart_renders() {
    let _turn = turn();
    let plane = ControlPlane::shared();
    plane.apply(&fs::read_to_string(project_root().join("manifests/base/namespace.yaml")).unwrap());
    // Kinds of the Prometheus operator are not there.
    let mut all = crate::render::everything();
    merge(
        &mut all,
        json!({"monitoring": {"serviceMonitor": {"enabled": false}, "prometheusRule": {"enabled": false}}}),
    );
    merge(&mut all, json!({"layerNamespaces": ["default"], "pools": {"namespaces": ["default"]}}));
    let builds = json!([{"namespace": "default", "pool": "linux", "replicas": 2, "serviceAccount": "agents"}]);
    let azure = json!({"namespaces": ["default"], "defaultPool": "default/linux", "imageBuilds": builds});
    merge(&mut all, json!({"azure": azure}));
    let mut hooks = 0;
    for (key, object) in template(&all) {
        // Fields that there aren't and types that are wrong are refused; so is a pod that isn't `restricted`.
        let output = plane.kubectl_in(&["apply", "--dry-run=server", "-f", "-"], &object.to_string());
        let needs_account = key == "Pod/podlayer/podlayer-test";
        let lacks_account = output.stderr.contains("serviceaccount \"podlayer-test\" not found");
        assert!(output.ok || needs_account && lacks_account, "{key}: {}", output.stderr);
        assert!(!output.stderr.to_lowercase().contains("warning"), "{key}: {}", output.stderr);
        hooks += usize::from(object["metadata"]["annotations"].get("helm.sh/hook").is_some());
    }
    assert!(hooks >= 6, "the account of `helm test`, its rights and its pod");
}
