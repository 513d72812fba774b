//! What the API server makes of `spec.azure`.

use serde_json::{Value, json};

use crate::support::{namespace, plane, pool_object};

#[test]
fn rules_refuse_what_makes_no_sense_and_say_what_to_write() {
    let (plane, namespace) = (plane(), namespace("definition"));
    let azure = |more: Value| {
        let mut azure = json!({"secretName": "s"});
        azure.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({"azure": azure})
    };
    let create = |spec: &Value| {
        let object = pool_object(&namespace, "p", spec).to_string();
        plane.kubectl_in(&["create", "--dry-run=server", "--validate=strict", "-f", "-"], &object)
    };
    for (spec, want) in [
        (json!({"azure": {}}), "azure.secretName"),
        (json!({"azure": null}), "jobSelector is missing"),
        (json!({"mode": "Headroom"}), "azure needs mode Agents"),
        (json!({"minIdle": 1}), "minIdle and replicas must be 0"),
        (json!({"replicas": 1}), "minIdle and replicas must be 0"),
        (json!({"busy": {"source": "Label", "key": "a"}}), "leave busy out"),
        (json!({"max": 2001}), "max is at most 2000"),
        (azure(json!({"defaultImage": "x"})), "defaultImage is the name of none"),
        (
            azure(json!({"images": [{"name": "a", "image": "i"}], "defaultImage": "x"})),
            "defaultImage is the name of none",
        ),
        (azure(json!({"images": [{"name": "a", "image": "i"}, {"name": "a", "image": "j"}]})), "Duplicate value"),
        (azure(json!({"secretKeys": ["a", "b", "c"]})), "must have at most 2 items"),
        (azure(json!({"lifetimeSeconds": -1})), "greater than or equal to 0"),
        (azure(json!({"image": "x"})), "unknown field \"spec.azure.image\""),
    ] {
        let made = create(&spec);
        assert!(!made.ok && made.stderr.contains(want), "{want:?} is not in {:?}", made.stderr);
    }
    let all = azure(json!({"secretKeys": ["a", "b"], "images": [{"name": "a", "image": "i"}], "defaultImage": "a",
        "container": "agent", "accountId": "x", "agentPool": "y", "lifetimeSeconds": 0}));
    let made = create(&all);
    assert!(made.ok, "{}", made.stderr);
}
