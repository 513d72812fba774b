//! Documents with what kubectl's own reader (sigs.k8s.io/yaml 1.6 on go-yaml 2.4) makes of them.

use podlayer::{
    value::to_json,
    yaml::{self, Options},
};
use serde_json::Value;

#[derive(serde::Deserialize)]
struct Row {
    name: String,
    yaml: String,
    value: Option<Value>,
    error: Option<String>,
}

/// The deepest rows are dropped and printed by recursion.
const STACK: usize = 64 << 20;

#[test]
fn every_document_reads_as_in_kubectl() {
    let checked = std::thread::Builder::new().stack_size(STACK).spawn(|| {
        let text = std::fs::read_to_string(super::data("yaml/kubectl-yaml.jsonl")).unwrap();
        let rows: Vec<Row> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let differing: Vec<_> = rows.iter().filter_map(difference).collect();
        (rows.len(), differing)
    });
    let (rows, differing) = checked.unwrap().join().unwrap();
    assert_eq!(rows, 184);
    assert!(differing.is_empty(), "{} of {rows} rows differ:\n{}", differing.len(), differing.join("\n"));
}

fn difference(row: &Row) -> Option<String> {
    let read = yaml::parse(&row.yaml, &Options::KUBECTL);
    // A row whose value is null has no other sign of it than that it has no error.
    let wanted = if row.error.is_none() { Some(row.value.clone().unwrap_or_default()) } else { None };
    let got: Option<Value> =
        read.as_ref().ok().and_then(|parsed| serde_json::from_str(&to_json(&parsed.document.value)).ok());
    if got == wanted {
        return None;
    }
    let wanted = wanted.map_or_else(|| format!("the error {:?}", row.error), |value| value.to_string());
    let got = match (got, read) {
        (Some(value), _) => value.to_string(),
        (None, Err(error)) => format!("the error {:?} at {}", error.to_string(), error.at()),
        (None, Ok(_)) => String::new(),
    };
    Some(format!("{}: kubectl has {wanted}, here is {got}", row.name))
}
