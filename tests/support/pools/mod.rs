//! Pools under load, for the soak and the benchmarks: controllers as processes, a watch that keeps its own times, and
//! what a CI system does.

#![allow(dead_code, reason = "each binary uses its own part")]
#![allow(clippy::print_stderr, reason = "what a controller logged is shown where something fails")]

pub(crate) mod controller;
pub(crate) mod objects;
pub(crate) mod sight;
pub(crate) mod soak;
pub(crate) mod tally;

use std::{
    future::Future,
    time::{Duration, Instant},
};

use kube::{
    Client,
    config::{KubeConfigOptions, Kubeconfig},
};

/// How long anything may take here: many times what it does on an idle machine.
pub(crate) const LONG: Duration = Duration::from_secs(180);

/// A client of whoever the kubeconfig is for.
pub(crate) async fn client(kubeconfig: &str) -> Client {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let config = Kubeconfig::read_from(kubeconfig).unwrap();
    let config = kube::Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await.unwrap();
    Client::try_from(config).unwrap()
}

/// Asks until there is an answer.
///
/// # Panics
/// When there is none for [`LONG`], naming what was waited for.
pub(crate) async fn until<T, F: Future<Output = Option<T>>>(what: &str, mut ask: impl FnMut() -> F) -> T {
    let began = Instant::now();
    loop {
        if let Some(answer) = ask().await {
            return answer;
        }
        assert!(began.elapsed() < LONG, "waited {LONG:?} in vain for {what}");
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
}

/// Numbers that nobody chose, the same again for the same seed.
#[derive(Debug)]
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed | 1)
    }

    /// At least the first, less than the second.
    pub(crate) fn between(&mut self, from: u64, to: u64) -> u64 {
        // xorshift64: no more is needed to spread moments.
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        from + self.0 % (to - from)
    }

    pub(crate) fn millis(&mut self, from: u64, to: u64) -> Duration {
        Duration::from_millis(self.between(from, to))
    }
}
