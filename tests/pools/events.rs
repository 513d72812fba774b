//! What is told by Events.

use serde_json::json;

use crate::{
    controlplane::wait_until,
    support::{Controller, LONG, condition, plane, pool},
};

#[test]
fn a_template_that_is_refused_with_a_very_long_text_is_told_by_an_event_that_says_it_was_cut() {
    let plane = plane();
    let namespace = plane.namespace("events");
    let _controller = Controller::start(plane, &namespace);
    // The API server quotes the name.
    let template = json!({"spec": {"containers": [{"name": "é".repeat(1500), "image": "agent:1"}]}});
    let spec = json!({"mode": "Agents", "minIdle": 1, "max": 2, "template": template});
    plane.apply(&pool(&namespace, "p", &spec).to_string());
    wait_until(LONG, "the pool to say what is wrong", || {
        condition(plane, &namespace, "p", "Degraded") == ("True".into(), "InvalidTemplate".into())
    });
    let mut note = String::new();
    wait_until(LONG, "the event", || {
        let events = plane.get_json(&[
            "events",
            "-n",
            &namespace,
            "--field-selector=reason=InvalidTemplate,involvedObject.name=p",
        ]);
        note = events["items"][0]["message"].as_str().unwrap_or_default().to_owned();
        !note.is_empty()
    });
    assert!(note.contains("spec.containers[0].name: Invalid value: \"éé"), "{note}");
    assert!(note.ends_with("é…") && (1021..=1024).contains(&note.len()), "{} bytes: {note}", note.len());
}
