//! The pod as rows of YAML, each with the layer that it is of.

use std::collections::{BTreeMap, HashMap};

use super::Line;
use crate::{
    layers::LayerId,
    schema::{POD, Type, TypeId},
    value::{Path, Segment, Value, to_json},
    yaml::scalar,
};

/// One row of the page.
#[derive(Clone, Debug)]
pub(super) struct Row {
    /// The row with its indentation.
    pub text: String,
    /// Which layer it is of, by its place in the stack; nothing for what the pod had.
    pub layer: Option<usize>,
    /// The field that it shows, among those of the explanation.
    pub line: Option<usize>,
    /// Whether it is the first row of its field.
    pub first: bool,
}

/// Who has the last word on a field that is there.
pub(super) struct Owner {
    /// The field, among those of the explanation.
    pub line: usize,
    /// The items that the layer has in it, as JSON, where it is a list without keys.
    pub list: Vec<String>,
}

/// Whose is what.
pub(super) struct Owners<'e> {
    /// By path.
    pub owners: BTreeMap<String, Owner>,
    /// The first layer with something at or below a path.
    pub makers: HashMap<Path, usize>,
    /// The fields.
    pub lines: &'e [Line],
    /// The layers in order.
    pub order: &'e [String],
}

/// For each place at or above something that a layer sets, the first layer that does.
pub(super) fn makers<'a>(
    order: &[&LayerId],
    set: impl Iterator<Item = (&'a Path, &'a LayerId)>,
) -> HashMap<Path, usize> {
    let mut makers = HashMap::new();
    for (path, layer) in set {
        let Some(at) = order.iter().position(|known| *known == layer) else { continue };
        let mut path = path.clone();
        while !path.is_root() {
            let first = makers.entry(path.clone()).or_insert(at);
            *first = at.min(*first);
            path.pop();
        }
    }
    makers
}

/// Writes a pod down; `before` is the pod as its author made it.
pub(super) fn rows(before: &Value<'_>, after: &Value<'_>, owners: &Owners<'_>) -> Vec<Row> {
    let mut writer = Writer { before, owners, rows: Vec::new(), path: Path::root() };
    writer.children(after, Some(POD.pod()), 0, None, None);
    writer.rows
}

struct Writer<'w> {
    before: &'w Value<'w>,
    owners: &'w Owners<'w>,
    rows: Vec<Row>,
    path: Path,
}

/// What a row is of, with what its children take over from it.
#[derive(Clone, Copy)]
struct Mark {
    layer: Option<usize>,
    line: Option<usize>,
}

impl Writer<'_> {
    fn mark(&self, value: &Value<'_>) -> Mark {
        let owner = self.owners.owners.get(&self.path.to_string());
        let line = owner.map(|owner| owner.line);
        let of_line = line.and_then(|at| self.owners.lines.get(at));
        let layer = of_line.and_then(|line| self.owners.order.iter().position(|id| *id == line.layer));
        // A merge key and what holds others' fields: whoever made it first, where the pod didn't have it.
        let holds = matches!(value, Value::Object(_) | Value::List(_));
        let made = || {
            let new = self.path.find(self.before).is_none();
            self.owners.makers.get(&self.path).copied().filter(|_| holds && new)
        };
        Mark { layer: layer.or_else(made), line }
    }

    fn row(&mut self, text: String, mark: Mark, first: bool) {
        self.rows.push(Row { text, layer: mark.layer, line: mark.line, first });
    }

    /// Writes the entries of an object or the items of a list; of a list's item, which starts with a dash, the merge key
    /// first.
    fn children(
        &mut self,
        value: &Value<'_>,
        ty: Option<TypeId>,
        indent: usize,
        inherited: Option<Mark>,
        item: Option<Option<&str>>,
    ) {
        let mut lead = if item.is_some() { "- " } else { "" };
        match value {
            Value::Object(map) => {
                let is_first = |(key, _): &(&str, _)| item.flatten() == Some(*key);
                let entries = map.iter().filter(is_first).chain(map.iter().filter(|entry| !is_first(entry)));
                for (key, value) in entries {
                    let field = ty.and_then(|ty| child(ty, key));
                    self.path.push(Segment::Field(key.to_owned()));
                    let head = format!("{}{}:", start(indent, lead), scalar(&Value::from(key.to_owned()), None));
                    self.node(value, field, &head, indent, inherited);
                    self.path.pop();
                    lead = "";
                }
            }
            Value::List(items) => self.items(items, (ty, None), indent, inherited, &[]),
            _ => {}
        }
    }

    /// One entry of an object.
    fn node(
        &mut self,
        value: &Value<'_>,
        field: Option<(TypeId, Option<&'static str>)>,
        head: &str,
        indent: usize,
        inherited: Option<Mark>,
    ) {
        let own = self.mark(value);
        let mark = if own.layer.is_some() { own } else { inherited.unwrap_or(own) };
        match value {
            Value::Object(map) if !map.is_empty() => {
                self.row(head.to_owned(), mark, own.line.is_some());
                self.children(value, field.map(|(ty, _)| ty), indent + 2, inherited, None);
            }
            Value::List(items) if !items.is_empty() => {
                self.row(head.to_owned(), mark, own.line.is_some());
                let whole = own.line.is_some().then_some(mark).or(inherited);
                let list = self.owners.owners.get(&self.path.to_string()).map(|owner| &owner.list);
                let list = list.cloned().unwrap_or_default();
                self.items(items, field.map_or((None, None), |(ty, key)| (Some(ty), key)), indent, whole, &list);
            }
            _ => self.scalar_rows(head, value, indent, mark, own.line.is_some()),
        }
    }

    fn items(
        &mut self,
        items: &[Value<'_>],
        (ty, key): (Option<TypeId>, Option<&str>),
        indent: usize,
        whole: Option<Mark>,
        own: &[String],
    ) {
        let item_ty = ty.and_then(|ty| match POD.target(ty).1 {
            Type::Slice(item) => Some(*item),
            _ => None,
        });
        for (at, item) in items.iter().enumerate() {
            let named = key.and_then(|key| Some((key, item.get(key)?.scalar_text()?)));
            let segment = match &named {
                Some((key, name)) => Segment::Item { key: (*key).to_owned(), value: name.to_string() },
                None => Segment::Index(at),
            };
            self.path.push(segment);
            // Items with a key have fields of their own; of others, those that the layer has in its list are its.
            let inherited = whole.filter(|_| named.is_none() && (own.is_empty() || own.contains(&to_json(item))));
            let mark = self.mark(item);
            match item {
                Value::Object(map) if !map.is_empty() => {
                    let from = self.rows.len();
                    self.children(item, item_ty, indent + 2, inherited, Some(key));
                    if let Some(key) = key {
                        self.own_key(from, key, mark);
                    }
                }
                Value::List(inner) if !inner.is_empty() => {
                    self.row(format!("{}-", " ".repeat(indent)), inherited.unwrap_or(mark), false);
                    self.items(inner, (item_ty, None), indent + 2, inherited, &[]);
                }
                _ => {
                    let head = format!("{}-", " ".repeat(indent));
                    self.scalar_rows(&head, item, indent, inherited.unwrap_or(mark), false);
                }
            }
            self.path.pop();
        }
    }

    /// The row of an item's merge key belongs to whoever made the item.
    fn own_key(&mut self, from: usize, key: &str, mark: Mark) {
        let Some(rows) = self.rows.get_mut(from..) else { return };
        let is_key = |row: &&mut Row| {
            row.line.is_none() && row.text.trim_start_matches([' ', '-']).starts_with(&format!("{key}:"))
        };
        if let (Some(row), Some(_)) = (rows.iter_mut().find(is_key), mark.layer) {
            row.layer = mark.layer;
            row.line = mark.line;
            row.first = mark.line.is_some();
        }
    }

    fn scalar_rows(&mut self, head: &str, value: &Value<'_>, indent: usize, mark: Mark, first: bool) {
        let text = scalar(value, Some(indent + 2));
        let mut lines = text.lines();
        self.row(format!("{head} {}", lines.next().unwrap_or_default()), mark, first);
        for line in lines {
            self.row(line.to_owned(), mark, false);
        }
    }
}

fn start(indent: usize, lead: &str) -> String {
    format!("{}{lead}", " ".repeat(indent.saturating_sub(lead.len())))
}

/// The type of a field, and the merge key of the list that it is.
pub(super) fn child(ty: TypeId, field: &str) -> Option<(TypeId, Option<&'static str>)> {
    match POD.target(ty).1 {
        Type::Struct(fields) => {
            let field = fields.field(field)?;
            Some((field.ty, field.key.as_deref().filter(|_| field.merge)))
        }
        Type::Map(values) => Some((*values, None)),
        _ => None,
    }
}
