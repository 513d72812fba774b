//! Differences: between any two documents there is one, which gives the second when applied, by podlayer's own hand and by
//! another's; between equal ones there is none; nothing is replaced by what was there.

#![no_main]

use libfuzzer_sys::{fuzz_mutator, fuzz_target};
use podlayer::{
    diff::{self, Op},
    schema::POD,
    value::{JsonLimits, from_json, to_json},
};
use serde_json::Value;

fuzz_mutator!(|data: &mut [u8], size: usize, most: usize, seed: u32| { podlayer_fuzz::mutate(data, size, most, seed) });

fuzz_target!(init: podlayer_fuzz::corpus::fill("diff"), |data: &[u8]| {
    let Ok(case) = serde_json::from_slice::<Value>(data) else { return };
    let (before, after) = (case["before"].to_string(), case["after"].to_string());
    let read = |text| from_json(text, JsonLimits::DEFAULT);
    let (Ok(before), Ok(after)) = (read(&before), read(&after)) else { return };
    for root in [POD.pod(), POD.pod_spec()] {
        let mut operations = Vec::new();
        diff::diff(&before, &after, root, "", &mut operations);
        diff::verify(&before, &operations, &after, "").expect("the difference gives the result");

        let json = |value| serde_json::from_str::<Value>(&to_json(value)).expect("it is JSON");
        let mut made = json(&before);
        let text = diff::to_json(&operations);
        let patch: json_patch::Patch = serde_json::from_str(&text).expect("it is a patch");
        json_patch::patch(&mut made, &patch).expect("the patch applies");
        assert_eq!(made, json(&after), "by another hand: {text}");

        if let [only] = operations.as_slice()
            && only.op == Op::Replace
        {
            let was = json(&before);
            let now = only.value.as_ref().map(json);
            // `1` for `1.0` is a change to Go, though both are printed alike.
            assert!(was.pointer(&only.path) != now.as_ref() || before != after, "{text}");
        }
        let mut none = Vec::new();
        diff::diff(&after, &after, root, "", &mut none);
        assert!(none.is_empty(), "equal documents differ by {none:?}");
    }
});
