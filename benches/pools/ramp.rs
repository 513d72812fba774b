//! From nothing to 1,000 pods and back.

use std::time::{Duration, Instant};

use futures::{StreamExt, stream};
use serde_json::json;

use crate::{
    place::{POOLS, Place},
    pools::{
        objects::{delete_all, job, make, template},
        until,
    },
    report::Report,
};

/// Jobs of each pool.
const EACH: usize = 50;
/// Jobs that are sent at the same time.
const AT_ONCE: usize = 16;

pub(crate) async fn measure(place: &Place, report: &mut Report) {
    let ground = place.ground("ramp").await;
    for number in 0..POOLS {
        let spec = json!({"mode": "Agents", "max": 100, "template": template("bench")});
        ground.pool(&format!("p{number}"), &spec).await;
    }
    tokio::time::sleep(Duration::from_secs(2)).await;
    let all = POOLS * EACH;
    let cpu = ground.controller.cpu();
    let began = Instant::now();
    let jobs = (0..all).map(|number| job(&format!("p{}", number % POOLS), &format!("job-{number}"), "none"));
    let pods = &ground.pods;
    let made = stream::iter(jobs.map(async |pod| make(pods, &pod).await.unwrap())).buffer_unordered(AT_ONCE);
    made.for_each(|_| std::future::ready(())).await;
    let sight = &ground.sight;
    until("1,000 agents to run", async || {
        (sight.count(|known| known.pool.is_some() && known.phase == "Running") == all).then_some(())
    })
    .await;
    let ran = began.elapsed();
    let (jobs, agents) = (sight.firsts(|known| known.job.is_some()), sight.firsts(|known| known.pool.is_some()));
    let cpu_up = ground.controller.cpu() - cpu;
    assert_eq!(agents.len(), all, "as many agents as jobs");
    let lag: Vec<Duration> =
        jobs.iter().zip(&agents).map(|(job, agent)| agent.saturating_duration_since(*job)).collect();

    let (cpu, down) = (ground.controller.cpu(), Instant::now());
    for number in 0..all {
        sight.will_delete(&format!("job-{number}"));
    }
    delete_all(pods, crate::pools::objects::JOB).await;
    until("all agents to go", async || (sight.count(|known| known.pool.is_some()) == 0).then_some(())).await;
    let (down, cpu_down) = (down.elapsed(), ground.controller.cpu() - cpu);

    report.title("0 → 1,000 → 0 agents in 20 pools");
    report.text(&format!(
        "{all} jobs without a node are sent, {AT_ONCE} at a time, {EACH} to each of {POOLS} pools that hold nothing; then all \
         are deleted at once. A watch keeps the times; seconds from the first job sent."
    ));
    report.head(&["", "10 %", "50 %", "100 %"]);
    for (what, times) in [("jobs seen", &jobs), ("agents seen", &agents)] {
        let at = |part: usize| format!("{:.2}", (times[(all - 1) * part / 100] - began).as_secs_f64());
        report.row(&[what.to_owned(), at(10), at(50), at(100)]);
    }
    report.text(&format!(
        "The n-th agent came after the n-th job: {} ms in the middle, {} ms at most. All ran after {:.1} s (kwok). The \
         controller used {:.2} s of CPU, {:.2} ms for each agent. Back to nothing (marked, looked at again, deleted, at \
         most 10 of a pool in one step): {:.1} s, {:.2} s of CPU.",
        percentile(&lag, 50),
        percentile(&lag, 100),
        ran.as_secs_f64(),
        cpu_up.as_secs_f64(),
        cpu_up.as_secs_f64() * 1000.0 / all as f64,
        down.as_secs_f64(),
        cpu_down.as_secs_f64(),
    ));
    let lines = jobs
        .iter()
        .zip(&agents)
        .map(|(job, agent)| format!("{},{}", (*job - began).as_micros(), (*agent - began).as_micros()));
    report.raw("ramp.csv", "nth_job_us,nth_agent_us", lines);
    ground.clear(place).await;
}

fn percentile(times: &[Duration], part: usize) -> u128 {
    let mut sorted = times.to_vec();
    sorted.sort_unstable();
    sorted[(sorted.len() - 1) * part / 100].as_millis()
}
