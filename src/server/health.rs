//! Whether this process should be sent calls.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::drain::Drain;

/// What must be so before this process is ready, gathered from whoever sees to it. Ready is: every [`Condition`] is met,
/// and no drain has started.
#[derive(Clone, Debug)]
pub struct Readiness {
    drain: Drain,
    conditions: Arc<Mutex<Vec<Named>>>,
}

/// One thing that must be so. Its clones are the same condition.
#[derive(Clone, Debug)]
pub struct Condition(Arc<AtomicBool>);

#[derive(Debug)]
struct Named {
    name: &'static str,
    unmet: &'static str,
    condition: Condition,
}

impl Readiness {
    /// Ready until a condition is added or this drain starts.
    pub fn new(drain: Drain) -> Self {
        Self { drain, conditions: Arc::default() }
    }

    /// Adds a condition, unmet at first. `unmet` says to a person what is missing while it is: `"not every layer has been
    /// read yet"`.
    ///
    /// Add them all before the admin server starts, or the process is ready for a moment.
    pub fn condition(&self, name: &'static str, unmet: &'static str) -> Condition {
        let condition = Condition(Arc::default());
        let named = Named { name, unmet, condition: condition.clone() };
        self.conditions.lock().unwrap_or_else(PoisonError::into_inner).push(named);
        condition
    }

    /// Why this process isn't ready, one sentence each; empty when it is.
    pub fn reasons(&self) -> Vec<String> {
        let draining =
            self.drain.started().then(|| "stopping: open connections are being served to their end".to_owned());
        let conditions = self.conditions.lock().unwrap_or_else(PoisonError::into_inner);
        let unmet = conditions.iter().filter(|named| !named.condition.is_met());
        draining.into_iter().chain(unmet.map(|named| format!("{}: {}", named.name, named.unmet))).collect()
    }
}

impl Condition {
    /// Says whether it is met.
    pub fn set(&self, met: bool) {
        self.0.store(met, Ordering::Relaxed);
    }

    /// Whether it is met.
    pub fn is_met(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ready_needs_every_condition_and_no_drain() {
        let drain = Drain::new();
        let readiness = Readiness::new(drain.clone());
        let snapshot = readiness.condition("snapshot", "not every layer has been read yet");
        let certificate = readiness.condition("certificate", "the CA isn't in the webhook configurations yet");
        assert_eq!(readiness.reasons().len(), 2);
        snapshot.set(true);
        assert_eq!(readiness.reasons(), ["certificate: the CA isn't in the webhook configurations yet"]);
        certificate.set(true);
        assert!(readiness.reasons().is_empty());
        snapshot.set(false);
        assert_eq!(readiness.reasons(), ["snapshot: not every layer has been read yet"]);
        snapshot.set(true);
        drain.start();
        assert_eq!(readiness.reasons().len(), 1);
    }
}
