use proptest::{collection::vec, prelude::*};

use super::*;
use crate::value::{JsonLimits, from_json, to_json};

fn json(text: &str) -> Value<'_> {
    from_json(text, JsonLimits::DEFAULT).unwrap()
}

fn merged_as<'a>(pod: &'a str, patch: &'a str, mode: Mode) -> Result<String, String> {
    let mut pod = json(pod);
    apply(&mut pod, json(patch), POD.pod_spec(), mode).map_err(|error| error.to_string())?;
    Ok(to_json(&pod))
}

fn merged(pod: &str, patch: &str) -> Result<String, String> {
    merged_as(pod, patch, Mode::Strict)
}

/// `[{"name":"k0"},…]` with more in each item.
fn items(range: impl Iterator<Item = usize>, more: &str) -> String {
    let items: Vec<String> = range.map(|i| format!(r#"{{"name":"k{i}"{more}}}"#)).collect();
    format!("[{}]", items.join(","))
}

#[test]
fn documents_of_null_are_empty_and_others_must_be_objects() {
    assert_eq!(merged("null", r#"{"hostNetwork":true}"#).unwrap(), r#"{"hostNetwork":true}"#);
    assert_eq!(merged("null", "null").unwrap(), "{}");
    assert_eq!(merged(r#"{"a":null}"#, "null").unwrap(), r#"{"a":null}"#);
    assert_eq!(merged("{}", "[]").unwrap_err(), "the patch must be an object, not a list");
    assert_eq!(merged("1", "null").unwrap_err(), "the pod must be an object, not a whole number");
}

#[test]
fn faults_are_named_with_their_place_and_the_fix() {
    let pod = r#"{"containers":[{"name":"agent","env":[{"name":"A","value":"1"}],"ports":[{"containerPort":80}]}],
        "imagePullSecrets":[{}],"nodeSelector":{"a":{"b":1}},"affinity":{},"foo":{},"schedulingGates":["x"]}"#;
    let agent = |patch: &str| format!(r#"{{"containers":[{{"name":"agent",{patch}}}]}}"#);
    let rows = [
        (
            agent(r#""env":[{"value":"x"}]"#),
            "containers[name=agent].env[0]: this item of the patch lacks `name`, by which the items of this list are merged; add `name`",
        ),
        (
            agent(r#""env":[{"name":"A","$patch":"merge"}]"#),
            "containers[name=agent].env[name=A].$patch: `$patch: merge` can't stand in a list item; leave it out, since items merge by `name` anyway",
        ),
        (
            agent(r#""env":[{"name":"A","$patch":1}]"#),
            "containers[name=agent].env[name=A].$patch: `$patch` must be `delete` in a list item, or `replace` in an item of its own to replace the list, not 1; to merge, leave `$patch` out",
        ),
        (
            agent(r#""env":[{"name":["A"]}]"#),
            "containers[name=agent].env[0].name: `name` names the items of this list, so it must be text or a number, not a list",
        ),
        (
            agent(r#""env":[null]"#),
            "containers[name=agent].env[0]: this item of the patch is null; take it out (`$patch: delete` removes an item, null doesn't)",
        ),
        (
            agent(r#""env":["A"]"#),
            "containers[name=agent].env[0]: this item of the patch is text, but the first of the list is an object; all must be of one type",
        ),
        (
            agent(r#""ports":[{"containerPort":80,"$retainKeys":["name"]}]"#),
            "containers[name=agent].ports[containerPort=80].$retainKeys: the patch sets `containerPort`, which the `$retainKeys` beside it doesn't name; add it there",
        ),
        (
            agent(r#""env":[{"name":"A","$deleteFromPrimitiveList/name":null}]"#),
            "containers[name=agent].env[0].name: the patch removes `name`, by which the items of this list are merged; to remove the item, write `$patch: delete` beside its `name`",
        ),
        (
            r#"{"imagePullSecrets":[]}"#.into(),
            "imagePullSecrets[0]: this item of the pod lacks `name`, by which the items of this list are merged; no patch can touch the list while such an item is in it: give the item its `name`",
        ),
        (
            r#"{"affinity":{"$patch":"merge"}}"#.into(),
            "affinity.$patch: `$patch` must be `replace` or `delete` in an object, not \"merge\"; to merge, leave `$patch` out",
        ),
        (
            r#"{"foo":{}}"#.into(),
            "foo: PodSpec has no field `foo`, so there is no telling how to merge the pod's with the patch's; leave it out of the patch",
        ),
        (
            r#"{"nodeSelector":{"a":{}}}"#.into(),
            "nodeSelector.a: there can be no objects or lists to merge inside a map of plain values; leave them out of the patch",
        ),
        (
            r#"{"schedulingGates":["y"]}"#.into(),
            "schedulingGates: the items of this list must be objects with `name`, not text",
        ),
        (
            r#"{"$setElementOrder":[]}"#.into(),
            "$setElementOrder: a list must be named after a slash: `$setElementOrder/finalizers`",
        ),
        (
            r#"{"$retainKeys":[{}]}"#.into(),
            "$retainKeys: `$retainKeys` must hold field names only, and this is an object",
        ),
        (r#"{"$retainKeys":"a"}"#.into(), "$retainKeys: `$retainKeys` must be a list of field names, not text"),
        (
            r#"{"$setElementOrder/containers":null}"#.into(),
            "[$setElementOrder/containers]: this must be a list of the items in the order they shall have, not null",
        ),
        (
            r#"{"$setElementOrder/containers":["agent"]}"#.into(),
            "[$setElementOrder/containers][0]: each item of `$setElementOrder/containers` must be an object with `name`: `- name: …`",
        ),
        (
            r#"{"$setElementOrder/containers":[{"name":"x"}],"containers":[{"name":"agent"}]}"#.into(),
            "[$setElementOrder/containers]: the patch's items of `containers` must stand in the order of `$setElementOrder/containers`, each of them named there once",
        ),
        (
            r#"{"$setElementOrder/tolerations":[{}],"tolerations":[{}]}"#.into(),
            "[$setElementOrder/tolerations]: `$setElementOrder/tolerations` can't order objects that no key names; write the whole list, it is replaced",
        ),
        (
            r#"{"$setElementOrder/volumes":[],"volumes":[]}"#.into(),
            "[$setElementOrder/volumes]: there is nothing for `$setElementOrder/volumes` to order; leave it out",
        ),
        (
            r#"{"$setElementOrder/affinity":[]}"#.into(),
            "affinity: `$setElementOrder/affinity` orders lists, but the pod has an object here; leave one of the two out",
        ),
        (r#"{"$setElementOrder/hostNetwork":[]}"#.into(), "hostNetwork: this must be true or false, not a list"),
    ];
    for (patch, text) in rows {
        assert_eq!(merged(pod, &patch).unwrap_err(), text, "{patch}");
    }
}

#[test]
fn a_merge_into_null_list_items_is_refused_where_go_panics() {
    let error = merged(r#"{"containers":[null]}"#, r#"{"containers":[]}"#).unwrap_err();
    assert!(error.starts_with("containers[0]: this item of the pod is null"), "{error}");
    let error = merged(r#"{"containers":[["a"]]}"#, r#"{"containers":[]}"#).unwrap_err();
    assert!(error.starts_with("containers[0]: this item of the pod is a list"), "{error}");
}

#[test]
fn lenient_mode_merges_unknown_objects_and_replaces_unknown_lists() {
    let pod = r#"{"new":{"a":1,"deep":{"b":1}},"list":[{"name":"a"}]}"#;
    let patch = r#"{"new":{"deep":{"c":2},"a":null},"list":[{"name":"b","x":null}]}"#;
    let expected = r#"{"new":{"deep":{"b":1,"c":2}},"list":[{"name":"b","x":null}]}"#;
    assert_eq!(merged_as(pod, patch, Mode::Lenient).unwrap(), expected);
    assert!(merged(pod, patch).is_err());
}

#[test]
fn a_deletion_beside_the_list_itself_comes_after_its_merge() {
    let pod = r#"{"securityContext":{"supplementalGroups":[1,2]}}"#;
    let patch =
        r#"{"securityContext":{"$deleteFromPrimitiveList/supplementalGroups":[2,3],"supplementalGroups":[1,3,4]}}"#;
    assert_eq!(merged(pod, patch).unwrap(), r#"{"securityContext":{"supplementalGroups":[1,4]}}"#);
}

/// What Go leaves behind a shortened list is only seen when the list is replaced and ordered besides.
#[test]
fn an_order_sees_what_deletions_left_behind_in_gos_memory() {
    let pod = r#"{"containers":[{"name":"a"},{"name":"b"},{"name":"c"}]}"#;
    let patch = |rest: &str| {
        format!(
            r#"{{"$setElementOrder/containers":[],"containers":[{{"name":"c","$patch":"delete"}},
                {{"name":"b","$patch":"delete"}},{{"$patch":"replace"}},{rest}]}}"#
        )
    };
    let expected = r#"{"containers":[{"name":"b"},{"name":"c"}]}"#;
    for rest in [r#"{"name":"c"},{"name":"b"}"#, r#"{"name":"b"},{"name":"c"}"#] {
        assert_eq!(merged(pod, &patch(rest)).unwrap(), expected);
    }
}

#[test]
fn text_of_the_patch_is_moved_and_not_copied() {
    let patch = String::from(r#"{"containers":[{"name":"new","image":"registry/image"}]}"#);
    let mut pod = json("{}");
    apply(&mut pod, json(&patch), POD.pod_spec(), Mode::Strict).unwrap();
    let Some([container]) = pod.get("containers").and_then(Value::as_list) else { panic!("one container was added") };
    let image = container.get("image").and_then(Value::as_str).unwrap();
    assert!(patch.as_bytes().as_ptr_range().contains(&image.as_ptr()));
}

/// What a pass over all pairs of these items would take, 400 million comparisons a list, no test would wait for.
#[test]
fn work_grows_with_the_length_of_lists_and_not_with_its_square() {
    const MANY: usize = 20_000;
    let container = |rest: &str| format!(r#"{{"containers":[{{"name":"c",{rest}}}]}}"#);
    let old = container(&format!(r#""env":{}"#, items(0..MANY, r#","value":"old""#)));

    let half_new = container(&format!(r#""env":{}"#, items((MANY / 2..MANY * 3 / 2).rev(), r#","value":null"#)));
    let result = merged(&old, &half_new).unwrap();
    assert_eq!(result.matches(r#""name":"k"#).count(), MANY * 3 / 2);
    assert_eq!(result.matches(r#""value":"old""#).count(), MANY / 2);

    let delete_all = container(&format!(r#""env":{}"#, items(0..MANY, r#","$patch":"delete""#)));
    assert_eq!(merged(&old, &delete_all).unwrap(), r#"{"containers":[{"name":"c","env":[]}]}"#);

    let order = items((0..MANY).rev(), "");
    let ordered = container(&format!(r#""$setElementOrder/env":{order},"env":{order}"#));
    assert!(merged(&old, &ordered).unwrap().contains(&format!(r#""env":[{{"name":"k{}""#, MANY - 1)));
    let unordered = container(&format!(r#""$setElementOrder/env":[],"env":{}"#, items(MANY..2 * MANY, "")));
    assert_eq!(merged(&old, &unordered).unwrap().matches(r#""name":"k"#).count(), 2 * MANY);

    let groups = |range: std::ops::Range<usize>| {
        let groups: Vec<String> = range.map(|i| format!("\"{}\"", i % MANY)).collect();
        format!(r#"{{"metadata":{{"finalizers":[{}]}}}}"#, groups.join(","))
    };
    let (twice, shifted) = (groups(0..2 * MANY), groups(MANY / 2..MANY));
    let mut pod = json(&twice);
    apply(&mut pod, json(&shifted), POD.pod(), Mode::Strict).unwrap();
    assert_eq!(to_json(&pod).matches(',').count(), MANY - 1);

    let leaks = format!(r#"{{"tolerations":{}}}"#, items(0..MANY, r#","value":null"#));
    let mut result = json(&leaks);
    assert_eq!(finalise(&mut result, &json("{}"), POD.pod_spec()).nulls, MANY);
    let mut result = json(&leaks);
    assert_eq!(finalise(&mut result, &json(&leaks), POD.pod_spec()).total(), 0);
}

/// Any JSON, but of names that mean something, so that most pairs meet somewhere.
fn any_json() -> impl Strategy<Value = Value<'static>> {
    let names = [
        "$deleteFromPrimitiveList/finalizers",
        "$deleteFromPrimitiveList/env",
        "$patch",
        "$retainKeys",
        "$setElementOrder",
        "$setElementOrder/containers",
        "$setElementOrder/env",
        "$setElementOrder/finalizers",
        "affinity",
        "containers",
        "env",
        "finalizers",
        "labels",
        "metadata",
        "name",
        "nodeSelector",
        "ports",
        "spec",
        "tolerations",
        "unknown",
    ];
    let scalar = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        (0..3i64).prop_map(Value::Int),
        Just(Value::Float(1.0)),
        Just(Value::Uint(u64::MAX)),
        prop::sample::select(vec!["a", "b", "delete", "env", "merge", "name", "replace"]).prop_map(Value::from),
    ];
    scalar.prop_recursive(6, 60, 5, move |inner| {
        let key = prop::sample::select(names.to_vec());
        prop_oneof![
            vec(inner.clone(), 0..5).prop_map(Value::List),
            vec((key, inner), 0..6).prop_map(|entries| Value::Object(entries.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn nothing_panics_and_what_is_finalised_stays_so(pod in any_json(), patch in any_json(), lenient: bool) {
        for root in [POD.pod(), POD.pod_spec()] {
            let mode = if lenient { Mode::Lenient } else { Mode::Strict };
            let mut result = pod.clone();
            if apply(&mut result, patch.clone(), root, mode).is_ok() {
                let dropped = finalise(&mut result, &pod, root);
                prop_assert!(can_leak(&patch) || dropped.total() == 0);
                prop_assert_eq!(finalise(&mut result, &pod, root).total(), 0);
            }
        }
    }

    #[test]
    fn an_empty_patch_changes_nothing(pod in any_json()) {
        let mut result = pod.clone();
        if apply(&mut result, Value::Object(Map::new()), POD.pod(), Mode::Strict).is_ok() && !pod.is_null() {
            prop_assert_eq!(to_json(&result), to_json(&pod));
        }
        let mut result = pod.clone();
        prop_assert_eq!(finalise(&mut result, &pod, POD.pod()), Dropped::default());
        prop_assert_eq!(to_json(&result), to_json(&pod));
    }
}
