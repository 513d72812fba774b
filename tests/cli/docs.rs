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

/// Runs the commands of a page, as far as its `most`th output.
fn run(page: &str, most: usize) {
    let text = std::fs::read_to_string(root(page)).unwrap();
    let place = folder(&[]);
    let program = std::path::Path::new(env!("CARGO_BIN_EXE_podlayer")).parent().unwrap();
    let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap());
    let mut said = String::new();
    let (mut commands, mut outputs) = (0, 0);
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
            "text" => {
                assert_eq!(said, text, "{page}");
                outputs += 1;
            }
            _ => {}
        }
        if outputs == most {
            break;
        }
    }
    assert!(commands > 0 && outputs > 0, "{page}: {commands} commands, {outputs} outputs");
}

#[test]
fn the_tutorial_prints_what_it_says() {
    run("docs/tutorial.md", usize::MAX);
}

#[test]
fn the_migration_guide_prints_what_it_says() {
    run("docs/migration.md", usize::MAX);
}

#[test]
fn the_readme_prints_what_it_says() {
    // What comes after it needs a cluster.
    run("README.md", 1);
}

#[test]
fn the_layers_and_pods_that_the_pages_show_have_no_errors() {
    let mut count = 0;
    for page in ["README.md", "docs/layers.md", "docs/migration.md", "docs/tutorial.md"] {
        let text = std::fs::read_to_string(root(page)).unwrap();
        for (language, text) in blocks(&text) {
            if language == "yaml" {
                let run = crate::podlayer(&["lint", "-"], &text);
                let errors: Vec<&str> = run.stdout.lines().filter(|line| line.contains(": error: ")).collect();
                assert!(errors.is_empty(), "{page}:\n{text}\n{errors:#?}");
                count += 1;
            }
        }
    }
    assert!(count > 10, "{count}");
}
