use super::*;
use crate::{
    layers::{Place, rules::privileged::Everything},
    schema::{POD, Type},
    value::{JsonLimits, Path, from_json},
    yaml,
};

fn read(text: &str) -> Result<Rules, String> {
    let parsed = yaml::parse(text, &yaml::Options::LAYER).unwrap();
    Rules::parse(&parsed.document, &Place::Text("rules".into())).map_err(|complaint| complaint.to_string())
}

#[test]
fn what_is_left_out_keeps_its_built_in_value() {
    let rules = read("images: [\"registry/*\"]").unwrap();
    assert!(rules.builtin && rules.allow.is_empty() && !rules.privileged);
    assert_eq!(rules.images.unwrap(), ["registry/*"]);
    assert!(rules.secrets.is_none() && rules.limits.is_empty());
    assert!(!read("allow: [tolerations]").unwrap().builtin, "allow replaces the built-in list");
    assert!(read("allow: [\"@builtin\", tolerations]").unwrap().builtin);
    assert!(!read("allow: []").unwrap().builtin);
    assert_eq!(read("containers: No").unwrap().containers, Containers::No);
    assert_eq!(read("containers: \"No\"").unwrap().containers, Containers::No);
    assert_eq!(read("{onViolation: Clamp, privilegedFrom: LayersOnly}").unwrap().on_violation, OnViolation::Clamp);
}

#[test]
fn what_is_wrong_is_refused_with_what_to_write() {
    for (text, wanted) in [
        ("allow: [containers.image]", "containers is a list, write containers[*].image"),
        ("allow: [\"containers[*].imagee\"]", "unknown field \"imagee\" in containers[*], did you mean \"image\"?"),
        ("allow: [toleration]", "unknown field \"toleration\" in the pod spec, did you mean \"tolerations\"?"),
        ("allow: [\"containers[@comand].env\"]", "unknown role \"@comand\", did you mean \"@command\"?"),
        ("allow: [\"volumes[@agent]\"]", "@agent is a role, which only containers and initContainers have"),
        ("allow: [\"containers[image=x].env\"]", "the items of containers are told apart by name, not by image"),
        ("allow: [\"tolerations[*].key\"]", "tolerations changes as a whole, write tolerations"),
        ("allow: [\"containers[+].env\"]", "[+] stands in the built-in list only, write [*]"),
        ("allow: [\"containers[*\"]", "a bracket is not closed"),
        ("allow: [spec]", "write the fields of the spec"),
        (
            "allow: [hostNetwork]",
            "\"hostNetwork\" gives privileges (hostNetwork: the node's network), write privileged",
        ),
        ("allow: [volumes]", "gives privileges (volumes[*].hostPath"),
        ("allow: [\"spec.containers[*]\"]", "gives privileges"),
        ("allow: [\"initContainers[x].securityContext\"]", "gives privileges"),
        ("limits: {\"containers[*].image\": 1}", "is no amount"),
        ("limits: {\"containers[*].resources.limits.cpu\": x}", "\"x\" is no quantity"),
        ("limits: {activeDeadlineSeconds: 1h}", "\"1h\" is no quantity"),
        ("limits: {activeDeadlineSeconds: \"60\"}", "a whole number is wanted"),
        ("limit: {}", "unknown key \"limit\" in rules, did you mean \"limits\"?"),
        ("onViolation: Log", "rules.onViolation"),
        ("unionLists: [volumes]", "rules.unionLists: \"volumes\" is no list that can be united"),
        ("images: nginx", "rules.images"),
    ] {
        let error = read(text).unwrap_err();
        assert!(error.contains(wanted), "{text}: {error}");
    }
    assert!(read("allow: [hostNetwork, \"containers[*]\"]\nprivileged: true").is_ok());
    assert!(
        read("allow: [\"volumes[*].projected\", \"containers[*].securityContext.readOnlyRootFilesystem\"]").is_ok()
    );
}

#[test]
fn patterns_cover_what_is_below_them_and_find_what_they_mean() {
    let covers =
        |pattern: &str, path: &str| Pattern::parse(pattern).unwrap().covers(&Path::parse(path).unwrap(), &Everything);
    assert!(covers("containers[*].env", "spec.containers[name=a].env[name=X].value"));
    assert!(covers("spec.containers[name=a].env", "spec.containers[name=a].env"));
    assert!(!covers("containers[*].env", "spec.initContainers[name=a].env"));
    assert!(!covers("containers[*].env", "spec.containers[name=a].envFrom"));
    assert!(!covers("containers[b].env", "spec.containers[name=a].env"));
    assert!(!covers("containers[*].env[A].value", "spec.containers[name=a].env[name=A]"));
    assert!(covers("nodeSelector[kubernetes.io/*]", "spec.nodeSelector[kubernetes.io/arch]"));
    assert!(covers("containers[*].resources.limits.cpu", "spec.containers[name=a].resources.limits.cpu"));
    assert!(covers("tolerations[*]", "spec.tolerations"));
    let spec = from_json(
        r#"{"containers": [{"name": "a", "resources": {"limits": {"cpu": "1"}}}, {"name": "b"}]}"#,
        JsonLimits::DEFAULT,
    )
    .unwrap();
    let found = Pattern::parse("containers[*].resources.limits[*]").unwrap().find(&spec, &Everything);
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].0.to_string(), "spec.containers[name=a].resources.limits.cpu");
}

#[test]
fn both_tables_hold_paths_and_the_built_in_list_gives_no_privilege_by_itself() {
    assert!(builtin::PATTERNS.len() > builtin::TABLE.len());
    assert!(privileged::find(&from_json("{}", JsonLimits::DEFAULT).unwrap()).is_empty());
    // A source of volumes that is neither harmless nor privileged would be both: a newer Kubernetes brings one.
    let Type::Struct(volume) = POD.target(POD.named("v1.Volume").unwrap()).1 else { panic!("Volume is a struct") };
    for source in volume.names().filter(|name| *name != "name") {
        let path = format!("volumes[*].{source}");
        let privileged = privileged::FIELDS.iter().any(|field| field.path == path);
        assert!(privileged != privileged::HARMLESS_VOLUMES.contains(&source), "{source}");
    }
}

#[test]
fn privileges_are_told_by_value() {
    let found = |spec: &str| {
        let spec = from_json(spec, JsonLimits::DEFAULT).unwrap().into_owned();
        privileged::find(&spec).into_iter().map(|found| found.path.to_string()).collect::<Vec<_>>().join(" ")
    };
    let container = |context: &str| found(&format!(r#"{{"containers":[{{"name":"a","securityContext":{context}}}]}}"#));
    let at = "spec.containers[name=a].securityContext";
    assert_eq!(container(r#"{"privileged": true}"#), format!("{at}.privileged"));
    assert_eq!(container(r#"{"privileged": false, "runAsUser": 1, "runAsNonRoot": true}"#), "");
    assert_eq!(container(r#"{"runAsUser": 0}"#), format!("{at}.runAsUser"));
    assert_eq!(container(r#"{"capabilities": {"add": ["CHOWN"], "drop": ["ALL"]}}"#), "");
    assert_eq!(container(r#"{"capabilities": {"add": ["CHOWN", "SYS_ADMIN"]}}"#), format!("{at}.capabilities.add"));
    assert_eq!(container(r#"{"seccompProfile": {"type": "RuntimeDefault"}}"#), "");
    assert_eq!(container(r#"{"seccompProfile": {"type": "Unconfined"}}"#), format!("{at}.seccompProfile"));
    assert_eq!(found(r#"{"volumes":[{"name":"h","hostPath":{"path":"/"}}]}"#), "spec.volumes[name=h].hostPath");
    let token = |name: &str, more: &str| {
        let source = format!(r#"{{"serviceAccountToken":{{"path":"token"{more}}}}}"#);
        found(&format!(r#"{{"volumes":[{{"name":"{name}","projected":{{"sources":[{source}]}}}}]}}"#))
    };
    assert_eq!(token("kube-api-access-x", ""), "", "every pod has it");
    assert!(!token("mine", "").is_empty());
    assert!(!token("kube-api-access-x", r#","audience":"vault""#).is_empty());
}

#[test]
fn the_page_about_guard_rails_has_the_tables() {
    const START: &str = "<!-- tables -->\n\n";
    const END: &str = "\n<!-- end of tables -->";
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/guard-rails.md");
    let page = std::fs::read_to_string(file).unwrap();
    let (head, rest) = page.split_once(START).unwrap();
    let (found, tail) = rest.split_once(END).unwrap_or_else(|| panic!("{END} is missing"));
    let wanted = builtin::markdown();
    if std::env::var_os("PODLAYER_WRITE_DOCS").is_some() {
        std::fs::write(file, format!("{head}{START}{wanted}{END}{tail}")).unwrap();
        return;
    }
    assert!(
        found == wanted,
        "docs/guard-rails.md is out of date: PODLAYER_WRITE_DOCS=1 cargo test --lib layers::rules"
    );
}
