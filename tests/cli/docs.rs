//! What the guides say is what happens: their commands are run, in order, in an empty folder.

use std::process::Command;

use crate::{folder, root};

/// A fenced block: its language and its text.
fn blocks(page: &str) -> Vec<(String, String)> {
    let mut blocks = Vec::new();
    let mut open: Option<(String, String)> = None;
    for line in page.lines() {
        match (line.strip_prefix("```"), &mut open) {
            (Some(language), None) => open = Some((language.to_owned(), String::new())),
            (Some(_), Some(_)) => blocks.extend(open.take()),
            (None, Some((_, text))) => {
                text.push_str(line);
                text.push('\n');
            }
            (None, None) => {}
        }
    }
    blocks
}

fn run(page: &str) {
    let text = std::fs::read_to_string(root(page)).unwrap();
    let place = folder(&[]);
    let program = std::path::Path::new(env!("CARGO_BIN_EXE_podlayer")).parent().unwrap();
    let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap());
    let mut said = String::new();
    let mut commands = 0;
    for (language, text) in blocks(&text) {
        match language.as_str() {
            "sh" => {
                let ran = Command::new("sh")
                    .args(["-e", "-c", &text])
                    .current_dir(place.path())
                    .env("PATH", &path)
                    .output()
                    .unwrap();
                assert!(ran.status.success(), "{page}: {text}\n{}", String::from_utf8_lossy(&ran.stderr));
                said = String::from_utf8(ran.stdout).unwrap();
                commands += 1;
            }
            "text" => assert_eq!(said, text, "{page}"),
            _ => {}
        }
    }
    assert!(commands >= 3, "{page}: {commands}");
}

#[test]
fn the_tutorial_prints_what_it_says() {
    run("docs/tutorial.md");
}

#[test]
fn the_migration_guide_prints_what_it_says() {
    run("docs/migration.md");
}
