//! A caller that keeps its times.

use std::{
    error::Error,
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use tokio::{
    task::JoinSet,
    time::{Instant, sleep_until},
};

use crate::{
    client::{Client, tcp, tls},
    process::Webhook,
};

/// A call that couldn't even be made so long after it was due isn't made.
const LATEST: Duration = Duration::from_secs(5);

/// What each call took, in microseconds, sorted.
#[derive(Clone, Debug, Default)]
pub(crate) struct Latencies {
    micros: Vec<u64>,
    /// Calls that weren't answered with 200.
    pub(crate) failed: usize,
}

impl Latencies {
    /// The value that this part of the calls doesn't pass.
    pub(crate) fn at(&self, part: f64) -> u64 {
        let last = self.micros.len().saturating_sub(1);
        self.micros.get((last as f64 * part).round() as usize).copied().unwrap_or_default()
    }

    /// How many calls took longer than so many microseconds.
    pub(crate) fn longer_than(&self, micros: u64) -> usize {
        self.micros.iter().filter(|each| **each > micros).count()
    }

    pub(crate) fn count(&self) -> usize {
        self.micros.len() + self.failed
    }

    pub(crate) fn together(rounds: &[Self]) -> Self {
        let mut all = Self::default();
        for round in rounds {
            all.micros.extend(&round.micros);
            all.failed += round.failed;
        }
        all.micros.sort_unstable();
        all
    }
}

/// Makes calls at a steady rate on so many connections, one at a time on each.
pub(crate) async fn steady(
    webhook: &Webhook,
    review: &[u8],
    rate: u32,
    connections: u32,
    length: Duration,
) -> Result<Latencies, Box<dyn Error>> {
    let review: Arc<[u8]> = review.into();
    let mut workers = JoinSet::new();
    let start = Instant::now() + Duration::from_millis(300);
    for connection in 0..connections {
        let stream = tcp(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), webhook.address).await?;
        let mut client = Client::new(tls(stream, &webhook.tls, "localhost").await?);
        let review = review.clone();
        workers.spawn(async move {
            let mut latencies = Latencies::default();
            for turn in 0u32.. {
                let due = start + Duration::from_secs(1) * (turn * connections + connection) / rate;
                if due > start + length {
                    break;
                }
                // A timer is late by up to a millisecond, which is no fault of the server's.
                let free = Instant::now() <= due;
                sleep_until(due).await;
                if due.elapsed() > LATEST {
                    // Who calls has given up long ago, and so do we, on all that are still to come.
                    let left =
                        ((start + length - due).as_secs_f64() * f64::from(rate) / f64::from(connections)) as usize;
                    latencies.failed += 1 + left;
                    break;
                }
                let from = if free { Instant::now() } else { due };
                match client.post(&review).await {
                    Ok(200) => latencies.micros.push(u64::try_from(from.elapsed().as_micros()).unwrap_or(u64::MAX)),
                    Ok(_) => latencies.failed += 1,
                    Err(_) => {
                        latencies.failed += 1;
                        break;
                    }
                }
            }
            latencies
        });
    }
    Ok(Latencies::together(&workers.join_all().await))
}

/// Makes so many calls as fast as they are answered; gives how many failed.
pub(crate) async fn saturate(
    webhook: &Webhook,
    reviews: &[Vec<u8>],
    calls: u32,
    connections: u32,
) -> Result<usize, Box<dyn Error>> {
    let reviews: Arc<[Vec<u8>]> = reviews.into();
    let mut workers = JoinSet::new();
    for connection in 0..connections {
        let stream = tcp(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), webhook.address).await?;
        let mut client = Client::new(tls(stream, &webhook.tls, "localhost").await?);
        let reviews = reviews.clone();
        workers.spawn(async move {
            let mut failed = 0;
            for review in reviews.iter().cycle().skip(connection as usize).take((calls / connections) as usize) {
                failed += usize::from(!matches!(client.post(review).await, Ok(200)));
            }
            failed
        });
    }
    Ok(workers.join_all().await.into_iter().sum())
}
