//! What the chart renders, without a cluster.

use std::{collections::BTreeMap, time::Duration};

use serde_json::{Value, json};

use crate::{
    controlplane::project_root,
    helm::{template, template_text, values},
};

const MUTATING: &str = "MutatingWebhookConfiguration//zz-podlayer";
const VALIDATING: &str = "ValidatingWebhookConfiguration//zz-podlayer";

/// Values that turn on whatever can be turned on.
pub(crate) fn everything() -> Value {
    values(json!({
        "presets": {"buildkite": true, "arc-runner": true, "arc-workflow": true, "gitlab": true, "jenkins": true,
                    "tekton": true, "argo": true},
        "layers": {"base": {"kind": "default", "podSpecPatch": {"enableServiceLinks": false}}},
        "expectLayers": ["base"], "layerNamespaces": ["team-b", "team-a"],
        "webhook": {"failNamespaces": ["ci"], "excludedNamespaces": ["db"]},
        "tls": {"clientCA": {"configMap": "api-server"}},
        "policies": {"stripStamp": "On", "requirePreset": {"ci": {"users": ["a", "b"], "preset": "jenkins"}}},
        "pools": {"enabled": true, "namespaces": ["ci", "batch"], "demandFrom": [{"namespaceSelector": {}}]},
        "monitoring": {"serviceMonitor": {"enabled": true}, "prometheusRule": {"enabled": true}, "dashboard": {"enabled": true}},
        "azure": {"enabled": true, "namespaces": ["ci"], "defaultPool": "ci/linux",
                  "callbackHosts": ["tfs.example.com"], "callbackCA": {"configMap": "tfs"},
                  "imageBuilds": [{"namespace": "ci", "pool": "linux", "replicas": 2, "serviceAccount": "agents"}]},
    }))
}

fn webhooks(objects: &BTreeMap<String, Value>) -> Vec<Value> {
    [MUTATING, VALIDATING].iter().flat_map(|key| objects[*key]["webhooks"].as_array().unwrap().clone()).collect()
}

#[test]
fn rendering_twice_gives_the_same_bytes_and_no_certificate() {
    for values in [values(json!({})), everything()] {
        let first = template_text(&values);
        assert!(first.ok, "{}", first.stderr);
        assert_eq!(first.stdout, template_text(&values).stdout);
        for word in ["caBundle:", "BEGIN CERTIFICATE", "PRIVATE KEY", "tls.crt:", "ca.crt:"] {
            assert!(!first.stdout.contains(word), "{word}");
        }
    }
}

#[test]
fn the_entries_are_the_same_whatever_the_values_and_all_are_harmless() {
    let expected = [
        ("pods.podlayer.dev", "/mutate", "Ignore"),
        ("jobs.podlayer.dev", "/mutate", "Ignore"),
        ("pods-fail.podlayer.dev", "/mutate", "Fail"),
        ("jobs-fail.podlayer.dev", "/mutate", "Fail"),
        ("jobs.podlayer.dev", "/validate", "Ignore"),
        ("jobs-fail.podlayer.dev", "/validate", "Fail"),
        ("layers.podlayer.dev", "/validate", "Ignore"),
    ];
    for values in [values(json!({})), everything()] {
        let webhooks = webhooks(&template(&values));
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let there: Vec<_> = webhooks
            .iter()
            .map(|hook| {
                (text(&hook["name"]), text(&hook["clientConfig"]["service"]["path"]), text(&hook["failurePolicy"]))
            })
            .collect();
        let there: Vec<_> =
            there.iter().map(|(name, path, policy)| (name.as_str(), path.as_str(), policy.as_str())).collect();
        assert_eq!(there, expected);
        for hook in &webhooks {
            assert_eq!((&hook["sideEffects"], &hook["timeoutSeconds"]), (&json!("None"), &json!(2)), "{hook}");
            assert_eq!(hook["clientConfig"]["service"]["name"], "podlayer");
            assert_eq!(hook["admissionReviewVersions"], json!(["v1"]));
        }
        for hook in template(&values)[MUTATING]["webhooks"].as_array().unwrap() {
            assert_eq!(hook["reinvocationPolicy"], "Never");
        }
    }
}

#[test]
fn no_value_lets_podlayer_see_the_pods_that_it_needs_itself() {
    for values in [values(json!({})), everything()] {
        let objects = template(&values);
        let mut selectors: Vec<Value> =
            webhooks(&objects).iter().map(|hook| hook["namespaceSelector"].clone()).collect();
        // Of layers: only podlayer's own namespace and those of layers.
        let layers = selectors.pop().unwrap();
        let expressions = layers["matchExpressions"].as_array().unwrap().clone();
        assert_eq!((expressions.len(), &expressions[0]["operator"]), (1, &json!("In")));
        assert!(expressions[0]["values"].as_array().unwrap().contains(&json!("podlayer")));
        // The one of pools sees no pods.
        let about_pods = |key: &String| key.contains("AdmissionPolicy/") && !key.ends_with("-agentpools");
        let policies = objects.iter().filter(|(key, _)| about_pods(key));
        let more: Vec<Value> =
            policies.map(|(_, policy)| policy["spec"]["matchConstraints"]["namespaceSelector"].clone()).collect();
        assert!(!more.is_empty());
        for selector in selectors.iter().chain(&more) {
            let expressions = selector["matchExpressions"].as_array().unwrap();
            let names = &expressions[0];
            assert_eq!((&names["key"], &names["operator"]), (&json!("kubernetes.io/metadata.name"), &json!("NotIn")));
            for own in ["kube-system", "podlayer"] {
                assert!(names["values"].as_array().unwrap().contains(&json!(own)), "{selector}");
            }
            assert_eq!(
                expressions[1],
                json!({"key": "podlayer.dev/enabled", "operator": "NotIn", "values": ["false"]})
            );
        }
    }
}

#[test]
fn webhook_and_stamp_policy_want_the_same_pods() {
    for values in [values(json!({})), everything()] {
        let objects = template(&values);
        let pods = &webhooks(&objects)[0];
        let policy = &objects["ValidatingAdmissionPolicy//podlayer-stamp"]["spec"];
        assert_eq!(pods["matchConditions"], policy["matchConditions"]);
    }
    let none = template(&values(json!({"policies": {"stamp": {"enabled": false}}})));
    assert!(
        !none.keys().any(|key| key.contains("AdmissionPolicy/")),
        "one is strip-stamp, which this release may serve"
    );
}

#[test]
fn the_account_may_do_nothing_beyond_names_and_namespaces() {
    for values in [values(json!({})), everything()] {
        for (key, object) in template(&values) {
            if key.starts_with("ClusterRole/") && !key.ends_with("-test") && !key.ends_with("-controller") {
                for rule in object["rules"].as_array().unwrap() {
                    assert!(!rule["resourceNames"].as_array().unwrap().is_empty(), "{key}");
                    assert_eq!(rule["apiGroups"], json!(["admissionregistration.k8s.io"]));
                }
            }
            if key.starts_with("ClusterRole") || key.starts_with("Role/") {
                assert!(!object.to_string().contains('*'), "{key}");
            }
        }
    }
    for mode in ["CertManager", "ExistingSecret"] {
        let objects = template(&values(json!({"tls": {"mode": mode}})));
        assert!(!objects.keys().any(|key| key == "ClusterRole//podlayer" || key.starts_with("Secret/")), "{mode}");
        assert!(!objects["Role/podlayer/podlayer"].to_string().contains("secrets"), "{mode}");
        let injected = &objects[MUTATING]["metadata"]["annotations"]["cert-manager.io/inject-ca-from"];
        assert_eq!(injected.as_str(), (mode == "CertManager").then_some("podlayer/podlayer-tls"));
    }
}

#[test]
fn the_deployment_is_locked_down_and_rolls_without_a_gap() {
    let deployment = &template(&values(json!({})))["Deployment/podlayer/podlayer"]["spec"];
    assert_eq!(deployment["strategy"]["rollingUpdate"], json!({"maxUnavailable": 0, "maxSurge": 1}));
    let pod = &deployment["template"]["spec"];
    assert_eq!((&pod["securityContext"]["runAsNonRoot"], &pod["hostNetwork"]), (&json!(true), &json!(null)));
    let security = &pod["containers"][0]["securityContext"];
    assert_eq!(
        *security,
        json!({"allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true, "capabilities": {"drop": ["ALL"]}})
    );
    assert_eq!(pod["topologySpreadConstraints"].as_array().unwrap().len(), 2);
}

#[test]
fn one_replica_gets_no_disruption_budget_for_it_would_block_every_drain() {
    let budget = "PodDisruptionBudget/podlayer/podlayer";
    assert_eq!(template(&values(json!({})))[budget]["spec"]["maxUnavailable"], 1);
    assert!(!template(&values(json!({"replicas": 1}))).contains_key(budget));
}

#[test]
fn presets_reach_the_program_and_the_conditions() {
    let arguments = |more: Value| {
        let objects = template(&values(more));
        objects["Deployment/podlayer/podlayer"]["spec"]["template"]["spec"]["containers"][0]["args"].to_string()
    };
    assert!(!arguments(json!({})).contains("--presets"));
    assert!(
        arguments(json!({"presets": {"gitlab": true, "buildkite": true}})).contains("\"--presets=buildkite,gitlab\"")
    );
    let trusting = arguments(json!({
        "layerNamespaces": ["a", "b"], "trustedLayerNamespaces": ["b"], "policy": {"privileged": "LayersOnly"}
    }));
    for argument in ["--layer-namespaces=a,b", "--trusted-layer-namespaces=b", "--privileged=LayersOnly"] {
        assert!(trusting.contains(&format!("\"{argument}\"")), "{argument}: {trusting}");
    }
    let objects = template(&values(json!({"presets": {"jenkins": true}})));
    let condition = &webhooks(&objects)[0]["matchConditions"][0]["expression"];
    let label = |key: &str| format!("(object.metadata.?labels[?'{key}'].hasValue())");
    let wanted = format!(
        "object.metadata.?labels[?'podlayer.dev/enabled'].orValue('') == 'true' || (({} || {}))",
        label("kubernetes.jenkins.io/controller"),
        label("jenkins/label-digest")
    );
    assert_eq!(condition.as_str().unwrap(), wanted);
}

#[test]
fn every_preset_of_the_data_is_a_value_and_the_reverse() {
    let read = |file: &str| std::fs::read_to_string(project_root().join("charts/podlayer").join(file)).unwrap();
    let presets: Value = serde_json::from_str(&read("files/presets.json")).unwrap();
    let mut data: Vec<&str> =
        presets.as_array().unwrap().iter().map(|preset| preset["name"].as_str().unwrap()).collect();
    // Its pods are those with podlayer's own label: always on, and no value.
    data.retain(|name| *name != "job");
    data.sort_unstable();
    let values: Value = serde_yaml::from_str(&read("values.yaml")).unwrap();
    let mut known: Vec<&str> = values["presets"].as_object().unwrap().keys().map(String::as_str).collect();
    known.sort_unstable();
    assert_eq!(data, known);
    let schema: Value = serde_json::from_str(&read("values.schema.in.json")).unwrap();
    let mut checked: Vec<&str> =
        schema["properties"]["presets"]["properties"].as_object().unwrap().keys().map(String::as_str).collect();
    checked.sort_unstable();
    assert_eq!(data, checked);
}

#[test]
fn alerts_and_dashboard_ask_for_metrics_that_there_are() {
    let objects = template(&everything());
    let (metrics, pools) = podlayer::telemetry::Metrics::with_pools();
    let numbers = podlayer::telemetry::PoolNumbers { limited: Some("AtMax"), ..Default::default() };
    pools.decided(&("ci".into(), "linux".into()), &numbers, Duration::ZERO);
    // These are there once they are known.
    metrics.certificate_expires(podlayer::telemetry::CertificateUse::Serving, 1);
    metrics.bundle_in_sync(true);
    metrics.snapshot("a");
    let told = metrics.text();
    let rules =
        ["podlayer", "podlayer-controller"].map(|of| objects[&format!("PrometheusRule/podlayer/{of}")].to_string());
    let dashboard = objects["ConfigMap/podlayer/podlayer-dashboard"]["data"]["podlayer.json"].as_str().unwrap();
    serde_json::from_str::<Value>(dashboard).unwrap();
    let mut names = 0;
    for text in [rules[0].as_str(), rules[1].as_str(), dashboard] {
        for name in text.split("podlayer_").skip(1) {
            let end = name.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(name.len());
            let name = format!("podlayer_{}", &name[..end]);
            let family = ["_total", "_bucket"].iter().find_map(|suffix| name.strip_suffix(suffix)).unwrap_or(&name);
            let known = [name.as_str(), family].iter().any(|name| told.contains(&format!("# HELP {name} ")));
            assert!(known, "{name} is no metric of podlayer's");
            names += 1;
        }
    }
    assert!(names > 15);
}
