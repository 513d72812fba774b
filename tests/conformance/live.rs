//! Made-up pairs against the live Go libraries.

use std::{fs, process::Command};

use podlayer::{
    merge::{self, Mode},
    schema::POD,
};
use serde_json::Value;

use crate::{controlplane, controlplane::Oracle, generate::Generator};

/// How many pairs; thousands at every run, another set for each seed of the list.
const PAIRS: usize = 4000;

#[test]
fn made_up_pairs_merge_as_in_the_live_go_library() {
    let mut oracle = Oracle::smp();
    let mut wrong = Vec::new();
    for seed in [1, 2] {
        let pairs: Vec<_> = Generator::new(seed).take(PAIRS).collect();
        let questions: Vec<Value> = pairs.iter().map(|pair| serde_json::from_str(&pair.line()).unwrap()).collect();
        let answers = oracle.ask_many(&questions);
        assert_eq!(answers.len(), pairs.len());
        let right = answers.iter().filter(|answer| answer.get("error").is_none()).count();
        assert!(right > PAIRS / 4, "only {right} of {PAIRS} pairs merge at all: the generator tries too little");
        for ((pair, question), answer) in pairs.into_iter().zip(&questions).zip(&answers) {
            let root = if pair.root == "pod" { POD.pod() } else { POD.pod_spec() };
            let mut target = pair.original;
            let ours = merge::apply(&mut target, pair.patch, root, Mode::Strict);
            let ours = ours.map(|_| serde_json::to_value(&target).unwrap());
            let same = match (&ours, answer.get("result")) {
                (Ok(ours), Some(theirs)) => ours == theirs,
                (Err(_), None) => true,
                _ => false,
            };
            if !same {
                wrong.push(format!("{question}\n  Go: {answer}\n  ours: {ours:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{} pairs differ, the first of them:\n{}", wrong.len(), wrong[0]);
}

#[test]
fn the_type_graph_of_this_build_is_what_the_go_types_say() {
    let printed = Command::new(controlplane::binary()).arg("schema").output().unwrap();
    assert!(printed.status.success(), "{}", String::from_utf8_lossy(&printed.stderr));
    let printed: Value = serde_json::from_slice(&printed.stdout).unwrap();
    let kept = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/src/schema/pod.json")).unwrap();
    let kept: Value = serde_json::from_str(&kept).unwrap();
    let differing: Vec<_> = [&printed, &kept]
        .into_iter()
        .flat_map(|graph| graph.as_object().unwrap().keys())
        .filter(|name| printed[*name] != kept[*name])
        .collect();
    assert!(differing.is_empty(), "write it anew with `.ci/generate`, these types differ: {differing:?}");
}
