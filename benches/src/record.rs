//! Every round of a bench, kept: printed as it comes and written as a table of tab-separated values.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::Path;
use std::process::ExitCode;

use crate::machine;
use crate::stats::Spread;

/// One figure of one round.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// What was measured, with its unit.
    pub measure: String,
    /// On what.
    pub subject: String,
    /// With how many routes.
    pub size: usize,
    /// Under which condition.
    pub condition: String,
    /// In which round.
    pub round: usize,
    /// What came out.
    pub value: f64,
}

/// The rows of a run.
#[derive(Debug, Default)]
pub struct Record(Vec<Row>);

impl Record {
    /// Keeps a figure.
    pub fn add(
        &mut self,
        measure: &str,
        subject: &str,
        size: usize,
        condition: &str,
        round: usize,
        value: f64,
    ) {
        let [measure, subject, condition] = [measure, subject, condition].map(str::to_owned);
        self.0.push(Row { measure, subject, size, condition, round, value });
    }

    /// The rounds of one series.
    pub fn rounds(&self, measure: &str, subject: &str, size: usize, condition: &str) -> Vec<f64> {
        let is_it = |row: &&Row| {
            row.measure == measure && row.subject == subject && row.size == size && row.condition == condition
        };
        self.0.iter().filter(is_it).map(|row| row.value).collect()
    }

    /// Prints a line for each series: its median with quartiles, and the same as a ratio to the first
    /// subject's same rounds.
    pub fn summarise(&self) {
        let mut seen: Vec<(&str, &str, usize, &str)> = Vec::new();
        for row in &self.0 {
            let series = (&*row.measure, &*row.subject, row.size, &*row.condition);
            if seen.contains(&series) {
                continue;
            }
            let rounds = self.rounds(series.0, series.1, series.2, series.3);
            let first = seen.iter().find(|s| (s.0, s.2, s.3) == (series.0, series.2, series.3));
            let ratio = first.map_or(String::new(), |first| {
                let base = self.rounds(first.0, first.1, first.2, first.3);
                let ratios: Vec<f64> = rounds.iter().zip(&base).map(|(value, base)| value / base).collect();
                format!("  {} × {}", Spread::of(&ratios), first.1)
            });
            println!(
                "{:<28} {:<14} {:>8} {:<14} {:>2} rounds  {}{ratio}",
                series.0,
                series.1,
                series.2,
                series.3,
                rounds.len(),
                Spread::of(&rounds)
            );
            seen.push(series);
        }
    }

    /// Ends a bench: prints what came out, and writes every row if it is to be kept.
    pub fn close(&self, out: Option<&Path>) -> ExitCode {
        self.summarise();
        println!("load at the end {}", machine::load());
        match out.map(|path| self.write(path)) {
            Some(Err(error)) => {
                eprintln!("the record cannot be written: {error}");
                ExitCode::FAILURE
            }
            _ => ExitCode::SUCCESS,
        }
    }

    /// Writes every row.
    pub fn write(&self, path: &Path) -> io::Result<()> {
        let mut file = io::BufWriter::new(File::create(path)?);
        writeln!(file, "measure\tsubject\tsize\tcondition\tround\tvalue")?;
        for Row { measure, subject, size, condition, round, value } in &self.0 {
            writeln!(file, "{measure}\t{subject}\t{size}\t{condition}\t{round}\t{value:.3}")?;
        }
        file.flush()
    }
}
