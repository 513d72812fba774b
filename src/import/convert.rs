//! Buildkite pipelines: a step's `podSpecPatch` moves into the annotation, the rest of the file stays as it is written.

use super::{ImportError, Imported, entries, read};
use crate::{
    names,
    schema::{POD, Type, nearest, quoted},
    value::{Document, Marks, Position, Value, to_json},
    yaml,
};

/// The directives of a patch, which Buildkite's upload takes for variables where their `$` stands alone.
const DIRECTIVES: &[&str] = &["$patch", "$retainKeys", "$setElementOrder", "$deleteFromPrimitiveList"];

/// One plugin with a patch.
struct Plugin {
    /// Its key, `podSpecPatch`.
    key: Position,
    /// The patch.
    patch: Value<'static>,
    /// Whether the patch is text.
    is_text: bool,
    metadata: Option<Position>,
    annotations: Option<Position>,
}

/// Moves every `podSpecPatch` of a pipeline; the remarks say which can't be moved, and what else to know.
///
/// # Errors
/// [`ImportError`] for what isn't YAML, or no pipeline.
pub fn convert(text: &str) -> Result<(String, Imported), ImportError> {
    let document = read(text)?;
    must_be_pipeline(&document)?;
    let mut plugins = Vec::new();
    let mut imported = Imported::default();
    find(&document.value, &document.marks, "", &mut plugins, &mut imported);
    plugins.sort_by_key(|plugin| plugin.key);
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    // From the last to the first, so that the places of those before stay what they are.
    for plugin in plugins.iter().rev() {
        match moved(&lines, plugin) {
            Some((changed, doubled)) if is_same(&changed, plugin) => {
                lines = changed.lines;
                if doubled {
                    let text = "a directive stood with a single $, which Buildkite's upload expands to nothing: it is doubled now, so the patch does what it says for the first time";
                    imported.remark(plugin.key, text);
                }
            }
            _ => imported
                .remark(plugin.key, "podSpecPatch stays as it is: it is not in plain block style, move it by hand"),
        }
    }
    imported.remarks.sort_by_key(|(at, _)| *at);
    let mut out = lines.join("\n");
    if text.ends_with('\n') && !out.is_empty() {
        out.push('\n');
    }
    Ok((out, imported))
}

/// A pipeline is an object with `steps`, whatever else stands beside them (anchors for the steps, most often), or a list of
/// steps.
fn must_be_pipeline(document: &Document) -> Result<(), ImportError> {
    const WANTED: &str = "a pipeline of Buildkite is wanted, with its steps under \"steps:\"";
    let fail = |text: String, at: Position| Err(ImportError::Shape { text, at });
    let Value::Object(map) = &document.value else {
        let is_list = matches!(document.value, Value::List(_));
        return if is_list { Ok(()) } else { fail(WANTED.to_owned(), document.marks.at) };
    };
    if map.contains_key("steps") {
        return Ok(());
    }
    let at = |marks: Option<&Marks>| marks.map_or(document.marks.at, Marks::shown);
    if let (Some(kind), marks) = (map.get("kind").and_then(Value::as_str), map.position("kind")) {
        let text = format!("kind {} is no pipeline: {WANTED}", quoted(kind));
        return fail(text, at(marks.and_then(|at| document.marks.children.get(at))));
    }
    let keys = || map.keys().zip(&document.marks.children);
    if let Some((key, marks)) = keys().find(|(key, _)| nearest(key, ["steps"]).is_some()) {
        return fail(format!("unknown field {}, did you mean \"steps\"?", quoted(key)), at(Some(marks)));
    }
    let is_of_pod = |key: &str| matches!(POD.target(POD.pod_spec()).1, Type::Struct(spec) if spec.field(key).is_some());
    match keys().next() {
        Some((key, marks)) if is_of_pod(key) => {
            let text =
                format!("{} is a field of pods, and a patch by itself has nothing to move: {WANTED}", quoted(key));
            fail(text, at(Some(marks)))
        }
        Some((key, marks)) => fail(format!("unknown field {}: {WANTED}", quoted(key)), at(Some(marks))),
        None => fail(WANTED.to_owned(), document.marks.at),
    }
}

fn find(value: &Value<'static>, marks: &Marks, name: &str, out: &mut Vec<Plugin>, imported: &mut Imported) {
    match value {
        Value::Object(map) => {
            let name = name.split('#').next().unwrap_or_default();
            let is_plugin = name == "kubernetes" || name.ends_with("/kubernetes");
            if let (true, Some(patch)) = (is_plugin, map.get(names::KEY_PATCH)) {
                let place = |key: &str| entries(value, marks).find(|(known, ..)| *known == key);
                let metadata = place("metadata");
                let annotations = metadata.and_then(|(_, value, marks)| {
                    entries(value, marks).find(|(key, ..)| *key == "annotations").map(|(_, _, marks)| marks.shown())
                });
                out.push(Plugin {
                    key: place(names::KEY_PATCH).map_or(marks.at, |(_, _, marks)| marks.shown()),
                    patch: patch.clone(),
                    is_text: patch.as_str().is_some(),
                    metadata: metadata.map(|(_, _, marks)| marks.shown()),
                    annotations,
                });
            }
            let misspelt =
                |key: &str| is_plugin && key != names::KEY_PATCH && nearest(key, [names::KEY_PATCH]).is_some();
            for (key, value, marks) in entries(value, marks) {
                if misspelt(key) {
                    let text =
                        format!("unknown field {} of the plugin, did you mean \"{}\"?", quoted(key), names::KEY_PATCH);
                    imported.remark(marks.shown(), text);
                }
                find(value, marks, key, out, imported);
            }
        }
        Value::List(items) => {
            items.iter().zip(&marks.children).for_each(|(item, marks)| find(item, marks, name, out, imported));
        }
        _ => {}
    }
}

/// A file after one move.
struct Changed {
    lines: Vec<String>,
}

/// The file with one patch moved, and whether a `$` was doubled. Nothing where the text has another form.
fn moved(lines: &[String], plugin: &Plugin) -> Option<(Changed, bool)> {
    let at = plugin.key.line as usize - 1;
    let indent = plugin.key.column as usize - 1;
    let line = lines.get(at)?;
    let head = line.get(indent..)?.strip_prefix(names::KEY_PATCH)?.trim_start().strip_prefix(':')?.trim();
    // A key behind a dash would take its list item with it.
    if !line.get(..indent)?.trim().is_empty() {
        return None;
    }
    let inside = |line: &&String| line.trim().is_empty() || depth(line) > indent;
    let count = lines.get(at + 1..)?.iter().take_while(inside).count();
    let mut end = at + 1 + count;
    while end > at + 1 && lines.get(end - 1).is_some_and(|line| line.trim().is_empty()) {
        end -= 1;
    }
    let body: Vec<&str> = match head {
        "" => lines.get(at + 1..end)?.iter().map(String::as_str).collect(),
        "|" | "|-" if plugin.is_text => lines.get(at + 1..end)?.iter().map(String::as_str).collect(),
        flow if flow.starts_with('{') && end == at + 1 => vec![flow],
        _ => return None,
    };
    let least = body.iter().filter(|line| !line.trim().is_empty()).map(|line| depth(line)).min()?;
    let mut doubled = false;
    let mut patch = Vec::new();
    for line in body {
        let (line, changed) = with_doubles(line.get(least..).unwrap_or_default());
        doubled |= changed;
        patch.push(line);
    }
    let key = format!("{}: |", names::STEP_PATCH);
    let nested = |steps: usize| " ".repeat(indent + 2 * steps);
    let mut block = Vec::new();
    let write = |out: &mut Vec<String>, indent: usize| {
        out.push(format!("{}{key}", " ".repeat(indent)));
        let pad = " ".repeat(indent + 2);
        out.extend(patch.iter().map(|line| if line.is_empty() { String::new() } else { format!("{pad}{line}") }));
    };
    // Where the key of a block opens one, what comes into it stands right below.
    let opens = |place: Position| {
        let line = lines.get(place.line as usize - 1)?;
        line.trim_end().ends_with(':').then_some(place)
    };
    let (place, block) = match (plugin.metadata, plugin.annotations) {
        (_, Some(annotations)) => {
            let place = opens(annotations)?;
            let below = lines.get(place.line as usize).map_or(0, |line| depth(line));
            write(&mut block, below.max(place.column as usize));
            (place.line as usize, block)
        }
        (Some(metadata), None) => {
            let place = opens(metadata)?;
            let below = lines.get(place.line as usize).map_or(0, |line| depth(line)).max(place.column as usize);
            block.push(format!("{}annotations:", " ".repeat(below)));
            write(&mut block, below + 2);
            (place.line as usize, block)
        }
        (None, None) => {
            block.push(format!("{}metadata:", nested(0)));
            block.push(format!("{}annotations:", nested(1)));
            write(&mut block, indent + 4);
            (at, block)
        }
    };
    let mut out = lines.to_vec();
    if place >= end {
        out.splice(place..place, block);
        out.drain(at..end);
    } else {
        out.drain(at..end);
        out.splice(place..place, block);
    }
    Some((Changed { lines: out }, doubled))
}

/// Whether the annotation holds what the plugin had.
fn is_same(changed: &Changed, plugin: &Plugin) -> bool {
    let Ok(document) = read(&changed.lines.join("\n")) else { return false };
    let mut found = Vec::new();
    annotations(&document.value, &mut found);
    let single = |text: &str| text.replace("$$", "$");
    let parse = |text: &str| {
        let parsed = yaml::parse(&single(text), &yaml::Options::LAYER).ok()?;
        Some(to_json(&parsed.document.value))
    };
    let wanted = match plugin.patch.as_str() {
        Some(text) => parse(text),
        None => Some(single(&to_json(&plugin.patch))),
    };
    wanted.is_some() && found.iter().any(|text| parse(text) == wanted)
}

fn annotations<'d>(value: &'d Value<'static>, out: &mut Vec<&'d str>) {
    match value {
        Value::Object(map) => {
            out.extend(map.get(names::STEP_PATCH).and_then(Value::as_str));
            map.iter().for_each(|(_, value)| annotations(value, out));
        }
        Value::List(items) => items.iter().for_each(|item| annotations(item, out)),
        _ => {}
    }
}

fn depth(line: &str) -> usize {
    line.len() - line.trim_start_matches(' ').len()
}

/// A line with every directive's single `$` doubled, and whether there was one.
fn with_doubles(line: &str) -> (String, bool) {
    let mut out = String::with_capacity(line.len() + 1);
    let (mut rest, mut doubled) = (line, false);
    while let Some(c) = rest.chars().next() {
        if rest.starts_with("$$") || rest.starts_with("\\$") {
            out.push_str(&rest[..2]);
            rest = &rest[2..];
            continue;
        }
        if DIRECTIVES.iter().any(|directive| rest.starts_with(directive)) {
            out.push('$');
            doubled = true;
        }
        out.push(c);
        rest = &rest[c.len_utf8()..];
    }
    (out, doubled)
}
