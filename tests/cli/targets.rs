//! Patches for containers by glob and role, on pods as CI systems make them.

use serde_json::{Value, json};

use crate::{Run, folder, podlayer, root};

/// An object of agent-stack-k8s's, opted in.
fn object(name: &str) -> Value {
    let text = std::fs::read_to_string(root(&format!("tests/data/jobs/buildkite/{name}.yaml"))).unwrap();
    let mut object: Value = serde_yaml::from_str(&text).unwrap();
    let template = if object["kind"] == "Job" { &mut object["spec"]["template"] } else { &mut object };
    template["metadata"]["labels"]["podlayer.dev/enabled"] = json!("true");
    object
}

fn render(object: &Value, layers: &[(&str, &str)], more: &[&str]) -> Run {
    let layers = folder(layers);
    let mut args = vec!["render", "-f", "-", "--layers", layers.path().to_str().unwrap()];
    args.extend(more);
    podlayer(&args, &object.to_string())
}

fn made(object: &Value, layers: &[(&str, &str)]) -> Value {
    let run = render(object, layers, &["-o", "json"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    serde_json::from_str(&run.stdout).unwrap()
}

fn spec(object: &Value) -> &Value {
    if object["kind"] == "Job" { &object["spec"]["template"]["spec"] } else { &object["spec"] }
}

/// Name → the value of variable `W`, in the order of the list.
fn who(object: &Value, list: &str) -> Vec<(String, String)> {
    let items = spec(object)[list].as_array().cloned().unwrap_or_default();
    let value = |item: &Value| {
        let env = item["env"].as_array().cloned().unwrap_or_default();
        env.iter().find(|e| e["name"] == "W").map_or(String::new(), |e| e["value"].as_str().unwrap().to_owned())
    };
    items.iter().map(|item| (item["name"].as_str().unwrap().to_owned(), value(item))).collect()
}

fn env(target: &str, value: &str) -> String {
    format!("- name: \"{target}\"\n  env: [{{name: W, value: {value}}}]\n")
}

fn expect(found: Vec<(String, String)>, wanted: &[(&str, &str)]) {
    let found: Vec<(&str, &str)> = found.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    assert_eq!(found, wanted);
}

#[test]
fn roles_reach_the_ci_systems_containers_and_one_that_the_user_named() {
    let patch = format!(
        "containers:\n{}{}{}initContainers:\n{}{}",
        env("@command", "command"),
        env("@agent", "agent"),
        env("@checkout", "checkout"),
        env("@sidecar", "sidecar"),
        env("@agent", "init"),
    );
    let job = made(&object("podspec-sidecar"), &[("base.yaml", &patch)]);
    expect(who(&job, "containers"), &[("build", "command"), ("agent", "agent"), ("checkout", "checkout")]);
    let init = [("copy-agent", "init"), ("imagecheck-0", "init"), ("sidecar-0", "sidecar")];
    expect(who(&job, "initContainers"), &init);
    let pod = made(&object("plain-step-pod"), &[("base.yaml", &patch)]);
    expect(who(&pod, "containers"), &[("container-0", "command"), ("agent", "agent"), ("checkout", "checkout")]);
}

#[test]
fn within_a_patch_every_then_glob_then_role_then_exact_whatever_the_texts_order() {
    let items = [env("agent", "exact"), env("@agent", "role"), env("c*", "glob"), env("*", "every")].concat();
    let pod = object("plain-step-pod");
    let after = made(&pod, &[("base.yaml", &format!("containers:\n{items}"))]);
    let wanted = [("container-0", "glob"), ("agent", "exact"), ("checkout", "glob")];
    expect(who(&after, "containers"), &wanted);
    let items = [env("*", "every"), env("@command", "role"), env("container-*", "glob")].concat();
    let after = made(&pod, &[("base.yaml", &format!("containers:\n{items}"))]);
    expect(who(&after, "containers"), &[("container-0", "role"), ("agent", "every"), ("checkout", "every")]);
    // Two in one group: in the order of the text.
    let items = [env("check*", "first"), env("*out", "second")].concat();
    let after = made(&pod, &[("base.yaml", &format!("containers:\n{items}"))]);
    expect(who(&after, "containers"), &[("container-0", ""), ("agent", ""), ("checkout", "second")]);
}

#[test]
fn containers_that_a_later_layer_adds_are_met_and_the_order_stays() {
    let pod = object("plain-step-pod");
    let every = format!("containers:\n{}", env("*", "every"));
    let adds = "containers:\n- name: container-0\n- {name: dind, image: docker:27}\n";
    let layers = [("1.yaml", every.as_str()), ("2.yaml", adds)];
    let after = made(&pod, &layers);
    let wanted = [("container-0", "every"), ("dind", "every"), ("agent", "every"), ("checkout", "every")];
    expect(who(&after, "containers"), &wanted);
    assert_eq!(made(&after, &layers), after, "decided again it stays");
}

#[test]
fn a_role_that_another_layer_makes_is_met() {
    let pod = json!({"kind": "Pod", "metadata": {"labels": {"podlayer.dev/enabled": "true", "jenkins/label-digest": "0"}},
        "spec": {"containers": [{"name": "jnlp", "image": "a"}], "initContainers": [{"name": "db", "image": "b"}]}});
    let role = format!("initContainers:\n{}", env("@sidecar", "role"));
    let makes = "initContainers:\n- {name: db, restartPolicy: Always}\n";
    let layers = [("1.yaml", role.as_str()), ("2.yaml", makes)];
    let after = made(&pod, &layers);
    expect(who(&after, "initContainers"), &[("db", "role")]);
    assert_eq!(made(&after, &layers), after);
}

#[test]
fn injected_containers_are_left_alone_unless_they_are_named_exactly() {
    let mut pod = object("plain-step-pod");
    let containers = pod["spec"]["containers"].as_array_mut().unwrap();
    containers.push(json!({"name": "istio-proxy", "image": "istio"}));
    containers.push(json!({"name": "vault-agent", "image": "vault"}));
    let patch = ["containers:\n".to_owned(), env("*", "e"), env("istio-*", "g"), env("vault-agent", "x")].concat();
    let after = made(&pod, &[("base.yaml", &patch)]);
    let wanted = [("container-0", "e"), ("agent", "e"), ("checkout", "e"), ("istio-proxy", ""), ("vault-agent", "x")];
    expect(who(&after, "containers"), &wanted);
}

#[test]
fn the_trail_names_each_container_and_explain_the_target_that_met_it() {
    let pod = object("plain-step-pod");
    let patch = "containers:\n- name: \"@command\"\n  env: [{name: W, value: r}]\n- {name: \"*\", stdin: true}\n";
    let after = made(&pod, &[("base.yaml", patch)]);
    let provenance: Value =
        serde_json::from_str(after["metadata"]["annotations"]["podlayer.dev/provenance"].as_str().unwrap()).unwrap();
    let at = |name: &str, rest: &str| format!("spec.containers[name={name}].{rest}");
    let wanted = [
        at("agent", "stdin"),
        at("checkout", "stdin"),
        at("container-0", "env[name=W].value"),
        at("container-0", "stdin"),
    ];
    assert_eq!(provenance["set"], json!({"default/base": wanted}));
    let explained = render(&pod, &[("base.yaml", patch)], &["-o", "explain"]).stdout;
    let lines = [
        "spec.containers[name=agent].stdin = true  default/base, line 4 column 15 via containers[name=*]",
        "spec.containers[name=container-0].env[name=W].value = \"r\"  default/base, line 3 column 19 via \
         containers[name=@command]",
    ];
    for line in lines {
        assert!(explained.contains(line), "{line}\n{explained}");
    }
}

#[test]
fn a_step_whose_target_is_nobody_is_refused_with_what_there_is_and_a_layer_goes_on() {
    let mut pod = object("plain-step-pod");
    let mut refused = |patch: &str| {
        pod["metadata"]["annotations"]["podlayer.dev/pod-spec-patch"] = json!(patch);
        let run = render(&pod, &[], &[]);
        assert_eq!((run.code, run.stdout.as_str()), (1, ""), "{patch}");
        run.stderr
    };
    let place = "annotation podlayer.dev/pod-spec-patch, line 2 column 3\n";
    for (patch, text) in [
        ("containers:\n- name: \"contaner-*\"\n", "no container fits \"contaner-*\", did you mean \"container-0\"? "),
        ("containers:\n- name: \"x*\"\n", "no container fits \"x*\"; the pod has container-0, agent, checkout, "),
        (
            "initContainers:\n- name: \"@sidecar\"\n",
            "no init container plays \"@sidecar\"; pods of the preset buildkite have @agent, @checkout, @command, @sidecar, ",
        ),
        ("containers:\n- name: \"@comand\"\n", "unknown role \"@comand\", did you mean \"@command\"? "),
        ("containers:\n- name: \"@x\"\n", "unknown role \"@x\", the roles are @agent, @checkout, @command, @sidecar, "),
        (
            "containers:\n- {name: \"*\", $patch: delete}\n",
            "$patch beside name \"*\" in containers: write one item for each exact name, ",
        ),
    ] {
        assert_eq!(refused(patch), format!("{text}{place}"));
    }
    let marker = refused("containers:\n- name: \"*\"\n- $patch: replace\n");
    assert!(marker.starts_with("name \"*\" in containers, which the patch replaces: write exact names, "), "{marker}");
    let order = refused("$setElementOrder/containers: [{name: \"*\"}]\n");
    assert!(order.starts_with("name \"*\" in $setElementOrder/containers: write exact names, only they"), "{order}");

    let pod = object("plain-step-pod");
    let patch = "containers:\n- {name: \"x-*\", stdin: true}\n- {name: agent, tty: true}\n";
    let after = made(&pod, &[("base.yaml", patch)]);
    assert_eq!(after["spec"]["containers"][1]["tty"], true);
    let explained = render(&pod, &[("base.yaml", patch)], &["-o", "explain"]).stdout;
    assert!(explained.contains("# default/base: not in this pod: x-*"), "{explained}");
}

#[test]
fn a_layer_of_patterns_alone_changes_nothing_where_none_fits() {
    let pod = json!({"kind": "Pod", "metadata": {"labels": {"podlayer.dev/enabled": "true"}},
        "spec": {"containers": [{"name": "a", "image": "b"}]}});
    let patch = format!("initContainers:\n{}", env("*", "every"));
    assert_eq!(made(&pod, &[("base.yaml", &patch)])["spec"], pod["spec"]);
}

#[test]
fn what_targets_come_to_is_bounded() {
    let containers: Vec<Value> = (0..200).map(|i| json!({"name": format!("c{i}"), "image": "b"})).collect();
    let env: Vec<Value> = (0..500).map(|i| json!({"name": format!("V{i}"), "value": "v"})).collect();
    let patch = json!({"containers": [{"name": "c*", "env": env}]}).to_string();
    let pod = json!({"kind": "Pod", "metadata": {"labels": {"podlayer.dev/enabled": "true"},
        "annotations": {"podlayer.dev/pod-spec-patch": patch}}, "spec": {"containers": containers}});
    let run = render(&pod, &[], &[]);
    assert!(
        run.code == 1 && run.stderr.contains("fits 200 containers, which makes more than 100000"),
        "{}",
        run.stderr
    );
}
