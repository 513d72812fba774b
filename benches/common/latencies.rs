use std::time::Duration;

/// What calls took, in microseconds, and how many went wrong.
#[derive(Clone, Debug, Default)]
pub(crate) struct Latencies {
    micros: Vec<u64>,
    /// Calls that weren't answered as they should be.
    pub(crate) failed: usize,
    /// Calls that were due and never made, for the server was too slow; each counts with the time it had waited so far.
    pub(crate) unmade: usize,
}

impl Latencies {
    pub(crate) fn push(&mut self, taken: Duration) {
        self.micros.push(u64::try_from(taken.as_micros()).unwrap_or(u64::MAX));
    }

    /// How many were answered.
    pub(crate) fn answered(&self) -> usize {
        self.micros.len() - self.unmade
    }

    /// The value that this part of the calls doesn't pass, once [sorted](Self::together).
    pub(crate) fn at(&self, part: f64) -> u64 {
        let last = self.micros.len().saturating_sub(1);
        self.micros.get((last as f64 * part).round() as usize).copied().unwrap_or_default()
    }

    /// All of them, sorted.
    pub(crate) fn together(parts: impl IntoIterator<Item = Self>) -> Self {
        let mut all = Self::default();
        for part in parts {
            all.micros.extend(part.micros);
            all.failed += part.failed;
            all.unmade += part.unmade;
        }
        all.micros.sort_unstable();
        all
    }
}
