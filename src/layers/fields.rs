//! Reading small closed maps (`match`, `options`, `podMetadata`) with a place for every complaint.

use super::{Cause, Complaint, Place};
use crate::{
    schema::nearest,
    value::{Document, Map, Marks, Position, Value, to_json},
};

/// A map whose keys are known, being read.
pub(super) struct Fields<'d> {
    map: Option<&'d Map<'static>>,
    marks: &'d Marks,
    /// The field path so far, for the texts: `options.mode`.
    name: String,
    place: Place,
}

/// One value of such a map.
#[derive(Clone, Copy)]
pub(super) struct Entry<'d> {
    pub value: &'d Value<'static>,
    pub marks: &'d Marks,
}

impl<'d> Fields<'d> {
    /// Starts reading a document that must be a map with these keys, or nothing.
    pub(super) fn document(
        document: &'d Document,
        name: &str,
        known: &[&str],
        place: Place,
    ) -> Result<Self, Complaint> {
        let entry = Entry { value: &document.value, marks: &document.marks };
        Self::nested(entry, name.to_owned(), known, place)
    }

    fn nested(entry: Entry<'d>, name: String, known: &[&str], place: Place) -> Result<Self, Complaint> {
        let map = match entry.value {
            Value::Null => None,
            Value::Object(map) => Some(map),
            other => {
                let text = format!("{name} must be a map with {}, got {}", list(known), shown(other));
                return Err(complaint(text, place, entry.marks.at));
            }
        };
        let this = Self { map, marks: entry.marks, name, place };
        if !known.is_empty()
            && let Some((at, key)) =
                map.into_iter().flat_map(Map::keys).enumerate().find(|(_, key)| !known.contains(key))
        {
            let hint = match nearest(key, known.iter().copied()) {
                Some(near) => format!(", did you mean {near:?}?"),
                None => format!(", it may have {}", list(known)),
            };
            let text = format!("unknown key {key:?} in {}{hint}", this.name);
            return Err(this.complaint(text, this.marks.children[at].shown()));
        }
        Ok(this)
    }

    pub(super) fn get(&self, key: &str) -> Option<Entry<'d>> {
        let map = self.map?;
        let at = map.position(key)?;
        let (_, value) = map.iter().nth(at)?;
        (!value.is_null()).then(|| Entry { value, marks: &self.marks.children[at] })
    }

    pub(super) fn entries(&self) -> impl Iterator<Item = (&'d str, Entry<'d>)> {
        let marks = self.marks;
        self.map
            .into_iter()
            .flat_map(Map::iter)
            .zip(&marks.children)
            .map(|((key, value), marks)| (key, Entry { value, marks }))
    }

    /// Where this map starts.
    pub(super) fn here(&self) -> Position {
        self.marks.at
    }

    /// A map below this one; an empty list of keys allows any.
    pub(super) fn map(&self, key: &str, known: &[&str]) -> Result<Option<Self>, Complaint> {
        let Some(entry) = self.get(key) else { return Ok(None) };
        Self::nested(entry, format!("{}.{key}", self.name), known, self.place.clone()).map(Some)
    }

    /// A list below this one.
    pub(super) fn list(&self, key: &str) -> Result<Vec<Entry<'d>>, Complaint> {
        let Some(entry) = self.get(key) else { return Ok(Vec::new()) };
        let Value::List(items) = entry.value else {
            return Err(self.wrong(key, "a list", entry));
        };
        Ok(items.iter().zip(&entry.marks.children).map(|(value, marks)| Entry { value, marks }).collect())
    }

    /// A list of texts below this one.
    pub(super) fn strings(&self, key: &str) -> Result<Vec<String>, Complaint> {
        self.list(key)?.into_iter().map(|item| self.string_of(key, item)).collect()
    }

    /// The items of a list as maps with known keys.
    pub(super) fn maps(&self, key: &str, known: &[&str]) -> Result<Vec<Self>, Complaint> {
        let item = |(at, entry)| Self::nested(entry, format!("{}.{key}[{at}]", self.name), known, self.place.clone());
        self.list(key)?.into_iter().enumerate().map(item).collect()
    }

    /// A text below this one.
    pub(super) fn string(&self, key: &str) -> Result<Option<String>, Complaint> {
        self.get(key).map(|entry| self.string_of(key, entry)).transpose()
    }

    /// The text of one value.
    pub(super) fn string_of(&self, key: &str, entry: Entry<'_>) -> Result<String, Complaint> {
        entry.value.as_str().map(str::to_owned).ok_or_else(|| self.wrong(key, "a string", entry))
    }

    /// `true` or `false` below this one.
    pub(super) fn bool(&self, key: &str) -> Result<Option<bool>, Complaint> {
        match self.get(key) {
            None => Ok(None),
            Some(Entry { value: Value::Bool(b), .. }) => Ok(Some(*b)),
            Some(entry) => Err(self.wrong(key, "true or false", entry)),
        }
    }

    /// One of a few words below this one.
    pub(super) fn choice<T: Copy>(&self, key: &str, choices: &[(&str, T)]) -> Result<Option<T>, Complaint> {
        let Some(entry) = self.get(key) else { return Ok(None) };
        let words: Vec<&str> = choices.iter().map(|(word, _)| *word).collect();
        let found = entry.value.as_str().and_then(|text| choices.iter().find(|(word, _)| *word == text));
        match found {
            Some((_, choice)) => Ok(Some(*choice)),
            None => Err(self.wrong(key, &list(&words), entry)),
        }
    }

    /// Says that a value is of the wrong kind.
    pub(super) fn wrong(&self, key: &str, wanted: &str, entry: Entry<'_>) -> Complaint {
        let hint = match (wanted, entry.value.scalar_text()) {
            ("a string", Some(text)) => format!(", write \"{text}\" in quotes"),
            _ => String::new(),
        };
        let text = format!("{}.{key}: {wanted} is wanted, got {}{hint}", self.name, shown(entry.value));
        self.complaint(text, entry.marks.at)
    }

    pub(super) fn complaint(&self, text: String, at: Position) -> Complaint {
        complaint(text, self.place.clone(), at)
    }
}

fn complaint(text: String, place: Place, at: Position) -> Complaint {
    Complaint { cause: Cause::Config(text), place, at: Some(at) }
}

/// A value as an error text shows it: short, and scalars only in full.
fn shown(value: &Value<'_>) -> String {
    match value {
        Value::List(_) => "a list".into(),
        Value::Object(_) => "a map".into(),
        Value::String(text) if text.chars().count() > 40 => "a long string".into(),
        other => to_json(other),
    }
}

fn list(words: &[&str]) -> String {
    match words {
        [] => "any keys".into(),
        [one] => (*one).into(),
        [head @ .., last] => format!("{} or {last}", head.join(", ")),
    }
}
