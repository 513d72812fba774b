//! The page about the set-up has every option, and no other.

use std::{collections::BTreeSet, fs};

use crate::{
    controlplane::project_root,
    program::{command, run},
};

/// The long flags in a text.
fn flags(text: &str) -> BTreeSet<String> {
    let word = |rest: &str| rest.chars().take_while(|c| c.is_ascii_lowercase() || *c == '-').collect::<String>();
    let found = text.match_indices("--").filter(|(at, _)| !text[..*at].ends_with('-'));
    found.map(|(at, _)| word(&text[at + 2..])).filter(|flag| !flag.is_empty() && !flag.starts_with('-')).collect()
}

/// The flags that a subcommand says it has, but for help.
fn of_help(subcommand: &str) -> BTreeSet<String> {
    let help = run(&mut command(&[subcommand, "-h"])).stdout;
    let options = help.split("Options:\n").nth(1).and_then(|rest| rest.split("\n\n").next()).unwrap().to_owned();
    // Only what stands in front: what it means may name others.
    let lines = options.lines().map(str::trim_start).filter(|line| line.starts_with('-'));
    let mut all: BTreeSet<String> = lines.flat_map(flags).collect();
    all.remove("help");
    all
}

#[test]
fn every_option_is_on_the_page_and_every_one_there_exists() {
    let page = fs::read_to_string(project_root().join("docs/azure-setup.md")).unwrap();
    let table = |heading: &str| {
        let section = page.split(heading).nth(1).unwrap().split("\n## ").next().unwrap();
        // The first column.
        let rows = section.lines().filter(|line| line.starts_with("| `"));
        rows.map(|row| row.split(" | ").next().unwrap().to_owned()).collect::<Vec<_>>().join("\n")
    };
    assert_eq!(flags(&table("## Options of `azure setup`, one by one")), of_help("setup"));
    let both: BTreeSet<String> = of_help("register").union(&of_help("unregister")).cloned().collect();
    let shown = table("## Options of `azure register` and `unregister`");
    assert_eq!(flags(shown.split("\n| you see").next().unwrap()), both);
}
