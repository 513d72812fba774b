use std::{borrow::Cow, collections::HashMap};

use super::{
    Form, POD, Struct, Type, TypeId,
    directives::{is_marker, is_written_anew},
    finding::{Finding, FindingKind, Suggestion, Wanted},
    fix,
    nearest::{nearest, nearest_within},
    place::{Place, Step},
    scalar,
    text::{described, quoted},
};
use crate::{
    names,
    value::{Document, Kind, Map, Marks, Path, Position, Value},
};

/// What else a check looks for, which depends on whose patch it is.
#[derive(Clone, Copy, Debug, Default)]
pub struct CheckOptions {
    /// The patch is a step's, which may not choose the node.
    pub step: bool,
}

/// Everything in a patch that can't be right for any pod: unknown fields, wrong types, directives that no merge takes,
/// list items that can't be told apart. In the order of the text.
///
/// The patch is one of `root` (`POD.pod_spec()` for a layer); `under` is put in front of each finding's path. Names of
/// list items are taken as they are, so globs and roles pass. Relations between fields aren't looked at, nor which words a
/// field takes ([`super::Graph::values`]), for a newer API server may take more: docs/decisions/0026.
pub fn check(document: &Document, root: TypeId, under: &Path, options: CheckOptions) -> Vec<Finding> {
    let mut check = Check { under, options, findings: Vec::new() };
    let place = Place::root(None);
    match &document.value {
        Value::Null => {}
        Value::Object(_) => check.value(&place, root, None, &document.value, &document.marks),
        other => {
            let kind = FindingKind::NotAMap { got: described(other), fix: fix::as_patch(other) };
            check.find(&place, document.marks.at, kind);
        }
    }
    // Already so, unless the reader moved something (YAML's `<<`, an alias).
    check.findings.sort_by_key(|finding| finding.at);
    check.findings
}

/// A walk through a patch along the type graph. It goes as deep as both go, and the reader of the patch bounds that.
pub(super) struct Check<'c> {
    under: &'c Path,
    options: CheckOptions,
    findings: Vec<Finding>,
}

impl Check<'_> {
    pub(super) fn find(&mut self, place: &Place<'_>, at: Position, kind: FindingKind) {
        self.findings.push(Finding { path: place.path(self.under), at, kind });
    }

    /// A value of any type; `key` is the merge key, where it is a list that has one.
    fn value(&mut self, place: &Place<'_>, ty: TypeId, key: Option<&str>, value: &Value<'_>, marks: &Marks) {
        if value.is_null() {
            return;
        }
        match (POD.target(ty).1, value) {
            (Type::Struct(Struct { form: Form::Anything, .. }), _) => {}
            (Type::Struct(ty @ Struct { form: Form::Object, .. }), Value::Object(map)) => {
                self.fields(&place.holding(ty), ty, map, marks);
            }
            (Type::Struct(ty @ Struct { form: Form::Object, .. }), _) => {
                self.wrong_type(place, Wanted::Map, value, fix::as_map(ty, value), marks);
            }
            (Type::Map(_), Value::List(_)) => {
                self.wrong_type(place, Wanted::Map, value, "write its fields without \"- \"".to_owned(), marks);
            }
            (Type::Map(elem), Value::Object(map)) => self.keys(place, *elem, map, marks),
            (Type::Map(_), _) => {
                self.wrong_type(place, Wanted::Map, value, "write \"key: value\" lines below it".to_owned(), marks);
            }
            (Type::Slice(elem), Value::List(items)) => match key {
                Some(key) => self.keyed_items(place, *elem, key, items, marks),
                None => self.items(place, *elem, items, marks),
            },
            (Type::Slice(_), _) => self.wrong_type(place, Wanted::List, value, fix::as_list(key, value), marks),
            _ => {
                if let Some(wanted) = scalar::wanted(ty)
                    && let Some(fix) = scalar::fix(wanted, value)
                {
                    self.wrong_type(place, wanted, value, fix, marks);
                }
            }
        }
    }

    fn wrong_type(&mut self, place: &Place<'_>, wanted: Wanted, value: &Value<'_>, fix: String, marks: &Marks) {
        self.find(place, marks.at, FindingKind::WrongType { what: place.name(), wanted, got: described(value), fix });
    }

    /// An object with known fields.
    fn fields(&mut self, place: &Place<'_>, ty: &Struct, map: &Map<'_>, marks: &Marks) {
        let is_spec = ty.name.as_ref() == "PodSpec";
        let is_root = is_spec && matches!(place.step, Step::Root);
        let whole_pod = is_root && map.contains_key("spec");
        for (at, (name, value)) in map.iter().enumerate() {
            let marks = marks.children.get(at).unwrap_or(marks);
            let here = place.down(Step::Field(name));
            let kind = match ty.field(name) {
                Some(_) if is_spec && name == "ephemeralContainers" => FindingKind::EphemeralContainers,
                Some(_) if is_spec && self.options.step && name == "nodeName" => FindingKind::NodeName,
                Some(field) => {
                    self.value(&here, field.ty, field.list_key(), value, marks);
                    continue;
                }
                // A field's name never starts so; `/containers` is what is left of `$setElementOrder/containers`.
                None if matches!(name, "" | "$") || name.starts_with('/') => {
                    FindingKind::Expanded { key: quoted(name), owner: place.name() }
                }
                None if name.starts_with('$') => {
                    self.directive(place, Some(ty), map, name, value, marks);
                    continue;
                }
                None if whole_pod && name == "spec" => whole(value),
                None if whole_pod && matches!(name, "apiVersion" | "kind" | "metadata" | "status") => continue,
                None if is_root && name == names::KEY_PATCH => FindingKind::PatchKey { key: name.to_owned() },
                None => FindingKind::UnknownField {
                    name: quoted(name),
                    owner: place.name(),
                    suggestion: if self.findings.len() < SUGGESTED { suggestion(place, ty, name) } else { None },
                },
            };
            self.find(&here, marks.shown(), kind);
        }
    }

    /// A map whose keys are free.
    fn keys(&mut self, place: &Place<'_>, elem: TypeId, map: &Map<'_>, marks: &Marks) {
        for (at, (name, value)) in map.iter().enumerate() {
            let marks = marks.children.get(at).unwrap_or(marks);
            let here = place.down(Step::Key(name));
            if matches!(name, "" | "$") {
                let kind = FindingKind::Expanded { key: quoted(name), owner: place.name() };
                self.find(&here, marks.shown(), kind);
            } else if super::directives::is_directive(name) {
                self.directive(place, None, map, name, value, marks);
            } else {
                self.value(&here, elem, None, value, marks);
            }
        }
    }

    /// A list whose items replace each other as a whole.
    fn items(&mut self, place: &Place<'_>, elem: TypeId, items: &[Value<'_>], marks: &Marks) {
        for (at, item) in items.iter().enumerate() {
            let marks = marks.children.get(at).unwrap_or(marks);
            self.value(&place.down(Step::Index(at)), elem, None, item, marks);
        }
    }

    /// A list that merges by a key.
    fn keyed_items(&mut self, place: &Place<'_>, elem: TypeId, key: &str, items: &[Value<'_>], marks: &Marks) {
        let replaced = is_written_anew(items);
        let ty = || inner_struct(elem, false);
        let mut first: HashMap<(Kind, Cow<'_, str>), Position> = HashMap::new();
        for (at, item) in items.iter().enumerate() {
            let marks = marks.children.get(at).unwrap_or(marks);
            let by_index = place.down(Step::Index(at));
            let Value::Object(map) = item else {
                self.wrong_type(&by_index, Wanted::Map, item, fix::as_item(key, ty(), item), marks);
                continue;
            };
            let marker = map.get("$patch");
            let name = map.get(key);
            let Some(text) = name.and_then(Value::scalar_text).filter(|_| !name.is_some_and(Value::is_null)) else {
                let item_name = by_index.name();
                match name {
                    None if is_marker(item) && map.len() == 1 => {}
                    None => {
                        if let Some(kind) = fix::variable(&item_name, ty(), map) {
                            self.find(&by_index, marks.at, kind);
                            continue;
                        }
                        self.find(&by_index, marks.at, fix::missing_key(item_name, key));
                    }
                    Some(Value::Null) => {
                        self.find(&by_index, marks.at, FindingKind::KeyNull { item: item_name, key: key.into() });
                    }
                    // A list or a map is of the wrong type, which the walk finds below.
                    Some(_) => {}
                }
                self.value(&by_index, elem, None, item, marks);
                continue;
            };
            let here = place.down(Step::Item { key, value: text.clone() });
            if marker.is_none() && !replaced {
                let kind = name.map_or(Kind::Null, Value::kind);
                if let Some(first) = first.get(&(kind, text.clone())) {
                    let (item, list) = (here.name(), place.name());
                    self.find(&here, marks.at, FindingKind::DuplicateItem { item, list, first: *first });
                } else {
                    first.insert((kind, text), marks.at);
                }
            }
            self.value(&here, elem, None, item, marks);
        }
    }
}

/// Of a patch with a `spec`: what it is that has one.
fn whole(spec: &Value<'_>) -> FindingKind {
    if spec.get("jobTemplate").is_some() {
        return FindingKind::WholePod { what: "CronJob", below: "spec.jobTemplate.spec.template.spec" };
    }
    if spec.get("template").is_some() {
        return FindingKind::WholePod { what: "Job", below: "spec.template.spec" };
    }
    FindingKind::WholePod { what: "pod", below: "spec" }
}

/// How many findings may get a suggestion. Nobody reads as many, and looking for one is the only step whose work doesn't
/// shrink with the size of what was written.
const SUGGESTED: usize = 100;

/// What somebody meant who wrote a field that the type lacks: a slip of case or of one character; a field one step
/// further in or out, which a wrong indent makes; a field of this type that is near.
fn suggestion(place: &Place<'_>, ty: &Struct, name: &str) -> Option<Suggestion> {
    if let Some(item) = name.strip_prefix('-').filter(|item| item.starts_with(|c: char| c.is_ascii_alphabetic())) {
        return Some(Suggestion::Name(format!("- {item}")));
    }
    if let Some(near) = nearest_within(name, ty.names(), 1) {
        return Some(Suggestion::Name(near.to_owned()));
    }
    let inner = |list: bool| {
        let found = ty.names().filter_map(|field| {
            let inner = inner_struct(ty.field(field)?.ty, list)?;
            let known = known(inner, name)?;
            Some(if list { format!("{field}[*].{known}") } else { format!("{field}.{known}") })
        });
        found.min()
    };
    let amount = || {
        let has_amounts = |ty: &Struct| ty.field("requests").is_some();
        let resources = || inner_struct(ty.field("resources")?.ty, false);
        match name {
            "cpu" | "memory" | "ephemeral-storage" if has_amounts(ty) => Some(format!("requests.{name}")),
            "cpu" | "memory" | "ephemeral-storage" if resources().is_some_and(has_amounts) => {
                Some(format!("resources.requests.{name}"))
            }
            _ => None,
        }
    };
    let outer = || {
        let mut around = place.outwards().skip(1);
        let outer = around.find(|outer| outer.ty.is_some_and(|ty| ty.field(name).is_some()))?;
        Some(Suggestion::Outer { owner: outer.name() })
    };
    inner(false)
        .or_else(amount)
        .map(Suggestion::Name)
        .or_else(outer)
        .or_else(|| inner(true).map(Suggestion::Name))
        .or_else(|| Some(Suggestion::Name(nearest(name, ty.names())?.to_owned())))
        // Too long a word for its short form to be near.
        .or_else(|| {
            nearest(name, ["environment"]).and_then(|_| known(ty, "env")).map(|env| Suggestion::Name(env.to_owned()))
        })
}

/// The object type behind a field: its own, or its items' if `list`.
fn inner_struct(ty: TypeId, list: bool) -> Option<&'static Struct> {
    match POD.target(ty).1 {
        Type::Struct(ty) if !list && ty.form == Form::Object => Some(ty),
        Type::Slice(elem) if list => inner_struct(*elem, false),
        _ => None,
    }
}

fn known<'s>(ty: &'s Struct, name: &str) -> Option<&'s str> {
    ty.names().filter(|known| known.eq_ignore_ascii_case(name)).min()
}

#[cfg(test)]
mod tests;
