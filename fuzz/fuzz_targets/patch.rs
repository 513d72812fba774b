//! Step patches and layers as texts: none makes the parsers panic; each error says something, in one line, at a place inside
//! the text; what may be a step's may be a layer's; lint takes everything; a patch that is read merges or is refused in words.

#![no_main]

use libfuzzer_sys::fuzz_target;
use podlayer::{
    layers::{LayerSource, Scope, parse, parse_bare, parse_step},
    lint::{self, Source},
    merge::{self, Mode},
    schema::POD,
    value::{JsonLimits, from_json},
};

const SPEC: &str = r#"{"containers":[{"name":"a","image":"b","env":[{"name":"A","value":"b"}],"ports":[{"containerPort":80}],
    "volumeMounts":[{"name":"v","mountPath":"/v"}]},{"name":"container-0"}],"volumes":[{"name":"v","emptyDir":{}}],
    "nodeSelector":{"a":"b"},"tolerations":[{"key":"a"}],"imagePullSecrets":[{}],"future":{"a":[1]}}"#;

const SCOPE: Scope<'_> = Scope { own_namespace: "podlayer" };

fuzz_target!(init: podlayer_fuzz::corpus::fill("patch"), |text: &str| {
    let step = parse_step(text);
    match &step {
        Ok(layer) => {
            let mut spec = from_json(SPEC, JsonLimits::DEFAULT).expect("it is JSON");
            let original = spec.clone();
            match merge::apply(&mut spec, layer.patch.value.borrowed(), POD.pod_spec(), Mode::Lenient) {
                Ok(_) => {
                    merge::finalise(&mut spec, &original, POD.pod_spec());
                    assert!(!has_directive(&spec), "{spec:?}");
                }
                Err(error) => assert!(!error.to_string().is_empty()),
            }
        }
        Err(error) => {
            assert!(!error.0.is_empty());
            for complaint in &error.0 {
                let said = complaint.to_string();
                assert!(said.len() > 10 && !said.contains(char::is_control), "{said:?}");
                assert!(complaint.at.is_none_or(|at| at.line >= 1 && at.column >= 1), "{said}");
            }
        }
    }
    let source = LayerSource {
        namespace: "podlayer".into(),
        name: "l".into(),
        labels: [("podlayer.dev/layer".to_owned(), "default".to_owned())].into(),
        data: [("podSpecPatch".to_owned(), text.to_owned())].into(),
        ..LayerSource::default()
    };
    let layer = parse(&source, SCOPE);
    if step.is_ok() {
        layer.as_ref().expect("what may be a step's may be a layer's");
    }
    let _ = parse_bare(text, "file.yaml", "file");
    for key in ["podMetadata", "match", "options", "rules"] {
        let kind = if key == "rules" { "step-rules" } else { "default" };
        let labels = [("podlayer.dev/layer".to_owned(), kind.to_owned())].into();
        let source = LayerSource { data: [(key.to_owned(), text.to_owned())].into(), labels, ..source.clone() };
        if let Err(error) = parse(&source, SCOPE) {
            assert!(error.to_string().len() > 10);
        }
    }
    for finding in lint::lint(Source { text, file: "f.yaml", stem: "f", named: true }, SCOPE, &[]) {
        assert!(finding.line >= 1 && finding.column >= 1 && !finding.message.contains(char::is_control), "{finding:?}");
    }
});

fn has_directive(value: &podlayer::value::Value<'_>) -> bool {
    use podlayer::value::Value;
    let is_directive = |key: &str| {
        ["$patch", "$retainKeys"].contains(&key)
            || key.starts_with("$setElementOrder/")
            || key.starts_with("$deleteFromPrimitiveList")
    };
    match value {
        Value::Object(map) => {
            map.iter().any(|(key, value)| is_directive(key) || value.is_null() || has_directive(value))
        }
        Value::List(items) => items.iter().any(|item| item.is_null() || has_directive(item)),
        _ => false,
    }
}
