//! Secrets that stand in a layer for everybody to read.

use super::{codes, patch::Found, walk::Place};
use crate::value::Value;

/// What tokens begin with that anybody can tell for tokens, by those who give them out.
const PREFIXES: &[&str] = &[
    "-----BEGIN ",
    "AKIA",
    "ASIA",
    "bkct_",
    "bkua_",
    "dckr_pat_",
    "eyJhbGciOi",
    "ghp_",
    "gho_",
    "ghs_",
    "ghu_",
    "github_pat_",
    "glpat-",
    "glrt-",
    "hvs.",
    "npm_",
    "pypi-AgEI",
    "sk_live_",
    "xoxb-",
    "xoxp-",
];

/// Shorter ones are words.
const SHORTEST: usize = 12;

/// Words in the name of a variable that holds a secret.
const WORDS: &[&str] = &["APIKEY", "CREDENTIAL", "CREDENTIALS", "PASSPHRASE", "PASSWD", "PASSWORD", "SECRET", "TOKEN"];
/// The same in two words.
const PAIRS: &[(&str, &str)] = &[("ACCESS", "KEY"), ("API", "KEY"), ("PRIVATE", "KEY"), ("SIGNING", "KEY")];
/// Last words of names that say where a secret is, or how it is called, or how long it lives.
const ABOUT: &[&str] = &[
    "DIR",
    "ENDPOINT",
    "EXPIRY",
    "FILE",
    "HOST",
    "ID",
    "LENGTH",
    "NAME",
    "NAMESPACE",
    "PATH",
    "TTL",
    "TYPE",
    "URI",
    "URL",
];

/// Looks at one place. The text never has the value.
pub(super) fn find(place: &Place<'_>, found: &mut Vec<Found>) {
    match place.value {
        Value::String(text) if looks_like(text) => {
            let text = format!("{} holds what looks like a secret: take it from a Secret by valueFrom", place.field);
            found.push((place.marks.at, codes::SECRET, text));
        }
        Value::Object(map) if place.ty.is_some_and(|ty| &*ty.name == "EnvVar") => {
            let (name, value) = (map.get("name").and_then(Value::as_str), map.get("value").and_then(Value::as_str));
            let (Some(name), Some(value)) = (name, value) else { return };
            if is_named_so(name) && is_literal(value) && !looks_like(value) {
                let text = format!("{name} is given in plain text: take it from a Secret by valueFrom.secretKeyRef");
                found.push((place.marks.at, codes::SECRET, text));
            }
        }
        _ => {}
    }
}

fn looks_like(text: &str) -> bool {
    text.len() >= SHORTEST && PREFIXES.iter().any(|prefix| text.starts_with(prefix))
}

fn is_named_so(name: &str) -> bool {
    let upper = name.to_ascii_uppercase();
    let words: Vec<&str> = upper.split(['_', '-', '.']).collect();
    let holds = words.iter().any(|word| WORDS.contains(word))
        || words.windows(2).any(|pair| PAIRS.iter().any(|(first, second)| pair == [*first, *second]));
    holds && words.last().is_none_or(|last| !ABOUT.contains(last))
}

/// Whether a value is one, and not a reference, a path or a switch.
fn is_literal(value: &str) -> bool {
    !value.is_empty()
        && !value.starts_with(['/', '$', '<'])
        && !["true", "false", "0", "1", "none", "null"].contains(&value.to_ascii_lowercase().as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_hold_secrets_are_told_from_those_that_are_about_them() {
        for name in ["GITHUB_TOKEN", "DB_PASSWORD", "AWS_SECRET_ACCESS_KEY", "API_KEY", "npm_token", "apiKey_SECRET"] {
            assert!(is_named_so(name), "{name}");
        }
        for name in ["TOKEN_FILE", "SECRET_NAME", "TOKENIZER", "KEY", "PASSWORD_TTL", "AWS_ACCESS_KEY_ID", "MONKEY"] {
            assert!(!is_named_so(name), "{name}");
        }
        assert!(is_literal("hunter2") && !is_literal("$(TOKEN)") && !is_literal("/run/token") && !is_literal("true"));
        assert!(looks_like("ghp_0123456789abcdef") && !looks_like("ghp_") && !looks_like("a text about ghp_ tokens"));
    }
}
