//! `azure unregister`.

use serde_json::{Value, json};

use crate::{
    devops::DevOps,
    program::{Files, Run, azure, azure_owned, register},
};

fn unregistered(devops: &DevOps, more: &[&str]) -> Run {
    azure(&[&["unregister", "--uri", &devops.uri(), "--pool", "linux"], more].concat())
}

#[test]
fn what_was_registered_goes_and_a_second_time_there_is_nothing() {
    let (devops, files) = (DevOps::start(), Files::new());
    assert_eq!(azure_owned(&register(&devops.uri(), &files.secret(), &[])).code, 0);
    devops.forget_calls();
    let run = unregistered(&devops, &[]);
    assert_eq!((run.code, run.stdout.as_str()), (0, "pool 8: deleted\nagent cloud 7: deleted\n"), "{}", run.stderr);
    assert_eq!(
        devops.calls(),
        ["GET /pools", "GET /agentclouds", "DELETE /pools/8", "DELETE /agentclouds/7"],
        "the pool first, for an agent cloud with a pool on it can't go"
    );
    let run = unregistered(&devops, &[]);
    assert_eq!((run.code, run.stdout.as_str()), (0, "pool: none named linux\nagent cloud: none named linux\n"));
}

#[test]
fn a_run_that_stopped_in_the_middle_is_finished_by_the_next() {
    let (devops, files) = (DevOps::start(), Files::new());
    assert_eq!(azure_owned(&register(&devops.uri(), &files.secret(), &[])).code, 0);
    devops.held(|held| held.pools.clear());
    let run = unregistered(&devops, &["-o", "json"]);
    let outcome: Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!(outcome, json!({"pool": null, "agentCloud": 7, "keptFor": []}));
    assert_eq!(devops.held(|held| held.clouds.len()), 0);
}

#[test]
fn what_others_use_is_left_alone() {
    let (devops, files) = (DevOps::start(), Files::new());
    assert_eq!(azure_owned(&register(&devops.uri(), &files.secret(), &[])).code, 0);
    devops.held(|held| held.pools.push(json!({"id": 99, "name": "other", "agentCloudId": 7, "targetSize": 1})));
    let run = unregistered(&devops, &[]);
    assert_eq!(run.stdout, "pool 8: deleted\nagent cloud: kept, for it has other pools: other\n", "{}", run.stderr);

    devops.held(|held| held.pools.push(json!({"id": 100, "name": "Linux", "agentCloudId": null})));
    let run = unregistered(&devops, &[]);
    let wanted = "the pool Linux (id 100) is on no agent cloud, so it isn't podlayer's to delete\n";
    assert!(run.code == 2 && run.stderr.ends_with(wanted), "{}", run.stderr);
    assert_eq!(devops.held(|held| (held.clouds.len(), held.pools.len())), (1, 2));
}
