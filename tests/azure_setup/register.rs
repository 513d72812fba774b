//! `azure register` where all is well, and where something is there already.

use serde_json::{Value, json};

use crate::{
    devops::DevOps,
    program::{Files, Run, SECRET, azure_owned, register},
};

fn registered(devops: &DevOps, files: &Files, more: &[&str]) -> Run {
    azure_owned(&register(&devops.uri(), &files.secret(), more))
}

#[test]
fn an_agent_cloud_and_a_pool_are_made_and_found_the_next_time() {
    let (devops, files) = (DevOps::start(), Files::new());
    let run = registered(&devops, &files, &[]);
    assert_eq!(run.stdout, "agent cloud linux: made, id 7\npool linux: made, id 8, target size 10\n", "{}", run.stderr);
    assert_eq!((run.code, run.stderr.as_str()), (0, ""));
    devops.held(|held| {
        assert_eq!(
            held.clouds,
            [json!({"agentCloudId": 7, "name": "linux", "type": "Ignore", "internal": false,
                    "acquireAgentEndpoint": "https://agents.example.com/acquire",
                    "releaseAgentEndpoint": "https://agents.example.com/release"})]
        );
        assert_eq!(held.secrets, [SECRET], "without the newline");
        assert_eq!((&held.pools[0]["agentCloudId"], &held.pools[0]["targetSize"]), (&json!(7), &json!(10)));
    });
    assert_eq!(devops.calls(), ["GET /agentclouds", "POST /agentclouds", "GET /pools", "POST /pools"]);

    devops.forget_calls();
    let again = registered(&devops, &files, &["-o", "json"]);
    let outcome: Value = serde_json::from_str(&again.stdout).unwrap();
    assert_eq!(
        outcome,
        json!({"agentCloud": {"id": 7, "name": "linux", "made": false},
               "pool": {"id": 8, "name": "linux", "made": false}, "targetSize": 10})
    );
    assert_eq!((again.code, again.stderr.as_str()), (0, ""));
    assert_eq!(devops.calls(), ["GET /agentclouds", "GET /pools"], "nothing is made twice");
}

/// P13: poolprovidersetup.sh sent JSON without its last brace and printed the encoded PAT.
#[test]
fn p13_what_is_sent_is_whole_json_and_the_pat_is_nowhere_but_in_its_header() {
    let (devops, files) = (DevOps::start(), Files::new());
    let arguments = ["--agent-pool", "ci/linux", "--with", "status,definitions,parallelism"];
    let run = registered(&devops, &files, &arguments);
    assert_eq!(run.code, 0, "{}", run.stderr);
    devops.held(|held| {
        for call in &held.calls {
            assert!(call.authorization.starts_with("Basic "));
            assert!(!call.path.contains("canary") && !call.query.contains("canary"), "{call:?}");
            assert_eq!(call.query, "api-version=5.0-preview");
            if call.method == "POST" {
                let body: Value = serde_json::from_str(&call.body).unwrap();
                assert!(body.is_object() && !call.body.contains("canary-pat"), "{}", call.body);
            }
        }
        let at = |end: &str| json!(format!("https://agents.example.com/v1/pools/ci/linux/{end}"));
        let cloud = &held.clouds[0];
        for (field, end) in [
            ("acquireAgentEndpoint", "acquire"),
            ("releaseAgentEndpoint", "release"),
            ("getAgentRequestStatusEndpoint", "status"),
            ("getAgentDefinitionEndpoint", "definitions"),
            ("getAccountParallelismEndpoint", "parallelism"),
        ] {
            assert_eq!(cloud[field], at(end));
        }
    });
    // Without the optional ones, those that are there are no difference.
    assert_eq!(registered(&devops, &files, &["--agent-pool", "ci/linux"]).code, 0);
}

#[test]
fn a_run_that_stopped_in_the_middle_is_finished_by_the_next() {
    let (devops, files) = (DevOps::start(), Files::new());
    devops.instead(|call| {
        let is_pool = call.method == "POST" && call.path.ends_with("/pools");
        is_pool.then(|| (503, "application/json", r#"{"message": "Try again later."}"#.into()))
    });
    let run = registered(&devops, &files, &[]);
    assert_eq!((run.code, run.stdout.as_str()), (2, ""));
    let wanted = "failed to make the pool: Azure DevOps answered 503 Service Unavailable: Try again later.; what was made \
                  so far is found when this is run again\n";
    assert!(run.stderr.ends_with(wanted), "{}", run.stderr);
    devops.instead(|_| None);
    let run = registered(&devops, &files, &[]);
    assert_eq!(run.stdout, "agent cloud linux: was there, id 7\npool linux: made, id 8, target size 10\n");
}

#[test]
fn another_target_size_is_set() {
    let (devops, files) = (DevOps::start(), Files::new());
    assert_eq!(registered(&devops, &files, &[]).code, 0);
    let mut arguments = register(&devops.uri(), &files.secret(), &[]);
    *arguments.last_mut().unwrap() = "25".into();
    let run = azure_owned(&arguments);
    let wanted = "agent cloud linux: was there, id 7\npool linux: was there, id 8, target size 25, was 10\n";
    assert_eq!(run.stdout, wanted, "{}", run.stderr);
    assert_eq!(devops.held(|held| held.pools[0]["targetSize"].clone()), json!(25));
}

#[test]
fn two_that_register_at_once_get_the_same() {
    let (devops, files) = (DevOps::start(), Files::new());
    // The other one was faster: it isn't in the first list, and then it is there.
    devops.held(|held| {
        held.clouds.push(json!({"agentCloudId": 3, "name": "Linux",
            "acquireAgentEndpoint": "https://agents.example.com/acquire",
            "releaseAgentEndpoint": "https://agents.example.com/release"}));
        held.pools.push(json!({"id": 4, "name": "LINUX", "agentCloudId": 3, "targetSize": 10}));
    });
    let mut first = vec!["agentclouds", "pools"];
    devops.instead(move |call| {
        let at = first.iter().position(|list| call.method == "GET" && call.path.ends_with(list))?;
        first.remove(at);
        Some((200, "application/json", r#"{"count": 0, "value": []}"#.into()))
    });
    let run = registered(&devops, &files, &[]);
    assert_eq!(run.stdout, "agent cloud Linux: was there, id 3\npool LINUX: was there, id 4, target size 10\n");
    assert_eq!(devops.held(|held| (held.clouds.len(), held.pools.len())), (1, 1));
}

#[test]
fn what_is_there_and_is_another_is_left_alone() {
    let (devops, files) = (DevOps::start(), Files::new());
    assert_eq!(registered(&devops, &files, &[]).code, 0);
    let run = registered(&devops, &files, &["--agent-pool", "ci/linux"]);
    let wanted = "the agent cloud linux is there with acquireAgentEndpoint https://agents.example.com/acquire, not \
                  https://agents.example.com/v1/pools/ci/linux/acquire: unregister it first, or register under another name\n";
    assert!(run.code == 2 && run.stderr.ends_with(wanted), "{}", run.stderr);

    // A pool of agents that somebody installed.
    let other = DevOps::start();
    other.held(|held| held.pools.push(json!({"id": 1, "name": "Linux", "agentCloudId": null, "targetSize": null})));
    let run = registered(&other, &files, &[]);
    let wanted = "there is a pool Linux (id 1) that is no pool of this agent cloud: register under another name\n";
    assert!(run.code == 2 && run.stderr.ends_with(wanted), "{}", run.stderr);
    assert_eq!(other.held(|held| held.pools.len()), 1);
}
