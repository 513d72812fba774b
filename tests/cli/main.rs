//! The program as its users run it.

#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used, reason = "a test stops at the first surprise")]

mod commands;
mod conformance;
mod diff;
mod docs;
mod examples;
mod explain;
mod import;
mod lint;
mod plugin;
mod presets;
mod render;
mod reports;
mod targets;
mod typos;
mod webhook_tls;

use std::{
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

/// What a run of the program gave.
pub(crate) struct Run {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// Runs podlayer with arguments and a text on stdin, in the project's folder.
pub(crate) fn podlayer(args: &[&str], stdin: &str) -> Run {
    let mut child = Command::new(env!("CARGO_BIN_EXE_podlayer"))
        .args(args)
        .current_dir(root(""))
        .env_clear()
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut pipe = child.stdin.take().unwrap();
    let text = stdin.to_owned();
    // Beside the reading, so that neither waits for the other.
    let writer = std::thread::spawn(move || _ = pipe.write_all(text.as_bytes()));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    Run { code: output.status.code().unwrap(), stdout: text(output.stdout), stderr: text(output.stderr) }
}

/// A file or folder of the project.
pub(crate) fn root(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

/// A folder with files, gone with its owner.
pub(crate) fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    folder
}
