//! What the kernel says a process has used.

use std::fs;

/// Nanoseconds on a core, over all threads of the process. Threads that have ended are not in it; the proxies
/// keep theirs.
pub fn cpu_nanos(pid: u32) -> u64 {
    let Ok(tasks) = fs::read_dir(format!("/proc/{pid}/task")) else {
        return 0;
    };
    let on_core = |text: String| text.split(' ').next().and_then(|field| field.parse::<u64>().ok());
    tasks
        .flatten()
        .filter_map(|task| fs::read_to_string(task.path().join("schedstat")).ok())
        .filter_map(on_core)
        .sum()
}

/// The same of one thread; the main thread has the number of its process.
pub fn thread_nanos(pid: u32, thread: u32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/task/{thread}/schedstat")).unwrap_or_default();
    text.split(' ').next().and_then(|field| field.parse().ok()).unwrap_or_default()
}

/// Bytes of memory the process really has.
pub fn resident(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default();
    line.split_whitespace().next().and_then(|field| field.parse::<u64>().ok()).unwrap_or_default() * 1024
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_busy_process_uses_its_core_and_has_memory() {
        let own = std::process::id();
        let before = cpu_nanos(own);
        let mut sum = 0u64;
        while cpu_nanos(own) < before + 5_000_000 {
            sum = std::hint::black_box(sum.wrapping_add(1));
        }
        assert!(thread_nanos(own, own) <= cpu_nanos(own));
        assert!(resident(own) > 100_000);
        assert_eq!(cpu_nanos(u32::MAX), 0);
    }
}
