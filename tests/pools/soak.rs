//! Jobs for a while, with leaders that are killed: the short run of what `cargo bench --bench pools -- --soak MINUTES`
//! does for longer.

use std::time::Duration;

use crate::{
    kwok::Kwok,
    pools::{
        client,
        soak::{Plan, soak},
    },
    support::plane,
};

#[test]
fn scenario_37_jobs_and_killed_leaders_leave_right_counts_and_kill_no_agent_at_work() {
    let plane = plane();
    Kwok::shared().node(plane, "soak-small", 8);
    let namespace = plane.namespace("soak");
    let plan = Plan {
        length: Duration::from_secs(12),
        kill_after: [500, 2000],
        count_every: Duration::from_secs(6),
        nodes: ["large".into(), "soak-small".into()],
        seed: 7,
    };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let outcome = runtime.block_on(async {
        let client = client(plane.kubeconfig()).await;
        soak(&client, plane.kubeconfig(), &namespace, plan).await
    });
    assert!(outcome.violations.is_empty(), "{outcome:#?}");
    assert!(!outcome.followed.is_empty() && outcome.busy > 0 && outcome.jobs.len() == 3, "{outcome:?}");
}
