use std::{fs, process::Command, thread};

/// One line about where and when something was measured, for whoever reads the numbers later.
pub(crate) fn machine() -> String {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let cores = thread::available_parallelism().map_or(0, usize::from);
    let cpu = read("/proc/cpuinfo");
    let cpu = cpu.lines().find_map(|line| line.strip_prefix("model name")?.split(": ").nth(1));
    let kernel = read("/proc/sys/kernel/osrelease");
    let load = read("/proc/loadavg");
    let load = load.split(' ').next().unwrap_or("?");
    let date = Command::new("date").arg("-u").arg("+%F %H:%M UTC").output().map(|output| output.stdout);
    let date = String::from_utf8_lossy(&date.unwrap_or_default()).trim().to_owned();
    format!(
        "{cores} cores ({}), Linux {}, load {load} at the start, {date}. A load above 0.3 at the start means that \
         others were at work: then only ratios of one run say something.",
        cpu.unwrap_or("CPU unknown"),
        kernel.trim()
    )
}
