//! Callers of three kinds: those that ask again as soon as they are answered, on kept connections or each time on a new
//! one, and those whose calls are due at fixed times.

use std::{io, sync::Arc, time::Duration};

use tokio::{
    task::JoinSet,
    time::{Instant, sleep_until, timeout_at},
};

use crate::{common::latencies::Latencies, server::Server};

/// How the server is asked.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Load {
    /// As fast as it answers, each caller on a connection that it keeps.
    Kept,
    /// The same, with a new connection and a whole TLS handshake for each call.
    Cold,
    /// So many calls a second, whether or not earlier ones are done. A call that is due while its caller still waits for
    /// the one before is measured from when it was due: a server that stalls shows in every call that had to wait. One
    /// whose caller was free is measured from when it was sent, for timers are late by up to a millisecond.
    Rate(u32),
}

impl Load {
    pub(crate) fn name(self) -> String {
        match self {
            Self::Kept => "as fast as answered".into(),
            Self::Cold => "new connection each".into(),
            Self::Rate(rate) => format!("{rate}/s"),
        }
    }

    /// Keeps so many callers busy for this long; gives what their calls took and how long it was in all.
    pub(crate) async fn run(
        self,
        server: &Arc<Server>,
        review: &Arc<[u8]>,
        callers: u32,
        length: Duration,
    ) -> io::Result<(Latencies, Duration)> {
        let mut workers = JoinSet::new();
        let mut clients = Vec::new();
        for _ in 0..callers {
            clients.push(if self == Self::Cold { None } else { Some(server.connect().await?) });
        }
        let start = Instant::now() + Duration::from_millis(20);
        let end = start + length;
        for (caller, client) in (0u32..).zip(clients) {
            let (server, review) = (server.clone(), review.clone());
            workers.spawn(async move {
                let mut latencies = Latencies::default();
                let mut kept = client;
                sleep_until(start).await;
                for turn in 0u32.. {
                    let due = match self {
                        Self::Rate(rate) => {
                            start + Duration::from_secs(1).mul_f64(f64::from(turn * callers + caller) / f64::from(rate))
                        }
                        Self::Kept | Self::Cold => Instant::now(),
                    };
                    if due >= end {
                        break;
                    }
                    if matches!(self, Self::Rate(_)) && Instant::now() >= end + length {
                        // Hopelessly behind; what is left would have waited at least this long.
                        latencies.unmade += 1;
                        latencies.push(due.elapsed());
                        continue;
                    }
                    let free = Instant::now() <= due;
                    sleep_until(due).await;
                    let from = if free { Instant::now() } else { due };
                    let called = async {
                        match (&mut kept, self) {
                            (Some(client), _) => client.post(&review).await,
                            (None, Self::Cold) => server.connect().await?.post(&review).await,
                            (None, _) => kept.insert(server.connect().await?).post(&review).await,
                        }
                    };
                    // A minute is more than any of them takes; a server that hangs ends the run all the same.
                    match timeout_at(Instant::now() + Duration::from_secs(60), called).await {
                        Ok(Ok(200)) => latencies.push(from.elapsed()),
                        Ok(Ok(_)) => latencies.failed += 1,
                        Ok(Err(_)) | Err(_) => {
                            latencies.failed += 1;
                            kept = None;
                        }
                    }
                }
                latencies
            });
        }
        let all = Latencies::together(workers.join_all().await);
        Ok((all, start.elapsed()))
    }
}
