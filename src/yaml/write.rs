//! JSON as YAML that kubectl reads back as it was. Writers of YAML 1.2 leave `on`, `y` and `1_000` without quotes, which are
//! true, true and 1000 to kubectl.

use super::{Options, parse};
use crate::value::{Value, to_json};

/// Writes a value in block style, keys in their order.
pub fn to_yaml(value: &Value<'_>) -> String {
    let mut out = String::new();
    match value {
        Value::Object(map) if !map.is_empty() => write(value, 0, "", &mut out),
        Value::List(items) if !items.is_empty() => write(value, 0, "", &mut out),
        other => {
            out.push_str(&scalar(other, None));
            out.push('\n');
        }
    }
    out
}

/// Writes the entries of an object or the items of a list. `lead` stands in the place of the last blanks of the first
/// row's indentation, where that row opens a list item. Recursion is bounded by the depth of what was read.
fn write(value: &Value<'_>, indent: usize, lead: &str, out: &mut String) {
    let mut lead = lead.to_owned();
    let row = |lead: &mut String, out: &mut String| {
        out.push_str(&" ".repeat(indent.saturating_sub(lead.len())));
        out.push_str(lead);
        lead.clear();
    };
    match value {
        Value::Object(map) => {
            for (key, value) in map.iter() {
                row(&mut lead, out);
                out.push_str(&scalar(&Value::from(key.to_owned()), None));
                out.push(':');
                match value {
                    Value::Object(inner) if !inner.is_empty() => {
                        out.push('\n');
                        write(value, indent + 2, "", out);
                    }
                    Value::List(items) if !items.is_empty() => {
                        out.push('\n');
                        write(value, indent, "", out);
                    }
                    value => leaf(value, indent, out),
                }
            }
        }
        Value::List(items) => {
            for item in items {
                match item {
                    Value::Object(inner) if !inner.is_empty() => {
                        write(item, indent + 2, &format!("{lead}- "), out);
                        lead.clear();
                    }
                    Value::List(inner) if !inner.is_empty() => {
                        write(item, indent + 2, &format!("{lead}- "), out);
                        lead.clear();
                    }
                    item => {
                        row(&mut lead, out);
                        out.push('-');
                        leaf(item, indent, out);
                    }
                }
            }
        }
        _ => {}
    }
}

fn leaf(value: &Value<'_>, indent: usize, out: &mut String) {
    out.push(' ');
    out.push_str(&scalar(value, Some(indent + 2)));
    out.push('\n');
}

/// A value without children as kubectl reads it back: plain where it can be, text of several lines as a block where
/// there is room for one (`block` is its indentation), else in quotes.
pub fn scalar(value: &Value<'_>, block: Option<usize>) -> String {
    let Value::String(text) = value else { return to_json(value) };
    if let Some(indent) = block.filter(|_| is_plain_block(text)) {
        let (header, body) = match text.strip_suffix('\n') {
            Some(body) => ("|", body),
            None => ("|-", &**text),
        };
        let pad = " ".repeat(indent);
        let lines = body.split('\n').map(|line| if line.is_empty() { String::new() } else { format!("{pad}{line}") });
        return [header.to_owned()].into_iter().chain(lines).collect::<Vec<_>>().join("\n");
    }
    let plain = text.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '/')
        && text.chars().all(|c| c.is_ascii_alphanumeric() || "_-./:=+@*, ".contains(c))
        && !text.contains(": ")
        && !text.ends_with([':', ' '])
        && parse(text, &Options::LAYER).is_ok_and(|read| read.document.value.as_str() == Some(text));
    if plain { text.to_string() } else { quoted(text) }
}

/// Whether a text can stand in a block as it is: several lines, nothing that a reader would change.
fn is_plain_block(text: &str) -> bool {
    let body = text.strip_suffix('\n').unwrap_or(text);
    body.contains('\n')
        && !body.ends_with('\n')
        && !body.starts_with([' ', '\n', '\t'])
        && body.chars().all(|c| c == '\n' || (' '..='~').contains(&c) || ('\u{a1}'..='\u{1fff}').contains(&c))
}

/// In double quotes, whose escapes in JSON are YAML's as well; nothing that a terminal or a reader of YAML would take for
/// a line's end.
fn quoted(text: &str) -> String {
    let json = to_json(&Value::from(text.to_owned()));
    let mut out = String::with_capacity(json.len());
    for c in json.chars() {
        match c {
            ' '..='~' => out.push(c),
            c if c.is_alphanumeric() => out.push(c),
            c => {
                let mut units = [0; 2];
                let code = u32::from(c);
                if code > 0xffff {
                    out.push_str(&format!("\\U{code:08x}"));
                } else {
                    c.encode_utf16(&mut units).iter().for_each(|unit| out.push_str(&format!("\\u{unit:04x}")));
                }
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_is_read_back_as_it_was() {
        for json in [
            r#"{"a":[[1,[2,{"b":"on"}]],[],{}],"on":{"x":null,"y":[]},"s":"l1\nl2\n","n":[{"k":"v","m":{"a":1.5}},"yes"]}"#,
            r#"["off",{"1_000":"1_000"},"a\nb",[["y"]]]"#,
            r#""~""#,
            "{}",
            "[]",
            "12",
            r#"{"":{"a":["1:30","2001-01-01"]}}"#,
        ] {
            let value = crate::value::from_json(json, crate::value::JsonLimits::DEFAULT).unwrap();
            let yaml = to_yaml(&value);
            let read = parse(&yaml, &Options::LAYER).unwrap_or_else(|error| panic!("{yaml}: {error}"));
            assert_eq!(to_json(&read.document.value), json, "{yaml}");
        }
    }

    #[test]
    fn every_text_is_read_back_as_it_was() {
        for text in [
            "",
            "a",
            "on",
            "yes",
            "1.20",
            "0644",
            "null",
            "~",
            "a: b",
            "a #b",
            "- a",
            "*",
            "@x",
            "a\nb",
            "a\nb\n",
            "a\n\nb",
            "a\n\n",
            " a\nb",
            "a\n  b",
            "\ta\nb",
            "a\tb\nc",
            "x\u{2028}y",
            "\u{1b}[31m",
            "\u{feff}",
            "😀",
            "é",
            "2001-01-01",
            "1:30",
            "a, b",
            "/bin/sh",
            "\"",
            "\\",
            "<b>",
            "y",
            "a: ",
            "#",
            "a\r\nb",
            "\u{85}",
            "=",
            "<<",
            "a:b",
            "a=b",
            "1_000",
            "0x1f",
            "\u{7f}",
        ] {
            let yaml = format!("key: {}\n", scalar(&Value::from(text.to_owned()), Some(2)));
            let read = parse(&yaml, &Options::LAYER);
            let read = read.unwrap_or_else(|error| panic!("{text:?} as {yaml:?}: {error}"));
            assert_eq!(read.document.value.get("key").and_then(Value::as_str), Some(text), "{yaml}");
        }
    }
}
