//! The log: one line an event, on stderr.

use std::error::Error;
use std::io;
use std::io::{IsTerminal, Write};
use std::str::FromStr;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;

/// The environment variable that sets the filter when no flag does.
pub const FILTER_VARIABLE: &str = "RUST_LOG";
/// What is logged when nobody says otherwise.
pub const DEFAULT_FILTER: &str = "info,kube_runtime=error";

/// How a line of the log is written.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Format {
    /// An object, for log collectors.
    Json,
    /// For people.
    #[default]
    Text,
}

/// Why the log can't start, or a format can't be read.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The filter isn't one.
    #[error(
        "the log filter {filter:?} (from {from}) can't be read; write a level such as \"debug\", or parts such as \"info,podlayer::server=debug\""
    )]
    Filter {
        /// The filter.
        filter: String,
        /// The flag or the variable that brought it.
        from: &'static str,
        /// What is wrong with it.
        #[source]
        source: tracing_subscriber::filter::ParseError,
    },
    /// The format isn't one.
    #[error("{0:?} isn't a log format; write \"text\" or \"json\"")]
    Format(String),
    /// Some other log was set up before.
    #[error("the log was set up twice")]
    Twice(#[source] tracing::dispatcher::SetGlobalDefaultError),
}

/// Starts the log of this process, and lets panics be told there by their place only: a panic's own message may quote
/// what was being worked on, and so a value out of a pod.
///
/// The filter is the flag's, else that of [`FILTER_VARIABLE`], else [`DEFAULT_FILTER`]. There are colours only on a
/// terminal, and not with `NO_COLOR` set.
///
/// # Errors
/// [`LogError::Filter`] when the filter can't be read, [`LogError::Twice`] when this process has a log already.
pub fn init(format: Format, flag: Option<&str>) -> Result<(), LogError> {
    let filter = match (flag, std::env::var(FILTER_VARIABLE)) {
        (Some(flag), _) => filter(flag, "the flag")?,
        (None, Ok(variable)) if !variable.trim().is_empty() => filter(&variable, FILTER_VARIABLE)?,
        _ => filter(DEFAULT_FILTER, "the default")?,
    };
    // https://no-color.org: set to anything but nothing.
    let colours = io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    tracing::dispatcher::set_global_default(dispatch(format, filter, colours, io::stderr)).map_err(LogError::Twice)?;
    std::panic::set_hook(Box::new(|panic| {
        let place = panic.location().map(ToString::to_string).unwrap_or_default();
        tracing::error!(place, "panic: a bug in podlayer");
    }));
    Ok(())
}

impl FromStr for Format {
    type Err = LogError;

    fn from_str(text: &str) -> Result<Self, LogError> {
        match text {
            "json" => Ok(Self::Json),
            "text" => Ok(Self::Text),
            _ => Err(LogError::Format(text.to_owned())),
        }
    }
}

fn filter(text: &str, from: &'static str) -> Result<EnvFilter, LogError> {
    EnvFilter::builder().parse(text).map_err(|source| LogError::Filter { filter: text.to_owned(), from, source })
}

fn dispatch<W>(format: Format, filter: EnvFilter, colours: bool, writer: W) -> tracing::Dispatch
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let builder =
        tracing_subscriber::fmt().with_env_filter(filter).with_ansi(colours).with_writer(Lines { writer, colours });
    match format {
        Format::Json => builder.json().flatten_event(true).finish().into(),
        Format::Text => builder.finish().into(),
    }
}

/// Writes each event on one line of printable text, whatever names it quotes: the formatter lets line feeds through, with
/// which a user's text could forge a line of the log, and in most fields also what steers a terminal.
struct Lines<W> {
    writer: W,
    colours: bool,
}

struct Line<W> {
    writer: W,
    colours: bool,
}

impl<'a, W: MakeWriter<'a>> MakeWriter<'a> for Lines<W> {
    type Writer = Line<W::Writer>;

    fn make_writer(&'a self) -> Self::Writer {
        Line { writer: self.writer.make_writer(), colours: self.colours }
    }
}

impl<W: Write> Write for Line<W> {
    /// Takes a whole event with the line feed that ends it: the formatter writes each at once.
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        let text = event.strip_suffix(b"\n").unwrap_or(event);
        // 0xC2 begins the two bytes of the control characters U+0080 to U+009F.
        if text.iter().any(|byte| byte.is_ascii_control() || *byte == 0xC2) {
            self.writer.write_all(printable(&String::from_utf8_lossy(text), self.colours).as_bytes())?;
            self.writer.write_all(&event[text.len()..])?;
        } else {
            self.writer.write_all(event)?;
        }
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writer.flush()
    }
}

fn printable(text: &str, colours: bool) -> String {
    let mut line = String::with_capacity(text.len() + 16);
    for (at, character) in text.char_indices() {
        match character {
            '\u{1b}' if colours && sets_colour(&text[at + 1..]) => line.push(character),
            _ if character.is_control() => line.extend(character.escape_default()),
            _ => line.push(character),
        }
    }
    line
}

/// Whether what follows an escape character is one of the sequences that the formatter writes, such as `[32m`. Number 8,
/// which hides text, isn't among them.
fn sets_colour(rest: &str) -> bool {
    let Some((number, _)) = rest.strip_prefix('[').and_then(|rest| rest.split_once('m')) else { return false };
    (1..=2).contains(&number.len()) && number != "8" && number.bytes().all(|byte| byte.is_ascii_digit())
}

/// An error with its causes, in one line.
pub fn with_causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    #[derive(Clone, Default)]
    struct Kept(Arc<Mutex<Vec<u8>>>);

    impl Write for Kept {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn logged(format: Format, filter_text: &str, log: impl FnOnce()) -> String {
        logged_with(format, filter_text, false, log)
    }

    fn logged_with(format: Format, filter_text: &str, colours: bool, log: impl FnOnce()) -> String {
        let kept = Kept::default();
        let make = kept.clone();
        let dispatch = dispatch(format, filter(filter_text, "a test").unwrap(), colours, move || make.clone());
        tracing::dispatcher::with_default(&dispatch, log);
        let bytes = kept.0.lock().unwrap().clone();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn a_line_feed_in_a_name_does_not_forge_a_line() {
        let text = logged(Format::Text, "info", || {
            tracing::info!(layer = %"a\n2026-01-01 INFO all is well\r\u{1b}[31m", "layer\nread");
        });
        assert_eq!(text.lines().count(), 1, "{text}");
        assert!(text.contains("a\\n2026") && !text.contains('\u{1b}') && !text.contains('\r'), "{text}");
    }

    #[test]
    fn with_colours_a_name_can_still_not_steer_the_terminal() {
        let text = logged_with(Format::Text, "info", true, || {
            tracing::info!(layer = %"a\u{1b}[2J\u{1b}]0;title\u{7}\u{9b}2Jm\u{1b}[8mhidden", "read");
        });
        assert!(text.contains("\u{1b}[32m"), "{text:?}");
        for sequence in ["\u{1b}[2J", "\u{1b}]", "\u{7}", "\u{9b}", "\u{1b}[8m"] {
            assert!(!text.contains(sequence), "{text:?}");
        }
    }

    #[test]
    fn json_lines_are_objects_with_the_fields_beside_the_message() {
        let text = logged(Format::Json, "info", || tracing::warn!(layer = "gpu\n", "stale"));
        let event: serde_json::Value = serde_json::from_str(text.trim_end()).unwrap();
        assert_eq!((event["layer"].as_str(), event["message"].as_str()), (Some("gpu\n"), Some("stale")));
        assert_eq!(event["level"], "WARN");
    }

    #[test]
    fn the_filter_leaves_out_what_it_should() {
        let text = logged(Format::Text, "warn,podlayer::telemetry=debug", || {
            tracing::debug!("ours");
            tracing::info!(target: "elsewhere", "theirs");
        });
        assert!(text.contains("ours") && !text.contains("theirs"), "{text}");
    }

    #[test]
    fn a_bad_filter_or_format_is_named_with_what_to_write() {
        let error = filter("podlayer=loud", "the flag").unwrap_err().to_string();
        assert!(error.contains("\"podlayer=loud\" (from the flag)") && error.contains("\"debug\""), "{error}");
        assert_eq!(
            "xml".parse::<Format>().unwrap_err().to_string(),
            "\"xml\" isn't a log format; write \"text\" or \"json\""
        );
    }
}
