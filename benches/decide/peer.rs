use std::{
    error::Error,
    io::{BufRead, BufReader, ErrorKind, Write},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    time::Duration,
};

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::{review::Review, stack::Stack};

/// The Go program in benches/peer. It waits while podlayer has its turn.
pub(crate) struct Peer {
    child: Child,
    questions: ChildStdin,
    answers: BufReader<ChildStdout>,
}

/// How the peer decides.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Mode {
    /// As a webhook built on controller-runtime does.
    Raw,
    /// With the same libraries, used as sparingly as they allow.
    Tuned,
}

#[derive(Serialize)]
struct Question<'q> {
    object: &'q Path,
    layers: &'q Path,
    mode: Mode,
    decisions: u32,
}

#[derive(Deserialize)]
struct Answer {
    #[serde(default)]
    nanoseconds: f64,
    patch: Option<Box<RawValue>>,
    error: Option<String>,
}

impl Peer {
    /// Builds and starts it.
    pub(crate) fn start(folder: &Path) -> Result<Self, Box<dyn Error>> {
        let binary = build(folder)?;
        let mut child = Command::new(&binary)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("can't run {}: {error}", binary.display()))?;
        let pipes = child.stdin.take().zip(child.stdout.take());
        let (questions, answers) = pipes.ok_or("the Go peer has no pipes")?;
        Ok(Self { child, questions, answers: BufReader::new(answers) })
    }

    /// Its patch.
    pub(crate) fn patch(&mut self, review: &Review, stack: &Stack, mode: Mode) -> Result<String, Box<dyn Error>> {
        let patch = self.ask(review, stack, mode, 1)?.patch;
        Ok(patch.map_or_else(|| String::from("[]"), |patch| patch.get().to_owned()))
    }

    /// What one of so many decisions took.
    pub(crate) fn time(
        &mut self,
        review: &Review,
        stack: &Stack,
        mode: Mode,
        decisions: u32,
    ) -> Result<Duration, Box<dyn Error>> {
        let nanoseconds = self.ask(review, stack, mode, decisions)?.nanoseconds;
        Ok(Duration::try_from_secs_f64(nanoseconds / 1e9)?)
    }

    fn ask(&mut self, review: &Review, stack: &Stack, mode: Mode, decisions: u32) -> Result<Answer, Box<dyn Error>> {
        let question = Question { object: &review.file, layers: &stack.folder, mode, decisions };
        let asked = writeln!(self.questions, "{}", serde_json::to_string(&question)?);
        let mut line = String::new();
        let read = asked.and_then(|()| self.answers.read_line(&mut line));
        if !matches!(read, Ok(1..)) {
            return Err(format!("the Go peer ended at {} with {} layers: {read:?}", review.name, stack.count).into());
        }
        let answer: Answer = serde_json::from_str(&line)?;
        match answer.error {
            Some(error) => {
                Err(format!("the Go peer failed at {} with {} layers: {error}", review.name, stack.count).into())
            }
            None => Ok(answer),
        }
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // Nothing is lost if it is gone already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn build(folder: &Path) -> Result<PathBuf, Box<dyn Error>> {
    const NEEDS: &str = "the benchmark compares podlayer with a program in Go: it needs Go 1.26 or newer on the PATH";
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/peer");
    let binary = folder.join("peer");
    let output = Command::new("go")
        .args(["build", "-trimpath", "-buildvcs=false", "-o"])
        .arg(&binary)
        .arg(".")
        .current_dir(&source)
        .env("CGO_ENABLED", "0")
        .env("GOWORK", "off")
        .output();
    match output {
        Ok(output) if output.status.success() => Ok(binary),
        Ok(output) => Err(format!(
            "{NEEDS}, and for its first build a reachable Go module proxy (`go env GOPROXY`). `go build` failed:\n{}",
            String::from_utf8_lossy(&output.stderr)
        )
        .into()),
        Err(error) if error.kind() == ErrorKind::NotFound => Err(format!("{NEEDS}, there is no `go` there").into()),
        Err(error) => Err(format!("{NEEDS}, and `go` can't be run: {error}").into()),
    }
}
