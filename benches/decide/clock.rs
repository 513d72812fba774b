use std::{fmt, time::Duration};

/// How long a turn shall take: well above the clock's own grain, yet so short that on a machine with other work many
/// turns lie within one time slice, and both sides meet the same moments.
const TURN: Duration = Duration::from_millis(10);
/// How long one place of the table may take.
const PLACE: Duration = Duration::from_secs(2);
/// The fewest and the most turns that each side has at one place; odd, so that the median is one of them.
pub(crate) const TURNS: [usize; 2] = [5, 31];

/// How many decisions fill a turn, by what one took; at least one, however long that is.
pub(crate) fn decisions_in_a_turn(one: Duration) -> u32 {
    let count = TURN.as_nanos() / one.as_nanos().max(1);
    u32::try_from(count).unwrap_or(u32::MAX).clamp(1, 100_000)
}

/// How many turns each side has, by what one decision of each took.
pub(crate) fn turns(each: &[Duration]) -> usize {
    let round: u128 = each.iter().map(|one| (*one).max(TURN).as_nanos()).sum();
    let count = usize::try_from(PLACE.as_nanos() / round.max(1)).unwrap_or(usize::MAX);
    count.clamp(TURNS[0], TURNS[1]) | 1
}

/// What one decision took, turn by turn, in nanoseconds.
#[derive(Clone, Debug, Default)]
pub(crate) struct Series {
    turns: Vec<f64>,
}

impl Series {
    pub(crate) fn push(&mut self, one: Duration) {
        let one = one.as_secs_f64() * 1e9;
        let at = self.turns.partition_point(|turn| *turn < one);
        self.turns.insert(at, one);
    }

    pub(crate) fn median(&self) -> f64 {
        self.turns.get(self.turns.len() / 2).copied().unwrap_or(f64::NAN)
    }
}

/// Median and range in microseconds: `84.1 (83.0–91.7)`.
impl fmt::Display for Series {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [Some(least), Some(most)] = [self.turns.first(), self.turns.last()] else { return f.write_str("–") };
        let digits = if self.median() < 100_000.0 { 1 } else { 0 };
        write!(f, "{:.digits$} ({:.digits$}–{:.digits$})", self.median() / 1e3, least / 1e3, most / 1e3)
    }
}
