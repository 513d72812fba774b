//! As a plugin of kubectl: the same commands under its name, and what kubectl's completion asks for.

use std::ffi::OsStr;

use clap::Command;

/// What the program is called as a plugin; kubectl finds it by this name.
const PROGRAM: &str = "kubectl-podlayer";

/// What people who have kubectl at hand use first, in this order.
const FIRST: &[&str] = &["explain", "lint", "diff", "render"];
/// What belongs to the server and to development.
const HIDDEN: &[&str] = &["certs", "conformance", "demo", "webhook"];

const EXAMPLES: &str = "Used most:\n  kubectl podlayer explain job/NAME -n ci      which layer set what, and what was \
                        refused\n  kubectl podlayer explain POD -o html > why.html\n  kubectl podlayer lint layers/ \
                        pipeline.yml     mistakes in files, before anything runs\n  kubectl podlayer diff --layers \
                        layers/       what a change of the layers would do to recent jobs\n\nExit codes: 0 nothing found, \
                        1 findings, a refusal or differences, 2 usage or failure.";

/// kubectl's directives to a completion: files may follow, or nothing but what was printed.
const FILES: &str = ":0\n";
const NO_FILES: &str = ":4\n";

/// The command as it is to be shown to whoever called the program by this name.
pub(super) fn called_as(command: Command, program: Option<&OsStr>) -> Command {
    let name = program.map(std::path::Path::new).and_then(|path| path.file_stem());
    if name != Some(OsStr::new(PROGRAM)) {
        return command;
    }
    let mut command = command.name("kubectl podlayer").bin_name("kubectl podlayer").after_help(EXAMPLES);
    for (at, name) in FIRST.iter().enumerate() {
        command = command.mut_subcommand(name, |command| command.display_order(at));
    }
    for name in HIDDEN {
        command = command.mut_subcommand(name, |command| command.hide(true));
    }
    command
}

/// What can stand in the place of the last word, one a line with a tab and what it is; then kubectl's directive.
pub(super) fn complete(mut command: &Command, words: &[String]) -> String {
    let (last, before) = words.split_last().map_or(("", words), |(last, before)| (last.as_str(), before));
    let mut wanted = None;
    for word in before {
        if let Some(inner) = command.get_subcommands().find(|inner| inner.get_name() == word) {
            command = inner;
        }
        let is_called = |arg: &&clap::Arg| {
            let long = arg.get_long().is_some_and(|long| word.strip_prefix("--") == Some(long));
            long || arg.get_short().is_some_and(|short| *word == format!("-{short}"))
        };
        wanted = command.get_arguments().find(is_called).filter(|arg| arg.get_action().takes_values());
    }
    let mut found = Vec::new();
    if let Some(arg) = wanted {
        let values = arg.get_possible_values();
        let values = values.iter().filter(|value| !value.is_hide_set());
        found.extend(values.map(|value| (value.get_name().to_owned(), value.get_help().map(ToString::to_string))));
    } else if last.starts_with('-') {
        let shown = command.get_arguments().filter(|arg| !arg.is_hide_set());
        let about = |arg: &clap::Arg| arg.get_help().map(ToString::to_string);
        found.extend(shown.filter_map(|arg| Some((format!("--{}", arg.get_long()?), about(arg)))));
    } else {
        let shown = command.get_subcommands().filter(|inner| !inner.is_hide_set());
        found.extend(shown.map(|inner| (inner.get_name().to_owned(), inner.get_about().map(ToString::to_string))));
    }
    let any = !found.is_empty();
    let mut out = String::new();
    for (word, about) in found.into_iter().filter(|(word, _)| word.starts_with(last)) {
        let about = about.map(|about| format!("\t{}", about.lines().next().unwrap_or_default()));
        out.push_str(&format!("{word}{}\n", about.unwrap_or_default()));
    }
    out + if any { NO_FILES } else { FILES }
}
