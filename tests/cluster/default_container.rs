//! Pods and Jobs without containers.

use std::collections::BTreeMap;

use serde_json::json;

use crate::{
    controlplane::ControlPlane,
    layers::{job, pod_of},
    podlayer::Webhook,
};

#[test]
fn a_job_without_containers_gets_the_default_one_with_the_image_that_its_layers_give() {
    let plane = ControlPlane::shared();
    let webhook = Webhook::start(plane, &[]);
    let namespace = plane.namespace("ci");
    webhook.register(plane, &namespace, "Fail");
    let empty = json!({"restartPolicy": "Never", "containers": null});
    let command = json!({"podlayer.dev/command": "echo hi\nexit 0\n"});

    let refused = plane.kubectl_in(&["create", "-f", "-"], &job(&namespace, "none", &command, &empty).to_string());
    assert!(!refused.ok && refused.stderr.contains("container-0 has no image"), "{}", refused.stderr);

    let labels = json!({"podlayer.dev/layer": "default"});
    let patch = "containers:\n- name: container-0\n  image: layer:1\n  env:\n  - {name: A, value: b}\n";
    webhook.layer(plane, "image", &labels, &BTreeMap::from([("podSpecPatch", patch)]));
    webhook.wait_for("image", "good");
    plane.apply(&job(&namespace, "layers", &command, &empty).to_string());
    let container = pod_of(plane, &namespace, "layers")["spec"]["containers"][0].clone();
    assert_eq!(container["name"], "container-0");
    assert_eq!(container["image"], "layer:1");
    assert_eq!(container["command"], json!(["/bin/sh", "-c", "echo hi\nexit 0\n"]));
    assert_eq!(container["env"], json!([{"name": "A", "value": "b"}]));
    // The Job itself has name, command and image, and nothing else of the layers.
    let of_job =
        plane.get_json(&["job", "layers", "-n", &namespace])["spec"]["template"]["spec"]["containers"][0].clone();
    assert_eq!((&of_job["image"], &of_job["env"]), (&json!("layer:1"), &json!(null)));

    plane.kubectl(&["delete", "configmap", "image", "-n", &webhook.own]);
    let image = json!({"podlayer.dev/image": "own:1"});
    plane.apply(&job(&namespace, "own", &image, &empty).to_string());
    let container = pod_of(plane, &namespace, "own")["spec"]["containers"][0].clone();
    assert_eq!(
        (&container["image"], &container["command"]),
        (&json!("own:1"), &json!(null)),
        "the image's own entrypoint runs"
    );

    let bare = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "bare", "namespace": namespace,
        "labels": {"podlayer.dev/enabled": "true"}, "annotations": image}, "spec": {"containers": []}});
    plane.apply(&bare.to_string());
    assert_eq!(plane.get_json(&["pod", "bare", "-n", &namespace])["spec"]["containers"][0]["image"], "own:1");
    Webhook::unregister(plane, &namespace);
}
