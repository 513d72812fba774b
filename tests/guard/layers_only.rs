//! `--privileged=LayersOnly`: whatever a pod has beyond any pod's comes from an admin's layer, or the pod isn't made.

use podlayer::{
    admission::{OnStepError, Policy},
    layers::{LayerSource, rules::PrivilegedFrom},
};
use serde_json::{Value, json};

use crate::support::{default, made, plain, rules, source, with_step};

fn strict() -> Policy {
    Policy { privileged: PrivilegedFrom::LayersOnly, ..Policy::default() }
}

/// A pod without the volume of the node.
fn harmless() -> Value {
    let mut pod = plain();
    pod["spec"]["volumes"].as_array_mut().unwrap().remove(1);
    pod
}

fn refused(pod: &Value, sources: &[LayerSource]) -> String {
    made(pod, sources, &strict()).unwrap_err()
}

#[test]
fn only_a_layer_of_an_admin_gives_privileges() {
    made(&harmless(), &[], &strict()).unwrap();
    let mut forged = harmless();
    forged["spec"]["hostNetwork"] = json!(true);
    let text = refused(&forged, &[]);
    assert!(
        text.starts_with(
            "spec.hostNetwork gives privileges (the node's network) and comes from the pod as it was made: only layers"
        ),
        "{text}"
    );
    made(&forged, &[default("hostNetwork: true")], &strict()).unwrap();
    made(&forged, &[], &Policy::default()).unwrap();
    // The value counts, not the name.
    let account = |name: &str| {
        let mut pod = harmless();
        pod["spec"]["serviceAccountName"] = json!(name);
        pod["spec"]["serviceAccount"] = json!(name);
        pod
    };
    assert!(refused(&account("admin"), &[]).contains("spec.serviceAccountName gives privileges"));
    made(&account("admin"), &[default("serviceAccountName: ci")], &strict()).unwrap();
    let fills =
        source("default", "base", "", &[("podSpecPatch", "serviceAccountName: ci"), ("options", "apply: IfAbsent")]);
    assert!(refused(&account("admin"), &[fills]).contains("spec.serviceAccountName gives privileges"));
}

#[test]
fn a_step_gives_none_even_where_its_rules_let_it() {
    let sources = |more: &str| {
        vec![rules(&format!(
            "privileged: true\nallow: [\"@builtin\", hostNetwork, \"containers[*].securityContext\"]{more}"
        ))]
    };
    let step = with_step(harmless(), "hostNetwork: true");
    made(&step, &sources(""), &Policy::default()).unwrap();
    assert!(refused(&step, &sources("")).contains("comes from step"));
    // A rule set may say otherwise, either way.
    made(&step, &sources("\nprivilegedFrom: Anyone"), &strict()).unwrap();
    let strict_rules = sources("\nprivilegedFrom: LayersOnly");
    assert!(made(&step, &strict_rules, &Policy::default()).unwrap_err().contains("comes from step"));
    // More than the layer gave.
    let layer = default("containers: [{name: build, securityContext: {capabilities: {add: [NET_ADMIN]}}}]");
    let mut both = sources("");
    both.push(layer.clone());
    let more = "containers: [{name: build, securityContext: {capabilities: {add: [NET_ADMIN, SYS_ADMIN]}}}]";
    made(&with_step(harmless(), ""), &both, &strict()).unwrap();
    assert!(refused(&with_step(harmless(), more), &both).contains("securityContext.capabilities.add"));
    // What is ignored doesn't count.
    let lenient = Policy { on_step_error: OnStepError::Ignore, ..strict() };
    made(&with_step(harmless(), "hostNetwork: true"), &[], &lenient).unwrap();
}

#[test]
fn volumes_of_a_layer_are_only_for_the_containers_that_it_names() {
    let layer = default(
        "volumes: [{name: cache, hostPath: {path: /cache}}]\ncontainers: [{name: build, volumeMounts: [{name: cache, \
         mountPath: /cache}]}]",
    );
    made(&harmless(), std::slice::from_ref(&layer), &strict()).unwrap();
    let mut forged = harmless();
    forged["spec"]["containers"][0]["volumeMounts"] = json!([{"name": "cache", "mountPath": "/mine"}]);
    let text = refused(&forged, std::slice::from_ref(&layer));
    assert!(text.contains("volumeMounts[mountPath=/mine].name gives privileges (files of the node)"), "{text}");
    let mut forged = harmless();
    forged["spec"]["volumes"].as_array_mut().unwrap().push(json!({"name": "cache", "hostPath": {"path": "/"}}));
    made(&forged, std::slice::from_ref(&layer), &strict()).unwrap();
    let by_role = default("containers: [{name: \"@command\", securityContext: {privileged: true}}]");
    made(&harmless(), &[by_role], &strict()).unwrap();
}

#[test]
fn layers_of_a_namespace_count_only_where_it_is_trusted() {
    let own = source("default", "own", "ci", &[("podSpecPatch", "hostNetwork: true")]);
    let trusted = Policy { trusted_layer_namespaces: vec!["ci".into()], ..strict() };
    made(&harmless(), std::slice::from_ref(&own), &trusted).unwrap();
    // Held by the rails it is left out, as any layer that fails.
    let pod = made(&harmless(), std::slice::from_ref(&own), &Policy::default()).unwrap();
    assert_eq!(pod["spec"]["hostNetwork"], Value::Null);
    let stamp = pod["metadata"]["annotations"]["podlayer.dev/applied"].as_str().unwrap();
    assert!(
        stamp.contains("namespace-default/own") && stamp.contains("spec.hostNetwork may not be changed"),
        "{stamp}"
    );
    let allowed = source("default", "own", "ci", &[("podSpecPatch", "activeDeadlineSeconds: 60")]);
    assert_eq!(made(&harmless(), &[allowed], &strict()).unwrap()["spec"]["activeDeadlineSeconds"], 60);
}

#[test]
fn annotations_that_loosen_what_confines_a_container_count_as_well() {
    const KEY: &str = "container.apparmor.security.beta.kubernetes.io/build";
    let annotate = |kind: &str, namespace: &str| {
        source(kind, "own", namespace, &[("podMetadata", &format!("annotations: {{{KEY}: unconfined}}"))])
    };
    let mut forged = harmless();
    forged["metadata"]["annotations"][KEY] = json!("unconfined");
    assert!(refused(&forged, &[]).contains("is another confinement"));
    made(&forged, &[], &Policy::default()).unwrap();
    made(&harmless(), &[annotate("default", "")], &strict()).unwrap();
    let pod = made(&harmless(), &[annotate("default", "ci")], &Policy::default()).unwrap();
    assert_eq!(pod["metadata"]["annotations"][KEY], Value::Null);
}
