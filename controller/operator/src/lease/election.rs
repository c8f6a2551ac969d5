//! The election as a state machine: no client, no clock. The caller says what it read and wrote, and when.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::{Term, Times};

/// What a lease says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Record {
    /// `metadata.resourceVersion`.
    pub(super) version: String,
    /// Who holds it; none after it was given up.
    pub(super) holder: Option<Arc<str>>,
    /// How long its holder may be silent. None where the lease does not say.
    pub(super) duration: Option<Duration>,
    /// How often the holder changed.
    pub(super) transitions: i32,
}

/// What to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Read the lease.
    Read,
    /// Write the lease with this candidate as its holder.
    Claim(Claim),
}

/// A write that makes this candidate the holder, or keeps it so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Claim {
    /// The version that is replaced; none where there is no lease and it is created.
    pub(super) replaces: Option<String>,
    /// The number of this candidate's term.
    pub(super) transitions: i32,
    /// Whether the holder changes.
    pub(super) new_holder: bool,
}

/// One candidate.
#[derive(Debug)]
pub(super) struct Election {
    me: Arc<str>,
    times: Times,
    seen: Option<Seen>,
    /// Whether `seen` may be out of date: a write failed, or nothing was read yet.
    unsure: bool,
    /// Until when this candidate leads.
    leads_until: Option<(Term, Instant)>,
}

#[derive(Debug)]
struct Seen {
    record: Record,
    /// When this version of it was received first.
    at: Instant,
    /// Whether it was gone when it was last read. Its holder may not know yet.
    gone: bool,
}

impl Election {
    pub(super) fn new(me: Arc<str>, times: Times) -> Self {
        Self { me, times, seen: None, unsure: true, leads_until: None }
    }

    pub(super) fn times(&self) -> &Times {
        &self.times
    }

    /// The lease was read: it arrived at `received`. None: there is no lease.
    pub(super) fn observed(&mut self, received: Instant, record: Option<Record>) {
        self.unsure = false;
        match (record, &mut self.seen) {
            (Some(record), Some(seen)) if seen.record.version == record.version => seen.gone = false,
            (Some(record), _) => self.seen = Some(Seen { record, at: received, gone: false }),
            (None, Some(seen)) => seen.gone = true,
            (None, None) => {}
        }
        // Somebody else holds it: whatever this candidate thought, it is over.
        if self.holder().is_some_and(|holder| *holder != self.me) {
            self.leads_until = None;
        }
    }

    /// A claim that was sent at `sent` succeeded, with this result.
    pub(super) fn claimed(&mut self, sent: Instant, received: Instant, record: Record) {
        let term = Term(record.transitions);
        self.observed(received, Some(record));
        self.leads_until = Some((term, sent + self.times.renew));
    }

    /// A claim failed, or it is not known whether it did.
    pub(super) fn not_claimed(&mut self) {
        self.unsure = true;
    }

    /// What to do at `now`.
    pub(super) fn step(&self, now: Instant) -> Step {
        if self.unsure {
            return Step::Read;
        }
        let Some(seen) = &self.seen else {
            return Step::Claim(Claim { replaces: None, transitions: 0, new_holder: true });
        };
        let mine = self.holder() == Some(&self.me);
        if !mine && self.claimable_at().is_some_and(|at| now < at) {
            return Step::Read;
        }
        Step::Claim(Claim {
            replaces: (!seen.gone).then(|| seen.record.version.clone()),
            transitions: seen.record.transitions.saturating_add(i32::from(!mine)),
            new_holder: !mine,
        })
    }

    /// When the lease of another holder may be taken over; none where it may be taken at once.
    pub(super) fn claimable_at(&self) -> Option<Instant> {
        let seen = self.seen.as_ref()?;
        seen.record.holder.as_ref().filter(|holder| **holder != self.me)?;
        Some(seen.at + seen.record.duration.unwrap_or(self.times.duration))
    }

    /// Who holds the lease, as far as is known.
    pub(super) fn holder(&self) -> Option<&Arc<str>> {
        self.seen.as_ref()?.record.holder.as_ref()
    }

    /// The version of the lease where this candidate holds it, for giving it up.
    pub(super) fn mine(&self) -> Option<&Record> {
        let seen = self.seen.as_ref().filter(|seen| !seen.gone)?;
        (seen.record.holder.as_ref() == Some(&self.me)).then_some(&seen.record)
    }

    /// Whether this candidate leads, and until when.
    pub(super) fn leads(&self, now: Instant) -> Option<(Term, Instant)> {
        self.leads_until.filter(|(_, until)| now < *until)
    }

    /// This candidate stops leading.
    pub(super) fn resign(&mut self) {
        self.leads_until = None;
    }
}
