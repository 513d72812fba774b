//! Merges: no pair of documents makes one panic; twice the same gives the same; the difference, applied, gives the result; what
//! is recorded of Go, and every other pair where Go is at hand, merges as there.

#![no_main]

use libfuzzer_sys::{fuzz_mutator, fuzz_target};
use podlayer::{
    diff,
    merge::{self, Mode},
    schema::{POD, TypeId},
    value::{JsonLimits, Value, from_json, to_json},
};
use podlayer_fuzz::{answers, corpus};

fuzz_mutator!(|data: &mut [u8], size: usize, most: usize, seed: u32| { podlayer_fuzz::mutate(data, size, most, seed) });

fuzz_target!(init: podlayer_fuzz::corpus::fill("merge"), |data: &[u8]| {
    let Ok(case) = serde_json::from_slice::<serde_json::Value>(data) else { return };
    let (Some(original), Some(patch)) = (case.get("original"), case.get("patch")) else { return };
    let root = if case["root"] == "podspec" { POD.pod_spec() } else { POD.pod() };
    let (original, patch) = (original.to_string(), patch.to_string());
    let read = |text| from_json(text, JsonLimits::DEFAULT);
    let (Ok(before), Ok(patch)) = (read(&original), read(&patch)) else { return };

    let strict = merged(&before, &patch, root, Mode::Strict);
    assert_eq!(strict, merged(&before, &patch, root, Mode::Strict), "twice the same");
    if let Ok(mut after) = merged(&before, &patch, root, Mode::Lenient) {
        if let Ok(strict) = &strict {
            assert_eq!(*strict, after, "lenient is strict with fewer errors");
        }
        changed(&before, &after, root);
        merge::finalise(&mut after, &before, root);
        changed(&before, &after, root);
    } else {
        assert!(strict.is_err(), "lenient has fewer errors than strict");
    }
    if let Some(answer) = specified(&case).then(|| answers::merge(&corpus::question(&case))).flatten() {
        let got = strict.as_ref().ok().map(|value| serde_json::from_str(&to_json(value)).expect("it is JSON"));
        assert_eq!(got, answer, "Go has the right one; here {:?}", strict.as_ref().err());
    }
});

fn merged<'a>(before: &Value<'a>, patch: &Value<'a>, root: TypeId, mode: Mode) -> Result<Value<'a>, String> {
    let mut target = before.clone();
    merge::apply(&mut target, patch.clone(), root, mode).map_err(|error| error.to_string())?;
    Ok(target)
}

fn changed(before: &Value<'_>, after: &Value<'_>, root: TypeId) {
    let mut operations = Vec::new();
    diff::diff(before, after, root, "", &mut operations);
    diff::verify(before, &operations, after, "").expect("the difference gives the result");
}

/// Whether Go always says the same: not of duplicates in lists of scalars, nor of a list beside what is to go from it.
fn specified(case: &serde_json::Value) -> bool {
    let text = case.to_string();
    !text.contains("\"finalizers\"") && !text.contains("$deleteFromPrimitiveList")
}
