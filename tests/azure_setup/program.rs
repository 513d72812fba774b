//! The program, with a secret in a file.

use std::{
    fs,
    path::PathBuf,
    process::{Command, Stdio},
};

/// No output of any run may hold it.
pub(crate) const PAT: &str = "canary-pat-5c1e0a";
/// Nor this.
pub(crate) const SECRET: &str = "canary-secret-91f3d7";

/// What a run of the program gave.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// A folder with the files that commands read.
pub(crate) struct Files(tempfile::TempDir);

impl Files {
    pub(crate) fn new() -> Self {
        let files = Self(tempfile::tempdir().unwrap());
        files.write("secret", &format!("{SECRET}\n"));
        files
    }

    pub(crate) fn write(&self, name: &str, text: &str) -> String {
        let path = self.path(name);
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// The file with the shared secret.
    pub(crate) fn secret(&self) -> String {
        self.path("secret").to_str().unwrap().to_owned()
    }
}

/// The program, without anything of this environment and without a terminal.
pub(crate) fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_podlayer"));
    command.arg("azure").args(arguments).env_clear().stdin(Stdio::null());
    command.current_dir(env!("CARGO_MANIFEST_DIR"));
    command
}

/// Runs it to its end, looks that neither PAT nor secret is shown, in plain or encoded.
pub(crate) fn run(command: &mut Command) -> Run {
    let output = command.output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    let run = Run { code: output.status.code().unwrap(), stdout: text(output.stdout), stderr: text(output.stderr) };
    nothing_shown(&(run.stdout.clone() + &run.stderr));
    run
}

/// Looks that a text shows neither PAT nor secret.
pub(crate) fn nothing_shown(text: &str) {
    use base64::{Engine, engine::general_purpose::STANDARD};
    for secret in [PAT.to_owned(), SECRET.to_owned(), STANDARD.encode(format!(":{PAT}")), STANDARD.encode(PAT)] {
        assert!(!text.contains(&secret), "a secret is shown: {text}");
    }
}

/// `azure` with the PAT in the environment.
pub(crate) fn azure(arguments: &[&str]) -> Run {
    run(command(arguments).env("AZURE_DEVOPS_EXT_PAT", PAT))
}

/// Arguments of `azure register` that are as they should be, with more behind.
pub(crate) fn register(uri: &str, secret: &str, more: &[&str]) -> Vec<String> {
    let all = ["register", "--uri", uri, "--pool", "linux", "--dns-name", "agents.example.com", "--shared-secret-file"];
    let rest = [secret, "--target-size", "10"];
    all.iter().chain(&rest).chain(more).map(|&argument| argument.to_owned()).collect()
}

/// As [`azure`], of owned arguments.
pub(crate) fn azure_owned(arguments: &[String]) -> Run {
    azure(&arguments.iter().map(String::as_str).collect::<Vec<_>>())
}
