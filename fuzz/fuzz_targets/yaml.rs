//! YAML: no text makes the reader panic; an error has a place inside the text; what was read is read back from what podlayer
//! writes; the recorded documents, and all others where Go's reader is at hand, read as in kubectl.

#![no_main]

use libfuzzer_sys::fuzz_target;
use podlayer::{
    value::{Marks, Position, to_json},
    yaml::{self, Options, to_yaml},
};
use podlayer_fuzz::answers;

/// Deeper values need more stack than a fuzzer has; the depth that counts has tests of its own.
const DEEP: usize = 200;

fuzz_target!(init: podlayer_fuzz::corpus::fill("yaml"), |text: &str| {
    let kubectl = Options { limits: yaml::Limits { depth: DEEP, ..Options::KUBECTL.limits }, ..Options::KUBECTL };
    let read = yaml::parse(text, &kubectl);
    match &read {
        Ok(parsed) => {
            inside(&parsed.document.marks, text);
            parsed.remarks.iter().for_each(|remark| is_inside(remark.at, text));
            let value = &parsed.document.value;
            let written = to_yaml(value);
            let again = yaml::parse(&written, &kubectl).unwrap_or_else(|error| panic!("{error} in {written:?}"));
            assert_eq!(to_json(&again.document.value), to_json(value), "written as {written:?}");
        }
        Err(error) => {
            is_inside(error.at(), text);
            assert!(!error.to_string().trim().is_empty());
        }
    }
    match yaml::parse(text, &Options::LAYER) {
        Ok(parsed) => {
            inside(&parsed.document.marks, text);
            // Strict reading is the same reading with more errors; JSON is another one.
            if !text.trim_start_matches('\u{feff}').trim_start().starts_with('{') {
                let other = read.as_ref().unwrap_or_else(|error| panic!("strict reads it, lenient doesn't: {error}"));
                assert_eq!(to_json(&parsed.document.value), to_json(&other.document.value));
            }
        }
        Err(error) => {
            is_inside(error.at(), text);
            assert!(!error.to_string().chars().any(|c| c.is_control() && c != '\t'), "{error:?}");
        }
    }
    let too_deep = matches!(&read, Err(error) if matches!(error.kind(), yaml::ErrorKind::TooDeep { .. }));
    if !too_deep && let Some(answer) = answers::yaml(text) {
        let got = read.as_ref().ok().map(|parsed| to_json(&parsed.document.value));
        let got = got.map(|json| serde_json::from_str::<serde_json::Value>(&json).expect("it is JSON"));
        assert_eq!(got, answer, "kubectl has the right one of {text:?}; here {:?}", read.as_ref().err());
    }
});

fn inside(marks: &Marks, text: &str) {
    is_inside(marks.at, text);
    marks.children.iter().for_each(|child| inside(child, text));
}

fn is_inside(at: Position, text: &str) {
    // As libyaml counts them, whose breaks are more than those of `lines`.
    let breaks = text.matches(['\n', '\r', '\u{85}', '\u{2028}', '\u{2029}']).count();
    assert!(at.line >= 1 && at.column >= 1, "{at}");
    assert!(at.line as usize <= breaks + 1, "{at} of {text:?}");
    assert!(at.column as usize <= text.chars().count() + 1, "{at} of {text:?}");
}
