//! As a page: the pod, each row in the colour of its layer; what it replaced on hover and focus. One file without
//! scripts, and nothing that it would load.

use std::fmt::{self, Write};

use super::{Explanation, Line, document::Row};
use crate::layers::complaint::Printable;

/// Everything that came from outside goes through this.
struct Escaped<'a>(&'a str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for c in Printable(self.0).to_string().chars() {
            match c {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                '\'' => f.write_str("&#39;")?,
                c => f.write_char(c)?,
            }
        }
        Ok(())
    }
}

/// Degrees between the colours of layers that follow each other: the golden angle, so that no two of them are near.
const HUE_STEP: f64 = 137.508;

const HEAD: &str = r#"<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<style>
:root { --back: #fff; --text: #1b1f24; --faint: #57606a; --edge: #d0d7de; --tip: #f6f8fa; --light: 92%; --line: 38%; }
@media (prefers-color-scheme: dark) {
  :root { --back: #0d1117; --text: #e6edf3; --faint: #9da7b1; --edge: #3d444d; --tip: #161b22; --light: 18%; --line: 65%; }
}
body { background: var(--back); color: var(--text); font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 70rem; padding: 0 1rem; }
h1 { font-size: 1.3rem; } h2 { font-size: 1.05rem; margin-top: 2rem; }
p.what, .count { color: var(--faint); }
ul.legend { display: flex; flex-wrap: wrap; gap: .5rem; list-style: none; padding: 0; }
ul.legend li { padding: .1rem .6rem; }
.of { background: hsl(var(--hue) 70% var(--light)); border-left: 4px solid hsl(var(--hue) 60% var(--line)); }
.pod { border: 1px solid var(--edge); font: 13px/1.55 ui-monospace, monospace; padding: .5rem 0; }
.row { border-left: 4px solid transparent; padding: 0 .6rem; position: relative; }
.row.of { border-left-color: hsl(var(--hue) 60% var(--line)); }
.row code { font: inherit; overflow-wrap: anywhere; white-space: pre-wrap; }
.row:focus { outline: 2px solid hsl(var(--hue, 210) 80% var(--line)); outline-offset: -2px; }
.tip { background: var(--tip); border: 1px solid var(--edge); display: none; left: 2rem; max-width: 50rem; overflow-wrap: anywhere; padding: .3rem .6rem; position: absolute; top: 100%; white-space: pre-wrap; z-index: 1; }
.row:hover > .tip, .row:focus > .tip, .row:focus-within > .tip { display: block; }
.refused { border-left: 4px solid #cf222e; padding-left: .6rem; white-space: pre-wrap; }
@media print { .tip { display: inline; border: 0; position: static; } }
</style>
"#;

impl Explanation {
    /// The page.
    pub fn to_html(&self) -> String {
        let mut out = String::from("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n");
        let _ = write!(out, "<title>{}: which layer set what</title>\n{HEAD}<style>\n", Escaped(&self.subject));
        for at in 0..self.layers.len() {
            let hue = (210.0 + HUE_STEP * f64::from(u32::try_from(at).unwrap_or(u32::MAX))) % 360.0;
            let _ = writeln!(out, ".of{at} {{ --hue: {hue:.0}; }}");
        }
        let _ = writeln!(out, "</style>\n</head>\n<body>\n<h1>{}</h1>", Escaped(&self.subject));
        out.push_str(
            "<p class=\"what\">Each row has the colour of the layer that set it; rows without one are as the pod was \
             made. Point at a row, or go to it with the Tab key, to see where it comes from and what it replaced.</p>\n",
        );
        self.write_refusals(&mut out);
        self.write_legend(&mut out);
        out.push_str("<h2>The pod</h2>\n<div class=\"pod\">\n");
        for row in &self.rows {
            self.write_row(&mut out, row);
        }
        out.push_str("</div>\n");
        self.write_removed(&mut out);
        self.write_rest(&mut out);
        out.push_str("</body>\n</html>\n");
        out
    }

    fn write_refusals(&self, out: &mut String) {
        let refusals = self.denial.iter().map(|text| ("Refused", text));
        for (title, text) in refusals.chain(self.refusals.iter().map(|text| ("Refusal on record", text))) {
            let _ = write!(out, "<p class=\"refused\" role=\"alert\"><strong>{title}</strong>: ");
            for line in text.lines() {
                let _ = writeln!(out, "{}", Escaped(line));
            }
            out.push_str("</p>\n");
        }
    }

    fn write_legend(&self, out: &mut String) {
        out.push_str("<h2>Layers, in the order in which they apply</h2>\n<ul class=\"legend\">\n");
        for (at, layer) in self.layers.iter().enumerate() {
            let count = self.lines.iter().filter(|line| line.layer == *layer).count();
            let _ = writeln!(
                out,
                "<li class=\"of of{at}\">{} <span class=\"count\">{count} {}</span></li>",
                Escaped(layer),
                if count == 1 { "field" } else { "fields" }
            );
        }
        if self.layers.is_empty() {
            out.push_str("<li>none</li>\n");
        }
        out.push_str("</ul>\n");
    }

    fn write_row(&self, out: &mut String, row: &Row) {
        let Some(layer) = row.layer else {
            let _ = writeln!(out, "<div class=\"row\"><code>{}</code></div>", Escaped(&row.text));
            return;
        };
        let tip = match row.line.and_then(|at| self.lines.get(at)) {
            Some(line) => tip(line),
            None => format!("made by {}", Escaped(self.layers.get(layer).map_or("", String::as_str))),
        };
        // The first row of a field is a stop of the Tab key; the others would only say the same again.
        let tab = if row.first { " tabindex=\"0\"" } else { "" };
        let _ = writeln!(
            out,
            "<div class=\"row of of{layer}\"{tab}><code>{}</code><span class=\"tip\" role=\"note\">{tip}</span></div>",
            Escaped(&row.text)
        );
    }

    fn write_removed(&self, out: &mut String) {
        if self.removed().next().is_none() {
            return;
        }
        out.push_str("<h2>Taken away</h2>\n<div class=\"pod removed\">\n");
        for line in self.removed() {
            let at = self.layers.iter().position(|layer| *layer == line.layer).unwrap_or_default();
            let _ = writeln!(
                out,
                "<div class=\"row of of{at}\" tabindex=\"0\"><code>{}</code><span class=\"tip\" \
                 role=\"note\">{}</span></div>",
                Escaped(&line.path),
                tip(line)
            );
        }
        out.push_str("</div>\n");
    }

    fn write_rest(&self, out: &mut String) {
        let absent = self.absent.iter().map(|(layer, names)| format!("{layer}: not in this pod: {}", names.join(", ")));
        let skipped = self.skipped.iter().map(|(layer, why)| format!("{layer} skipped: {why}"));
        let rest: Vec<String> = absent.chain(skipped).chain(self.notes.iter().cloned()).collect();
        if rest.is_empty() {
            return;
        }
        out.push_str("<h2>Also</h2>\n<ul>\n");
        for text in rest {
            let _ = writeln!(out, "<li>{}</li>", Escaped(&text));
        }
        out.push_str("</ul>\n");
    }
}

/// What a row tells when it is pointed at.
fn tip(line: &Line) -> String {
    let mut out = format!("{}, {}", line.layer, line.source);
    if line.source.starts_with("ConfigMap ") {
        let _ = write!(out, " {}", line.key);
    }
    let _ = write!(out, ", line {} column {}", line.line, line.column);
    if let Some(via) = &line.via {
        let _ = write!(out, ", by {via}");
    }
    match &line.replaced {
        Some(replaced) => {
            let value = replaced.value.as_deref().unwrap_or("(removed)");
            let _ = write!(out, ". Replaced {value} of {}", replaced.by);
        }
        None => out.push_str(". Replaced nothing"),
    }
    Escaped(&out).to_string()
}
