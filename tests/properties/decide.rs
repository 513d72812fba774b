use podlayer::{
    admission::{Decision, Pod, Policy, Verdict, decide_pod},
    layers::Snapshot,
};
use proptest::prelude::*;
use serde_json::Value;

use crate::stacks::{case, snapshot};

pub(crate) fn decide(pod: &Value, snapshot: &Snapshot) -> Decision {
    decide_pod(&Pod::parse(&pod.to_string()).unwrap(), "ci", snapshot, &Policy::default())
}

/// The pod as the API server makes it.
pub(crate) fn made(pod: &Value, decision: &Decision) -> Value {
    let mut made = pod.clone();
    if let Some(patch) = &decision.patch {
        json_patch::patch(&mut made, &serde_json::from_str::<json_patch::Patch>(patch).unwrap()).unwrap();
    }
    made
}

/// How many made-up cases: a few in every run, more where somebody asks (`PROPTEST_CASES=20000`).
pub(crate) fn cases() -> u32 {
    std::env::var("PROPTEST_CASES").map_or(1500, |text| text.parse().unwrap())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_pod_that_was_decided_stays_as_it_is(case in case()) {
        let snapshot = snapshot(&case.layers);
        let first = decide(&case.pod, &snapshot);
        prop_assert_eq!(&first.fault, &None);
        if let Verdict::Denied(_) = first.verdict {
            return Ok(());
        }
        let once = made(&case.pod, &first);
        let second = decide(&once, &snapshot);
        prop_assert_eq!(&second.verdict, &Verdict::Allowed);
        prop_assert_eq!(second.patch, None, "first made {}", once);
        prop_assert_eq!(first.layers, second.layers);
    }

    #[test]
    fn the_order_in_which_config_maps_are_written_does_not_matter(case in case(), seed in any::<u64>()) {
        let mut shuffled = case.layers.clone();
        let len = shuffled.len().max(1);
        shuffled.rotate_left(seed as usize % len);
        if seed & 1 == 1 {
            shuffled.reverse();
        }
        let one = decide(&case.pod, &snapshot(&case.layers));
        let other = decide(&case.pod, &snapshot(&shuffled));
        prop_assert_eq!(one.verdict, other.verdict);
        prop_assert_eq!(one.patch, other.patch);
    }

    #[test]
    fn fields_that_nobody_knows_survive(case in case()) {
        let snapshot = snapshot(&case.layers);
        let decision = decide(&case.pod, &snapshot);
        let made = made(&case.pod, &decision);
        prop_assert_eq!(&made["spec"]["unknownList"], &case.pod["spec"]["unknownList"]);
        prop_assert_eq!(&made["metadata"]["generateName"], &case.pod["metadata"]["generateName"]);
        let list = |pod: &Value| pod["spec"]["containers"].as_array().cloned().unwrap_or_default();
        for container in list(&made) {
            let before = list(&case.pod).into_iter().find(|other| other["name"] == container["name"]);
            // A container that a layer took away and added again is another one.
            if let Some(before) = before && container["futureField"] != before["futureField"] {
                prop_assert!(case.layers.iter().any(|l| l.data["podSpecPatch"].contains("$patch"))
                    || case.pod["metadata"]["annotations"].to_string().contains("$patch"));
            }
        }
    }

    #[test]
    fn a_pod_without_layers_keeps_its_spec(case in case()) {
        let mut pod = case.pod;
        pod["metadata"]["annotations"] = Value::Null;
        let decision = decide(&pod, &Snapshot::default());
        let made = made(&pod, &decision);
        prop_assert_eq!(&made["spec"], &pod["spec"]);
        let stamp: Value = serde_json::from_str(made["metadata"]["annotations"]["podlayer.dev/applied"].as_str().unwrap()).unwrap();
        prop_assert_eq!(&stamp["layers"], &serde_json::json!([]));
    }

    #[test]
    fn a_pod_that_is_not_opted_in_is_untouched(case in case()) {
        let mut pod = case.pod;
        pod["metadata"]["labels"]["podlayer.dev/enabled"] = "yes".into();
        let decision = decide(&pod, &snapshot(&case.layers));
        prop_assert_eq!(decision.verdict, Verdict::Untouched);
        prop_assert_eq!(decision.patch, None);
    }

    #[test]
    fn no_text_makes_it_panic(text in "\\PC{0,200}", step in "\\PC{0,120}") {
        let _ = Pod::parse(&text);
        let pod = serde_json::json!({
            "metadata": {"labels": {"podlayer.dev/enabled": "true"}, "annotations": {"podlayer.dev/pod-spec-patch": step, "podlayer.dev/classes": text}},
            "spec": {"containers": [{"name": "a", "image": "b"}]}
        });
        decide(&pod, &Snapshot::default());
    }
}
