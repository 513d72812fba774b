use std::fmt;

use sha2::{Digest, Sha256};

use super::{
    Apply, Cause, Complaint, Kind, Layer, LayerId, LayerSource, MetadataPatch, Options, Place, Rules, Selector,
    compact::compact, fill, patterns, trail,
};
use crate::{
    merge, names,
    schema::{self, CheckOptions, Finding, FindingKind, POD, Wanted, nearest},
    value::{Document, Path, Segment, Value, to_json},
    yaml::{self, Parsed},
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
    let mut reader = Reader { source, complaints: Vec::new() };
    let of_cluster = source.namespace.is_empty() || source.namespace == scope.own_namespace;
    let kind = reader.kind(of_cluster);
    let order = reader.order();
    if source.name.is_empty() {
        reader.complain(&["metadata", "name"], "metadata.name is missing: it is the name of the layer".into());
    }
    for key in &source.binary_keys {
        reader.complain(
            &["binaryData", key.as_str()],
            format!("binaryData {key:?} is not read, put the text under data"),
        );
    }
    let texts = reader.texts(kind);
    let [patch, metadata, selector, options, rules] = texts.map(|text| reader.document(text));
    if kind.is_class() && texts[2].is_none() {
        let text = "a class needs the key match, write match: \"{}\" if every pod may ask for it";
        reader.complain(&["data"], text.into());
    }
    if kind == Kind::StepRules && texts[4].is_none() {
        let text = "step-rules need the key rules, write rules: \"{}\" for what is built in";
        reader.complain(&["data"], text.into());
    }
    let metadata = reader.part(metadata, MetadataPatch::parse);
    // Whoever makes a pod chooses its labels, and what is granted must not be had for the asking.
    let grants = kind.is_class() || kind == Kind::StepRules;
    let selector = reader.part(selector, |document, place| {
        let selector = Selector::parse(document, place)?;
        if grants { selector.without_forgeable(document, place) } else { Ok(selector) }
    });
    let options = reader.part(options, Options::parse);
    let rules = (kind == Kind::StepRules).then(|| reader.part(rules, Rules::parse));
    let (patch, place) = match patch {
        Some((parsed, place)) => {
            reader.complaints.extend(check(&parsed, &place, CheckOptions { step: false }));
            (parsed.document, place)
        }
        None => (Document::empty(), reader.place(None)),
    };
    if options.apply == Apply::IfAbsent {
        reader.complaints.extend(fill::check(&patch, &place));
        reader.complaints.extend(fill::check_metadata(&metadata, &reader.place(Some(names::KEY_METADATA))));
    }
    if !reader.complaints.is_empty() {
        return Err(ParseError(reader.complaints));
    }
    let id = LayerId { kind, name: source.name.clone() };
    let namespace = (!of_cluster).then(|| source.namespace.clone());
    let title = source.title();
    let parts = Parts { id, namespace, title, place, order, selector, options, patch, metadata, rules };
    let mut layer = Layer::assemble(parts);
    compact(&mut layer);
    Ok(layer)
}

/// The keys of the data; a layer has the first four, step-rules have `match` and the last.
const KEYS: [&str; 5] = [names::KEY_PATCH, names::KEY_METADATA, names::KEY_MATCH, names::KEY_OPTIONS, names::KEY_RULES];

/// Which of [`KEYS`] a kind has.
fn keys(kind: Kind) -> impl Iterator<Item = &'static str> {
    let of_rules = |key: &&str| [names::KEY_MATCH, names::KEY_RULES].contains(key);
    KEYS.into_iter().filter(move |key| if kind == Kind::StepRules { of_rules(key) } else { *key != names::KEY_RULES })
}

/// A ConfigMap being read, with what is wrong with it so far.
struct Reader<'s> {
    source: &'s LayerSource,
    complaints: Vec<Complaint>,
}

impl<'s> Reader<'s> {
    /// Says what is wrong with the ConfigMap itself, and with which of its fields.
    fn complain(&mut self, field: &[&str], text: String) {
        let field = field.iter().fold(Path::root(), |path, name| path.join(Segment::Field((*name).to_owned())));
        self.complaints.push(Complaint { cause: Cause::Manifest { text, field }, place: self.place(None), at: None });
    }

    fn place(&self, key: Option<&str>) -> Place {
        Place::ConfigMap { title: self.source.title(), key: key.map(str::to_owned) }
    }

    /// Which tier the ConfigMap says it is of; any, where what it says is wrong.
    fn kind(&mut self, of_cluster: bool) -> Kind {
        match (self.source.labels.get(names::LAYER).map(String::as_str), of_cluster) {
            (Some("default"), true) => return Kind::Default,
            (Some("default"), false) => return Kind::NamespaceDefault,
            (Some("class"), true) => return Kind::Class,
            (Some("class"), false) => return Kind::NamespaceClass,
            (Some("step-rules"), true) => return Kind::StepRules,
            (Some("step-rules"), false) => {
                let text = "step-rules are read in podlayer's own namespace only, put them there";
                self.complain(&["metadata", "namespace"], text.into());
                return Kind::StepRules;
            }
            (Some(other), _) => {
                let hint = nearest(other, ["default", "class", "step-rules"]);
                let hint = hint.map_or_else(
                    || ", write default, class or step-rules".into(),
                    |near| format!(", did you mean {near:?}?"),
                );
                let text = format!("label {}: unknown kind of layer {other:?}{hint}", names::LAYER);
                self.complain(&["metadata", "labels", names::LAYER], text);
            }
            (None, _) => {
                let text = format!("label {} is missing, write default, class or step-rules", names::LAYER);
                self.complain(&["metadata", "labels"], text);
            }
        }
        Kind::Default
    }

    fn order(&mut self) -> i64 {
        let Some(text) = self.source.labels.get(names::ORDER) else { return 0 };
        text.parse().unwrap_or_else(|_| {
            let text = format!("label {}: a whole number is wanted, got {text:?}", names::ORDER);
            self.complain(&["metadata", "labels", names::ORDER], text);
            0
        })
    }

    /// The text under each of [`KEYS`], with the key as it is written.
    fn texts(&mut self, kind: Kind) -> [Option<(&'s str, &'s str)>; KEYS.len()] {
        let mut texts = [None; KEYS.len()];
        for (key, text) in &self.source.data {
            let base = key.strip_suffix(".yaml").unwrap_or(key);
            match KEYS.iter().position(|known| *known == base) {
                Some(at) if texts[at].is_some() => {
                    self.complain(
                        &["data", key.as_str()],
                        format!("{base} is given twice, with and without .yaml: keep one"),
                    );
                }
                Some(at) if keys(kind).any(|known| known == KEYS[at]) => {
                    texts[at] = Some((key.as_str(), text.as_str()));
                }
                Some(_) if kind == Kind::StepRules => {
                    let text = format!("step-rules change no pod, so they have no {base}: put it into a layer");
                    self.complain(&["data", key.as_str()], text);
                }
                Some(_) => {
                    let text = format!(
                        "{base} stands in ConfigMaps with the label {}: step-rules only, put it into one",
                        names::LAYER
                    );
                    self.complain(&["data", key.as_str()], text);
                }
                None => {
                    let known: Vec<&str> = keys(kind).collect();
                    let near =
                        if base == "patch" { Some(names::KEY_PATCH) } else { nearest(base, known.iter().copied()) };
                    let hint = match near.filter(|near| known.contains(near)) {
                        Some(near) => format!(", did you mean {near:?}?"),
                        None if kind == Kind::StepRules => format!(", step-rules have {}", known.join(", ")),
                        None => format!(", a layer has {}", known.join(", ")),
                    };
                    self.complain(&["data", key.as_str()], format!("unknown key {key:?}{hint}"));
                }
            }
        }
        texts
    }

    fn document(&mut self, text: Option<(&str, &str)>) -> Option<(Parsed, Place)> {
        let (key, text) = text?;
        let place = self.place(Some(key));
        match read(text, place.clone()) {
            Ok(parsed) => Some((parsed, place)),
            Err(complaint) => {
                self.complaints.push(complaint);
                None
            }
        }
    }

    fn part<T: Default>(
        &mut self,
        text: Option<(Parsed, Place)>,
        parse: impl FnOnce(&Document, &Place) -> Result<T, Complaint>,
    ) -> T {
        let Some((parsed, place)) = text else { return T::default() };
        parse(&parsed.document, &place).unwrap_or_else(|complaint| {
            self.complaints.push(complaint);
            T::default()
        })
    }
}

fn read(text: &str, place: Place) -> Result<Parsed, Complaint> {
    yaml::parse(text, &yaml::Options::LAYER).map_err(|error| {
        let at = Some(error.at());
        Complaint { cause: Cause::Yaml(Box::new(error)), place, at }
    })
}

/// Reads a bare patch (a file with nothing but the patch) as a default layer of order 0.
///
/// # Errors
/// As [`parse`].
pub fn parse_bare(name: &str, text: &str, title: &str) -> Result<Layer, ParseError> {
    let id = LayerId { kind: Kind::Default, name: name.to_owned() };
    let place = Place::Text(title.to_owned());
    let mut layer = parse_text(id, text, title.to_owned(), place, CheckOptions { step: false })?;
    compact(&mut layer);
    Ok(layer)
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
    let parsed = read(text, place.clone()).map_err(|complaint| ParseError(vec![complaint]))?;
    let complaints = check(&parsed, &place, options);
    if !complaints.is_empty() {
        return Err(ParseError(complaints));
    }
    Ok(Layer::assemble(Parts {
        id,
        namespace: None,
        title,
        place,
        order: 0,
        selector: Selector::default(),
        options: Options::default(),
        patch: parsed.document,
        metadata: MetadataPatch::default(),
        rules: None,
    }))
}

fn check(parsed: &Parsed, place: &Place, options: CheckOptions) -> Vec<Complaint> {
    let findings = schema::check(&parsed.document, POD.pod_spec(), &Path::field("spec"), options);
    let complaint = |mut finding: Finding| {
        let at = Some(finding.at);
        // `1.20` was read as 1.2: what belongs in quotes is what was written.
        if let FindingKind::WrongType { wanted: Wanted::String, fix, .. } = &mut finding.kind
            && let Some(remark) = parsed.remarks.iter().find(|remark| remark.at == finding.at)
        {
            *fix = format!("write \"{}\" in quotes", remark.written);
        }
        Complaint { cause: Cause::Schema(Box::new(finding)), place: place.clone(), at }
    };
    let mut complaints: Vec<Complaint> = findings.into_iter().map(complaint).collect();
    complaints.extend(patterns::check(&parsed.document, place));
    complaints.sort_by_key(|complaint| complaint.at);
    complaints
}

struct Parts {
    id: LayerId,
    namespace: Option<String>,
    title: String,
    place: Place,
    order: i64,
    selector: Selector,
    options: Options,
    patch: Document,
    metadata: MetadataPatch,
    rules: Option<Rules>,
}

impl Layer {
    fn assemble(parts: Parts) -> Self {
        let Parts { id, namespace, title, place, order, selector, options, mut patch, metadata, rules } = parts;
        if patch.value.is_null() {
            patch = Document::empty();
        }
        let mut hash = Sha256::new();
        hash.update(format!("{id}\n{}\n{options:?}\n{metadata:?}\n", namespace.as_deref().unwrap_or_default()));
        hash.update(to_json(&patch.value));
        if let Some(rules) = &rules {
            hash.update(format!("{rules:?}"));
        }
        let (can_leak, idempotent) = (merge::can_leak(&patch.value), !has_unsettling(&patch.value));
        let patterns = patterns::take(&mut patch);
        Self {
            can_leak,
            idempotent,
            assertions: trail::assertions(&patch, POD.pod_spec(), &metadata),
            digest: hash.finalize().into(),
            id,
            namespace,
            title,
            place,
            order,
            selector,
            options,
            patch,
            patterns,
            metadata,
            rules,
        }
    }
}

/// Whether a patch has a directive that may do something else when it meets its own result. A deletion doesn't by itself;
/// what others add again after it is looked at for each stack. Recursion is bounded by the depth that the YAML reader
/// allows.
fn has_unsettling(value: &Value<'_>) -> bool {
    match value {
        Value::List(items) => items.iter().any(has_unsettling),
        Value::Object(map) => map.iter().any(|(key, value)| match key {
            "$patch" => value.as_str() != Some("delete"),
            _ => key.starts_with('$') || has_unsettling(value),
        }),
        _ => false,
    }
}
