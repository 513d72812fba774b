//! As text: one line a field; or the pod as YAML with a comment a field.

use std::fmt::{self, Write};

use super::{Explanation, Line};
use crate::layers::complaint::Printable;

impl Line {
    /// Whose the field is: layer, position, what it replaced.
    pub(super) fn whose(&self) -> impl fmt::Display {
        let mut out = format!("{}, line {} column {}", self.layer, self.line, self.column);
        if let Some(via) = &self.via {
            let _ = write!(out, " via {via}");
        }
        if let Some(replaced) = &self.replaced {
            let value = replaced.value.as_deref().unwrap_or("(removed)");
            let _ = write!(out, ", replaced {} of {}", Printable(value), replaced.by);
        }
        out
    }
}

impl Explanation {
    /// One line a field: path, value, layer, position, what it replaced; then, behind `#`, what else there is to know.
    pub fn to_text(&self) -> String {
        let mut out = String::new();
        for line in &self.lines {
            let value = line.value.as_deref().unwrap_or("(removed)");
            let _ = writeln!(out, "{} = {}  {}", line.path, Printable(value), line.whose());
        }
        self.write_remarks(&mut out);
        out
    }

    /// The pod as YAML. Behind each field that a layer asserts stands a comment; fields that are gone come last.
    pub fn to_yaml(&self) -> String {
        let mut out = String::new();
        for row in &self.rows {
            out.push_str(&row.text);
            let line = row.line.and_then(|at| self.lines.get(at)).filter(|_| row.first);
            if let Some(line) = line {
                let _ = write!(out, "  # {}", line.whose());
            }
            out.push('\n');
        }
        for line in self.removed() {
            let _ = writeln!(out, "# removed: {}  {}", line.path, line.whose());
        }
        self.write_remarks(&mut out);
        out
    }

    fn write_remarks(&self, out: &mut String) {
        for (layer, names) in &self.absent {
            let _ = writeln!(out, "# {layer}: not in this pod: {}", Printable(&names.join(", ")));
        }
        for (layer, why) in &self.skipped {
            let _ = writeln!(out, "# {layer} skipped: {}", Printable(why));
        }
        for text in self.denial.iter().flat_map(|text| text.lines()) {
            let _ = writeln!(out, "# refused: {}", Printable(text));
        }
        for text in self.refusals.iter().flat_map(|text| text.lines()) {
            let _ = writeln!(out, "# on record: {}", Printable(text));
        }
        for note in &self.notes {
            let _ = writeln!(out, "# note: {}", Printable(note));
        }
    }
}
