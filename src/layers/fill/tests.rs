use super::*;
use crate::{
    layers::{LayerSource, Options, Scope, parse},
    presets,
    value::{JsonLimits, from_json, to_json},
};

fn source(options: &str, patch: &str, metadata: &str) -> LayerSource {
    let data = [("podSpecPatch", patch), ("options", options), ("podMetadata", metadata)];
    LayerSource {
        name: "fill".into(),
        labels: [(names::LAYER.to_owned(), "default".to_owned())].into(),
        data: data.map(|(key, text)| (key.to_owned(), text.to_owned())).into(),
        ..LayerSource::default()
    }
}

fn layer(options: &str, patch: &str) -> Layer {
    parse(&source(options, patch, ""), Scope { own_namespace: "podlayer" }).unwrap()
}

fn cut(pod: &str, patch: &str, earlier: &[&Layer], unions: &[UnionList]) -> String {
    let pod = from_json(pod, JsonLimits::DEFAULT).unwrap();
    let layer = layer("apply: IfAbsent", patch);
    let filling = Filling { earlier, preset: presets::named("job").unwrap(), unions };
    to_json(&filling.cut(layer.patch.value, &pod))
}

fn of_spec(spec: &str, patch: &str) -> String {
    cut(&format!("{{\"spec\": {spec}}}"), patch, &[], &[])
}

/// The one container of a pod after `containers: [{name: a, …}]`.
fn of_container(pod: &str, patch: &str) -> String {
    let spec = format!("{{\"containers\": [{{\"name\": \"a\", {pod}}}]}}");
    let left = of_spec(&spec, &format!("containers: [{{name: a, {patch}}}]"));
    match left.strip_prefix(r#"{"containers":[{"name":"a","#).and_then(|left| left.strip_suffix("}]}")) {
        Some(left) => left.to_owned(),
        None => left,
    }
}

#[test]
fn what_the_pod_has_stays_and_what_it_lacks_is_filled_in_field_by_field() {
    for (pod, patch, left) in [
        (r#""image": "mine""#, "image: theirs", "{}"),
        (r#""image": "mine""#, "image: theirs, tty: true", r#""tty":true"#),
        (r#""command": ["a"]"#, "command: [b], args: [c]", r#""args":["c"]"#),
        (
            r#""env": [{"name": "A", "value": "mine"}]"#,
            "env: [{name: A, value: x}, {name: B, value: w}]",
            // A stays where it is, and B comes behind it as the patch says.
            r#""env":[{"name":"A"},{"name":"B","value":"w"}]"#,
        ),
        // An empty value doesn't show in the pod.
        (r#""env": [{"name": "A"}]"#, "env: [{name: A, value: x}]", "{}"),
        (
            r#""env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]"#,
            "env: [{name: A, value: x}]",
            "{}",
        ),
        (
            r#""resources": {"requests": {"cpu": "1"}}"#,
            "resources: {requests: {cpu: 2, memory: 1Gi}}",
            r#""resources":{"requests":{"memory":"1Gi"}}"#,
        ),
        (
            r#""securityContext": {"seccompProfile": {"type": "RuntimeDefault"}}"#,
            "securityContext: {runAsUser: 1, seccompProfile: {type: Localhost, localhostProfile: p}}",
            r#""securityContext":{"runAsUser":1}"#,
        ),
        (
            r#""livenessProbe": {"exec": {"command": ["x"]}}"#,
            "livenessProbe: {httpGet: {port: 1}, initialDelaySeconds: 5}",
            r#""livenessProbe":{"initialDelaySeconds":5}"#,
        ),
        (
            r#""ports": [{"containerPort": 80, "name": "web"}]"#,
            "ports: [{containerPort: 80, hostPort: 1, name: x}]",
            r#""ports":[{"containerPort":80,"hostPort":1}]"#,
        ),
        (r#""envFrom": [{"secretRef": {"name": "s"}}]"#, "envFrom: [{configMapRef: {name: c}}]", "{}"),
    ] {
        assert_eq!(of_container(pod, patch), left, "{patch} on {pod}");
    }
}

#[test]
fn what_the_api_server_filled_in_is_missing() {
    let pod = r#"{"containers": [{"name": "a", "image": "b:1", "imagePullPolicy": "IfNotPresent", "resources": {}}],
        "serviceAccountName": "default", "serviceAccount": "default", "terminationGracePeriodSeconds": 30, "securityContext": {},
        "priority": 0, "restartPolicy": "Never", "tolerations": [
        {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}]}"#;
    let patch = "containers: [{name: a, imagePullPolicy: Always, resources: {limits: {cpu: 1}}}]\nserviceAccountName: ci\n\
                 terminationGracePeriodSeconds: 60\nsecurityContext: {fsGroup: 1}\nrestartPolicy: OnFailure\n\
                 tolerations: [{key: ci, operator: Exists}]\n";
    assert_eq!(
        of_spec(pod, patch),
        r#"{"containers":[{"name":"a","imagePullPolicy":"Always","resources":{"limits":{"cpu":1}}}],"serviceAccountName":"ci","terminationGracePeriodSeconds":60,"securityContext":{"fsGroup":1},"tolerations":[{"key":"ci","operator":"Exists"}]}"#
    );
    let changed = pod
        .replace("IfNotPresent", "Always")
        .replace("\"default\"", "\"mine\"")
        .replace("Seconds\": 30,", "Seconds\": 31,")
        .replace("300", "299");
    assert_eq!(
        of_spec(&changed, patch),
        r#"{"containers":[{"name":"a","resources":{"limits":{"cpu":1}}}],"securityContext":{"fsGroup":1}}"#
    );
}

#[test]
fn volumes_stay_of_one_kind() {
    let pod = r#"{"volumes": [{"name": "work", "emptyDir": {}}, {"name": "conf", "configMap": {"name": "c", "defaultMode": 420}}]}"#;
    let patch =
        "volumes:\n- {name: conf, configMap: {name: d, defaultMode: 0400}}\n- {name: work, hostPath: {path: /x}}\n";
    assert_eq!(of_spec(pod, patch), r#"{"volumes":[{"name":"conf","configMap":{"defaultMode":256}}]}"#);
    let patch = "volumes:\n- {name: work, emptyDir: {sizeLimit: 1Gi}}\n";
    assert_eq!(of_spec(pod, patch), r#"{"volumes":[{"name":"work","emptyDir":{"sizeLimit":"1Gi"}}]}"#);
}

#[test]
fn a_limit_below_the_request_is_left_out_and_a_request_above_the_limit() {
    for (pod, patch, left) in [
        (r#"{"requests": {"cpu": "2"}}"#, "{limits: {cpu: 1, memory: 1Gi}}", r#"{"limits":{"memory":"1Gi"}}"#),
        (r#"{"requests": {"cpu": "500m"}}"#, "{limits: {cpu: 1}}", r#"{"limits":{"cpu":1}}"#),
        (r#"{"limits": {"cpu": "1"}}"#, "{requests: {cpu: 2, memory: 1Gi}}", r#"{"requests":{"memory":"1Gi"}}"#),
        (r#"{"limits": {"cpu": "1"}}"#, "{requests: {cpu: 1000m}}", r#"{"requests":{"cpu":"1000m"}}"#),
        ("{}", "{requests: {cpu: 2}, limits: {cpu: 2}}", r#"{"requests":{"cpu":2},"limits":{"cpu":2}}"#),
    ] {
        let found = of_container(&format!("\"resources\": {pod}"), &format!("resources: {patch}"));
        assert_eq!(found, format!("\"resources\":{left}"), "{patch} on {pod}");
    }
}

#[test]
fn what_limit_ranger_filled_in_is_not_the_authors() {
    let text = "LimitRanger plugin set: cpu, memory request for container a; memory limit for container a; cpu limit for init container i";
    let resources = r#"{"requests": {"cpu": "100m", "memory": "1Mi"}, "limits": {"cpu": "9", "memory": "2Mi"}}"#;
    let pod = format!(
        r#"{{"metadata": {{"annotations": {{"kubernetes.io/limit-ranger": "{text}"}}}},
            "spec": {{"containers": [{{"name": "a", "resources": {resources}}}, {{"name": "b", "resources": {resources}}}],
                      "initContainers": [{{"name": "i", "resources": {resources}}}]}}}}"#
    );
    let resources = "resources: {requests: {cpu: 1, memory: 1Gi}, limits: {cpu: 2, memory: 2Gi}}";
    let patch = format!(
        "containers:\n- {{name: a, {resources}}}\n- {{name: b, {resources}}}\ninitContainers:\n- {{name: i, {resources}}}\n"
    );
    assert_eq!(
        cut(&pod, &patch, &[], &[]),
        r#"{"containers":[{"name":"a","resources":{"requests":{"cpu":1,"memory":"1Gi"},"limits":{"memory":"2Gi"}}}],"initContainers":[{"name":"i","resources":{"limits":{"cpu":2}}}]}"#
    );
    // An earlier layer's value stays, also where the annotation still names the field.
    let earlier = layer("", "containers: [{name: a, resources: {requests: {cpu: 0.1}}}]");
    let by_role = layer("", "containers: [{name: \"@command\", resources: {limits: {memory: 2Mi}}}]");
    let memory = r#"{"containers":[{"name":"a","resources":{"requests":{"memory":"1Mi"}}}]}"#;
    let patch = "containers: [{name: a, resources: {requests: {cpu: 1, memory: 1Mi}, limits: {memory: 2Gi}}}]";
    assert_eq!(cut(&pod, patch, &[&earlier, &by_role], &[]), memory);
}

#[test]
fn an_earlier_layers_value_stays_even_if_it_is_the_api_servers_own() {
    let pod = r#"{"spec": {"dnsPolicy": "ClusterFirst", "terminationGracePeriodSeconds": 30}}"#;
    let earlier = layer("", "dnsPolicy: ClusterFirst");
    let patch = "dnsPolicy: Default\nterminationGracePeriodSeconds: 60\n";
    assert_eq!(cut(pod, patch, &[&earlier], &[]), r#"{"terminationGracePeriodSeconds":60}"#);
}

#[test]
fn the_authors_items_keep_their_order_and_new_ones_their_place() {
    let pod = r#"{"containers": [{"name": "a"}, {"name": "b"}, {"name": "c"}]}"#;
    let patch = "containers:\n- {name: new, image: i}\n- {name: c, tty: true}\n- {name: m, image: m}\n- name: a\n- {name: b, tty: true}\n";
    assert_eq!(
        of_spec(pod, patch),
        r#"{"containers":[{"name":"new","image":"i"},{"name":"b","tty":true},{"name":"c","tty":true},{"name":"m","image":"m"}]}"#
    );
}

#[test]
fn a_united_list_is_filled_in_beside_what_is_there() {
    let pod = r#"{"spec": {"tolerations": [{"key": "a"}]}}"#;
    let patch = "tolerations: [{key: b}]";
    assert_eq!(cut(pod, patch, &[], &[]), "{}");
    let unions = [UnionList::parse("tolerations").unwrap()];
    assert_eq!(cut(pod, patch, &[], &unions), r#"{"tolerations":[{"key":"b"}]}"#);
}

#[test]
fn what_takes_away_is_refused_in_such_a_layer() {
    let patch =
        "nodeSelector: {a: null}\ncontainers:\n- {name: a, $patch: delete}\n- name: b\n  $setElementOrder/env: []\n";
    let source = source("apply: IfAbsent", patch, "labels: {team: null}");
    let error = parse(&source, Scope { own_namespace: "podlayer" }).unwrap_err().to_string();
    let tail = "in a layer with apply: IfAbsent, which only fills in what is missing: leave it out, ConfigMap fill";
    let lines: Vec<&str> = error.lines().collect();
    assert_eq!(
        lines,
        [
            format!("null {tail} podSpecPatch, line 1 column 16"),
            format!("$patch {tail} podSpecPatch, line 3 column 13"),
            format!("$setElementOrder/env {tail} podSpecPatch, line 5 column 3"),
            format!("\"team\": null {tail} podMetadata, line 1 column 10"),
        ]
    );
    assert_eq!(layer("apply: Override", "nodeSelector: {a: null}").options, Options::default());
}

#[test]
fn labels_and_annotations_that_are_there_stay() {
    let source = source("apply: IfAbsent", "", "labels: {team: a, tier: b}");
    let layer = parse(&source, Scope { own_namespace: "podlayer" }).unwrap();
    let mut metadata = from_json(r#"{"labels": {"team": "mine"}}"#, JsonLimits::DEFAULT).unwrap();
    assert!(layer.metadata.apply(metadata.as_object_mut().unwrap(), layer.options.apply));
    assert_eq!(to_json(&metadata), r#"{"labels":{"team":"mine","tier":"b"}}"#);
    let mut pod = Map::new();
    pod.insert("metadata", metadata);
    assert_eq!(layer.borne_out(&Value::Object(pod)), [false, true]);
}
