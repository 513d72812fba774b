/// A histogram of the API server, added up over all its labels but the one asked for.
#[derive(Clone, Debug, Default)]
pub(crate) struct Histogram {
    /// Upper bounds in seconds, the last one infinite, and how many were up to there.
    buckets: Vec<(f64, f64)>,
    sum: f64,
    count: f64,
}

impl Histogram {
    /// Reads it out of the text of `/metrics`: the series whose labels hold `label`.
    pub(crate) fn read(metrics: &str, name: &str, label: &str) -> Self {
        let mut all = Self::default();
        for line in metrics.lines() {
            let Some(rest) = line.strip_prefix(name) else { continue };
            let Some((labels, value)) = rest.rsplit_once(' ') else { continue };
            let Ok(value) = value.parse::<f64>() else { continue };
            if !labels.contains(label) {
                continue;
            }
            if labels.starts_with("_sum") {
                all.sum += value;
            } else if labels.starts_with("_count") {
                all.count += value;
            } else if let Some(bound) = labels.split("le=\"").nth(1).and_then(|rest| rest.split('"').next()) {
                let bound = if bound == "+Inf" { f64::INFINITY } else { bound.parse().unwrap_or(f64::NAN) };
                match all.buckets.iter_mut().find(|(other, _)| *other == bound) {
                    Some((_, count)) => *count += value,
                    None => all.buckets.push((bound, value)),
                }
            }
        }
        all.buckets.sort_by(|one, other| one.0.total_cmp(&other.0));
        all
    }

    /// What came to it since `before`.
    pub(crate) fn since(mut self, before: &Self) -> Self {
        for (bound, count) in &mut self.buckets {
            let was = before.buckets.iter().find(|(other, _)| other == bound).map_or(0.0, |(_, count)| *count);
            *count -= was;
        }
        self.sum -= before.sum;
        self.count -= before.count;
        self
    }

    pub(crate) fn count(&self) -> f64 {
        self.count
    }

    /// In milliseconds.
    pub(crate) fn mean(&self) -> f64 {
        self.sum * 1e3 / self.count
    }

    /// The value that this part doesn't pass, in milliseconds, taking each bucket as evenly filled, as Prometheus does.
    pub(crate) fn at(&self, part: f64) -> f64 {
        let wanted = self.count * part;
        let (mut from, mut below) = (0.0, 0.0);
        for (bound, count) in &self.buckets {
            if *count >= wanted && *count > below {
                let to = if bound.is_finite() { *bound } else { from };
                return (from + (to - from) * (wanted - below) / (count - below)) * 1e3;
            }
            (from, below) = (*bound, *count);
        }
        f64::NAN
    }
}
