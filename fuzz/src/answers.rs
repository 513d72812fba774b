//! Right answers: those that are recorded in `tests/data`, and the live Go libraries where somebody names their program.

use std::{
    collections::HashMap,
    io::{BufRead, BufReader, Write},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    sync::{LazyLock, Mutex},
};

use serde_json::{Value, json};

use crate::corpus;

/// The result, or `None` for an error, whose words don't count.
pub type Answer = Option<Value>;

static MERGES: LazyLock<HashMap<String, Answer>> = LazyLock::new(|| {
    corpus::merges().map(|(_, row)| (corpus::question(&row).to_string(), row.get("result").cloned())).collect()
});

static TEXTS: LazyLock<HashMap<String, Answer>> = LazyLock::new(|| {
    let rows = corpus::rows("tests/data/yaml/kubectl-yaml.jsonl").into_iter();
    let of_row = |row: Value| {
        let value = row.get("value").cloned().unwrap_or_default();
        Some((row["yaml"].as_str()?.to_owned(), row.get("error").is_none_or(Value::is_null).then_some(value)))
    };
    rows.filter_map(of_row).collect()
});

/// What Go's strategic merge patch makes of a question, if it is known.
pub fn merge(question: &Value) -> Option<Answer> {
    MERGES.get(&question.to_string()).cloned().or_else(|| live("smp", question, "result"))
}

/// What kubectl's reader makes of a text, if it is known.
pub fn yaml(text: &str) -> Option<Answer> {
    TEXTS.get(text).cloned().or_else(|| live("yaml", &json!({"yaml": text}), "value"))
}

/// A program that answers each line with a line: `tests/controlplane`, which `cargo test` builds.
struct Oracle {
    _child: Child,
    questions: ChildStdin,
    answers: BufReader<ChildStdout>,
}

/// Asks the program in `PODLAYER_FUZZ_CONTROLPLANE`, if there is one.
fn live(name: &'static str, question: &Value, key: &str) -> Option<Answer> {
    static ORACLE: LazyLock<Mutex<Option<Oracle>>> = LazyLock::new(Mutex::default);
    static PROGRAM: LazyLock<Option<String>> = LazyLock::new(|| std::env::var("PODLAYER_FUZZ_CONTROLPLANE").ok());
    let program = PROGRAM.as_ref()?;
    let mut oracle = ORACLE.lock().expect("whoever panics ends the process");
    let oracle = oracle.get_or_insert_with(|| {
        let mut child = Command::new(program)
            .arg(name)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("PODLAYER_FUZZ_CONTROLPLANE names a program");
        let questions = child.stdin.take().expect("it has a pipe");
        let answers = BufReader::new(child.stdout.take().expect("it has a pipe"));
        Oracle { _child: child, questions, answers }
    });
    writeln!(oracle.questions, "{question}").expect("the program listens");
    let mut line = String::new();
    oracle.answers.read_line(&mut line).expect("the program answers");
    let mut answer: Value = serde_json::from_str(&line).ok()?;
    Some(answer.get_mut(key).map(Value::take).filter(|_| answer.get("error").is_none()))
}
