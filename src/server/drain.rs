//! Stopping without losing a call.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;

/// Says, once and to everyone who holds a clone, that this process is about to stop.
///
/// From then on `/readyz` answers 503, connections are still accepted, every answer carries `Connection: close`, and the
/// webhook's server ends when nobody is connected any more. An idle connection isn't closed from here: a call that is on
/// its way on it would be lost, and API servers don't repeat it.
#[derive(Clone, Debug, Default)]
pub struct Drain(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    started: AtomicBool,
    notify: Notify,
}

impl Drain {
    /// Not started.
    pub fn new() -> Self {
        Self::default()
    }

    /// Starts it; again does nothing.
    pub fn start(&self) {
        self.0.started.store(true, Ordering::Release);
        self.0.notify.notify_waiters();
    }

    /// Whether it has started.
    pub fn started(&self) -> bool {
        self.0.started.load(Ordering::Acquire)
    }

    /// Waits until it has started.
    pub async fn wait(&self) {
        // Made before the look, so that a start between the look and the wait isn't missed.
        let notified = self.0.notify.notified();
        if !self.started() {
            notified.await;
        }
    }

    /// Starts it when the process is told to stop (SIGTERM, SIGINT), and returns when it is told so again: then the
    /// person at the terminal doesn't want to wait.
    ///
    /// # Errors
    /// When signals can't be listened to.
    pub async fn on_signals(&self) -> io::Result<()> {
        let mut signals = Signals::new()?;
        let signal = signals.next().await;
        tracing::info!(signal, "stopping: open connections are served until their callers close them");
        self.start();
        let signal = signals.next().await;
        tracing::warn!(signal, "stopping at once");
        Ok(())
    }
}

#[cfg(unix)]
struct Signals {
    terminate: tokio::signal::unix::Signal,
    interrupt: tokio::signal::unix::Signal,
}

#[cfg(unix)]
impl Signals {
    fn new() -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }
}

#[cfg(windows)]
struct Signals(tokio::signal::windows::CtrlC);

#[cfg(windows)]
impl Signals {
    fn new() -> io::Result<Self> {
        tokio::signal::windows::ctrl_c().map(Self)
    }

    async fn next(&mut self) -> &'static str {
        self.0.recv().await;
        "Ctrl-C"
    }
}
