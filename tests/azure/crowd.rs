//! Many calls at once, to replicas that share no memory.

use std::{collections::BTreeSet, thread};

use serde_json::json;

use crate::support::{
    Answer, Serve, acquire, at, bytes, name, namespace, pods, pool, release, secrets, wait_nothing_left,
};

/// Calls all at once, to the replicas by turns.
fn all_at_once(replicas: &[Serve], path: &str, bodies: &[Vec<u8>]) -> Vec<Answer> {
    thread::scope(|scope| {
        let calls: Vec<_> = bodies
            .iter()
            .enumerate()
            .map(|(number, body)| scope.spawn(move || replicas[number % replicas.len()].insist(path, body)))
            .collect();
        calls.into_iter().map(|call| call.join().unwrap()).collect()
    })
}

#[test]
fn p5_p6_p7_of_two_hundred_calls_at_once_exactly_max_are_accepted_and_all_of_it_goes_again() {
    let namespace = namespace("crowd");
    pool(&namespace, "p", &json!({"max": 50}));
    let replicas = [Serve::start(&namespace, &[]), Serve::start(&namespace, &[])];
    let (acquires, releases) = (at(&namespace, "p", "acquire"), at(&namespace, "p", "release"));
    let bodies: Vec<_> = (0..200).map(|agent| bytes(&acquire(&agent.to_string()))).collect();

    let answers = all_at_once(&replicas, &acquires, &bodies);
    assert!(answers.iter().all(|answer| answer.status == 200), "{answers:?}");
    let accepted: Vec<usize> = (0..200).filter(|agent| answers[*agent].body["accepted"] == true).collect();
    assert_eq!(accepted.len(), 50);
    let declined = answers.iter().filter(|answer| answer.body["errorMessage"] == "the pool is at its max");
    assert_eq!(declined.count(), 150);
    let made = pods(&namespace);
    let ids: BTreeSet<usize> =
        made.iter().map(|pod| pod["metadata"]["labels"]["AgentId"].as_str().unwrap().parse().unwrap()).collect();
    assert_eq!((made.len(), ids), (50, accepted.iter().copied().collect()));
    let kept = secrets(&namespace);
    assert_eq!(kept.len(), 50);
    let uids: BTreeSet<&str> = made.iter().map(|pod| pod["metadata"]["uid"].as_str().unwrap()).collect();
    for secret in &kept {
        let owner = &secret["metadata"]["ownerReferences"][0];
        assert!(owner["kind"] == "Pod" && owner["apiVersion"] == "v1" && uids.contains(owner["uid"].as_str().unwrap()));
    }

    // The same calls again, to the other replica: the same agents.
    let again: Vec<_> = accepted.iter().map(|agent| bodies[*agent].clone()).rev().collect();
    let answers = all_at_once(&replicas, &acquires, &again);
    assert!(answers.iter().all(|answer| answer.body["accepted"] == true), "{answers:?}");
    let after = pods(&namespace);
    let now: BTreeSet<&str> = after.iter().map(|pod| pod["metadata"]["uid"].as_str().unwrap()).collect();
    assert_eq!(now, uids, "a repeated call makes no second pod");
    assert_eq!(secrets(&namespace).iter().map(name).collect::<BTreeSet<_>>().len(), 50);

    // Each released twice at once, from both replicas.
    let bodies: Vec<_> = accepted.iter().flat_map(|agent| vec![bytes(&release(&agent.to_string())); 2]).collect();
    let answers = all_at_once(&replicas, &releases, &bodies);
    assert!(answers.iter().all(|answer| answer.status == 202), "{answers:?}");
    wait_nothing_left(&namespace);

    // And the first calls once more, late: none comes back.
    let answers = all_at_once(&replicas, &acquires, &again);
    assert!(answers.iter().all(|answer| answer.status == 200 && answer.body["accepted"] == false), "{answers:?}");
    assert!(pods(&namespace).is_empty() && secrets(&namespace).is_empty());
}
