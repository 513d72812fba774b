//! Fifty mistakes of real life: how many are told with the right line and the right word.

use std::fmt::Write;

use serde::Deserialize;
use serde_json::Value;

use crate::{folder, podlayer, root};

#[derive(Deserialize)]
struct Typo {
    kind: String,
    line: u64,
    wanted: String,
    patch: String,
}

#[test]
fn fifty_typos_are_told_as_the_table_says() {
    let text = std::fs::read_to_string(root("tests/data/typos/typos.yaml")).unwrap();
    let typos: Vec<Typo> = serde_yaml::from_str(&text).unwrap();
    assert_eq!(typos.len(), 50);
    let files: Vec<(String, &str)> =
        typos.iter().enumerate().map(|(at, typo)| (format!("{at:02}.yaml"), &*typo.patch)).collect();
    let files: Vec<(&str, &str)> = files.iter().map(|(name, text)| (name.as_str(), *text)).collect();
    let folder = folder(&files);
    let paths: Vec<String> =
        files.iter().map(|(name, _)| folder.path().join(name).to_str().unwrap().to_owned()).collect();
    let arguments = ["lint", "-o", "json"].into_iter().chain(paths.iter().map(String::as_str)).collect::<Vec<_>>();
    let run = podlayer(&arguments, "");
    let findings: Vec<Value> = serde_json::from_str(&run.stdout).unwrap();
    let (mut lines, mut words, mut rows) = (0, 0, String::new());
    for (typo, path) in typos.iter().zip(&paths) {
        let first = findings.iter().find(|finding| finding["file"] == path.as_str());
        let message = first.map_or("(nothing)", |finding| finding["message"].as_str().unwrap());
        let line = first.is_some_and(|finding| finding["line"] == typo.line);
        let word = message.contains(&typo.wanted);
        lines += usize::from(line);
        words += usize::from(word);
        let mark = |right: bool| if right { "yes" } else { "**no**" };
        let shown = |text: &str| text.trim_end().replace('\n', "⏎").replace('\t', "⇥").replace('|', "\\|");
        let _ = writeln!(
            rows,
            "| {} | `{}` | {} | {} | {} |",
            typo.kind,
            shown(&typo.patch),
            shown(message),
            mark(line),
            mark(word)
        );
    }
    let page = format!(
        "# Fifty typos\n\nHow `podlayer lint` tells fifty mistakes of real life (`tests/data/typos`): **{words} of 50** with \
         the right suggestion, **{lines} of 50** at the right line. The same texts refuse a step patch at the Job. \
         Kept by `tests/cli/typos.rs`; `PODLAYER_WRITE=1 cargo test --test cli typos` writes it anew.\n\n\
         | kind | patch | text | line | suggestion |\n|---|---|---|---|---|\n{rows}"
    );
    let file = root("docs/typos.md");
    if std::env::var_os("PODLAYER_WRITE").is_some() {
        std::fs::write(&file, &page).unwrap();
    }
    assert!(lines >= 50 && words >= 47, "worse than it was: {lines} lines, {words} suggestions\n{rows}");
    assert_eq!(page, std::fs::read_to_string(file).unwrap(), "see PODLAYER_WRITE in this test");
}
