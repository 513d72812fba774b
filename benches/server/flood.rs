//! One source that asks for more than its part.

use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::JoinHandle,
    time::Duration,
};

use rustls::ClientConfig;
use tokio::{task::JoinSet, time::sleep};

use crate::{
    client::{Client, tcp, tls},
    process::Webhook,
};

/// What became of its calls.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) answered: AtomicU64,
    pub(crate) come_again: AtomicU64,
    /// Connections that were closed, or not taken.
    pub(crate) closed: AtomicU64,
}

/// Sends valid reviews from one address on so many connections, each as fast as it is answered, until stopped. It has a
/// thread of its own, so that the caller whose times count never waits for it within this program.
pub(crate) struct Flood {
    stop: Arc<AtomicBool>,
    counts: Arc<Counts>,
    thread: JoinHandle<()>,
}

impl Flood {
    pub(crate) fn start(webhook: &Webhook, review: &[u8], connections: usize) -> Self {
        let (stop, counts) = (Arc::<AtomicBool>::default(), Arc::<Counts>::default());
        let (to, config, review) = (webhook.address, webhook.tls.clone(), Arc::from(review));
        let (stopped, told) = (stop.clone(), counts.clone());
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            // Without a runtime there is no flood, and its counts say so.
            let Ok(runtime) = runtime else { return };
            runtime.block_on(async {
                let mut all = JoinSet::new();
                for _ in 0..connections {
                    all.spawn(again(to, config.clone(), Arc::clone(&review), told.clone()));
                }
                while !stopped.load(Ordering::Relaxed) {
                    sleep(Duration::from_millis(20)).await;
                }
            });
        });
        Self { stop, counts, thread }
    }

    pub(crate) fn stop(self) -> Arc<Counts> {
        self.stop.store(true, Ordering::Relaxed);
        let _ = self.thread.join();
        self.counts
    }
}

/// One connection after another.
async fn again(to: SocketAddr, config: Arc<ClientConfig>, review: Arc<[u8]>, counts: Arc<Counts>) {
    loop {
        if one(to, &config, &review, &counts).await.is_err() {
            counts.closed.fetch_add(1, Ordering::Relaxed);
        }
        sleep(Duration::from_millis(100)).await;
    }
}

async fn one(to: SocketAddr, config: &Arc<ClientConfig>, review: &[u8], counts: &Counts) -> io::Result<()> {
    let from = SocketAddr::from((Ipv4Addr::new(127, 0, 9, 7), 0));
    let mut client = Client::new(tls(tcp(from, to).await?, config, "localhost").await?);
    loop {
        let count = match client.post(review).await? {
            200 => &counts.answered,
            _ => &counts.come_again,
        };
        count.fetch_add(1, Ordering::Relaxed);
    }
}
