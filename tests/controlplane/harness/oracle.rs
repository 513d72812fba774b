//! Asks the Go libraries themselves, many questions at a time.

use std::io::{BufRead, BufReader, BufWriter, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::thread;

use serde::Deserialize;
use serde_json::Value;

use super::build::binary;

/// A child process that answers each line of JSON with one line of JSON.
#[derive(Debug)]
pub(crate) struct Oracle {
    child: Child,
    questions: Option<BufWriter<ChildStdin>>,
    answers: BufReader<ChildStdout>,
    name: &'static str,
}

impl Oracle {
    /// Go's strategic merge patch: `{"root": "pod"|"podspec", "original": …,
    /// "patch": …}` → `{"result": …}` or `{"error": "…"}`.
    pub(crate) fn smp() -> Self {
        Self::spawn("smp")
    }

    /// Go's reading of YAML: `{"yaml": "…"}` → `{"value": …}` or `{"error": "…"}`.
    pub(crate) fn yaml() -> Self {
        Self::spawn("yaml")
    }

    fn spawn(name: &'static str) -> Self {
        let mut child = Command::new(binary())
            .arg(name)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("can't run the oracle {name}: {error}; delete target/controlplane"));
        let pipes = child.stdin.take().zip(child.stdout.take());
        let (questions, answers) =
            pipes.unwrap_or_else(|| panic!("the oracle {name} has no pipes, though both were asked for"));
        Self { child, questions: Some(BufWriter::new(questions)), answers: BufReader::new(answers), name }
    }

    /// Asks all questions; the answers come in the same order.
    ///
    /// # Panics
    ///
    /// When the oracle ends or doesn't answer with JSON.
    pub(crate) fn ask_many(&mut self, questions: &[Value]) -> Vec<Value> {
        let Self { questions: pipe, answers, name, .. } = self;
        let name = *name;
        let pipe = pipe.as_mut().unwrap_or_else(|| panic!("the oracle {name} was already dropped"));
        thread::scope(|scope| {
            // A thread of its own: written from here, questions and answers would
            // fill both pipes, and both sides would wait for ever.
            scope.spawn(move || {
                for question in questions {
                    // If the oracle is gone, the reader below says so.
                    if writeln!(pipe, "{question}").is_err() {
                        return;
                    }
                }
                let _ = pipe.flush();
            });
            let mut line = String::new();
            let answer = |question: &Value| {
                line.clear();
                let read = answers.read_line(&mut line);
                assert!(matches!(read, Ok(1..)), "the oracle {name} ended ({read:?}) at the question {question}");
                parse(&line).unwrap_or_else(|error| panic!("the oracle {name} answered no JSON ({error}) but {line}"))
            };
            questions.iter().map(answer).collect()
        })
    }
}

impl Drop for Oracle {
    fn drop(&mut self) {
        drop(self.questions.take()); // its sign to end
        // What it may still want to say must not keep it from ending.
        let _ = self.answers.read_to_end(&mut Vec::new());
        let _ = self.child.wait();
    }
}

/// The libraries answer at any depth, so their answers are read at any depth (a
/// test that nests thousands of levels needs a thread with a larger stack).
fn parse(line: &str) -> serde_json::Result<Value> {
    let mut reader = serde_json::Deserializer::from_str(line);
    reader.disable_recursion_limit();
    let value = Value::deserialize(&mut reader)?;
    reader.end().map(|()| value)
}
