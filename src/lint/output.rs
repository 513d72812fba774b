//! Findings as machines want them.

use serde_json::json;

use super::{Finding, Severity, codes};
use crate::layers::complaint::Printable;

/// One line for each finding: `file:line:column: severity: text [code]`.
pub fn text(findings: &[Finding]) -> String {
    let line = |finding: &Finding| {
        let Finding { file, line, column, severity, code, message } = finding;
        format!("{}:{line}:{column}: {}: {message} [{code}]\n", Printable(file), severity.as_str())
    };
    findings.iter().map(line).collect()
}

/// Commands to a GitHub Actions runner, which shows them at the lines of a pull request.
pub fn github(findings: &[Finding]) -> String {
    let data = |text: &str| text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A");
    let property = |text: &str| data(text).replace(':', "%3A").replace(',', "%2C");
    let line = |finding: &Finding| {
        let Finding { file, line, column, severity, code, message } = finding;
        let (severity, file, message) = (severity.as_str(), property(file), data(message));
        format!("::{severity} file={file},line={line},col={column},title=podlayer {code}::{message}\n")
    };
    findings.iter().map(line).collect()
}

/// SARIF 2.1.0, which code hosts take in.
pub fn sarif(findings: &[Finding]) -> String {
    let rules: Vec<_> = codes::ALL
        .iter()
        .map(|code| {
            json!({
                "id": code.name,
                "shortDescription": {"text": code.title},
                "help": {"text": code.help},
                "defaultConfiguration": {"level": level(code.severity)},
            })
        })
        .collect();
    let results: Vec<_> = findings
        .iter()
        .map(|finding| {
            json!({
                "ruleId": finding.code,
                "ruleIndex": codes::ALL.iter().position(|code| code.name == finding.code),
                "level": level(finding.severity),
                "message": {"text": finding.message},
                "locations": [{"physicalLocation": {
                    "artifactLocation": {"uri": uri(&finding.file)},
                    "region": {"startLine": finding.line, "startColumn": finding.column},
                }}],
            })
        })
        .collect();
    let log = json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": {"driver": {"name": "podlayer", "version": env!("CARGO_PKG_VERSION"), "rules": rules}},
            "columnKind": "unicodeCodePoints",
            "results": results,
        }],
    });
    format!("{log:#}\n")
}

fn level(severity: Severity) -> &'static str {
    severity.as_str()
}

/// A path as a reference in a URI.
fn uri(path: &str) -> String {
    let mut out = String::with_capacity(path.len());
    for byte in path.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => out.push(char::from(byte)),
            byte => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_file_forges_no_line() {
        let finding = Finding {
            file: "a\u{1b}[2K\nb.yaml".into(),
            line: 1,
            column: 2,
            severity: Severity::Error,
            code: "layer",
            message: "wrong".into(),
        };
        let told = text(std::slice::from_ref(&finding));
        assert_eq!(told, "a\\u{1b}[2K\\nb.yaml:1:2: error: wrong [layer]\n");
        assert!(github(&[finding]).contains("%0Ab.yaml,line=1"));
    }
}
