//! What a gateway uses and has at one moment: a line of the record.

use std::collections::HashMap;
use std::fs;
use std::io::{self, Write};
use std::time::Duration;

use serde_json::Value;

use crate::Gateway;

const MIB: f64 = 1024.0 * 1024.0;

/// How much a column may grow in the time that is judged.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tolerance {
    pub(super) absolute: f64,
    /// A share of the level at the beginning.
    pub(super) relative: f64,
}

impl Tolerance {
    const fn new(absolute: f64, relative: f64) -> Option<Self> {
        Some(Self { absolute, relative })
    }
}

/// A column of the record.
#[derive(Debug)]
pub struct Column {
    /// Its name, with its unit.
    pub name: &'static str,
    /// What it may grow; `None`: it is recorded and not judged.
    pub(super) tolerance: Option<Tolerance>,
    /// Where it has to return to once the churn has ended.
    pub(super) returns: Returns,
}

/// Where a column has to return to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Returns {
    /// To nothing.
    ToZero,
    /// To what it was before the churn.
    ToStart,
    /// It need not.
    No,
}

const fn judged(name: &'static str, absolute: f64, relative: f64) -> Column {
    Column { name, tolerance: Tolerance::new(absolute, relative), returns: Returns::No }
}

/// A count, which also has to return.
const fn counted(name: &'static str, returns: Returns) -> Column {
    Column { name, tolerance: Tolerance::new(4.0, 0.1), returns }
}

const fn recorded(name: &'static str) -> Column {
    Column { name, tolerance: None, returns: Returns::No }
}

/// How many there are. A number of its own: an optimised build cannot ask the table below for it in a type.
const COUNT: usize = 21;

/// The columns, in their order. Counts go up and down with the churn, so a tenth of their level is none of
/// our business.
///
/// Of memory three things are judged. What is allocated is what the code holds: a leak shows here first. RSS
/// less what the allocator keeps free for the next allocation also has the memory that is not the
/// allocator's: stacks, code, mappings. RSS itself has the allocator's caches, which fill for ten minutes and
/// more up to a limit of their own, so it may grow more.
pub const COLUMNS: [Column; COUNT] = [
    judged("allocated_mib", 1.0, 0.02),
    judged("rss_in_use_mib", 2.0, 0.02),
    judged("rss_mib", 4.0, 0.02),
    recorded("heap_mib"),
    recorded("free_in_heap_mib"),
    recorded("returned_mib"),
    recorded("thread_caches_mib"),
    recorded("anonymous_mib"),
    counted("descriptors", Returns::ToStart),
    judged("threads", 0.5, 0.0),
    counted("routes", Returns::ToZero),
    counted("tombstones", Returns::ToZero),
    counted("hosts", Returns::ToZero),
    counted("held_requests", Returns::ToZero),
    counted("client_connections", Returns::ToZero),
    counted("sandbox_connections", Returns::ToZero),
    counted("active_requests", Returns::ToZero),
    counted("push_connections", Returns::ToZero),
    judged("statistics", 8.0, 0.0),
    recorded("cpu_seconds"),
    recorded("requests"),
];

/// One line of the record.
#[derive(Clone, Debug)]
pub struct Sample {
    /// Since the churn began.
    pub at: Duration,
    /// One value a column.
    pub values: [f64; COUNT],
}

impl Sample {
    /// Asks the kernel, Envoy and the module.
    pub(super) async fn take(gateway: &Gateway, at: Duration) -> Self {
        let memory = gateway.admin("/memory").await.json();
        let bytes = |key: &str| memory[key].as_str().and_then(|n| n.parse::<f64>().ok()).unwrap_or(f64::NAN);
        let status = gateway.status().await;
        let of_clusters = |key: &str| -> f64 {
            let clusters = status["clusters"].as_array().map(Vec::as_slice).unwrap_or_default();
            clusters.iter().map(|cluster| number(&cluster[key])).sum()
        };
        let text = gateway.admin("/stats").await;
        let statistics = Statistics::read(text.text());
        let both = |name: &str| {
            statistics.value(&format!("cluster.sandbox.{name}"))
                + statistics.value(&format!("cluster.sandbox-http2.{name}"))
        };
        let resident = gateway.resident_memory() as f64;
        let value = |name: &str| match name {
            "rss_mib" => resident / MIB,
            "rss_in_use_mib" => (resident - bytes("pageheap_free") - bytes("total_thread_cache")) / MIB,
            "anonymous_mib" => gateway.anonymous_memory() as f64 / MIB,
            "allocated_mib" => bytes("allocated") / MIB,
            "heap_mib" => bytes("heap_size") / MIB,
            "free_in_heap_mib" => bytes("pageheap_free") / MIB,
            "returned_mib" => bytes("pageheap_unmapped") / MIB,
            "thread_caches_mib" => bytes("total_thread_cache") / MIB,
            "descriptors" => gateway.descriptors() as f64,
            "threads" => gateway.threads() as f64,
            "routes" => number(&status["routes"]["total"]),
            "tombstones" => number(&status["tombstones"]),
            "hosts" => of_clusters("hosts"),
            "held_requests" => of_clusters("parked"),
            "client_connections" => statistics.value("http.gateway.downstream_cx_active"),
            "sandbox_connections" => both("upstream_cx_active"),
            "active_requests" => statistics.value("http.gateway.downstream_rq_active"),
            "push_connections" => number(&status["refresh"]["connections"]),
            "statistics" => statistics.0.len() as f64,
            "cpu_seconds" => cpu_seconds(gateway.pid()),
            "requests" => statistics.value("http.gateway.downstream_rq_total"),
            other => unreachable!("the column {other}"),
        };
        Self { at, values: COLUMNS.map(|column| value(column.name)) }
    }

    /// The value of a column.
    pub fn value(&self, name: &str) -> f64 {
        let at = COLUMNS.iter().position(|column| column.name == name);
        self.values[at.unwrap_or_else(|| panic!("no column {name}"))]
    }

    /// The counts that have not returned since `start`, in words.
    pub(super) fn above(&self, start: &Self) -> Vec<String> {
        let above = |(column, (now, then)): (&Column, (&f64, &f64))| {
            let level = match column.returns {
                Returns::ToZero => 0.0,
                Returns::ToStart => *then,
                Returns::No => return None,
            };
            // A value that is missing has not returned.
            let back = *now <= level;
            (!back).then(|| format!("{} is {now}, not {level}", column.name))
        };
        COLUMNS.iter().zip(self.values.iter().zip(&start.values)).filter_map(above).collect()
    }

    /// The names of the columns, as the first line of a TSV file.
    pub fn write_header(out: &mut impl Write) -> io::Result<()> {
        let names: Vec<&str> = COLUMNS.iter().map(|column| column.name).collect();
        writeln!(out, "seconds\t{}", names.join("\t"))
    }

    /// A line of it.
    pub fn write(&self, out: &mut impl Write) -> io::Result<()> {
        let plain =
            |value: &f64| if value.fract() == 0.0 { format!("{value}") } else { format!("{value:.3}") };
        let values: Vec<String> = self.values.iter().map(plain).collect();
        writeln!(out, "{:.1}\t{}", self.at.as_secs_f64(), values.join("\t"))
    }
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or(f64::NAN)
}

/// Envoy's counters and gauges.
struct Statistics<'t>(HashMap<&'t str, f64>);

impl<'t> Statistics<'t> {
    fn read(text: &'t str) -> Self {
        let line = |line: &'t str| {
            let (name, value) = line.split_once(": ")?;
            Some((name, value.parse().unwrap_or(f64::NAN)))
        };
        Self(text.lines().filter_map(line).collect())
    }

    fn value(&self, name: &str) -> f64 {
        self.0.get(name).copied().unwrap_or(f64::NAN)
    }
}

/// What the process has used of the cores so far; a hundredth of a second is the kernel's unit.
fn cpu_seconds(pid: u32) -> f64 {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The name of the program, which may have blanks in it, ends with the last bracket.
    let fields = text.rsplit(')').next().unwrap_or_default().split_whitespace();
    fields.skip(11).take(2).filter_map(|ticks| ticks.parse::<f64>().ok()).sum::<f64>() / 100.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(change: impl Fn(&str) -> f64) -> Sample {
        Sample { at: Duration::ZERO, values: COLUMNS.map(|column| change(column.name)) }
    }

    #[test]
    fn a_count_that_is_above_where_it_was_or_missing_has_not_returned() {
        let start = sample(|_| 10.0);
        let end = |name: &'static str, value: f64| {
            let zero = |column: &str| if column == name { value } else { 0.0 };
            sample(zero).above(&start)
        };
        assert_eq!(end("descriptors", 10.0), [""; 0]);
        assert_eq!(end("descriptors", 11.0), ["descriptors is 11, not 10"]);
        assert_eq!(end("hosts", 1.0), ["hosts is 1, not 0"]);
        assert_eq!(end("tombstones", f64::NAN), ["tombstones is NaN, not 0"]);
        assert_eq!(end("rss_mib", 99.0), [""; 0], "memory is judged by its slope");
    }

    #[test]
    fn a_line_has_a_value_for_every_name_in_the_first_line() {
        let mut text = Vec::new();
        Sample::write_header(&mut text).expect("a text takes all");
        sample(|_| 1.5).write(&mut text).expect("a text takes all");
        let text = String::from_utf8(text).expect("text");
        let counts: Vec<usize> = text.lines().map(|line| line.split('\t').count()).collect();
        assert_eq!(counts, [COLUMNS.len() + 1; 2]);
    }
}
