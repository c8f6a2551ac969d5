//! What something uses and has at one moment: a line of the record. What that is, its columns say.

use std::fs;
use std::io::{self, Write};
use std::time::Duration;

pub(super) const MIB: f64 = 1024.0 * 1024.0;

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

pub(super) const fn judged(name: &'static str, absolute: f64, relative: f64) -> Column {
    Column { name, tolerance: Tolerance::new(absolute, relative), returns: Returns::No }
}

/// A count, which also has to return.
pub(super) const fn counted(name: &'static str, returns: Returns) -> Column {
    Column { name, tolerance: Tolerance::new(4.0, 0.1), returns }
}

pub(super) const fn recorded(name: &'static str) -> Column {
    Column { name, tolerance: None, returns: Returns::No }
}

/// One line of the record.
#[derive(Clone, Debug)]
pub struct Sample {
    /// Since the churn began.
    pub at: Duration,
    /// What the values are.
    pub columns: &'static [Column],
    /// One value a column.
    pub values: Vec<f64>,
}

impl Sample {
    /// A line with what `value` says of each column.
    pub(super) fn new(at: Duration, columns: &'static [Column], value: impl Fn(&str) -> f64) -> Self {
        Self { at, columns, values: columns.iter().map(|column| value(column.name)).collect() }
    }

    /// The value of a column.
    pub fn value(&self, name: &str) -> f64 {
        let at = self.columns.iter().position(|column| column.name == name);
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
        self.columns.iter().zip(self.values.iter().zip(&start.values)).filter_map(above).collect()
    }

    /// The names of the columns, as the first line of a TSV file.
    pub fn write_header(columns: &[Column], out: &mut impl Write) -> io::Result<()> {
        let names: Vec<&str> = columns.iter().map(|column| column.name).collect();
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

/// What the process has used of the cores so far; a hundredth of a second is the kernel's unit.
pub(super) fn cpu_seconds(pid: u32) -> f64 {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The name of the program, which may have blanks in it, ends with the last bracket.
    let fields = text.rsplit(')').next().unwrap_or_default().split_whitespace();
    fields.skip(11).take(2).filter_map(|ticks| ticks.parse::<f64>().ok()).sum::<f64>() / 100.0
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLUMNS: &[Column] = &[
        judged("rss_mib", 4.0, 0.02),
        counted("descriptors", Returns::ToStart),
        counted("hosts", Returns::ToZero),
        counted("tombstones", Returns::ToZero),
    ];

    fn sample(change: impl Fn(&str) -> f64) -> Sample {
        Sample::new(Duration::ZERO, COLUMNS, change)
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
        Sample::write_header(COLUMNS, &mut text).expect("a text takes all");
        sample(|_| 1.5).write(&mut text).expect("a text takes all");
        let text = String::from_utf8(text).expect("text");
        let counts: Vec<usize> = text.lines().map(|line| line.split('\t').count()).collect();
        assert_eq!(counts, [COLUMNS.len() + 1; 2]);
    }
}
