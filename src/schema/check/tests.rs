use super::*;
use crate::value::{JsonLimits, from_json};

/// A document whose every value stands on a line of its own, in the order of the text; keys are in column 1, values in
/// column 2.
fn document(text: &str) -> Document {
    fn marks(value: &Value<'_>, key: bool, line: &mut u32) -> Marks {
        *line += 1;
        let at = Position { line: *line, column: 2 };
        let key = key.then_some(Position { column: 1, ..at });
        let children = match value {
            Value::List(items) => items.iter().map(|item| marks(item, false, line)).collect(),
            Value::Object(map) => map.iter().map(|(_, value)| marks(value, true, line)).collect(),
            _ => Vec::new(),
        };
        Marks { at, key, children }
    }
    let value = from_json(text, JsonLimits::DEFAULT).unwrap().into_owned();
    let marks = marks(&value, false, &mut 0);
    Document { value, marks }
}

fn findings(patch: &str, step: bool) -> Vec<Finding> {
    check(&document(patch), POD.pod_spec(), &Path::field("spec"), CheckOptions { step })
}

#[track_caller]
fn accepts(patch: &str) {
    assert_eq!(findings(patch, true), [], "{patch}");
}

#[track_caller]
fn finds(patch: &str, texts: &[&str]) {
    let found: Vec<String> = findings(patch, true).iter().map(Finding::to_string).collect();
    assert_eq!(found, texts, "{patch}");
}

/// A patch of one container.
fn container(fields: &str) -> String {
    format!(r#"{{"containers": [{{"name": "container-0", {fields}}}]}}"#)
}

#[test]
fn a_right_patch_has_no_findings() {
    for patch in [
        "null",
        "{}",
        r#"{"containers": [{"name": "imagecheck-*", "image": "a"}, {"name": "*"}, {"name": "@command", "env": null}]}"#,
        r#"{"terminationGracePeriodSeconds": 30, "hostNetwork": true, "nodeSelector": {"a/b": "c", "d": null}}"#,
        r#"{"tolerations": [{"key": "a", "tolerationSeconds": 60}], "overhead": {"cpu": 1, "memory": 0.5}}"#,
        r#"{"securityContext": null, "hostAliases": [{"ip": "::1", "hostnames": ["a"]}], "priority": 30.0}"#,
        &container(r#""resources": {"limits": {"cpu": "500m", "nvidia.com/gpu": 1}, "requests": null}"#),
        &container(r#""livenessProbe": {"httpGet": {"port": "http"}, "tcpSocket": {"port": 80}}"#),
        &container(r#""ports": [{"containerPort": 80}, {"containerPort": 81}], "command": ["a"], "args": []"#),
        r#"{"volumes": [{"name": "v", "ephemeral": {"volumeClaimTemplate": {"metadata":
            {"managedFields": [{"fieldsV1": {"anything": [1]}, "time": "2006-01-02T15:04:05Z"}]}}}}]}"#,
    ] {
        accepts(patch);
    }
}

#[test]
fn unknown_fields_get_the_name_that_was_meant() {
    for (patch, text) in [
        (container(r#""resource": {}"#), r#"unknown field "resource" in container-0, did you mean "resources"?"#),
        (container(r#""Image": "a""#), r#"unknown field "Image" in container-0, did you mean "image"?"#),
        (container(r#""limits": {}"#), r#"unknown field "limits" in container-0, did you mean "resources.limits"?"#),
        (
            container(r#""runAsUser": 0"#),
            r#"unknown field "runAsUser" in container-0, did you mean "securityContext.runAsUser"?"#,
        ),
        (
            container(r#""resources": {"cpu": 1}"#),
            r#"unknown field "cpu" in resources of container-0, did you mean "requests.cpu"?"#,
        ),
        (
            container(r#""nodeSelector": {}"#),
            r#"unknown field "nodeSelector" in container-0, it belongs in the pod spec"#,
        ),
        (
            container(r#""env": [{"name": "A", "image": "a"}]"#),
            r#"unknown field "image" in env A of container-0, it belongs in container-0"#,
        ),
        (
            container(r#""env": [{"name": "A", "valeu": "a"}]"#),
            r#"unknown field "valeu" in env A of container-0, did you mean "value"?"#,
        ),
        (container(r#""gpu\u001b": null"#), r#"unknown field "gpu\u{1b}" in container-0"#),
        (r#"{"llamas": 1}"#.into(), r#"unknown field "llamas" in the pod spec"#),
        (
            r#"{"serviceAcountName": "a"}"#.into(),
            r#"unknown field "serviceAcountName" in the pod spec, did you mean "serviceAccountName"?"#,
        ),
        (r#"{"image": "a"}"#.into(), r#"unknown field "image" in the pod spec, did you mean "containers[*].image"?"#),
        (
            r#"{"securityContext": {"runAsUsr": 0}}"#.into(),
            r#"unknown field "runAsUsr" in securityContext, did you mean "runAsUser"?"#,
        ),
    ] {
        finds(&patch, &[text]);
    }
}

#[test]
fn values_of_the_wrong_type_get_what_to_write() {
    for (patch, text) in [
        (
            container(r#""resources": {"limits": {"cpu": true}}"#),
            "cpu of container-0: a quantity is wanted, got true, write an amount such as 500m, 2 or 1Gi",
        ),
        (
            container(r#""resources": {"limits": {"memory": "1GB"}}"#),
            r#"memory of container-0: a quantity is wanted, got the string "1GB", write 1G or 1Gi"#,
        ),
        (
            container(r#""env": [{"name": "PORT", "value": 8080}]"#),
            r#"value of env PORT in container-0: a string is wanted, got the number 8080, write "8080" in quotes"#,
        ),
        (
            container(r#""args": ["-n", 3]"#),
            r#"args[1] of container-0: a string is wanted, got the number 3, write "3" in quotes"#,
        ),
        (
            container(r#""command": "make test""#),
            r#"command of container-0: a list is wanted, got the string "make test", write "- make test" on a line below"#,
        ),
        (
            container(r#""env": {"A": "b"}"#),
            r#"env of container-0: a list is wanted, got a map, write items such as "- name: A""#,
        ),
        (
            container(r#""env": {"name": "A", "value": "b"}"#),
            r#"env of container-0: a list is wanted, got a map, write "- " in front of its first field"#,
        ),
        (
            container(r#""resources": [{"limits": {}}]"#),
            r#"resources of container-0: a map is wanted, got a list, write its fields (claims, limits, requests) without "- ""#,
        ),
        (
            container(r#""livenessProbe": {"httpGet": {"port": 80.5}}"#),
            "livenessProbe.httpGet.port of container-0: a whole number or a string is wanted, got the number 80.5, \
             write 80 or 81",
        ),
        (
            r#"{"terminationGracePeriodSeconds": "30"}"#.into(),
            r#"terminationGracePeriodSeconds: a whole number is wanted, got the string "30", write 30 without quotes"#,
        ),
        (
            r#"{"terminationGracePeriodSeconds": 30.5}"#.into(),
            "terminationGracePeriodSeconds: a whole number is wanted, got the number 30.5, write 30 or 31",
        ),
        (
            r#"{"priority": 3000000000}"#.into(),
            "priority: a whole number is wanted, got the number 3000000000, write one from -2147483648 to 2147483647",
        ),
        (
            r#"{"hostNetwork": "yes"}"#.into(),
            r#"hostNetwork: true or false is wanted, got the string "yes", write true"#,
        ),
        (
            r#"{"nodeSelector": {"a/b": true}}"#.into(),
            "nodeSelector[a/b]: a string is wanted, got true, put the word in quotes",
        ),
        (
            r#"{"nodeSelector": "a"}"#.into(),
            r#"nodeSelector: a map is wanted, got the string "a", write "key: value" lines below it"#,
        ),
        (
            r#"{"tolerations": {"key": "a"}}"#.into(),
            r#"tolerations: a list is wanted, got a map, start each item with "- ""#,
        ),
        (
            r#"{"securityContext": true}"#.into(),
            "securityContext: a map is wanted, got true, write its fields on lines below it",
        ),
        (
            r#"{"imagePullSecrets": ["regcred"]}"#.into(),
            r#"imagePullSecrets[0]: a map is wanted, got the string "regcred", write "- name: regcred""#,
        ),
        (
            r#"{"containers": [null]}"#.into(),
            r#"containers[0]: a map is wanted, got nothing (null), write "- name: …""#,
        ),
    ] {
        finds(&patch, &[text]);
    }
}

#[test]
fn directives_pass_where_a_merge_takes_them() {
    for patch in [
        r#"{"$patch": "replace", "containers": [{"name": "a", "$patch": "delete"}]}"#,
        r#"{"nodeSelector": {"$patch": "replace", "a": "b"}, "overhead": {"$retainKeys": ["cpu"], "cpu": 1}}"#,
        r#"{"nodeSelector": {"$other": "a key"}}"#,
        r#"{"containers": [{"$patch": "replace"}, {"name": "a"}]}"#,
        r#"{"volumes": [{"name": "v", "emptyDir": {}, "hostPath": null, "$retainKeys": ["name", "emptyDir", "csi"]}]}"#,
        r#"{"$setElementOrder/containers": [{"name": "b"}, {"name": "a"}], "containers": []}"#,
        &container(r#""$setElementOrder/args": ["a", "b"], "$deleteFromPrimitiveList/args": ["a"]"#),
        &container(r#""$deleteFromPrimitiveList/args": null"#),
    ] {
        accepts(patch);
    }
}

#[test]
fn directives_that_no_merge_takes_are_found() {
    for (patch, text) in [
        (
            container(r#""$patch": "merge""#),
            r#"$patch in container-0 must be "replace" or "delete", got the string "merge""#,
        ),
        (
            r#"{"nodeSelector": {"$patch": null}}"#.into(),
            r#"$patch in nodeSelector must be "replace" or "delete", got nothing (null)"#,
        ),
        (container(r#""$ptach": "delete""#), r#"unknown directive "$ptach" in container-0, did you mean "$patch"?"#),
        (
            container(r#""$setElementOrder": []"#),
            r#"unknown directive "$setElementOrder" in container-0, did you mean "$setElementOrder/FIELD"?"#,
        ),
        (
            container(r#""$append": []"#),
            "unknown directive \"$append\" in container-0, there are $patch, $retainKeys, $setElementOrder/FIELD and \
             $deleteFromPrimitiveList/FIELD",
        ),
        (
            r#"{"securityContext": {"$retainKeys": "runAsUser"}}"#.into(),
            r#"$retainKeys in securityContext must be a list of field names, got the string "runAsUser""#,
        ),
        (
            r#"{"securityContext": {"$retainKeys": ["runAsUsers"]}}"#.into(),
            r#"$retainKeys in securityContext names the unknown field runAsUsers, did you mean "runAsUser"?"#,
        ),
        (
            r#"{"securityContext": {"$retainKeys": [{}]}}"#.into(),
            "$retainKeys in securityContext must be a list of field names, got a map",
        ),
        (
            r#"{"volumes": [{"name": "v", "emptyDir": {}, "$retainKeys": ["emptyDir"]}]}"#.into(),
            "$retainKeys in volume v lacks name, which the patch sets there; add it to the list",
        ),
        (
            container(r#""$setElementOrder/envs": []"#),
            r#"$setElementOrder/envs in container-0 names the unknown field envs, did you mean "env"?"#,
        ),
        (
            container(r#""$setElementOrder/image": []"#),
            "$setElementOrder/image in container-0: image is no list, take the directive out",
        ),
        (
            container(r#""$setElementOrder/env": null"#),
            "$setElementOrder/env in container-0 must be a list, got nothing (null)",
        ),
        (
            container(r#""$setElementOrder/env": ["A"]"#),
            r#"$setElementOrder/env in container-0 must be a list of merge keys, got the string "A""#,
        ),
        (
            container(r#""$setElementOrder/env": [{"value": "A"}]"#),
            "an item of $setElementOrder/env has no name, which says which item of the list is meant; add \"name: …\"",
        ),
        (
            r#"{"$setElementOrder/tolerations": [{"key": "a"}]}"#.into(),
            "$setElementOrder/tolerations in the pod spec: tolerations has no merge key, write the whole list under \
             tolerations",
        ),
        (
            container(r#""$deleteFromPrimitiveList/args": "a""#),
            r#"$deleteFromPrimitiveList/args in container-0 must be a list of values, got the string "a""#,
        ),
        (
            container(r#""$deleteFromPrimitiveList/env": []"#),
            "$deleteFromPrimitiveList/env in container-0: env is no list of plain values, write \"$patch: delete\" \
             items under env",
        ),
        (
            r#"{"nodeSelector": {"$setElementOrder/a": []}}"#.into(),
            "$setElementOrder/a in nodeSelector: a is no list, take the directive out",
        ),
    ] {
        finds(&patch, &[text]);
    }
}

#[test]
fn what_expansion_left_of_a_directive_is_recognised() {
    for (key, owner, patch) in [
        (r#""""#, "container-0", container(r#""": "delete""#)),
        (r#""$""#, "container-0", container(r#""$": "delete""#)),
        (r#""/env""#, "container-0", container(r#""/env": []"#)),
        (r#""""#, "nodeSelector", r#"{"nodeSelector": {"": "replace"}}"#.to_owned()),
    ] {
        let text = format!(
            "key {key} in {owner}: \"$patch\" was expanded to nothing, write \"$$patch\" (Buildkite's pipeline upload \
             expands what starts with $)"
        );
        finds(&patch, &[&text]);
    }
}

#[test]
fn items_of_one_key_are_refused_unless_the_list_replaces() {
    let twice = container(r#""ports": [{"containerPort": 53}, {"containerPort": 53, "protocol": "UDP"}]"#);
    let found = findings(&twice, false);
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].path.to_string(), "spec.containers[name=container-0].ports[containerPort=53]");
    let first = Position { line: 6, column: 2 };
    assert_eq!(found[0].at, Position { line: 8, column: 2 });
    assert_eq!(
        found[0].to_string(),
        "port 53 of container-0 stands twice in ports of container-0, first at line 6 column 2: kubectl would fold \
         them into one; write the list with a \"- $patch: replace\" marker if both are meant"
    );
    let moved = found[0].clone().moved(&|at| at.within(Position { line: 11, column: 1 }, 4));
    assert_eq!(moved.at, Position { line: 18, column: 6 });
    assert!(
        matches!(moved.kind, FindingKind::DuplicateItem { first: f, .. } if f == first.within(Position { line: 11, column: 1 }, 4))
    );

    finds(
        r#"{"containers": [{"name": "a"}, {"name": "b"}, {"name": "a"}]}"#,
        &[
            "a stands twice in containers, first at line 3 column 2: kubectl would fold them into one; write the list with \
           a \"- $patch: replace\" marker if both are meant",
        ],
    );
    accepts(r#"{"containers": [{"name": "a"}, {"name": "a"}, {"$patch": "replace"}]}"#);
    accepts(r#"{"containers": [{"name": "a", "$patch": "delete"}, {"name": "a", "image": "b"}]}"#);
    accepts(r#"{"tolerations": [{"key": "a"}, {"key": "a"}]}"#);
}

#[test]
fn items_without_a_usable_key_are_refused() {
    finds(
        r#"{"containers": [{"image": "a"}]}"#,
        &["containers[0] has no name, which says which item of the list is meant; add \"name: …\""],
    );
    finds(
        r#"{"containers": [{"$patch": "replace", "image": "a"}]}"#,
        &["containers[0] has no name, which says which item of the list is meant; add \"name: …\""],
    );
    finds(
        r#"{"containers": [{"$patch": "delete"}]}"#,
        &["containers[0] has no name, which says which item of the list is meant; add \"name: …\""],
    );
    finds(
        r#"{"containers": [{"name": null}]}"#,
        &["name of containers[0] is null, but says which item of the list is meant; write it out"],
    );
    finds(
        r#"{"containers": [{"name": ["a"]}]}"#,
        &["containers[0].name: a string is wanted, got a list, write one string, without \"- \""],
    );
    finds(
        r#"{"containers": [{"name": 5}]}"#,
        &["name of 5: a string is wanted, got the number 5, write \"5\" in quotes"],
    );
}

#[test]
fn shapes_of_other_systems_are_told_how_to_write_them() {
    let variables = |item: &str| container(&format!(r#""env": [{item}]"#));
    finds(
        &variables(r#""A=b""#),
        &[r#"env[0] of container-0: a map is wanted, got the string "A=b", write "- {name: A, value: 'b'}""#],
    );
    finds(
        &variables(r#"{"A": "b"}"#),
        &[
            "env[0] of container-0 has no name, which says which item of the list is meant; write \"- name: A\" and below it \
           \"value: …\"",
        ],
    );
    finds(
        r#"{"volumes": [{"name": "v", "hostPath": "/x"}]}"#,
        &[r#"hostPath of volume v: a map is wanted, got the string "/x", write "path: /x" on a line below it"#],
    );
    finds(
        &container(r#""securityContext": {"capabilities": ["NET_ADMIN"]}"#),
        &[
            r#"securityContext.capabilities of container-0: a map is wanted, got a list, write its fields (add, drop) without "- ""#,
        ],
    );
    finds(&container(r#""-name": "a""#), &[r#"unknown field "-name" in container-0, did you mean "- name"?"#]);
}

#[test]
fn what_no_layer_may_set_is_refused() {
    let ephemeral = "ephemeralContainers can't be set: they can only be added to running pods, write the container under \
                     containers";
    finds(r#"{"ephemeralContainers": [{"nonsense": 1}]}"#, &[ephemeral]);
    finds(r#"{"ephemeralContainers": null}"#, &[ephemeral]);
    finds(
        r#"{"nodeName": "a"}"#,
        &["nodeName can't be set by a step: the pod would bypass the scheduler, write a nodeSelector"],
    );
    assert_eq!(findings(r#"{"nodeName": "a"}"#, false), []);
}

#[test]
fn a_patch_that_is_no_map_or_a_whole_pod_is_told_so() {
    finds(
        "[]",
        &[
            "the patch must be a map of pod spec fields, got a list, write the field that the list is for above it, such as \
           \"containers:\"",
        ],
    );
    finds(
        r#"[{"op": "add"}]"#,
        &[
            "the patch must be a map of pod spec fields, got a list, a JSON patch is not read: write the fields as they should \
           be, such as \"hostNetwork: true\"",
        ],
    );
    finds(
        r#""a: b""#,
        &[
            r#"the patch must be a map of pod spec fields, got the string "a: b", write fields, such as "hostNetwork: true""#,
        ],
    );
    finds(
        r#"{"podSpecPatch": {"hostNetwork": true}}"#,
        &["podSpecPatch is the patch's key in a ConfigMap: here write only what stands below it"],
    );
    finds(
        r#"{"spec": {"template": {"spec": {}}}}"#,
        &["the patch is a whole Job, write only what stands below its \"spec.template.spec:\""],
    );
    finds(
        r#"{"apiVersion": "v1", "kind": "Pod", "metadata": {}, "spec": {"llamas": 1}, "status": {}}"#,
        &["the patch is a whole pod, write only what stands below its \"spec:\""],
    );
    finds(r#"{"kind": "Pod"}"#, &["unknown field \"kind\" in the pod spec"]);
}

#[test]
fn findings_stand_in_the_order_of_the_text_and_point_at_key_or_value() {
    let found = findings(r#"{"a1": 1, "hostNetwork": 1, "containers": [{"name": "c", "zzz": 1}], "b1": 1}"#, false);
    let shown: Vec<_> = found.iter().map(|f| (f.path.to_string(), f.at.line, f.at.column)).collect();
    assert_eq!(
        shown,
        [
            ("spec.a1".to_owned(), 2, 1),
            ("spec.hostNetwork".to_owned(), 3, 2),
            ("spec.containers[name=c].zzz".to_owned(), 7, 1),
            ("spec.b1".to_owned(), 8, 1)
        ]
    );
}

#[test]
fn a_pod_is_checked_like_a_spec() {
    let patch = document(r#"{"metadata": {"labels": {"a": 1}}, "spec": {"hostPID": 0}, "specs": {}}"#);
    let found = check(&patch, POD.pod(), &Path::root(), CheckOptions::default());
    let texts: Vec<_> = found.iter().map(Finding::to_string).collect();
    assert_eq!(
        texts,
        [
            "metadata.labels.a: a string is wanted, got the number 1, write \"1\" in quotes",
            "spec.hostPID: true or false is wanted, got the number 0, write false",
            "unknown field \"specs\" in the pod, did you mean \"spec\"?"
        ]
    );
}

#[test]
fn a_hostile_patch_takes_linear_time() {
    let many: Vec<String> = (0..50_000).map(|i| format!(r#""x{i}": 1"#)).collect();
    assert_eq!(findings(&container(&many.join(",")), true).len(), 50_000);
    let items: Vec<String> = (0..50_000).map(|i| format!(r#"{{"name": "{}"}}"#, i % 25_000)).collect();
    assert_eq!(findings(&container(&format!(r#""env": [{}]"#, items.join(","))), true).len(), 25_000);
}
