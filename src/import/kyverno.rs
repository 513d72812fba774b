//! Kyverno's policies: rules that mutate pods by `patchStrategicMerge`.

use super::{ImportError, Imported, NewLayer, config_map_name, entries, object, read};
use crate::{
    layers::manifest,
    names,
    value::{Map, Marks, Position, Value},
};

/// What a rule comes to.
struct Rule<'i> {
    imported: &'i mut Imported,
    /// Something in it can't be a layer.
    failed: bool,
    start: Position,
}

/// Reads the policies of a file. A rule is taken over as a whole or not at all.
///
/// # Errors
/// [`ImportError`].
pub fn kyverno(text: &str) -> Result<Imported, ImportError> {
    let mut imported = Imported::default();
    for (line, part) in manifest::documents(text) {
        let start = Position { line, column: 1 };
        let document = read(part)?;
        let kind = document.value.get("kind").and_then(Value::as_str).unwrap_or_default();
        if kind != "ClusterPolicy" && kind != "Policy" {
            imported.remark(document.marks.at.within(start, 0), format!("a {kind} is no policy: left out"));
            continue;
        }
        let metadata = document.value.get("metadata");
        let word = |key: &str| metadata.and_then(|metadata| metadata.get(key)).and_then(Value::as_str);
        let namespace = word("namespace").filter(|_| kind == "Policy");
        let policy = word("name").unwrap_or("policy");
        let Some((_, spec, marks)) = entries(&document.value, &document.marks).find(|(key, ..)| *key == "spec") else {
            continue;
        };
        let Some((_, Value::List(rules), marks)) = entries(spec, marks).find(|(key, ..)| *key == "rules") else {
            continue;
        };
        for (at, (rule, marks)) in rules.iter().zip(&marks.children).enumerate() {
            let name = rule.get("name").and_then(Value::as_str).unwrap_or_default();
            let name = config_map_name(&format!("{policy}-{name}"));
            let order = i64::try_from(at).unwrap_or(i64::MAX);
            Rule { imported: &mut imported, failed: false, start }.read(&name, order, namespace, rule, marks);
        }
    }
    Ok(imported)
}

impl Rule<'_> {
    fn fail(&mut self, marks: &Marks, text: impl Into<String>) {
        self.failed = true;
        self.imported.remark(marks.shown().within(self.start, 0), text);
    }

    fn read(&mut self, name: &str, order: i64, namespace: Option<&str>, rule: &Value<'static>, marks: &Marks) {
        let mut patch = None;
        let mut selector = Selector::default();
        selector.namespaces.extend(namespace.map(str::to_owned));
        for (key, value, marks) in entries(rule, marks) {
            match key {
                "name" | "skipBackgroundRequests" => {}
                "match" => self.selection(value, marks, false, &mut selector),
                "exclude" => self.selection(value, marks, true, &mut selector),
                "mutate" => {
                    for (key, value, marks) in entries(value, marks) {
                        match key {
                            "patchStrategicMerge" => patch = Some((value, marks)),
                            _ => self.fail(
                                marks,
                                format!("mutate.{key} has no counterpart: only patchStrategicMerge is taken over"),
                            ),
                        }
                    }
                }
                _ => self.fail(marks, format!("{key} has no counterpart in a layer")),
            }
        }
        let Some((patch, marks)) = patch else {
            if !self.failed {
                self.fail(marks, format!("{name} mutates nothing by patchStrategicMerge: left out"));
            }
            return;
        };
        let mut plain = Value::Object(Map::new());
        let mut filling = Value::Object(Map::new());
        for (key, value, marks) in entries(patch, marks) {
            if !matches!(key, "spec" | "metadata") {
                self.fail(marks, format!("{key} of a pod can't be set by a layer"));
                continue;
            }
            let (left, fills) = self.split(value, marks);
            for (whole, part) in [(&mut plain, left), (&mut filling, fills)] {
                if let (Some(map), Some(part)) = (whole.as_object_mut(), part) {
                    map.insert(key.to_owned(), part);
                }
            }
        }
        if self.failed {
            return;
        }
        for (whole, suffix, apply) in [(plain, "", "Override"), (filling, "-if-absent", "IfAbsent")] {
            let mut data = Vec::new();
            for (from, to) in [("spec", names::KEY_PATCH), ("metadata", names::KEY_METADATA)] {
                data.extend(whole.get(from).map(|value| (to, value.clone())));
            }
            if data.is_empty() {
                continue;
            }
            data.push((names::KEY_MATCH, selector.value()));
            data.push((names::KEY_OPTIONS, object([("apply", Value::from(apply.to_owned()))])));
            self.imported.layers.push(NewLayer { name: format!("{name}{suffix}"), kind: "default", order, data });
        }
    }

    /// Parts a value into what is set in any case and what is set only where it is absent, `+(key)`.
    fn split(&mut self, value: &Value<'static>, marks: &Marks) -> (Option<Value<'static>>, Option<Value<'static>>) {
        match value {
            Value::Object(map) => {
                let (mut plain, mut filling) = (Map::new(), Map::new());
                let mut target = None;
                for (key, value, marks) in entries(value, marks) {
                    if let Some(inner) = anchored(key, "+(") {
                        if self.is_free(value, marks) {
                            filling.insert(inner.to_owned(), value.clone());
                        }
                    } else if let Some("name") = anchored(key, "(") {
                        match value.as_str().filter(|name| !name.contains(['?', '|', '!', '&'])) {
                            Some(name) => target = Some(Value::from(name.to_owned())),
                            None => self.fail(marks, "a condition on name must be a name or a glob with *"),
                        }
                    } else if key.contains('(') {
                        self.fail(
                            marks,
                            format!("the anchor {key} has no counterpart: a layer has no conditions on other fields"),
                        );
                    } else if key == "name" {
                        target = Some(value.clone());
                    } else {
                        let (left, fills) = self.split(value, marks);
                        plain.extend_with(key, left);
                        filling.extend_with(key, fills);
                    }
                }
                let named = |map: Map<'static>| {
                    (!map.is_empty()).then(|| {
                        let mut out = Map::new();
                        if let Some(name) = &target {
                            out.insert("name", name.clone());
                        }
                        for (key, value) in map.iter() {
                            out.insert(key.to_owned(), value.clone());
                        }
                        Value::Object(out)
                    })
                };
                // What was written as empty stays so.
                if map.is_empty() || (target.is_some() && plain.is_empty() && filling.is_empty()) {
                    plain.extend_with("name", target);
                    return (Some(Value::Object(plain)), None);
                }
                (named(plain), named(filling))
            }
            Value::List(items) => {
                let (mut plain, mut filling) = (Vec::new(), Vec::new());
                for (item, marks) in items.iter().zip(&marks.children) {
                    let (left, fills) = self.split(item, marks);
                    plain.extend(left);
                    filling.extend(fills);
                }
                let list = |items: Vec<Value<'static>>| (!items.is_empty()).then_some(Value::List(items));
                if items.is_empty() {
                    return (Some(Value::List(Vec::new())), None);
                }
                (list(plain), list(filling))
            }
            other => {
                self.is_free(other, marks);
                (Some(other.clone()), None)
            }
        }
    }

    /// Whether a value holds no variable and no anchor of Kyverno's.
    fn is_free(&mut self, value: &Value<'static>, marks: &Marks) -> bool {
        match value {
            Value::String(text) if text.contains("{{") => {
                self.fail(marks, "a variable {{ … }} has no counterpart: a layer has fixed values");
                false
            }
            Value::List(items) => items.iter().zip(&marks.children).all(|(item, marks)| self.is_free(item, marks)),
            Value::Object(_) => entries(value, marks).all(|(key, value, marks)| {
                if key.contains('(') {
                    self.fail(marks, format!("the anchor {key} below another has no counterpart"));
                    return false;
                }
                self.is_free(value, marks)
            }),
            _ => true,
        }
    }

    fn selection(&mut self, value: &Value<'static>, marks: &Marks, exclude: bool, selector: &mut Selector) {
        let what = if exclude { "exclude" } else { "match" };
        for (key, value, marks) in entries(value, marks) {
            match (key, value) {
                ("resources", _) => self.resources(value, marks, exclude, selector),
                ("any" | "all", Value::List(items)) => {
                    if items.len() > 1 && (key == "any") != exclude {
                        self.fail(marks, format!("{what}.{key} with several entries: write a layer for each"));
                    }
                    for (item, marks) in items.iter().zip(&marks.children) {
                        for (key, value, marks) in entries(item, marks) {
                            match key {
                                "resources" => self.resources(value, marks, exclude, selector),
                                _ => self.fail(
                                    marks,
                                    format!("{what} by {key} has no counterpart: a layer doesn't ask who"),
                                ),
                            }
                        }
                    }
                }
                _ => self.fail(marks, format!("{what}.{key} has no counterpart")),
            }
        }
    }

    fn resources(&mut self, value: &Value<'static>, marks: &Marks, exclude: bool, selector: &mut Selector) {
        let conditions = entries(value, marks).filter(|(key, ..)| !matches!(*key, "kinds" | "operations")).count();
        if exclude && conditions > 1 {
            self.fail(
                marks,
                "exclude with several conditions at once has no counterpart: a layer's match has no \"not both\"",
            );
        }
        for (key, value, marks) in entries(value, marks) {
            let texts: Vec<&str> = value.as_list().unwrap_or_default().iter().filter_map(Value::as_str).collect();
            match key {
                "kinds" if !exclude => {
                    let is_pod = |kind: &&str| matches!(kind.rsplit('/').next(), Some("Pod" | "*"));
                    if !texts.iter().any(is_pod) {
                        self.fail(marks, format!("kinds {}: a layer is for pods", texts.join(", ")));
                    } else if texts.iter().any(|kind| !is_pod(kind)) {
                        self.imported.remark(
                            marks.shown().within(self.start, 0),
                            "only the pods are taken over, not what makes them",
                        );
                    }
                }
                "kinds" | "operations" => {}
                "namespaces" if !exclude => selector.namespaces.extend(texts.iter().map(|text| (*text).to_owned())),
                "namespaces" => {
                    self.fail(marks, "exclude by namespace has no counterpart: list the namespaces that are meant")
                }
                "selector" => self.labels(value, marks, exclude, selector),
                "annotations" if !exclude => {
                    for (key, value, marks) in entries(value, marks) {
                        match value.as_str().filter(|text| !text.contains(['*', '?'])) {
                            Some(text) => _ = selector.annotations.insert(key.to_owned(), Value::from(text.to_owned())),
                            None => self.fail(marks, format!("annotation {key} by a glob has no counterpart")),
                        }
                    }
                }
                _ => self.fail(marks, format!("resources.{key} has no counterpart in a layer's match")),
            }
        }
    }

    fn labels(&mut self, value: &Value<'static>, marks: &Marks, exclude: bool, selector: &mut Selector) {
        let count: usize = entries(value, marks)
            .map(|(_, inner, _)| inner.as_object().map_or_else(|| inner.as_list().map_or(0, <[_]>::len), Map::len))
            .sum();
        if exclude && count > 1 {
            self.fail(marks, "exclude by several labels at once has no counterpart");
        }
        for (key, inner, marks) in entries(value, marks) {
            match (key, inner) {
                ("matchLabels", _) => {
                    for (key, value, marks) in entries(inner, marks) {
                        match value.as_str().filter(|text| !text.contains(['*', '?'])) {
                            Some(text) => {
                                selector.expressions.push(in_values(key, if exclude { "NotIn" } else { "In" }, text))
                            }
                            None => self.fail(
                                marks,
                                format!("label {key} by a glob has no counterpart: write matchExpressions with Exists"),
                            ),
                        }
                    }
                }
                ("matchExpressions", Value::List(items)) => {
                    for item in items {
                        let operator = item.get("operator").and_then(Value::as_str).unwrap_or_default();
                        let other = match operator {
                            "In" => "NotIn",
                            "NotIn" => "In",
                            "Exists" => "DoesNotExist",
                            _ => "Exists",
                        };
                        let mut item = item.clone();
                        if let (true, Some(map)) = (exclude, item.as_object_mut()) {
                            map.insert("operator", Value::from(other.to_owned()));
                        }
                        selector.expressions.push(item);
                    }
                }
                _ => self.fail(marks, format!("selector.{key} is unknown")),
            }
        }
    }
}

#[derive(Default)]
struct Selector {
    namespaces: Vec<String>,
    expressions: Vec<Value<'static>>,
    annotations: Map<'static>,
}

impl Selector {
    fn value(&self) -> Value<'static> {
        let mut map = Map::new();
        let namespaces: Vec<Value<'static>> = self.namespaces.iter().cloned().map(Value::from).collect();
        for (key, list) in [("namespaces", &namespaces), ("matchExpressions", &self.expressions)] {
            if !list.is_empty() {
                map.insert(key, Value::List(list.clone()));
            }
        }
        if !self.annotations.is_empty() {
            map.insert("annotations", Value::Object(self.annotations.clone()));
        }
        Value::Object(map)
    }
}

fn in_values(key: &str, operator: &str, value: &str) -> Value<'static> {
    let text = |text: &str| Value::from(text.to_owned());
    object([("key", text(key)), ("operator", text(operator)), ("values", Value::List(vec![text(value)]))])
}

/// The key within an anchor: `name` of `(name)` and of `+(name)`.
fn anchored<'k>(key: &'k str, opening: &str) -> Option<&'k str> {
    key.strip_prefix(opening)?.strip_suffix(')')
}

trait Extend {
    fn extend_with(&mut self, key: &str, value: Option<Value<'static>>);
}

impl Extend for Map<'static> {
    fn extend_with(&mut self, key: &str, value: Option<Value<'static>>) {
        if let Some(value) = value {
            self.insert(key.to_owned(), value);
        }
    }
}
