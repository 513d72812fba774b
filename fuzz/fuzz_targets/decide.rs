//! Decisions: an opted-in pod with any stack is allowed with its stamp, or denied in words; the patch applies, by another hand
//! as well; no fault of podlayer's own; decided again, the pod stays as it is; the order in which layers were written is nothing;
//! what no layer may touch is as it was.

#![no_main]

use libfuzzer_sys::{fuzz_mutator, fuzz_target};
use podlayer::admission::Verdict;
use podlayer_fuzz::pods::{Case, made};
use serde_json::Value;

fuzz_mutator!(|data: &mut [u8], size: usize, most: usize, seed: u32| { podlayer_fuzz::mutate(data, size, most, seed) });

fuzz_target!(init: podlayer_fuzz::corpus::fill("decide"), |data: &[u8]| {
    let Some(mut case) = Case::read(data) else { return };
    let Some(decision) = case.decide(&case.pod) else { return };
    assert_eq!(decision.fault, None);
    for warning in &decision.warnings {
        assert!(warning.chars().count() <= 120 && !warning.contains(char::is_control), "{warning:?}");
    }
    case.layers.reverse();
    let reversed = case.decide(&case.pod).expect("it was a pod");
    assert_eq!((&decision.verdict, &decision.patch), (&reversed.verdict, &reversed.patch), "the order of writing counts");

    let after = made(&case.pod, &decision);
    match &decision.verdict {
        Verdict::Untouched => assert_eq!(decision.patch, None),
        Verdict::Denied(denial) => {
            assert!((400..500).contains(&denial.code) && !denial.message.is_empty(), "{denial:?}");
            assert!(denial.message.chars().all(|c| c == '\n' || !c.is_control()), "{:?}", denial.message);
            assert_eq!(decision.patch, None);
        }
        Verdict::Allowed => {
            let stamp = after.pointer("/metadata/annotations/podlayer.dev~1applied").and_then(Value::as_str);
            let stamp: Value = serde_json::from_str(stamp.expect("the stamp is there")).expect("the stamp is JSON");
            let applied = stamp["layers"].as_array().expect("the stamp names layers");
            let layers: Vec<String> = decision.layers.iter().map(ToString::to_string).collect();
            assert_eq!(applied.iter().filter_map(Value::as_str).collect::<Vec<_>>(), layers);
            if layers.is_empty() || decision.audit {
                assert_eq!(after.get("spec"), case.pod.get("spec"), "no layer, no change");
            }
            untouched(&case.pod, &after);
            let again = case.decide(&after).expect("it is a pod");
            assert_eq!(again.verdict, Verdict::Allowed, "{after}");
            assert_eq!(again.patch, None, "{after}");
        }
    }
});

/// What no layer may change.
fn untouched(before: &Value, after: &Value) {
    for (key, value) in after.as_object().into_iter().flatten() {
        assert!(["metadata", "spec"].contains(&key.as_str()) || before.get(key) == Some(value), "{key}");
    }
    let (before, after) = (&before["metadata"], &after["metadata"]);
    for (key, value) in after.as_object().into_iter().flatten() {
        assert!(["labels", "annotations"].contains(&key.as_str()) || before.get(key) == Some(value), "metadata.{key}");
    }
    for (key, value) in before["labels"].as_object().into_iter().flatten() {
        let own = key.starts_with("batch.kubernetes.io/") || ["job-name", "controller-uid"].contains(&key.as_str());
        assert!(!own || after["labels"].get(key) == Some(value), "label {key}");
    }
}
