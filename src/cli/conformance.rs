use std::{
    io::{BufRead, BufReader, BufWriter, Write},
    thread,
};

use clap::ValueEnum;
use serde::Deserialize;
use serde_json::{json, value::RawValue};

use super::report::{CliError, Outcome};
use crate::{
    merge,
    schema::POD,
    value::{JsonLimits, Value, from_json, to_json},
    yaml,
};

/// Flags of `conformance`.
#[derive(Debug, clap::Args)]
#[command(after_help = "merge reads lines {\"root\":\"pod\"|\"podspec\",\"original\":…,\"patch\":…} and writes \
                        {\"result\":…} or {\"error\":\"…\"} a line.\nyaml reads lines {\"yaml\":\"…\"} and writes \
                        {\"value\":…} or {\"error\":\"…\"} a line.")]
pub(super) struct Args {
    /// What to answer.
    #[arg(value_enum)]
    what: What,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum What {
    /// Strategic merges, strictly as kubectl does them, before podlayer's own clean-up.
    Merge,
    /// YAML documents as kubectl reads them.
    Yaml,
}

/// How deep documents may be: kubectl's own limit.
const DEPTH: usize = 10_000;

/// Stack for that: about 2 KiB a level in an unoptimised build, in each of a few walks that don't stand in each other.
const STACK: usize = 512 << 20;

#[derive(Deserialize)]
struct MergeCase<'a> {
    #[serde(default)]
    root: String,
    #[serde(borrow, default)]
    original: Option<&'a RawValue>,
    #[serde(borrow, default)]
    patch: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct YamlCase {
    yaml: String,
}

/// Runs `conformance`.
pub(super) fn run(args: &Args) -> Result<Outcome, CliError> {
    let what = args.what;
    let work = move || answer_all(what);
    let thread = thread::Builder::new().stack_size(STACK).spawn(work);
    let joined = thread.map_err(|error| CliError::because("failed to start a thread", error))?.join();
    joined.unwrap_or_else(|_| Err(CliError::new("a case made podlayer panic, please report it")))
}

fn answer_all(what: What) -> Result<Outcome, CliError> {
    let mut out = BufWriter::new(std::io::stdout().lock());
    let mut input = BufReader::new(std::io::stdin());
    let mut line = Vec::new();
    loop {
        line.clear();
        let fail = |error| CliError::because("failed to read a case", error);
        if input.read_until(b'\n', &mut line).map_err(fail)? == 0 {
            break;
        }
        if line.trim_ascii().is_empty() {
            continue;
        }
        // A line that can't be read has its answer as well, so that the next ones stand where they are looked for.
        let answer = match (what, std::str::from_utf8(&line)) {
            (_, Err(error)) => Err(format!("unreadable case: {error}")),
            (What::Merge, Ok(line)) => merge_case(line).map(|result| format!(r#"{{"result":{result}}}"#)),
            (What::Yaml, Ok(line)) => yaml_case(line).map(|value| format!(r#"{{"value":{value}}}"#)),
        };
        let answer = answer.unwrap_or_else(|error| json!({ "error": error }).to_string());
        let written = writeln!(out, "{answer}");
        // Somebody who asks line by line waits for the answer; somebody who pipes a file doesn't.
        let flushed = if input.buffer().is_empty() { out.flush() } else { Ok(()) };
        written.and(flushed).map_err(|error| CliError::because("failed to write an answer", error))?;
    }
    out.flush().map_err(|error| CliError::because("failed to write an answer", error))?;
    Ok(Outcome::Clean)
}

fn merge_case(line: &str) -> Result<String, String> {
    let case: MergeCase<'_> = serde_json::from_str(line).map_err(|error| format!("unreadable case: {error}"))?;
    let root = match case.root.as_str() {
        "pod" => POD.pod(),
        "podspec" => POD.pod_spec(),
        other => return Err(format!("unreadable case: root is {other:?}, pod or podspec is wanted")),
    };
    let limits = JsonLimits { depth: DEPTH };
    let read = |raw: Option<&'_ RawValue>| match raw {
        Some(raw) => from_json(raw.get(), limits).map(Value::into_owned).map_err(|error| error.to_string()),
        None => Ok(Value::Null),
    };
    let mut target = read(case.original)?;
    merge::apply(&mut target, read(case.patch)?, root, merge::Mode::Strict).map_err(|error| error.to_string())?;
    Ok(to_json(&target))
}

fn yaml_case(line: &str) -> Result<String, String> {
    let case: YamlCase = serde_json::from_str(line).map_err(|error| format!("unreadable case: {error}"))?;
    let parsed = yaml::parse(&case.yaml, &yaml::Options::KUBECTL);
    parsed.map(|parsed| to_json(&parsed.document.value)).map_err(|error| format!("{error}, {}", error.at()))
}
