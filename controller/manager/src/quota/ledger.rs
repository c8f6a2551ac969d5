//! What an owner uses, as a value: who has what, and whether more fits.
//!
//! # The order of a pause and a resume
//! A pause is noted after it is complete, so the note may come late: after another replica has resumed the
//! sandbox. Both know the version of the sandbox that they saw, and a resume that is admitted leaves it in
//! the entry. A pause that was seen no later than that is the one that the resume has ended, and changes
//! nothing. No clock is asked: those of two replicas may differ.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::describe::Size;
use crate::timeouts::after;
use crate::{Dimension, Limit, Scope};

/// How long the ledger is believed against a cache that may lag.
const SETTLES: Duration = Duration::from_secs(60);

/// One sandbox in the ledger. The names are short: the ledger has to fit into a ConfigMap.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Entry {
    /// CPU in thousandths of a core.
    #[serde(rename = "c")]
    cpu: u64,
    /// Memory in MiB.
    #[serde(rename = "m")]
    memory: u64,
    /// Whether it is paused.
    #[serde(rename = "p", default, skip_serializing_if = "std::ops::Not::not")]
    is_paused: bool,
    /// When it was last admitted or paused, in seconds since 1970.
    #[serde(rename = "t")]
    at: i64,
    /// The version of the sandbox that the last resume was decided on.
    #[serde(rename = "v", default, skip_serializing_if = "is_zero")]
    resumed_at: u64,
    /// Which managers look after it: see [`Ledger::follow`].
    #[serde(rename = "s", default, skip_serializing_if = "String::is_empty")]
    scope: String,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl Entry {
    /// The entry of a sandbox that runs, and that managers of this scope look after.
    pub(super) fn new(size: Size, scope: &str, now: Timestamp) -> Self {
        Self {
            cpu: size.cpu_millis,
            memory: size.memory_mb,
            is_paused: false,
            at: now.as_second(),
            resumed_at: 0,
            scope: scope.to_owned(),
        }
    }

    /// The same after a resume that was decided on this version of the sandbox.
    pub(super) fn resumed(self, version: u64) -> Self {
        Self { resumed_at: version, ..self }
    }

    fn is_older_than(&self, age: Duration, now: Timestamp) -> bool {
        Timestamp::from_second(self.at).map_or(true, |at| after(at, age) < now)
    }
}

/// What a sandbox uses that the ledger does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Used {
    pub(super) size: Size,
    pub(super) runs: bool,
}

/// A limit that would be exceeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Exceeded {
    limit: Limit,
    wanted: u64,
}

impl fmt::Display for Exceeded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Limit { dimension, scope, limit } = self.limit;
        let what = match dimension {
            Dimension::Sandboxes => "sandbox.count",
            Dimension::Cpu => "limits.cpu (in thousandths of a core)",
            Dimension::Memory => "limits.memory (in MiB)",
        };
        let which = match scope {
            Scope::All => "all sandboxes",
            Scope::Running => "running sandboxes",
        };
        write!(f, "the quota of this key is used up: {what} of {which} would be {} of {limit}", self.wanted)
    }
}

/// What an owner uses, by the lock of each sandbox.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct Ledger(BTreeMap<String, Entry>);

impl Ledger {
    /// From its text.
    pub(super) fn read(text: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(text)
    }

    /// As text.
    pub(super) fn to_text(&self) -> String {
        serde_json::json!(self.0).to_string()
    }

    /// Whether there is an entry.
    pub(super) fn has(&self, lock: &str) -> bool {
        self.0.contains_key(lock)
    }

    /// Adds an entry if it fits. One that is there stays admitted, and counts as admitted now if it is older
    /// than `young`: its sandbox may take another while to be seen. Returns whether anything changed.
    pub(super) fn admit(
        &mut self,
        lock: &str,
        entry: Entry,
        others: &[Used],
        limits: &[Limit],
        young: Duration,
    ) -> Result<bool, Exceeded> {
        if let Some(has) = self.0.get_mut(lock) {
            let is_old = has.at.saturating_add_unsigned(young.as_secs()) < entry.at;
            if is_old {
                has.at = entry.at;
            }
            return Ok(is_old);
        }
        self.fits(None, &entry, others, limits)?;
        self.0.insert(lock.to_owned(), entry);
        Ok(true)
    }

    /// Makes an entry run again if it fits. Returns whether anything changed.
    pub(super) fn resume(
        &mut self,
        lock: &str,
        entry: Entry,
        others: &[Used],
        limits: &[Limit],
    ) -> Result<bool, Exceeded> {
        let known = self.0.get(lock);
        let resumed_at = known.map_or(0, |has| has.resumed_at).max(entry.resumed_at);
        let entry = Entry { resumed_at, ..entry };
        if known.is_some_and(|has| !has.is_paused) {
            // It is admitted for as long as the resume takes.
            self.0.insert(lock.to_owned(), entry);
            return Ok(true);
        }
        // What it already counts among all does not count twice.
        let limits: Vec<_> = limits.iter().copied().filter(|limit| limit.scope == Scope::Running).collect();
        self.fits(Some(lock), &entry, others, &limits)?;
        self.0.insert(lock.to_owned(), entry);
        Ok(true)
    }

    /// Marks an entry as paused, if its sandbox was seen to be so at this version and nobody has resumed it
    /// since. Returns whether anything changed.
    pub(super) fn pause(&mut self, lock: &str, version: u64, now: Timestamp) -> bool {
        match self.0.get_mut(lock) {
            Some(entry) if !entry.is_paused && entry.resumed_at < version => {
                (entry.is_paused, entry.at) = (true, now.as_second());
                true
            }
            _ => false,
        }
    }

    /// Drops an entry. Returns whether there was one.
    pub(super) fn release(&mut self, lock: &str) -> bool {
        self.0.remove(lock).is_some()
    }

    /// Takes over what the cache knows. `is_paused` says of a lock whether its sandbox is paused, or that
    /// there is none. An entry that was changed a short while ago is believed instead: the cache may lag.
    ///
    /// Managers may look after different sandboxes, and one key may have some of each. What a cache does not
    /// have may be another's, so an entry is dropped only by managers of the scope that it is of: the one
    /// that admitted it, or that saw its sandbox last.
    pub(super) fn follow(
        &mut self,
        is_paused: impl Fn(&str) -> Option<bool>,
        scope: &str,
        grace: Duration,
        now: Timestamp,
    ) {
        self.0.retain(|lock, entry| match is_paused(lock) {
            None => entry.scope != scope || !entry.is_older_than(grace, now),
            Some(is_paused) => {
                scope.clone_into(&mut entry.scope);
                if is_paused != entry.is_paused && entry.is_older_than(SETTLES, now) {
                    entry.is_paused = is_paused;
                }
                true
            }
        });
    }

    /// Whether an entry fits in the place of the one with this lock.
    fn fits(
        &self,
        in_place_of: Option<&str>,
        entry: &Entry,
        others: &[Used],
        limits: &[Limit],
    ) -> Result<(), Exceeded> {
        let kept = || self.0.iter().filter(|(lock, _)| Some(lock.as_str()) != in_place_of);
        for &limit in limits {
            let counts = |runs: bool| limit.scope == Scope::All || runs;
            let entries = kept().filter(|(_, has)| counts(!has.is_paused));
            let entries = entries.map(|(_, has)| amount(limit.dimension, has.cpu, has.memory));
            let others = others.iter().filter(|used| counts(used.runs));
            let others =
                others.map(|used| amount(limit.dimension, used.size.cpu_millis, used.size.memory_mb));
            let used = entries.chain(others).fold(0, u64::saturating_add);
            let wanted = used.saturating_add(amount(limit.dimension, entry.cpu, entry.memory));
            if wanted > limit.limit {
                return Err(Exceeded { limit, wanted });
            }
        }
        Ok(())
    }
}

fn amount(dimension: Dimension, cpu: u64, memory: u64) -> u64 {
    match dimension {
        Dimension::Sandboxes => 1,
        Dimension::Cpu => cpu,
        Dimension::Memory => memory,
    }
}
