use std::{sync::Arc, time::Duration};

use podlayer::names;
use tokio::{
    sync::Semaphore,
    task::JoinSet,
    time::{Instant, sleep_until},
};

use crate::{api::Api, common::latencies::Latencies};

/// So many creates may be under way; the next wait, and their time runs from when they were due.
const IN_FLIGHT: usize = 256;

/// What came of a round.
#[derive(Default)]
pub(crate) struct Creates {
    pub(crate) latencies: Latencies,
    /// How many came back with podlayer's stamp.
    pub(crate) stamped: usize,
    /// What the API server said of the first that failed.
    pub(crate) failure: Option<String>,
}

/// Makes pods at a steady rate, whether or not the earlier ones are done.
pub(crate) async fn create(api: &Api, path: &str, pod: &Arc<Vec<u8>>, rate: u32, length: Duration) -> Creates {
    let turns = Arc::new(Semaphore::new(IN_FLIGHT));
    let mut running = JoinSet::new();
    let mut all = Creates::default();
    let start = Instant::now() + Duration::from_millis(50);
    let mut parts = Vec::new();
    for number in 0u32.. {
        let due = start + Duration::from_secs(1).mul_f64(f64::from(number) / f64::from(rate));
        if due >= start + length {
            break;
        }
        sleep_until(due).await;
        // The timer's own lateness isn't the API server's; that of a loop which can't keep up is a few microseconds.
        let from = Instant::now();
        let (api, path, pod, turns) = (api.clone(), path.to_owned(), pod.clone(), turns.clone());
        running.spawn(async move {
            // An error would mean that it was closed, which nobody does.
            let _turn = turns.acquire().await;
            let made = api.create(&path, pod.as_ref().clone()).await;
            (from.elapsed(), made.map(|pod| pod.contains(names::APPLIED)).map_err(|error| error.to_string()))
        });
        while let Some(done) = running.try_join_next() {
            parts.extend(done.ok());
        }
    }
    parts.extend(running.join_all().await);
    for (taken, made) in parts {
        match made {
            Ok(stamped) => {
                all.latencies.push(taken);
                all.stamped += usize::from(stamped);
            }
            Err(error) => {
                all.latencies.failed += 1;
                all.failure.get_or_insert(error);
            }
        }
    }
    all.latencies = Latencies::together([all.latencies]);
    all
}
