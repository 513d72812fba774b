//! Replicas that come, go and die while pods are made: nothing is lost but what the failure policy gives away.
//!
//! A control plane of its own, three replicas behind a balancer that drops an endpoint a while after it stopped being
//! ready, as kube-proxy does, and a load that doesn't wait for slow answers.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::expect_used,
    clippy::print_stderr,
    reason = "a test stops at the first surprise"
)]

#[path = "../support/controlplane.rs"]
mod controlplane;
#[path = "../support/load.rs"]
mod load;

mod balancer;
mod replica;

use std::{thread::sleep, time::Duration};

use balancer::Balancer;
use controlplane::{ControlPlane, wait_until};
use load::Load;
use replica::{Installation, Replica};

/// How long kube-proxy goes on sending to an endpoint that is no longer ready. Shorter than podlayer waits for.
const PROPAGATION: Duration = Duration::from_secs(1);
/// Pods a second.
const RATE: u64 = 200;

#[test]
fn a_rolling_restart_loses_no_pod_and_a_killed_replica_only_stamps() {
    let plane = ControlPlane::start();
    let installation = Installation::new(&plane);
    let balancer = Balancer::start(PROPAGATION);
    let start = || {
        let replica = Replica::start(&plane, &installation);
        balancer.add(replica.address, replica.admin);
        replica
    };
    let mut replicas: Vec<Replica> = (0..3).map(|_| start()).collect();
    balancer.wait_for(3);
    installation.register(&plane, balancer.address, "Fail");
    let pods = plane.namespace("ci");
    wait_until(Duration::from_secs(30), "the API server to call podlayer", || load::is_stamped(&plane, &pods));

    // With Fail a call that gets lost is a pod that isn't made.
    let load = Load::start(&plane, &pods, RATE);
    sleep(Duration::from_secs(2));
    for replica in &mut replicas {
        let next = start();
        balancer.wait_until_ready(next.address);
        let old = std::mem::replace(replica, next);
        old.terminate();
        sleep(PROPAGATION + Duration::from_secs(1));
    }
    sleep(Duration::from_secs(2));
    let outcome = load.stop();
    eprintln!("rolling restart: {outcome}");
    assert!(outcome.failed.is_empty() && outcome.unstamped == 0, "{outcome}");
    assert!(outcome.made >= 500, "too little load to say anything: {outcome}");

    // With Ignore a replica's death costs stamps at most.
    installation.register(&plane, balancer.address, "Ignore");
    sleep(Duration::from_secs(2));
    let load = Load::start(&plane, &pods, RATE);
    sleep(Duration::from_secs(2));
    replicas.remove(0).kill();
    sleep(Duration::from_secs(4));
    let outcome = load.stop();
    eprintln!("kill -9 of one replica of three: {outcome}");
    assert!(outcome.failed.is_empty(), "{outcome}");
    assert!(outcome.unstamped * 2 < outcome.made, "two replicas are left: {outcome}");
    wait_until(Duration::from_secs(30), "stamps again", || load::is_stamped(&plane, &pods));
}
