use std::fmt;

/// One quantity over several rounds: its median and its range.
#[derive(Clone, Debug, Default)]
pub(crate) struct Spread {
    values: Vec<f64>,
}

impl Spread {
    pub(crate) fn push(&mut self, value: f64) {
        let at = self.values.partition_point(|other| *other < value);
        self.values.insert(at, value);
    }

    /// The least of them: of times, what the work takes when nobody interrupts it.
    pub(crate) fn least(&self) -> f64 {
        self.values.first().copied().unwrap_or(f64::NAN)
    }

    /// The one in the middle, of an even number the mean of the two.
    pub(crate) fn median(&self) -> f64 {
        let half = self.values.len() / 2;
        match (self.values.get(half.wrapping_sub(1)), self.values.get(half)) {
            (Some(below), Some(above)) if self.values.len().is_multiple_of(2) => (below + above) / 2.0,
            (_, Some(middle)) => *middle,
            _ => f64::NAN,
        }
    }
}

impl FromIterator<f64> for Spread {
    fn from_iter<I: IntoIterator<Item = f64>>(values: I) -> Self {
        let mut all = Self::default();
        values.into_iter().for_each(|value| all.push(value));
        all
    }
}

/// `84.1 (83.0–91.7)`, with three digits that mean something.
impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [Some(least), Some(most)] = [self.values.first(), self.values.last()] else { return f.write_str("–") };
        let digits = match self.median().abs() {
            large if large >= 100.0 => 0,
            middling if middling >= 10.0 => 1,
            small if small >= 1.0 => 2,
            _ => 4,
        };
        write!(f, "{:.digits$} ({least:.digits$}–{most:.digits$})", self.median())
    }
}
