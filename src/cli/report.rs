//! How commands end: the one place that prints errors and knows exit codes.

use std::{error::Error, fmt, io::Write, path::Path, process::ExitCode};

/// How a command ended that did its work.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Outcome {
    /// Nothing was found, nothing refused.
    Clean,
    /// Something was found or refused, and printed.
    Findings,
}

/// Why a command couldn't do its work.
#[derive(Debug)]
pub struct CliError {
    what: String,
    source: Option<Box<dyn Error + Send + Sync>>,
}

impl CliError {
    /// An error that is nobody else's.
    pub fn new(what: impl Into<String>) -> Self {
        Self { what: what.into(), source: None }
    }

    /// An error and what was being done.
    pub fn because(what: impl Into<String>, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self { what: what.into(), source: Some(source.into()) }
    }

    /// A file that can't be read or written.
    pub fn file(verb: &str, path: &Path, source: std::io::Error) -> Self {
        Self::because(format!("failed to {verb} {}", path.display()), source)
    }
}

impl fmt::Display for CliError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl Error for CliError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source.as_deref().map(|source| source as _)
    }
}

/// Prints to stdout; a reader that went away (`| head`) is no failure.
pub(super) fn print(text: &str) -> Result<Outcome, CliError> {
    print_bytes(text.as_bytes())
}

/// See [`print`].
pub(super) fn print_bytes(bytes: &[u8]) -> Result<Outcome, CliError> {
    let mut out = std::io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(CliError::because("failed to write to stdout", error))
        }
        _ => Ok(Outcome::Clean),
    }
}

/// Says something beside the output.
pub(super) fn note(text: &str) {
    // Nowhere to say that stderr is gone.
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// Prints an error with its causes, each once (some print their own cause as well), and gives the exit code.
pub(super) fn exit_code(outcome: Result<Outcome, CliError>) -> ExitCode {
    match outcome {
        Ok(Outcome::Clean) => ExitCode::SUCCESS,
        Ok(Outcome::Findings) => ExitCode::from(1),
        Err(error) => {
            note(&format!("podlayer: {}", chain(&error)));
            ExitCode::from(2)
        }
    }
}

/// An error and its causes in one line, leaving out what a cause's parent said already.
pub(super) fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let said = cause.to_string();
        if !text.contains(&said) {
            text.push_str(": ");
            text.push_str(&said);
        }
        next = cause.source();
    }
    text
}
