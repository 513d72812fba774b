use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;

use super::limits::Limits;

/// What a connection is doing, and until when it may.
///
/// HTTP libraries count a limit on a request's head from the moment when they begin to wait for it, so that it is at the
/// same time a limit on how long a kept connection may be idle; with a short one, callers find their connection closed
/// under them. Here the head's time begins with its first byte.
///
/// Only the task of its connection moves a clock, so no ordering between its two numbers is needed.
#[derive(Debug)]
pub(super) struct Clock {
    start: Instant,
    /// Milliseconds from `start`.
    deadline: AtomicU64,
    phase: AtomicU8,
    head: Duration,
    idle: Duration,
    call: Duration,
}

/// What a connection is doing.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Phase {
    /// From the end of a head to the end of the answer.
    Call,
    /// From the first byte of a head to its end.
    Head,
    /// Between an answer and the next request.
    Idle,
}

impl Clock {
    pub(super) fn new(limits: &Limits) -> Self {
        let clock = Self {
            start: Instant::now(),
            deadline: AtomicU64::new(0),
            phase: AtomicU8::new(0),
            head: limits.head,
            idle: limits.idle,
            call: limits.call,
        };
        clock.enter(Phase::Idle);
        clock
    }

    /// Bytes have come: the first of a request, if none was under way.
    pub(super) fn bytes_read(&self) {
        if self.phase() == Phase::Idle {
            self.enter(Phase::Head);
        }
    }

    pub(super) fn enter(&self, phase: Phase) {
        let time = match phase {
            Phase::Call => self.call,
            Phase::Head => self.head,
            Phase::Idle => self.idle,
        };
        let deadline = u64::try_from((self.start.elapsed() + time).as_millis()).unwrap_or(u64::MAX);
        self.deadline.store(deadline, Ordering::Relaxed);
        self.phase.store(phase as u8, Ordering::Relaxed);
    }

    pub(super) fn deadline(&self) -> Instant {
        self.start + Duration::from_millis(self.deadline.load(Ordering::Relaxed))
    }

    pub(super) fn phase(&self) -> Phase {
        let phase = self.phase.load(Ordering::Relaxed);
        [Phase::Call, Phase::Head].into_iter().find(|known| *known as u8 == phase).unwrap_or(Phase::Idle)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_first_byte_of_a_request_starts_the_time_for_its_head() {
        let clock = Clock::new(&Limits::default());
        assert_eq!(clock.phase(), Phase::Idle);
        clock.bytes_read();
        assert_eq!(clock.phase(), Phase::Head);
        let deadline = clock.deadline();
        clock.bytes_read();
        assert_eq!(clock.deadline(), deadline);
        clock.enter(Phase::Call);
        clock.bytes_read();
        assert_eq!(clock.phase(), Phase::Call);
    }
}
