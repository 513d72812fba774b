use std::{collections::BTreeMap, fmt::Write as _, fs, path::PathBuf, process::Command, time::Duration};

use crate::pools::soak::Outcome;

/// Times in order.
pub(crate) struct Times(Vec<Duration>);

impl Times {
    pub(crate) fn new(times: impl Iterator<Item = Duration>) -> Self {
        let mut times: Vec<_> = times.collect();
        times.sort_unstable();
        Self(times)
    }

    /// The milliseconds that this part of them doesn't pass.
    pub(crate) fn at(&self, part: f64) -> u128 {
        let last = self.0.len().saturating_sub(1);
        self.0.get((last as f64 * part).ceil() as usize).map_or(0, Duration::as_millis)
    }
}

/// What is printed, and written into the target folder.
pub(crate) struct Report {
    text: String,
}

impl Report {
    /// One that says on what it was measured.
    pub(crate) fn new() -> Self {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let info = read("/proc/cpuinfo");
        let model = info.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or_default();
        let model = model.trim_start_matches(['\t', ' ', ':']);
        let cores = info.lines().filter(|line| line.starts_with("processor")).count();
        let date =
            Command::new("date").arg("-u").arg("+%F %H:%M UTC").output().map(|out| out.stdout).unwrap_or_default();
        let date = String::from_utf8_lossy(&date).trim().to_owned();
        let build = if cfg!(debug_assertions) { "debug build" } else { "release build" };
        let load = read("/proc/loadavg");
        let load = load.split(' ').take(3).collect::<Vec<_>>().join(" ");
        let text = format!(
            "{date}, {build}, {cores} cores ({model}) that API server, etcd, scheduler, kwok and this program share; load at \
             the start {load}.\n"
        );
        Self { text }
    }

    pub(crate) fn title(&mut self, title: &str) {
        write!(self.text, "\n### {title}\n").unwrap();
    }

    pub(crate) fn text(&mut self, text: &str) {
        write!(self.text, "\n{text}\n").unwrap();
    }

    pub(crate) fn head(&mut self, columns: &[&str]) {
        write!(self.text, "\n| {} |\n|---|{}\n", columns.join(" | "), "---:|".repeat(columns.len() - 1)).unwrap();
    }

    pub(crate) fn row(&mut self, cells: &[String]) {
        writeln!(self.text, "| {} |", cells.join(" | ")).unwrap();
        eprintln!("| {} |", cells.join(" | "));
    }

    pub(crate) fn times(&mut self, what: &str, times: &Times) {
        let at = |part: f64| times.at(part).to_string();
        self.row(&[what.to_owned(), times.0.len().to_string(), at(0.5), at(0.9), at(0.99), at(1.0)]);
    }

    /// How long the controller's turns took, from its own histogram.
    pub(crate) fn turns(&mut self, metrics: &str) {
        let of = |name: &str| -> f64 {
            let line = metrics.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
            line.trim().parse().unwrap_or_default()
        };
        let (sum, count) = (of("podlayer_pool_turn_seconds_sum"), of("podlayer_pool_turn_seconds_count"));
        self.text(&format!(
            "{count} turns (look, decide, write) of {:.1} ms in the mean.",
            sum * 1000.0 / count.max(1.0)
        ));
    }

    /// What came of a soak.
    pub(crate) fn soak(&mut self, outcome: &Outcome, seed: u64) {
        self.title("Soak");
        let seconds = outcome.took.as_secs();
        let count = outcome.followed.len();
        self.text(&format!("{} min, seed {seed}, three controllers, {count} leaders killed (kill -9).", seconds / 60));
        self.head(&["pool", "jobs", "pods made", "most at a time"]);
        for (pool, jobs) in &outcome.jobs {
            self.row(&[
                (*pool).to_owned(),
                jobs.to_string(),
                outcome.made[pool].to_string(),
                outcome.most[pool].to_string(),
            ]);
        }
        let (followed, counted) =
            (Times::new(outcome.followed.iter().copied()), Times::new(outcome.counted.iter().copied()));
        self.text(&format!(
            "{} agents seen at work; {} events of pods. From a kill to the next leader: {} ms in the middle, {} ms at most. \
             Counts of every controller were compared with the API server's {} times; they agreed after {} ms in the \
             middle, {} ms at most. {} writes of a status, {:.2} a second for each pool.",
            outcome.busy,
            outcome.events,
            followed.at(0.5),
            followed.at(1.0),
            outcome.counted.len(),
            counted.at(0.5),
            counted.at(1.0),
            outcome.status_writes,
            outcome.status_writes as f64 / seconds.max(1) as f64 / outcome.jobs.len() as f64,
        ));
        let mut lives: BTreeMap<u32, Vec<(u64, u64)>> = BTreeMap::new();
        for (at, process, resident) in &outcome.memory {
            lives.entry(*process).or_default().push((*at, *resident));
        }
        let span = |life: &Vec<(u64, u64)>| life.last().unwrap().0 - life[0].0;
        if let Some((_, longest)) = lives.iter().max_by_key(|(_, life)| span(life)) {
            let most = outcome.memory.iter().map(|(_, _, resident)| *resident).max().unwrap_or_default();
            self.text(&format!(
                "Resident memory: {most} KiB at most in any of {} processes; the one that lived longest ({} s) had {} KiB \
                 5 s after its start, {} KiB halfway, {} KiB at its end.",
                lives.len(),
                span(longest),
                longest[0].1,
                longest[longest.len() / 2].1,
                longest.last().unwrap().1
            ));
        }
        self.text(&format!("What must not have happened and did: {}.", outcome.violations.len()));
        for violation in &outcome.violations {
            self.text(&format!("- {violation}"));
        }
        let line = |(at, process, resident): &(u64, u32, u64)| format!("{at},{process},{resident}");
        self.raw("soak-memory.csv", "second,process,resident_kib", outcome.memory.iter().map(line));
    }

    /// Keeps the data that a table was made from.
    pub(crate) fn raw(&self, name: &str, head: &str, lines: impl Iterator<Item = String>) {
        let folder = folder().join("pools");
        fs::create_dir_all(&folder).unwrap();
        let text = lines.fold(format!("{head}\n"), |text, line| text + &line + "\n");
        fs::write(folder.join(name), text).unwrap();
    }

    pub(crate) fn write(&self, name: &str) {
        print!("{}", self.text);
        fs::create_dir_all(folder()).unwrap();
        fs::write(folder().join(name), &self.text).unwrap();
    }
}

fn folder() -> PathBuf {
    let target = std::env::var("CARGO_TARGET_DIR").unwrap_or_else(|_| format!("{}/target", env!("CARGO_MANIFEST_DIR")));
    PathBuf::from(target).join("bench")
}
