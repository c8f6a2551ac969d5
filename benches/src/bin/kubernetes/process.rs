//! What the kernel says of a process.

use std::fs;

/// Bytes of memory it really has now, and at the most so far.
pub(crate) struct Memory {
    pub(crate) resident: u64,
    pub(crate) peak: u64,
}

pub(crate) fn memory(pid: u32) -> Memory {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("the process lives");
    let kib = |name: &str| -> u64 {
        let line = status.lines().find_map(|line| line.strip_prefix(name)).expect("a line of the status");
        line.trim_matches(|c: char| !c.is_ascii_digit()).parse().expect("a number")
    };
    Memory { resident: kib("VmRSS:") << 10, peak: kib("VmHWM:") << 10 }
}

/// Seconds of CPU it has used, in itself and in the kernel. The kernel counts in hundredths.
pub(crate) fn cpu(pid: u32) -> f64 {
    const TICKS: f64 = 100.0;
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).expect("the process lives");
    // The name stands in parentheses and may contain anything.
    let fields = stat.rsplit(')').next().unwrap_or_default();
    let times = fields.split_whitespace().skip(11).take(2).map(|field| field.parse::<f64>().expect("ticks"));
    times.sum::<f64>() / TICKS
}

pub(crate) fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}
