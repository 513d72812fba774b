//! A job pod appears: how soon is there a pod of its pool more?

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::{Duration, Instant},
};

use futures::future::join_all;
use serde_json::json;

use crate::{
    place::{Ground, POOLS, Place},
    pools::{
        Dice,
        objects::{delete, job, make, real_job, template},
        sight::Known,
        until,
    },
    report::{Report, Times},
};

/// Pods of each pool at rest, and as many jobs at work: 1,000 in all.
const EACH: usize = 25;
/// How many jobs are made and waited for, of each kind of pool.
const PROBES: usize = 200;

/// What a job waited, in each of three ways to see it.
struct Waited {
    kind: &'static str,
    /// From before the job was sent to the API server until a watch saw the pool's pod.
    from_send: Duration,
    /// From when the same watch saw the job.
    from_sight: Duration,
    /// What the API server took to make the job, for comparison.
    make: Duration,
}

pub(crate) async fn measure(place: &Place, report: &mut Report) {
    let ground = place.ground("demand").await;
    for number in 0..POOLS {
        let name = pool_name(number);
        let spec = if is_headroom(number) {
            json!({"mode": "Headroom", "headroomPercent": 100, "max": 200, "template": template("bench")})
        } else {
            json!({"mode": "Agents", "minIdle": EACH, "max": 100, "template": template("bench")})
        };
        ground.pool(&name, &spec).await;
        let jobs = (0..EACH).map(|at| real_job(&name, &format!("{name}-at-work-{at}"), Some("bench")));
        let made = join_all(jobs.map(async |pod| make(&ground.pods, &pod).await)).await;
        made.into_iter().for_each(|made| _ = made.unwrap());
    }
    until("1,000 pods", async || {
        let all = ground.sight.count(|known| known.phase == "Running" && !known.going);
        (all == 2 * POOLS * EACH && ground.sight.count(|_| true) == all).then_some(())
    })
    .await;
    let (cpu, began) = (ground.controller.cpu(), Instant::now());
    let left = [AtomicUsize::new(PROBES), AtomicUsize::new(PROBES)];
    let waited = join_all((0..POOLS).map(|number| probe(&ground, number, &left))).await;
    let (cpu, took) = (ground.controller.cpu() - cpu, began.elapsed());
    let waited: Vec<Waited> = waited.into_iter().flatten().collect();
    tell(report, &waited, cpu, took);
    report.turns(&ground.controller.metrics().await);
    ground.clear(place).await;
}

fn is_headroom(pool: usize) -> bool {
    pool % 2 == 1
}

fn pool_name(number: usize) -> String {
    format!("p{number}")
}

/// Gives one pool a job, waits for what comes of it, takes the job away, waits for rest, and again.
async fn probe(ground: &Ground, number: usize, left: &[AtomicUsize; 2]) -> Vec<Waited> {
    let (pool, mut dice) = (pool_name(number), Dice::new(number as u64 * 2 + 1));
    let (kind, node) = if is_headroom(number) { ("Headroom", "bench") } else { ("Agents", "none") };
    let left = &left[usize::from(is_headroom(number))];
    let mut all = Vec::new();
    let take = || left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok();
    while take() {
        tokio::time::sleep(dice.millis(100, 3000)).await;
        let before: Vec<String> = ground.sight.own(&pool).into_iter().map(|known| known.uid).collect();
        let name = format!("{pool}-probe-{}", all.len());
        let sent = Instant::now();
        make(&ground.pods, &job(&pool, &name, node)).await.unwrap();
        let make = sent.elapsed();
        let is_new = |known: &Known| !before.contains(&known.uid);
        let found = until("the pool's new pod", async || ground.sight.own(&pool).into_iter().find(is_new)).await;
        let seen = ground.sight.get(&name).unwrap().first;
        let from_sight = found.first.saturating_duration_since(seen);
        all.push(Waited { kind, from_send: found.first - sent, from_sight, make });
        ground.sight.will_delete(&name);
        until("it to run", async || ground.sight.are(&pool, EACH + 1, |known| known.phase == "Running").then_some(()))
            .await;
        delete(&ground.pods, &name).await;
        until("rest", async || ground.sight.are(&pool, EACH, |known| !known.going && !known.draining).then_some(()))
            .await;
    }
    all
}

fn tell(report: &mut Report, waited: &[Waited], cpu: Duration, took: Duration) {
    report.title("Demand to create, 1,000 pods in 20 pools");
    report.text(&format!(
        "One namespace; half of the pools Agents (a job that finds no node), half Headroom with headroomPercent 100 (a job \
         that gets a node: the scheduler's time is in it); in each {EACH} pods and {EACH} jobs at work. {} jobs in {} s, at \
         moments that nobody chose; milliseconds.",
        waited.len(),
        took.as_secs()
    ));
    report.head(&["", "jobs", "p50", "p90", "p99", "worst"]);
    type Of = fn(&Waited) -> Duration;
    let rows: [(&str, Of); 3] = [
        ("from before the job is sent until a watch sees the pool's pod", |waited| waited.from_send),
        ("from when that watch sees the job", |waited| waited.from_sight),
        ("for comparison: what the API server takes to make the job", |waited| waited.make),
    ];
    for kind in ["Agents", "Headroom"] {
        for (what, of) in rows {
            let times = Times::new(waited.iter().filter(|waited| waited.kind == kind).map(of));
            report.times(&format!("{kind}: {what}"), &times);
        }
    }
    let all = Times::new(waited.iter().map(|waited| waited.from_send));
    report.times("both: from before the job is sent", &all);
    report.text(&format!(
        "CPU of the controller meanwhile: {:.1} % of one core.",
        100.0 * cpu.as_secs_f64() / took.as_secs_f64()
    ));
    let line = |waited: &Waited| {
        let micros = [waited.from_send, waited.from_sight, waited.make].map(|time| time.as_micros().to_string());
        format!("{},{}", waited.kind, micros.join(","))
    };
    report.raw("demand.csv", "mode,from_send_us,from_sight_us,make_us", waited.iter().map(line));
}
