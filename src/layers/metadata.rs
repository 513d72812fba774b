use super::{Apply, Complaint, Place, fields::Fields};
use crate::{
    names, presets,
    value::{Document, Map, Path, Position, Segment, Value},
};

/// The labels and annotations that a layer sets (a text) or takes away (`null`). It only ever merges.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct MetadataPatch {
    /// Labels, in the order written.
    pub labels: Vec<Entry>,
    /// Annotations, in the order written.
    pub annotations: Vec<Entry>,
}

/// One label or annotation.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Entry {
    /// Its key.
    pub key: String,
    /// Its value, or `None` to take it away.
    pub value: Option<String>,
    /// Where it stands in the text.
    pub at: Position,
}

/// Longest value of a label, and longest name part of a key (Kubernetes' own limits).
const LONGEST_NAME: usize = 63;
/// Longest prefix of a key (a DNS subdomain).
const LONGEST_PREFIX: usize = 253;

impl MetadataPatch {
    /// Reads the `podMetadata` key.
    ///
    /// # Errors
    /// A complaint about the first key or value that is wrong or protected.
    pub(super) fn parse(document: &Document, place: &Place) -> Result<Self, Complaint> {
        let fields = Fields::document(document, "podMetadata", &["labels", "annotations"], place.clone())?;
        let read = |kind: &str| -> Result<Vec<Entry>, Complaint> {
            let Some(map) = fields.map(kind, &[])? else { return Ok(Vec::new()) };
            map.entries()
                .map(|(key, entry)| {
                    let at = entry.marks.shown();
                    check_key(key).map_err(|text| map.complaint(format!("podMetadata.{kind}: {text}"), at))?;
                    let value = match entry.value {
                        Value::Null => None,
                        _ => Some(map.string_of(key, entry)?),
                    };
                    if kind == "labels" && !value.as_deref().is_none_or(is_label_value) {
                        let text = format!(
                            "podMetadata.labels: the value of {key:?} is no label value: at most {LONGEST_NAME} letters, \
                             digits, '-', '_' and '.', with a letter or digit at both ends"
                        );
                        return Err(map.complaint(text, entry.marks.at));
                    }
                    Ok(Entry { key: key.to_owned(), value, at })
                })
                .collect()
        };
        Ok(Self { labels: read("labels")?, annotations: read("annotations")? })
    }

    /// Whether it changes nothing on any pod.
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty() && self.annotations.is_empty()
    }

    /// Both kinds, by the name of their field.
    pub fn kinds(&self) -> [(&'static str, &[Entry]); 2] {
        [("labels", &self.labels), ("annotations", &self.annotations)]
    }

    /// Merges into a pod's `metadata`, all or only what it lacks; says whether anything changed.
    pub fn apply<'a>(&'a self, metadata: &mut Map<'a>, apply: Apply) -> bool {
        let mut changed = false;
        for (kind, entries) in self.kinds() {
            for entry in entries {
                let current = metadata.get(kind).and_then(|map| map.get(&entry.key)).and_then(Value::as_str);
                if current == entry.value.as_deref() || (apply == Apply::IfAbsent && current.is_some()) {
                    continue;
                }
                changed = true;
                if metadata.get(kind).and_then(Value::as_object).is_none() {
                    metadata.insert(kind, Value::Object(Map::new()));
                }
                let Some(map) = metadata.get_mut(kind).and_then(Value::as_object_mut) else { continue };
                match &entry.value {
                    Some(value) => _ = map.insert(entry.key.as_str(), Value::from(value.as_str())),
                    None => _ = map.remove(&entry.key),
                }
            }
        }
        changed
    }

    /// The path of one entry: `metadata.labels[team]`.
    pub fn path(kind: &str, key: &str) -> Path {
        let mut path = Path::field("metadata");
        path.push(Segment::Field(kind.to_owned()));
        path.push(Segment::Field(key.to_owned()));
        path
    }
}

fn check_key(key: &str) -> Result<(), String> {
    if key.starts_with(names::DOMAIN) || presets::is_reserved(key) {
        return Err(format!(
            "{key:?} may not be set by a layer, because podlayer, the Job controller or the CI system finds its pods by it"
        ));
    }
    let (prefix, name) = key.split_once('/').unwrap_or(("", key));
    let prefix_fits = prefix.len() <= LONGEST_PREFIX
        && prefix.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'-' | b'.'))
        && key.contains('/') != prefix.is_empty();
    if !prefix_fits || name.is_empty() || !is_label_value(name) {
        return Err(format!("{key:?} is no key for labels or annotations, write name or prefix.example.com/name"));
    }
    Ok(())
}

fn is_label_value(text: &str) -> bool {
    let ends_fit = |byte: Option<&u8>| byte.is_none_or(u8::is_ascii_alphanumeric);
    let bytes = text.as_bytes();
    text.len() <= LONGEST_NAME
        && ends_fit(bytes.first())
        && ends_fit(bytes.last())
        && bytes.iter().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
}
