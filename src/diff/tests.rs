use proptest::{collection::vec, option, prelude::*, sample::select, string::string_regex};

use super::*;
use crate::{
    schema::POD,
    value::{JsonLimits, Map, Value, from_json, to_json},
};

fn parse(text: &str) -> Value<'_> {
    from_json(text, JsonLimits::DEFAULT).unwrap()
}

/// The difference of two pod specs, proved by our own applier and by `json_patch`.
#[track_caller]
fn proved<'a>(before: &Value<'_>, after: &'a Value<'_>) -> Vec<Operation<'a>> {
    let mut operations = Vec::new();
    diff(before, after, POD.pod_spec(), "/spec", &mut operations);
    assert_eq!(verify(before, &operations, after, "/spec"), Ok(()));

    let document = |value: &Value<'_>| serde_json::from_str(&format!(r#"{{"spec":{}}}"#, to_json(value))).unwrap();
    let mut got: serde_json::Value = document(before);
    let wanted: serde_json::Value = document(after);
    let patch: json_patch::Patch = serde_json::from_str(&super::to_json(&operations)).unwrap();
    json_patch::patch(&mut got, &patch).unwrap();
    assert_eq!(got, wanted);
    operations
}

#[track_caller]
fn differs_by(before: &str, after: &str, wanted: &str) {
    let (before, after) = (parse(before), parse(after));
    let operations = proved(&before, &after);
    assert_eq!(super::to_json(&operations), wanted);
}

#[test]
fn a_container_in_front_is_one_add() {
    differs_by(
        r#"{"containers":[{"name":"a"},{"name":"b","image":"x"}]}"#,
        r#"{"containers":[{"name":"n","image":"y"},{"name":"a"},{"name":"b","image":"x"}]}"#,
        r#"[{"op":"add","path":"/spec/containers/0","value":{"name":"n","image":"y"}}]"#,
    );
}

#[test]
fn an_absent_parent_is_added_once_and_an_empty_one_replaced_once() {
    differs_by(
        r#"{"containers":[{"name":"a","resources":{}}]}"#,
        r#"{"containers":[{"name":"a","resources":{"limits":{"cpu":"1"},"requests":{}}}],"nodeSelector":{"a/b~c":"d"}}"#,
        concat!(
            r#"[{"op":"replace","path":"/spec/containers/0/resources","value":{"limits":{"cpu":"1"},"requests":{}}},"#,
            r#"{"op":"add","path":"/spec/nodeSelector","value":{"a/b~c":"d"}}]"#
        ),
    );
}

#[test]
fn an_object_of_which_nothing_stays_is_replaced_once() {
    differs_by(
        r#"{"containers":[{"name":"a","resources":{"requests":{"cpu":"1","memory":"1Gi"}}}],"os":{"name":"a"}}"#,
        r#"{"containers":[{"name":"a","resources":{"limits":{"cpu":"3"},"requests":{"cpu":"2"}}}],"os":{"name":"b"}}"#,
        concat!(
            r#"[{"op":"replace","path":"/spec/containers/0/resources","#,
            r#""value":{"limits":{"cpu":"3"},"requests":{"cpu":"2"}}},"#,
            r#"{"op":"replace","path":"/spec/os/name","value":"b"}]"#
        ),
    );
}

#[test]
fn keys_are_told_one_by_one_and_escaped() {
    differs_by(
        r#"{"nodeSelector":{"a/b":"1","c~d":"2","e":"3","same":"4"}}"#,
        r#"{"nodeSelector":{"a/b":"9","e":"3","same":"4","n/w":"5"}}"#,
        concat!(
            r#"[{"op":"replace","path":"/spec/nodeSelector/a~1b","value":"9"},"#,
            r#"{"op":"add","path":"/spec/nodeSelector/n~1w","value":"5"},"#,
            r#"{"op":"remove","path":"/spec/nodeSelector/c~0d"}]"#
        ),
    );
}

#[test]
fn items_go_from_the_back_come_from_the_front_and_change_at_their_final_place() {
    differs_by(
        r#"{"containers":[{"name":"a"},{"name":"b"},{"name":"c","image":"1"},{"name":"d"}]}"#,
        r#"{"containers":[{"name":"n"},{"name":"c","image":"2"},{"name":"m"}]}"#,
        concat!(
            r#"[{"op":"remove","path":"/spec/containers/3"},{"op":"remove","path":"/spec/containers/1"},"#,
            r#"{"op":"remove","path":"/spec/containers/0"},"#,
            r#"{"op":"add","path":"/spec/containers/0","value":{"name":"n"}},"#,
            r#"{"op":"add","path":"/spec/containers/2","value":{"name":"m"}},"#,
            r#"{"op":"replace","path":"/spec/containers/1/image","value":"2"}]"#
        ),
    );
}

#[test]
fn one_item_out_of_order_is_taken_out_and_put_back() {
    differs_by(
        r#"{"volumes":[{"name":"a"},{"name":"b"},{"name":"c"},{"name":"d","emptyDir":{}}]}"#,
        r#"{"volumes":[{"name":"d","emptyDir":{}},{"name":"a"},{"name":"b"},{"name":"c"}]}"#,
        concat!(
            r#"[{"op":"remove","path":"/spec/volumes/3"},"#,
            r#"{"op":"add","path":"/spec/volumes/0","value":{"name":"d","emptyDir":{}}}]"#
        ),
    );
}

#[test]
fn lists_without_a_usable_key_are_replaced() {
    differs_by(
        r#"{"tolerations":[{"key":"a"}],"imagePullSecrets":[{}],"new":[{"name":"a"}],"same":[1,{"a":null}]}"#,
        r#"{"tolerations":[{"key":"b"},{"key":"a"}],"imagePullSecrets":[{"name":"a"},{}],"new":[],"same":[1,{"a":null}]}"#,
        concat!(
            r#"[{"op":"replace","path":"/spec/tolerations","value":[{"key":"b"},{"key":"a"}]},"#,
            r#"{"op":"replace","path":"/spec/imagePullSecrets","value":[{"name":"a"},{}]},"#,
            r#"{"op":"replace","path":"/spec/new","value":[]}]"#
        ),
    );
}

#[test]
fn a_list_of_which_no_item_stays_is_replaced() {
    differs_by(
        r#"{"hostname":"h","volumes":[{"name":"a"}],"hostAliases":[]}"#,
        r#"{"hostname":"h","volumes":[{"name":"b"}],"hostAliases":[{"ip":"::1"}]}"#,
        concat!(
            r#"[{"op":"replace","path":"/spec/volumes","value":[{"name":"b"}]},"#,
            r#"{"op":"add","path":"/spec/hostAliases/0","value":{"ip":"::1"}}]"#
        ),
    );
}

#[test]
fn a_change_of_type_is_a_replace_and_null_is_a_value() {
    differs_by(
        r#"{"hostname":"a","priority":1,"os":{"name":"linux"},"newer":{"a":[1]},"subdomain":null,"same":null}"#,
        r#"{"hostname":null,"priority":"1","os":[],"newer":{"a":{}},"same":null}"#,
        concat!(
            r#"[{"op":"replace","path":"/spec/hostname","value":null},"#,
            r#"{"op":"replace","path":"/spec/priority","value":"1"},{"op":"replace","path":"/spec/os","value":[]},"#,
            r#"{"op":"replace","path":"/spec/newer/a","value":{}},{"op":"remove","path":"/spec/subdomain"}]"#
        ),
    );
}

#[test]
fn the_whole_may_change_too() {
    differs_by("null", r#"{"a":1}"#, r#"[{"op":"replace","path":"/spec","value":{"a":1}}]"#);
    differs_by("{}", "{}", "[]");
}

/// A spec with one container whose env has these names and values.
fn env(items: impl Iterator<Item = (String, String)>) -> Value<'static> {
    let items = items.map(|(name, value)| {
        Value::Object(Map::from_iter([("name", Value::from(name)), ("value", Value::from(value))]))
    });
    let env = Value::List(items.collect());
    let container = Value::Object(Map::from_iter([("name", Value::from("a")), ("env", env)]));
    Value::Object(Map::from_iter([("containers", Value::List(vec![container]))]))
}

#[test]
fn eight_changes_in_1500_env_are_eight_operations() {
    let before = env((0..1500).map(|i| (format!("E{i}"), "v".to_owned())));
    let news = ["N1", "N2", "N3"].map(|name| (name.to_owned(), "n".to_owned()));
    let changed = (0..1500)
        .filter(|i| ![700, 1499].contains(i))
        .map(|i| (format!("E{i}"), if [3, 800, 1400].contains(&i) { "w" } else { "v" }.to_owned()));
    let after = env(news.into_iter().chain(changed));
    assert_eq!(proved(&before, &after).len(), 8);
}

#[test]
fn twenty_thousand_items_in_any_order_are_no_burden() {
    let item = |i: usize| (format!("E{i}"), "v".repeat(20));
    let before = env((0..20_000).map(item));
    let reversed = env((0..20_000).rev().map(item));
    assert_eq!(proved(&before, &reversed).len(), 1);
    // 7,919 is prime to 20,000, so this is a permutation with no long run in order.
    let shuffled = env((0..20_000).map(|i| item(i * 7919 % 20_000)));
    assert_eq!(proved(&before, &shuffled).len(), 1);
    let twice = env((0..20_000).map(|i| item(i / 2)));
    assert_eq!(proved(&before, &twice).len(), 1);
    let moved = env((1..20_000).chain([0]).map(item));
    assert_eq!(proved(&before, &moved).len(), 2);
    assert_eq!(proved(&before, &before), []);
}

#[test]
fn a_wrong_patch_is_noticed() {
    let before = parse(r#"{"a":1,"b":[{"c":2}]}"#);
    let after = parse(r#"{"a":1,"b":[{"c":3}]}"#);
    let differs = |path: &str| Err(VerifyError::Differs { path: path.to_owned() });
    assert_eq!(verify(&before, &[], &after, "/spec"), differs("/spec/b"));
    let operations = [Operation { op: Op::Replace, path: "/spec/b/0/c".into(), value: Some(Value::Int(3)) }];
    assert_eq!(verify(&before, &operations, &after, "/spec"), Ok(()));
    assert_eq!(verify(&before, &operations, &before, "/spec"), differs("/spec/b"));
    assert!(matches!(verify(&before, &operations, &after, "/other"), Err(VerifyError::Apply(_))));
}

#[test]
fn operations_that_do_not_apply_say_why() {
    for (op, path, fault) in [
        (Op::Add, "/spec/x/y", "there is no such key"),
        (Op::Replace, "/spec/x", "there is no such key"),
        (Op::Remove, "/spec/x", "there is no such key"),
        (Op::Remove, "/spec", "the whole can't be removed"),
        (Op::Add, "/spec/b/2", "the list is shorter"),
        (Op::Replace, "/spec/b/1", "the list is shorter"),
        (Op::Remove, "/spec/b/1", "the list is shorter"),
        (Op::Add, "/spec/b/-", "that is no index of a list"),
        (Op::Add, "/spec/b/00", "that is no index of a list"),
        (Op::Add, "/spec/b/+1", "that is no index of a list"),
        (Op::Add, "/spec/a/b", "its parent is no list and no object"),
        (Op::Add, "/spec/a/b/c", "its parent is no list and no object"),
        (Op::Add, "/specs", "the path is outside"),
        (Op::Add, "/specs/a", "the path is outside"),
        (Op::Add, "", "the path is outside"),
    ] {
        let mut target = parse(r#"{"a":1,"b":[{"c":2}]}"#);
        let operation = Operation { op, path: path.into(), value: (op != Op::Remove).then_some(Value::Null) };
        let error = apply(&mut target, &[operation], "/spec").unwrap_err();
        assert_eq!(error.to_string(), format!("failed to {op} {path:?}: {fault}"));
    }
    let none = Operation { op: Op::Add, path: "/spec/a".into(), value: None };
    assert!(apply(&mut parse("{}"), &[none], "/spec").is_err());
}

#[test]
fn the_reviews_get_patches_as_small_as_the_reference() {
    macro_rules! review {
        ($name:literal) => {
            (
                $name,
                include_str!(concat!("../../tests/data/reviews/review-", $name, ".json")),
                include_str!(concat!("../../tests/data/reviews/expected/", $name, ".pod.json")),
                include_str!(concat!("../../tests/data/reviews/expected/", $name, ".minpatch.json")),
            )
        };
    }
    for (name, review, pod, reference) in
        [review!("4k"), review!("16k"), review!("16k-annot"), review!("64k"), review!("1500env")]
    {
        let review = parse(review);
        let before = review.get("request").and_then(|request| request.get("object")).unwrap();
        let after = parse(pod);
        let mut operations = Vec::new();
        diff(before, &after, POD.pod(), "", &mut operations);
        assert_eq!(verify(before, &operations, &after, ""), Ok(()), "{name}");
        let bytes = super::to_json(&operations).len();
        println!("{name}: {} operations, {bytes} bytes", operations.len());
        let reference = parse(reference);
        println!(
            "   reference: {} operations, {} bytes",
            reference.as_list().unwrap().len(),
            to_json(&reference).len()
        );
        assert!(bytes < to_json(&reference).len() * 5 / 4, "{name}: {bytes} bytes");
    }
}

/// Values of a few kinds, so that two of them are often equal.
fn scalar() -> impl Strategy<Value = Value<'static>> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        (0..3i64).prop_map(Value::Int),
        select(vec!["", "a", "b/c", "~d"]).prop_map(Value::from),
    ]
}

fn object(fields: impl Strategy<Value = (&'static str, Value<'static>)>) -> impl Strategy<Value = Value<'static>> {
    vec(fields, 0..5).prop_map(|fields| Value::Object(fields.into_iter().collect()))
}

/// Anything, as fields that no graph knows may hold.
fn anything() -> impl Strategy<Value = Value<'static>> {
    scalar().prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::List),
            object((select(vec!["x", "y/z", "~", "name", ""]), inner)),
        ]
    })
}

/// A list whose items mostly have the key, so that all ways through are taken.
fn keyed(
    key: &'static str,
    name: BoxedStrategy<Value<'static>>,
    fields: BoxedStrategy<Value<'static>>,
) -> BoxedStrategy<Value<'static>> {
    let item = (name, fields).prop_map(move |(name, mut fields)| {
        if let Some(map) = fields.as_object_mut() {
            map.insert(key, name);
        }
        fields
    });
    let list = vec(item.boxed(), 0..7).prop_map(Value::List);
    prop_oneof![9 => list, 1 => vec(anything(), 0..3).prop_map(Value::List)].boxed()
}

fn spec() -> BoxedStrategy<Value<'static>> {
    let names = || select(vec!["a", "b", "c", "d", "e"]).prop_map(Value::from).boxed();
    let ports = || prop_oneof![(80..83i64).prop_map(Value::Int), Just(Value::from("80"))].boxed();
    let flat = || object((select(vec!["value", "x"]), scalar())).boxed();
    let field = prop_oneof![
        3 => keyed("name", names(), flat()).prop_map(|env| ("env", env)),
        1 => keyed("containerPort", ports(), flat()).prop_map(|ports| ("ports", ports)),
        1 => anything().prop_map(|args| ("args", args)),
        1 => anything().prop_map(|newer| ("newer", newer)),
        1 => object((select(vec!["limits", "requests"]), flat())).prop_map(|resources| ("resources", resources)),
    ];
    let container = object(field).boxed();
    let field = prop_oneof![
        4 => keyed("name", names(), container).prop_map(|containers| ("containers", containers)),
        1 => object((select(vec!["k/l", "m~n", "o"]), scalar())).prop_map(|labels| ("nodeSelector", labels)),
        1 => vec(flat(), 0..3).prop_map(|tolerations| ("tolerations", Value::List(tolerations))),
        1 => anything().prop_map(|newer| ("newer", newer)),
    ];
    object(field).boxed()
}

/// Shuffles every list by a seed, so that equal items meet in another order.
fn shuffled(value: Value<'static>, seed: u64) -> Value<'static> {
    match value {
        Value::List(items) => {
            let mut items: Vec<_> = items.into_iter().map(|item| shuffled(item, seed)).collect();
            let length = items.len();
            for at in 1..length {
                items.swap(at, (seed >> (at % 60)) as usize % (at + 1));
            }
            Value::List(items)
        }
        Value::Object(map) => Value::Object(map.into_iter().map(|(key, value)| (key, shuffled(value, seed))).collect()),
        scalar => scalar,
    }
}

proptest! {
    #[test]
    fn a_difference_always_gives_the_result(before in spec(), after in spec()) {
        proved(&before, &after);
    }

    #[test]
    fn moved_items_always_arrive(before in spec(), seed in option::of(any::<u64>())) {
        let after = seed.map_or_else(|| before.clone(), |seed| shuffled(before.clone(), seed));
        let operations = proved(&before, &after);
        prop_assert_eq!(operations.is_empty(), before == after);
    }

    #[test]
    fn equal_values_give_no_operation(value in spec()) {
        prop_assert_eq!(proved(&value, &value), []);
    }

    #[test]
    fn long_lists_give_their_result(
        old in string_regex("[a-h]{0,40}").unwrap(),
        new in string_regex("[a-h]{0,40}").unwrap(),
    ) {
        let list = |names: &str| env(names.chars().enumerate().map(|(at, name)| (name.into(), (at % 3).to_string())));
        proved(&list(&old), &list(&new));
    }
}
