//! What a figure was measured on, without saying whose machine it is.

use std::fs;

/// The processor's name, the number of its cores and how busy they were, in one line.
pub fn describe() -> String {
    let model = read("/proc/cpuinfo")
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(": ").map(|(_, name)| name.to_owned()))
        .unwrap_or_else(|| "unknown processor".to_owned());
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    format!("{model}, {cores} cores, load {}", load())
}

/// How many processes wanted to run in the last minute, on average.
pub fn load() -> String {
    read("/proc/loadavg").split(' ').next().unwrap_or("unknown").to_owned()
}

/// Bytes of memory this process really has.
pub fn resident() -> u64 {
    let pages =
        read("/proc/self/statm").split(' ').nth(1).and_then(|field| field.parse().ok()).unwrap_or(0u64);
    pages * 4096
}

fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
}
