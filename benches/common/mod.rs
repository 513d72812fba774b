//! What several benchmarks share: processes and what they cost, times of calls, spreads over rounds, the machine.
#![allow(dead_code, reason = "each benchmark uses its own part")]

pub(crate) mod latencies;
pub(crate) mod machine;
pub(crate) mod process;
pub(crate) mod report;
pub(crate) mod run;
pub(crate) mod spread;
