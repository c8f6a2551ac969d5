//! The raw data: one line of JSON for each slot, written when the slot is over, and one when its round is.
//!
//! A run that was cut goes on where it stopped. Ratios are of one round, so a round that was not finished is
//! measured anew: its rows are dropped when the journal is opened. What was measured under other settings is
//! not mixed in: that is refused.

use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::failure::{Doing as _, Failure, Result};
use crate::generator::Answers;

/// What a slot was for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Kind {
    Throughput,
    Latency,
}

/// One slot of one contender.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Slot {
    pub(crate) cell: String,
    pub(crate) kind: Kind,
    pub(crate) round: usize,
    pub(crate) contender: String,
    #[serde(flatten)]
    pub(crate) answers: Answers,
    /// Of the proxy, while the slot ran.
    pub(crate) cpu_nanos: u64,
    /// Of the processes it needs beside it.
    pub(crate) side_cpu_nanos: u64,
    /// Bytes of the proxy and of what it needs beside it.
    pub(crate) resident: u64,
    /// Changes of the table that were made meanwhile.
    pub(crate) changes: u64,
}

/// What a run was made with: a journal holds one of these.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Settings {
    pub(crate) slot_seconds: f64,
    pub(crate) rate: u32,
    pub(crate) contenders: Vec<String>,
    pub(crate) envoy: String,
    /// Of the files that are measured, so that two builds are not taken for one.
    pub(crate) modules: String,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Line {
    Settings(Settings),
    Slot(Slot),
    Done { cell: String, kind: Kind, round: usize },
}

#[derive(Debug)]
pub(crate) struct Journal {
    path: PathBuf,
    file: File,
    slots: Vec<Slot>,
    done: Vec<(String, Kind, usize)>,
}

impl Journal {
    /// Opens a journal to go on with, or begins one.
    pub(crate) fn open(path: &Path, settings: &Settings) -> Result<Self> {
        let (found, slots, done) = read(path)?;
        if let Some(found) = found.filter(|found| found != settings) {
            return Err(Failure::Asked(format!(
                "{} was measured with other settings: go on with those, or begin anew with --fresh\n  then {found:?}\n  now  {settings:?}",
                path.display()
            )));
        }
        let mut journal = Self::create(path, settings)?;
        for slot in slots {
            journal.add(slot)?;
        }
        for (cell, kind, round) in done {
            journal.finish(&cell, kind, round)?;
        }
        fs::rename(beside(path), path).doing(format!("writing {}", path.display()))?;
        Ok(journal)
    }

    /// Begins a journal beside the old one, which stays until the new one has all of it.
    fn create(path: &Path, settings: &Settings) -> Result<Self> {
        let new = beside(path);
        let file = OpenOptions::new().create(true).write(true).truncate(true).open(&new);
        let file = file.doing(format!("writing {}", new.display()))?;
        let mut journal = Self { path: path.to_owned(), file, slots: Vec::new(), done: Vec::new() };
        journal.write(&Line::Settings(settings.clone()))?;
        Ok(journal)
    }

    pub(crate) fn add(&mut self, slot: Slot) -> Result<()> {
        let line = Line::Slot(slot);
        self.write(&line)?;
        if let Line::Slot(slot) = line {
            self.slots.push(slot);
        }
        Ok(())
    }

    /// Says that all slots of a round are there.
    pub(crate) fn finish(&mut self, cell: &str, kind: Kind, round: usize) -> Result<()> {
        self.write(&Line::Done { cell: cell.to_owned(), kind, round })?;
        self.done.push((cell.to_owned(), kind, round));
        Ok(())
    }

    pub(crate) fn is_done(&self, cell: &str, kind: Kind, round: usize) -> bool {
        self.done.iter().any(|(c, k, r)| (&**c, *k, *r) == (cell, kind, round))
    }

    #[cfg(test)]
    pub(crate) fn slots(&self) -> &[Slot] {
        &self.slots
    }

    fn write(&mut self, line: &Line) -> Result<()> {
        let mut text = serde_json::to_string(line).map_err(|error| Failure::Asked(error.to_string()))?;
        text.push('\n');
        self.file.write_all(text.as_bytes()).doing(format!("writing {}", self.path.display()))
    }
}

fn beside(path: &Path) -> PathBuf {
    path.with_extension("jsonl.new")
}

type Contents = (Option<Settings>, Vec<Slot>, Vec<(String, Kind, usize)>);

/// All finished rounds of a journal; nothing where there is none.
pub(crate) fn read(path: &Path) -> Result<Contents> {
    let text = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(error).doing(format!("reading {}", path.display())),
    };
    let (mut settings, mut slots, mut done) = (None, Vec::new(), Vec::new());
    let whole = text.rfind('\n').map_or(0, |end| end + 1);
    // What comes after the last line's end was being written when the run was cut.
    for (number, line) in text[..whole].lines().enumerate() {
        match serde_json::from_str(line) {
            Ok(Line::Settings(found)) => settings = Some(found),
            Ok(Line::Slot(slot)) => slots.push(slot),
            Ok(Line::Done { cell, kind, round }) => done.push((cell, kind, round)),
            Err(error) => {
                return Err(Failure::Asked(format!("{}, line {}: {error}", path.display(), number + 1)));
            }
        }
    }
    slots.retain(|slot: &Slot| {
        done.iter().any(|(cell, kind, round)| (cell, *kind, *round) == (&slot.cell, slot.kind, slot.round))
    });
    Ok((settings, slots, done))
}

#[cfg(test)]
mod tests;
