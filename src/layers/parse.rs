use std::fmt;

use sha2::{Digest, Sha256};

use super::{Cause, Complaint, Kind, Layer, LayerId, LayerSource, MetadataPatch, Options, Place, Selector, trail};
use crate::{
    merge, names,
    schema::{self, CheckOptions, POD, nearest},
    value::{Document, Path, Value, to_json},
    yaml,
};

/// What the parser must know of the installation.
#[derive(Clone, Copy, Debug)]
pub struct Scope<'s> {
    /// podlayer's own namespace: what lives there is for the whole cluster.
    pub own_namespace: &'s str,
}

/// All that is wrong with a layer; never empty.
#[derive(Debug)]
pub struct ParseError(pub Vec<Complaint>);

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, complaint) in self.0.iter().enumerate() {
            if at > 0 {
                f.write_str("\n")?;
            }
            complaint.fmt(f)?;
        }
        Ok(())
    }
}

impl std::error::Error for ParseError {}

/// Reads a layer from a ConfigMap.
///
/// # Errors
/// Everything that is wrong with it, each with its place.
pub fn parse(source: &LayerSource, scope: Scope<'_>) -> Result<Layer, ParseError> {
    let mut complaints = Vec::new();
    let whole = Place::ConfigMap { title: source.title(), key: None };
    let place = |key: &str| Place::ConfigMap { title: source.title(), key: Some(key.to_owned()) };
    let mut complain =
        |cause: String, place: Place| complaints.push(Complaint { cause: Cause::Config(cause), place, at: None });

    let of_cluster = source.namespace.is_empty() || source.namespace == scope.own_namespace;
    let kind = match (source.labels.get(names::LAYER).map(String::as_str), of_cluster) {
        (Some("default"), true) => Kind::Default,
        (Some("default"), false) => Kind::NamespaceDefault,
        (Some("class"), true) => Kind::Class,
        (Some("class"), false) => Kind::NamespaceClass,
        (Some("step-rules"), _) => {
            complain("step-rules are not supported by this version of podlayer".into(), whole.clone());
            Kind::Default
        }
        (Some(other), _) => {
            let hint = nearest(other, ["default", "class"]);
            let hint =
                hint.map_or_else(|| ", write default or class".into(), |near| format!(", did you mean {near:?}?"));
            complain(format!("label {}: unknown kind of layer {other:?}{hint}", names::LAYER), whole.clone());
            Kind::Default
        }
        (None, _) => {
            complain(format!("label {} is missing, write default or class", names::LAYER), whole.clone());
            Kind::Default
        }
    };
    let order = source.labels.get(names::ORDER).map_or(Ok(0), |text| text.parse::<i64>());
    let order = order.unwrap_or_else(|_| {
        let text = source.labels.get(names::ORDER).map_or("", String::as_str);
        complain(format!("label {}: a whole number is wanted, got {text:?}", names::ORDER), whole.clone());
        0
    });
    for key in &source.binary_keys {
        complain(format!("binaryData {key:?} is not read, put the text under data"), whole.clone());
    }

    let known = [names::KEY_PATCH, names::KEY_METADATA, names::KEY_MATCH, names::KEY_OPTIONS];
    let mut texts: [Option<(&str, &str)>; 4] = [None; 4];
    for (key, text) in &source.data {
        let base = key.strip_suffix(".yaml").unwrap_or(key);
        match known.iter().position(|known| *known == base) {
            Some(at) if texts[at].is_some() => {
                complain(format!("{base} is given twice, with and without .yaml: keep one"), whole.clone());
            }
            Some(at) => texts[at] = Some((key, text)),
            None => {
                let near = nearest(base, known);
                let hint = near.map_or_else(
                    || format!(", a layer has {}", known.join(", ")),
                    |near| format!(", did you mean {near:?}?"),
                );
                complain(format!("unknown key {key:?}{hint}"), whole.clone());
            }
        }
    }
    let [patch_text, metadata_text, match_text, options_text] = texts;
    if kind.is_class() && match_text.is_none() {
        complain("a class needs the key match, write match: \"{}\" if every pod may ask for it".into(), whole);
    }

    let mut read = |text: Option<(&str, &str)>| -> Option<(Document, Place)> {
        let (key, text) = text?;
        match yaml::parse(text, &yaml::Options::LAYER) {
            Ok(parsed) => Some((parsed.document, place(key))),
            Err(error) => {
                let at = Some(error.at());
                complaints.push(Complaint { cause: Cause::Yaml(Box::new(error)), place: place(key), at });
                None
            }
        }
    };
    let (patch, metadata, selector, options) =
        (read(patch_text), read(metadata_text), read(match_text), read(options_text));
    let metadata = part(metadata, &mut complaints, MetadataPatch::parse);
    let selector = part(selector, &mut complaints, Selector::parse);
    let options = part(options, &mut complaints, Options::parse);
    let patch = match patch {
        Some((document, place)) => {
            complaints.extend(check(&document, &place, CheckOptions { step: false }));
            document
        }
        None => Document::empty(),
    };
    if !complaints.is_empty() {
        return Err(ParseError(complaints));
    }
    let id = LayerId { kind, name: source.name.clone() };
    let namespace = (!of_cluster).then(|| source.namespace.clone());
    Ok(Layer::assemble(Parts { id, namespace, title: source.title(), order, selector, options, patch, metadata }))
}

/// Reads a bare patch (a file with nothing but the patch) as a default layer of order 0.
///
/// # Errors
/// As [`parse`].
pub fn parse_bare(name: &str, text: &str, title: &str) -> Result<Layer, ParseError> {
    let id = LayerId { kind: Kind::Default, name: name.to_owned() };
    parse_text(id, text, title.to_owned(), Place::Text(title.to_owned()), CheckOptions { step: false })
}

/// Reads the patch that a pod brings in its annotation.
///
/// # Errors
/// As [`parse`].
pub fn parse_step(text: &str) -> Result<Layer, ParseError> {
    let place = Place::Annotation(names::STEP_PATCH);
    parse_text(LayerId::STEP, text, place.to_string(), place, CheckOptions { step: true })
}

fn parse_text(
    id: LayerId,
    text: &str,
    title: String,
    place: Place,
    options: CheckOptions,
) -> Result<Layer, ParseError> {
    let document = match yaml::parse(text, &yaml::Options::LAYER) {
        Ok(parsed) => parsed.document,
        Err(error) => {
            let at = Some(error.at());
            return Err(ParseError(vec![Complaint { cause: Cause::Yaml(Box::new(error)), place, at }]));
        }
    };
    let complaints = check(&document, &place, options);
    if !complaints.is_empty() {
        return Err(ParseError(complaints));
    }
    Ok(Layer::assemble(Parts {
        id,
        namespace: None,
        title,
        order: 0,
        selector: Selector::default(),
        options: Options::default(),
        patch: document,
        metadata: MetadataPatch::default(),
    }))
}

fn check(document: &Document, place: &Place, options: CheckOptions) -> Vec<Complaint> {
    schema::check(document, POD.pod_spec(), &Path::field("spec"), options)
        .into_iter()
        .map(|finding| {
            let at = Some(finding.at);
            Complaint { cause: Cause::Schema(Box::new(finding)), place: place.clone(), at }
        })
        .collect()
}

fn part<T: Default>(
    text: Option<(Document, Place)>,
    complaints: &mut Vec<Complaint>,
    parse: impl FnOnce(&Document, &Place) -> Result<T, Complaint>,
) -> T {
    let Some((document, place)) = text else { return T::default() };
    parse(&document, &place).unwrap_or_else(|complaint| {
        complaints.push(complaint);
        T::default()
    })
}

struct Parts {
    id: LayerId,
    namespace: Option<String>,
    title: String,
    order: i64,
    selector: Selector,
    options: Options,
    patch: Document,
    metadata: MetadataPatch,
}

impl Layer {
    fn assemble(parts: Parts) -> Self {
        let Parts { id, namespace, title, order, selector, options, mut patch, metadata } = parts;
        if patch.value.is_null() {
            patch = Document::empty();
        }
        let mut hash = Sha256::new();
        hash.update(format!("{id}\n{}\n{options:?}\n{metadata:?}\n", namespace.as_deref().unwrap_or_default()));
        hash.update(to_json(&patch.value));
        Self {
            can_leak: merge::can_leak(&patch.value),
            idempotent: !has_directives(&patch.value),
            assertions: trail::assertions(&patch, POD.pod_spec(), &metadata),
            digest: hash.finalize().into(),
            id,
            namespace,
            title,
            order,
            selector,
            options,
            patch,
            metadata,
        }
    }
}

/// Recursion is bounded by the depth that the YAML reader allows.
fn has_directives(value: &Value<'_>) -> bool {
    match value {
        Value::List(items) => items.iter().any(has_directives),
        Value::Object(map) => map.iter().any(|(key, value)| key.starts_with('$') || has_directives(value)),
        _ => false,
    }
}
