//! The process itself, under the names that every exporter uses: what does it cost?

use std::fmt;
use std::fs;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

/// Linux shows times to programs in hundredths of a second (`USER_HZ`), whatever it counts in itself.
const TICKS: f64 = 100.0;

/// Reads `/proc/self` when it is asked. What cannot be read is left out.
#[derive(Clone, Copy, Debug)]
pub struct ProcessMetrics;

impl Collector for ProcessMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
        if let Some(seconds) = cpu_seconds(&stat) {
            let help = "CPU time of this process, in seconds.";
            let metric = encoder.encode_descriptor("process_cpu_seconds", help, None, MetricType::Counter)?;
            ConstCounter::new(seconds).encode(metric)?;
        }
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let stat_of_all = fs::read_to_string("/proc/stat").unwrap_or_default();
        let limits = fs::read_to_string("/proc/self/limits").unwrap_or_default();
        let open = fs::read_dir("/proc/self/fd").ok().and_then(|files| u32::try_from(files.count()).ok());
        let gauges = [
            (
                "process_resident_memory_bytes",
                "Memory of this process that is in RAM.",
                kib(&status, "VmRSS:"),
            ),
            ("process_virtual_memory_bytes", "Address space of this process.", kib(&status, "VmSize:")),
            ("process_open_fds", "Open file descriptors.", open.map(f64::from)),
            ("process_max_fds", "The limit of open file descriptors.", max_files(&limits)),
            ("process_threads", "Threads of this process.", value(&status, "Threads:")),
            (
                "process_start_time_seconds",
                "When this process started, in seconds since 1970.",
                started(&stat, &stat_of_all),
            ),
        ];
        for (name, help, value) in gauges {
            if let Some(value) = value {
                let metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
                ConstGauge::new(value).encode(metric)?;
            }
        }
        Ok(())
    }
}

/// A field of `/proc/self/stat`, counted as `man proc` does. The second one is the name in parentheses, which
/// may contain anything.
fn field(stat: &str, number: usize) -> Option<f64> {
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_ascii_whitespace().nth(number - 3)?.parse().ok()
}

/// User and system time.
fn cpu_seconds(stat: &str) -> Option<f64> {
    Some((field(stat, 14)? + field(stat, 15)?) / TICKS)
}

fn started(stat: &str, stat_of_all: &str) -> Option<f64> {
    let boot = value(stat_of_all, "btime")?;
    Some(boot + field(stat, 22)? / TICKS)
}

/// The number after a name at the start of a line.
fn value(text: &str, name: &str) -> Option<f64> {
    text.lines().find_map(|line| line.strip_prefix(name))?.split_ascii_whitespace().next()?.parse().ok()
}

fn kib(status: &str, name: &str) -> Option<f64> {
    Some(value(status, name)? * 1024.0)
}

/// The soft limit; none where there is no limit.
fn max_files(limits: &str) -> Option<f64> {
    value(limits, "Max open files")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_the_program_may_contain_anything() {
        let stat = "7 (a) b 9 (c) S 1 2 3 4 5 6 7 8 9 10 250 50 13 14 15 16 17 18 1200 20";
        assert_eq!(cpu_seconds(stat), Some(3.0));
        assert_eq!(started(stat, "cpu 1 2\nbtime 1000\n"), Some(1012.0));
        assert_eq!(cpu_seconds("garbage"), None);
    }

    #[test]
    fn memory_and_limits_are_read_by_name() {
        let status = "Name:\tx\nVmSize:\t  20 kB\nVmRSS:\t  10 kB\nThreads:\t3\n";
        assert_eq!((kib(status, "VmRSS:"), value(status, "Threads:")), (Some(10240.0), Some(3.0)));
        assert_eq!(max_files("Max open files            1024     4096     files\n"), Some(1024.0));
        assert_eq!(max_files("Max open files            unlimited unlimited files\n"), None);
    }
}
