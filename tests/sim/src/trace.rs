//! What happened in a run, one line a step.

use std::fmt;

/// The steps of a run. Two runs of one seed have equal traces.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trace(Vec<String>);

impl Trace {
    /// Adds a line.
    pub fn push(&mut self, line: String) {
        self.0.push(line);
    }

    /// The lines.
    pub fn lines(&self) -> &[String] {
        &self.0
    }

    /// The last lines, for a message that a person reads.
    pub fn tail(&self, lines: usize) -> Tail<'_> {
        Tail { skipped: self.0.len().saturating_sub(lines), lines: &self.0 }
    }
}

/// The end of a trace.
#[derive(Debug)]
pub struct Tail<'a> {
    skipped: usize,
    lines: &'a [String],
}

impl fmt::Display for Tail<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.skipped > 0 {
            writeln!(f, "  ({} steps before)", self.skipped)?;
        }
        for line in self.lines.iter().skip(self.skipped) {
            writeln!(f, "  {line}")?;
        }
        Ok(())
    }
}
