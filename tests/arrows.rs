//! The modules depend on each other in one direction only. This reads the code and says where that is broken.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test stops at the first surprise")]

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

/// Who may use whom; everybody may use `names`. The order is that of the data's way.
const ARROWS: &[(&str, &[&str])] = &[
    ("names", &[]),
    ("value", &[]),
    ("yaml", &["value"]),
    ("schema", &["value", "yaml"]),
    ("merge", &["value", "yaml", "schema"]),
    ("diff", &["value", "yaml", "schema", "merge"]),
    ("presets", &["value", "yaml", "schema", "merge", "diff"]),
    ("layers", &["value", "yaml", "schema", "merge", "diff", "presets"]),
    ("guard", &["value", "yaml", "schema", "merge", "diff", "presets", "layers"]),
    ("admission", &["value", "yaml", "schema", "merge", "diff", "presets", "layers", "guard"]),
    // The rim of admission: the only file of that folder that is asynchronous and counts.
    ("admission/handler", &["admission", "layers", "telemetry"]),
    ("explain", &["value", "yaml", "schema", "merge", "diff", "presets", "layers", "admission"]),
    ("lint", &["value", "yaml", "schema", "merge", "diff", "presets", "layers", "admission"]),
    ("import", &["value", "yaml", "schema", "merge", "diff", "presets", "layers", "admission", "explain"]),
    ("telemetry", &[]),
    ("server", &["telemetry"]),
    ("certs", &["layers", "admission", "telemetry", "cluster"]),
    ("cluster", &["schema", "layers", "admission", "telemetry"]),
    ("doctor", &["layers", "certs"]),
    ("pool", &["layers", "admission", "telemetry", "cluster"]),
    // Of pools: what they are and what their pods are doing, nothing that watches or writes.
    ("azure", &["layers", "admission", "telemetry", "cluster", "pool"]),
    // What a pool needs is decided by a pure function of what was seen.
    ("pool/size", &[]),
];

/// May use everything: it wires.
const FREE: &[&str] = &["cli", "lib", "main"];

/// What the pure part may use besides the standard library; nothing of it does I/O.
const PURE_CRATES: &[&str] = &[
    "ahash",
    "base64",
    // Cron expressions and the arithmetic of time zones; the time itself is handed in.
    "croner",
    "itoa",
    "jiff",
    "json_patch",
    "libyaml_safer",
    "serde",
    "serde_json",
    "serde_yaml",
    "sha2",
    "std",
    "thiserror",
    "wide",
];

/// The folders of the pure part.
const PURE: &[&str] = &[
    "value",
    "yaml",
    "schema",
    "merge",
    "diff",
    "presets",
    "layers",
    "guard",
    "admission",
    "explain",
    "lint",
    "import",
    "names",
    "pool/size",
];

/// Parts of the standard library that touch the world.
const IMPURE_STD: &[&str] = &[
    "std::env",
    "std::fs",
    "std::io",
    "std::net",
    "std::process",
    "std::thread",
    "std::time",
    "SystemTime",
    "Instant::now",
    "Timestamp::now",
    "Zoned::now",
];

/// Where one of them is meant, and why.
const EXCEPTIONS: &[(&str, &str)] = &[
    // libyaml reads from an `io::BufRead`; this one is over a text in memory.
    ("yaml/reader.rs", "std::io"),
];

/// Files that hold tests only, by their names.
const TEST_FILES: &[&str] = &["chaos", "properties", "scenarios", "tests"];

struct Code {
    file: PathBuf,
    module: String,
    text: String,
}

/// Every source file without its tests and comments.
fn code() -> Vec<Code> {
    fn walk(folder: &Path, out: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                walk(&path, out);
            } else if path.extension().is_some_and(|e| e == "rs")
                && path.file_stem().is_some_and(|stem| !TEST_FILES.iter().any(|test| stem == *test))
            {
                out.push(path);
            }
        }
    }
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    walk(&src, &mut files);
    let read = |file: PathBuf| {
        let inner = file.strip_prefix(&src).unwrap().with_extension("");
        let inner = inner.as_path();
        let first = inner.iter().next().unwrap().to_str().unwrap().to_owned();
        let module = match inner {
            _ if inner == Path::new("admission/handler") => "admission/handler".into(),
            _ if inner.starts_with("pool/size") => "pool/size".into(),
            _ => first,
        };
        let text = fs::read_to_string(&file).unwrap();
        let text = text.split("\n#[cfg(test)]\n").next().unwrap();
        let lines = text.lines().filter(|line| !line.trim_start().starts_with("//"));
        Code { module, text: lines.collect::<Vec<_>>().join("\n"), file }
    };
    files.into_iter().map(read).collect()
}

/// The modules named in `use crate::{a::…, b::…}` and in paths such as `crate::a::b`.
fn used(text: &str) -> BTreeSet<String> {
    let word = |text: &str| text.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect::<String>();
    let mut found = BTreeSet::new();
    for (at, _) in text.match_indices("crate::") {
        if text[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == '$') {
            continue;
        }
        let rest = &text[at + "crate::".len()..];
        if let Some(list) = rest.strip_prefix('{') {
            let (mut depth, mut item) = (0, String::new());
            for c in list.chars() {
                match c {
                    '{' => depth += 1,
                    '}' if depth == 0 => break,
                    '}' => depth -= 1,
                    ',' if depth == 0 => found.extend([word(std::mem::take(&mut item).trim())]),
                    _ if depth == 0 => item.push(c),
                    _ => {}
                }
            }
            found.insert(word(item.trim()));
        } else {
            found.insert(word(rest));
        }
    }
    found.retain(|name| !name.is_empty());
    found
}

/// The parts of `pool` that a text names.
fn parts_of_pool(text: &str) -> BTreeSet<String> {
    let flat: String = text.split_whitespace().collect();
    let mut found = BTreeSet::new();
    // In `use crate::{…, pool::{…}}` too.
    for (at, _) in flat.match_indices("pool::").filter(|(at, _)| flat[..*at].ends_with([':', '{', ','])) {
        let rest = flat[at + "pool::".len()..].split(';').next().unwrap();
        found.extend(used(&format!("crate::{rest}")));
    }
    found
}

#[test]
fn modules_use_only_what_stands_before_them() {
    let arrows: BTreeMap<&str, &[&str]> = ARROWS.iter().copied().collect();
    let mut wrong = Vec::new();
    for Code { file, module, text } in code() {
        if FREE.contains(&module.as_str()) {
            continue;
        }
        let Some(allowed) = arrows.get(module.as_str()) else {
            wrong.push(format!("{}: module {module} is not in ARROWS (tests/arrows.rs)", file.display()));
            continue;
        };
        for other in used(&text) {
            let own = module.split('/').next() == Some(&other);
            if !own && other != "names" && !allowed.contains(&other.as_str()) {
                wrong.push(format!("{}: {module} may not use {other}", file.display()));
            }
        }
        // Of its own folder it uses the spec only: nothing there that watches or writes.
        for (at, _) in text.match_indices("crate::pool::") {
            if module == "pool/size" && !text[at..].starts_with("crate::pool::api") {
                wrong.push(format!("{}: pool/size may use pool::api only", file.display()));
            }
        }
        if module == "azure" {
            let known = ["Key", "api", "observe", "shape", "size"];
            for part in parts_of_pool(&text).difference(&known.map(str::to_owned).into()) {
                wrong.push(format!("{}: azure may use of pool {} only, not {part}", file.display(), known.join(", ")));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_pure_part_does_no_input_or_output() {
    let mut wrong = Vec::new();
    for Code { file, module, text } in code() {
        if !PURE.contains(&module.as_str()) {
            continue;
        }
        for part in IMPURE_STD {
            let spread = part.strip_prefix("std::").map(|name| format!("use std::{{{name}"));
            if EXCEPTIONS.iter().any(|(end, allowed)| file.ends_with(end) && allowed == part) {
                continue;
            }
            if text.contains(part) || spread.is_some_and(|spread| text.contains(&spread)) {
                wrong.push(format!("{}: {part}", file.display()));
            }
        }
        for line in text.lines().filter_map(|line| line.strip_prefix("use ")) {
            let root: String = line.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
            let own = ["crate", "super", "self"].contains(&root.as_str());
            let local = line.starts_with(|c: char| c.is_lowercase()) && text.contains(&format!("mod {root};"));
            if !own && !local && !PURE_CRATES.contains(&root.as_str()) {
                wrong.push(format!("{}: uses the crate {root}", file.display()));
            }
        }
        if text.contains("async fn") || text.contains(".await") {
            wrong.push(format!("{}: is asynchronous", file.display()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_reader_of_use_lines_sees_every_form() {
    let text = "use crate::{a::{b, c}, d, e::f};\nlet x = crate::g::h; my_crate::i; use crate::j;";
    let found: Vec<String> = used(text).into_iter().collect();
    assert_eq!(found, ["a", "d", "e", "g", "j"]);
    let parts = parts_of_pool(
        "use crate::{\n    pool::{\n        api::{A, B},\n        size,\n    },\n};\ncrate::pool::task::x",
    );
    assert_eq!(parts.into_iter().collect::<Vec<_>>(), ["api", "size", "task"]);
}
