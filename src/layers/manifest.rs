//! Layers in files: ConfigMap manifests as `kubectl apply` takes them, or bare patches.
//!
//! Complaints about what stands in a file point into the file, also where the text is a block scalar of a ConfigMap.

use std::collections::BTreeMap;

use super::{Cause, Complaint, Layer, LayerSource, ParseError, Place, Scope, parse, parse_bare};
use crate::{
    names,
    schema::nearest,
    value::{Document, Marks, Path, Position, Value},
    yaml,
};

/// Reads every layer of a file. `file` is how complaints call it; `stem` names a bare patch.
///
/// # Errors
/// Everything that is wrong, each with its line and column in the file.
pub fn read(text: &str, file: &str, stem: &str, scope: Scope<'_>) -> Result<Vec<Layer>, ParseError> {
    let mut layers = Vec::new();
    let mut complaints = Vec::new();
    let documents = documents(text);
    let several = documents.len() > 1;
    for (line, part) in documents {
        for read in read_one(text, part, line, several, file, stem, scope) {
            match read {
                Ok(layer) => layers.push(layer),
                Err(ParseError(more)) => complaints.extend(more),
            }
        }
    }
    if complaints.is_empty() { Ok(layers) } else { Err(ParseError(complaints)) }
}

fn read_one(
    text: &str,
    part: &str,
    line: u32,
    several: bool,
    file: &str,
    stem: &str,
    scope: Scope<'_>,
) -> Vec<Result<Layer, ParseError>> {
    let start = Position { line, column: 1 };
    let document = match yaml::parse(part, &yaml::Options::LAYER) {
        Ok(parsed) => parsed.document,
        Err(error) => {
            let at = Some(error.at());
            let complaint = Complaint { cause: Cause::Yaml(Box::new(error)), place: Place::Text(file.to_owned()), at };
            return vec![Err(shifted(ParseError(vec![complaint]), start))];
        }
    };
    if let Some(items) = items(&document) {
        // A namespace's ConfigMaps, which has others besides the layers.
        let is_other = |item: &&Document| {
            item.value.get("kind").and_then(Value::as_str) == Some("ConfigMap") && !is_layer(&item.value)
        };
        return items
            .iter()
            .filter(|item| !is_other(item))
            .map(|item| read_object(item, text, start, file, scope))
            .collect();
    }
    vec![match document.value.get("kind") {
        None if !several => parse_bare(stem, part, file).map_err(|error| shifted(error, start)),
        _ => read_object(&document, text, start, file, scope),
    }]
}

/// Reads the layer of one object that was read out of `text`, where its document starts at `start`.
///
/// # Errors
/// As [`read`]'s.
pub fn read_object(
    document: &Document,
    text: &str,
    start: Position,
    file: &str,
    scope: Scope<'_>,
) -> Result<Layer, ParseError> {
    let place = Place::Text(file.to_owned());
    let complain = |text: String, at: Position| {
        let complaint = Complaint { cause: Cause::Config(text), place: place.clone(), at: Some(at.within(start, 0)) };
        Err(ParseError(vec![complaint]))
    };
    match document.value.get("kind").map(|kind| kind.as_str().unwrap_or_default()) {
        Some("ConfigMap") => {
            if let Some((key, marks)) = not_text(document) {
                return complain(format!("data.{key} must be text: write it as a block after |"), marks.at);
            }
            parse(&source(document), scope).map_err(|error| in_file(error, text, document, start, &place))
        }
        Some(kind @ ("List" | "ConfigMapList")) => {
            complain(format!("items must be a list of ConfigMaps in a {kind}"), document.locate(&Path::field("items")))
        }
        Some(kind) => complain(
            format!("a {kind} is no layer: write a ConfigMap with the label {}, or a bare patch", names::LAYER),
            document.marks.at,
        ),
        None => complain(
            "a file with several objects must hold ConfigMaps: put a bare patch in a file of its own".into(),
            document.marks.at,
        ),
    }
}

/// Whether a ConfigMap is a layer, or was meant to be one.
pub fn is_layer(value: &Value<'_>) -> bool {
    let has = |of: Option<&Value<'_>>, is: &dyn Fn(&str) -> bool| {
        of.and_then(Value::as_object).is_some_and(|map| map.keys().any(is))
    };
    let labels = value.get("metadata").and_then(|metadata| metadata.get("labels"));
    let ours = [names::LAYER, names::ORDER].map(|label| label.trim_start_matches(names::DOMAIN));
    has(labels, &|key| key.strip_prefix(names::DOMAIN).is_some_and(|key| nearest(key, ours).is_some()))
        || has(value.get("data"), &|key| key.strip_suffix(".yaml").unwrap_or(key) == names::KEY_PATCH)
}

/// The items of a list as `kubectl get -o yaml` prints it, each as if it stood by itself, with its place; none where a
/// document is something else.
pub fn items(document: &Document) -> Option<Vec<Document>> {
    let kind = document.value.get("kind")?.as_str().filter(|kind| matches!(*kind, "List" | "ConfigMapList"))?;
    let Some((items, marks)) = child(&document.value, &document.marks, "items").filter(|(items, _)| !items.is_null())
    else {
        return Some(Vec::new());
    };
    let item = |(value, marks): (&Value<'static>, &Marks)| {
        let (mut value, mut marks) = (value.clone(), marks.clone());
        // The API server doesn't repeat the kind in each.
        if let (Value::Object(map), "ConfigMapList") = (&mut value, kind)
            && !map.contains_key("kind")
        {
            map.insert("kind", Value::from("ConfigMap"));
            marks.children.push(Marks::leaf(marks.at));
        }
        Document { value, marks }
    };
    Some(items.as_list()?.iter().zip(&marks.children).map(item).collect())
}

/// The parts of a text between lines that start with `---`, each with the number of its first line; empty ones left
/// out. `---` can't start a line inside a block scalar of a map, whose lines are indented.
pub fn documents(text: &str) -> Vec<(u32, &str)> {
    let mut parts = Vec::new();
    let (mut from, mut first_line, mut line, mut at) = (0, 1, 1, 0);
    for part in text.split_inclusive('\n') {
        if part.starts_with("---") && part[3..].starts_with([' ', '\t', '\r', '\n']) || part == "---" {
            parts.push((first_line, &text[from..at]));
            // What stands behind the dashes belongs to the document that they open; kept by keeping the whole line.
            (from, first_line) = (at, line);
        }
        at += part.len();
        line += 1;
    }
    parts.push((first_line, &text[from..]));
    let is_blank = |part: &str| {
        part.lines().all(|line| {
            let line = line.trim_start_matches('\u{feff}');
            let line = line.strip_prefix("---").unwrap_or(line).trim();
            line.is_empty() || line.starts_with('#')
        })
    };
    parts.retain(|(_, part)| !is_blank(part));
    parts
}

/// The first key of a ConfigMap's data whose value isn't text, as when somebody forgot the `|`.
fn not_text(document: &Document) -> Option<(&str, &Marks)> {
    let (data, marks) = child(&document.value, &document.marks, "data")?;
    let entries = data.as_object()?.iter().zip(&marks.children);
    let mut entries = entries.filter(|((_, value), _)| value.as_str().is_none());
    entries.next().map(|((key, _), marks)| (key, marks))
}

/// A ConfigMap out of a manifest.
fn source(document: &Document) -> LayerSource {
    let texts = |value: Option<&Value<'_>>| -> BTreeMap<String, String> {
        let entries = value.and_then(Value::as_object).into_iter().flat_map(|map| map.iter());
        entries.filter_map(|(key, value)| Some((key.to_owned(), value.scalar_text()?.into_owned()))).collect()
    };
    let metadata = document.value.get("metadata");
    let word = |key: &str| {
        metadata.and_then(|metadata| metadata.get(key)).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    LayerSource {
        namespace: word("namespace"),
        name: word("name"),
        labels: texts(metadata.and_then(|metadata| metadata.get("labels"))),
        data: texts(document.value.get("data")),
        binary_keys: texts(document.value.get("binaryData")).into_keys().collect(),
    }
}

/// Complaints about a ConfigMap's keys, pointed into the file that the ConfigMap was read from.
fn in_file(error: ParseError, text: &str, document: &Document, start: Position, place: &Place) -> ParseError {
    let data = child(&document.value, &document.marks, "data");
    let mapped = error.0.into_iter().map(|complaint| {
        let Place::ConfigMap { key: Some(key), .. } = &complaint.place else {
            let at = match &complaint.cause {
                Cause::Manifest { field, .. } => document.locate(field),
                _ => document.marks.at,
            };
            let at = Some(at.within(start, 0));
            return Complaint { place: place.clone(), at, ..complaint };
        };
        let marks = data.and_then(|(value, marks)| child(value, marks, key)).map(|(_, marks)| marks);
        let scalar = marks.map_or(start, |marks| marks.at.within(start, 0));
        let complaint = complaint.moved(&|at| inside(text, scalar, Some(at)));
        Complaint { place: place.clone(), at: complaint.at.or(Some(scalar)), ..complaint }
    });
    ParseError(mapped.collect())
}

fn child<'d>(value: &'d Value<'static>, marks: &'d Marks, key: &str) -> Option<(&'d Value<'static>, &'d Marks)> {
    let map = value.as_object()?;
    let at = map.position(key)?;
    Some((map.get(key)?, marks.children.get(at)?))
}

/// Where a place inside a scalar stands in the file around it: exact for a literal block scalar, whose lines stand in
/// the file as they are; for any other style the start of the scalar.
pub fn inside(text: &str, scalar: Position, at: Option<Position>) -> Position {
    let mut lines = text.lines().skip(scalar.line as usize - 1);
    let header = lines.next().and_then(|line| line.chars().nth(scalar.column as usize - 1));
    let (Some('|'), Some(at)) = (header, at) else { return scalar };
    let indent =
        lines.clone().find(|line| !line.trim().is_empty()).map(|line| line.len() - line.trim_start_matches(' ').len());
    let Some(indent) = indent.and_then(|indent| u32::try_from(indent).ok()) else { return scalar };
    at.within(Position { line: scalar.line + 1, column: 1 }, indent)
}

fn shifted(error: ParseError, start: Position) -> ParseError {
    ParseError(error.0.into_iter().map(|complaint| complaint.moved(&|at| at.within(start, 0))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCOPE: Scope<'_> = Scope { own_namespace: "podlayer" };

    #[test]
    fn complaints_point_into_the_file_also_inside_a_block_scalar() {
        let text = "# comment\n---\nkind: ConfigMap\nmetadata:\n  name: base\n  labels: {podlayer.dev/layer: default}\n\
                    data:\n  podSpecPatch: |\n    hostNetwork: true\n    containers:\n    - name: a\n      llamas: 1\n";
        let error = read(text, "layers/base.yaml", "base", SCOPE).unwrap_err();
        assert_eq!(error.0.len(), 1);
        assert_eq!(error.0[0].at, Some(Position { line: 12, column: 7 }));
        assert!(error.to_string().ends_with("layers/base.yaml, line 12 column 7"), "{error}");
    }

    #[test]
    fn every_place_that_a_complaint_names_is_one_of_the_file() {
        let text = "# comment\n---\nkind: ConfigMap\nmetadata:\n  name: base\n  labels:\n    podlayer.dev/layer: defalt\n\
                    data:\n  podSpecPatch: |\n    containers:\n    - name: a\n    - name: a\n  podspecpatch2: x\n";
        let told = |text: &str| read(text, "f.yaml", "f", SCOPE).unwrap_err().to_string();
        let wanted = [
            "label podlayer.dev/layer: unknown kind of layer \"defalt\", did you mean \"default\"? f.yaml, line 7 column 5",
            "unknown key \"podspecpatch2\", did you mean \"podSpecPatch\"? f.yaml, line 13 column 3",
            "a stands twice in containers, first at line 11 column 7: kubectl",
        ];
        let got = told(text);
        assert!(wanted.iter().all(|wanted| got.contains(wanted)), "{got}");
        assert!(got.ends_with("f.yaml, line 12 column 7"), "{got}");
        let text = text.replace("defalt", "default").replace("podspecpatch2", "match");
        let twice = told(&text.replace("- name: a\n    - name: a", "- name: a\n      name: a"));
        assert_eq!(
            twice.lines().next(),
            Some("key \"name\" is set twice, first at line 11 column 7: keep one, f.yaml, line 12 column 7")
        );
        let bracket = told(&text.replace("- name: a\n    - name: a", "- {name: a]"));
        assert!(bracket.contains("it belongs to the bracket at line 11 column 7"), "{bracket}");
        let lacking = told("kind: ConfigMap\nmetadata:\n  labels: {podlayer.dev/layer: class}\ndata: {}\n");
        assert!(lacking.contains("line 2 column 1\n") && lacking.ends_with("f.yaml, line 4 column 1"), "{lacking}");
    }

    #[test]
    fn a_byte_order_mark_before_a_comment_is_no_document() {
        let text = "\u{feff}# comment\n---\nhostNetwork: true\n";
        assert_eq!(documents(text).len(), 1);
        assert_eq!(documents("\u{feff}hostNetwork: true\n").len(), 1);
    }

    #[test]
    fn the_items_of_a_list_are_read_as_if_each_stood_by_itself() {
        let item = |name: &str, patch: &str| {
            format!(
                "- apiVersion: v1\n  data:\n    podSpecPatch: |\n      {patch}\n  kind: ConfigMap\n  metadata:\n    labels: {{podlayer.dev/layer: default}}\n    name: {name}\n"
            )
        };
        let other = "- data: {ca.crt: x}\n  kind: ConfigMap\n  metadata: {name: kube-root-ca.crt}\n";
        let list =
            |items: &str| format!("apiVersion: v1\nitems:\n{items}kind: List\nmetadata: {{resourceVersion: \"\"}}\n");
        let text = list(&(item("a", "hostNetwork: true") + other + &item("b", "hostPID: true")));
        let layers = read(&text, "f", "f", SCOPE).unwrap();
        let names: Vec<String> = layers.iter().map(|layer| layer.id.to_string()).collect();
        assert_eq!(names, ["default/a", "default/b"]);
        // In a file with more, and with mistakes in two items: all of them, each at its place in the file.
        let text = format!("# a comment\n---\n{}", list(&(item("a", "llamas: 1") + other + &item("b", "hostPID: 1"))));
        let error = read(&text, "f", "f", SCOPE).unwrap_err();
        let places: Vec<_> = error.0.iter().map(|complaint| complaint.at.map(|at| (at.line, at.column))).collect();
        assert_eq!(places, [Some((8, 7)), Some((19, 16))], "{error}");
        let secret = read(&list("- kind: Secret\n"), "f", "f", SCOPE).unwrap_err();
        assert!(secret.to_string().starts_with("a Secret is no layer"), "{secret}");
        // As the API server itself lists them, which is JSON and doesn't repeat the kind.
        let raw = r#"{"kind":"ConfigMapList","items":[{"metadata":{"name":"a","labels":{"podlayer.dev/layer":"default"}},"data":{"podSpecPatch":"hostPID: true"}}]}"#;
        assert_eq!(read(raw, "f", "f", SCOPE).unwrap().len(), 1);
        assert_eq!(read("kind: List\nitems: []\n", "f", "f", SCOPE).unwrap().len(), 0);
        let error = read("kind: List\nitems: a\n", "f", "f", SCOPE).unwrap_err();
        assert!(error.to_string().contains("items must be a list"), "{error}");
    }

    #[test]
    fn a_file_is_one_bare_patch_or_any_number_of_config_maps() {
        let layers = read("hostNetwork: true\n", "10-first.yaml", "10-first", SCOPE).unwrap();
        assert_eq!(layers[0].id.to_string(), "default/10-first");
        let one = "kind: ConfigMap\nmetadata: {name: NAME, labels: {podlayer.dev/layer: default}}\n";
        let two = format!("{}---\n{}", one.replace("NAME", "a"), one.replace("NAME", "b"));
        assert_eq!(read(&two, "f", "f", SCOPE).unwrap().len(), 2);
        let error = read(&format!("{one}---\nhostNetwork: true\n"), "f", "f", SCOPE).unwrap_err();
        assert_eq!(error.0[0].at, Some(Position { line: 4, column: 1 }));
        let error = read("kind: Secret\n", "f", "f", SCOPE).unwrap_err();
        assert!(error.to_string().starts_with("a Secret is no layer"), "{error}");
    }
}
