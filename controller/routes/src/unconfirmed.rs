//! Unconfirmed pushes: what a push has reported and the watch has not yet.
//!
//! A push may be ahead of the watch, and then applies by its version. But nothing proves that version, and
//! one that is too high would win for ever. So the push is kept here with its baseline, the last report of
//! the watch on the object, until one of these happens:
//! 1. **Confirmed.** The watch reports the object at that version or a later one, or its end. That applies,
//!    and the push is forgotten.
//! 2. **Passed.** The floor reaches that version and the watch has not reported it: the object never had it.
//!    The baseline is restored. This does not apply to deletes: a pusher that deletes an object knows the
//!    last version of its life, not the version of its end.
//! 3. **Overdue.** The confirmation time is over, and the watch was heard from since. The baseline is
//!    restored. A silent watch overrules nothing.
//!
//! Where no scope covers the object nothing can confirm the push. A pushed route then has a lease, which
//! every push of it renews. A pushed delete lasts as long as its tombstone; a scope that reports the object
//! in that time takes over.
//!
//! Why no update is lost: reports of the watch that are older than the push replace the baseline, so what is
//! restored is always the watch's last report.

use std::collections::{BTreeSet, HashMap};

use foldhash::fast::RandomState;

use crate::scope::ScopeNumber;
use crate::{Observation, Version};

/// A live object by the slot of its record, or a deleted one by the slot of its tombstone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Subject {
    Live(u32),
    Dead(u32),
}

/// What the watch had reported of an object when a push came: what is restored if the push is not confirmed.
#[derive(Default)]
pub(crate) struct Baseline {
    /// The scope that will confirm the push; `None` if there is only a lease.
    pub(crate) scope: Option<ScopeNumber>,
    /// The last report of the watch; `None` if the watch knows no such object.
    pub(crate) observed: Option<Box<Observation>>,
    /// The number of the last relist that named the object.
    pub(crate) seen: u32,
}

/// An unconfirmed push.
pub(crate) struct Pushed {
    /// The version of the push.
    pub(crate) version: Version,
    pub(crate) baseline: Baseline,
    deadline: u64,
    queued: u64,
}

#[derive(Default)]
pub(crate) struct Unconfirmed {
    pushed: HashMap<Subject, Pushed, RandomState>,
    /// By deadline. A renewed one is met too early, and put back.
    deadlines: BTreeSet<(u64, Subject)>,
    /// The live ones by scope and version.
    by_version: HashMap<ScopeNumber, BTreeSet<(Version, Subject)>>,
}

impl Unconfirmed {
    pub(crate) fn get_mut(&mut self, subject: Subject) -> Option<&mut Pushed> {
        self.pushed.get_mut(&subject)
    }

    /// Adds a push, in place of an earlier one of the same object.
    pub(crate) fn insert(&mut self, subject: Subject, version: Version, baseline: Baseline, deadline: u64) {
        if baseline.scope.is_none()
            && let Some(pushed) = self.pushed.get_mut(&subject)
            && pushed.baseline.scope.is_none()
        {
            (pushed.version, pushed.deadline) = (version, deadline);
            return;
        }
        self.remove(subject);
        if let (Some(scope), Subject::Live(_)) = (baseline.scope, subject) {
            self.by_version.entry(scope).or_default().insert((version.clone(), subject));
        }
        self.deadlines.insert((deadline, subject));
        self.pushed.insert(subject, Pushed { version, baseline, deadline, queued: deadline });
    }

    /// Drops a baseline of this version, whose object has expired: it is not restored.
    pub(crate) fn end_baseline(&mut self, subject: Subject, version: &Version) {
        if let Some(pushed) = self.pushed.get_mut(&subject)
            && pushed.baseline.observed.as_ref().is_some_and(|observed| observed.version == *version)
        {
            pushed.baseline.observed = None;
        }
    }

    /// Removes the push of an object, if there is one.
    pub(crate) fn remove(&mut self, subject: Subject) -> Option<Pushed> {
        if self.pushed.is_empty() {
            return None;
        }
        let pushed = self.pushed.remove(&subject)?;
        self.deadlines.remove(&(pushed.queued, subject));
        if let Some(scope) = pushed.baseline.scope
            && let Some(versions) = self.by_version.get_mut(&scope)
        {
            versions.remove(&(pushed.version.clone(), subject));
        }
        Some(pushed)
    }

    /// Renews a lease.
    pub(crate) fn renew(&mut self, subject: Subject, deadline: u64) {
        if let Some(pushed) = self.pushed.get_mut(&subject).filter(|pushed| pushed.baseline.scope.is_none()) {
            pushed.deadline = deadline;
        }
    }

    /// A push of a live object that the floor of its scope has reached.
    pub(crate) fn passed(&self, scope: ScopeNumber, reached: &Version) -> Option<Subject> {
        let (version, subject) = self.by_version.get(&scope)?.first()?;
        (version <= reached).then_some(*subject)
    }

    /// A push that is overdue and whose scope was `heard` from since. One whose scope was not is checked
    /// again `later`.
    pub(crate) fn overdue(
        &mut self,
        now: u64,
        later: u64,
        heard: impl Fn(ScopeNumber) -> Option<u64>,
    ) -> Option<Subject> {
        while let Some(&(queued, subject)) = self.deadlines.first() {
            if queued > now {
                return None;
            }
            let pushed = self.pushed.get_mut(&subject)?;
            let is_heard = pushed
                .baseline
                .scope
                .is_none_or(|scope| heard(scope).is_some_and(|at| at >= pushed.deadline));
            if pushed.deadline <= now && is_heard {
                return Some(subject);
            }
            pushed.queued = if pushed.deadline > now { pushed.deadline } else { later };
            let again = (pushed.queued, subject);
            self.deadlines.pop_first();
            self.deadlines.insert(again);
        }
        None
    }

    /// Drops the baselines of objects that a complete list of a scope did not name.
    pub(crate) fn forget_unseen(&mut self, scope: ScopeNumber, relist: u32) {
        let mine = self.pushed.values_mut().map(|pushed| &mut pushed.baseline);
        for baseline in mine.filter(|baseline| baseline.scope == Some(scope) && baseline.seen != relist) {
            baseline.observed = None;
        }
    }

    /// The live objects that have only a lease.
    pub(crate) fn leased(&self) -> Vec<u32> {
        let leased = self.pushed.iter().filter(|(_, pushed)| pushed.baseline.scope.is_none());
        leased
            .filter_map(|(subject, _)| if let Subject::Live(slot) = subject { Some(*slot) } else { None })
            .collect()
    }

    /// Confirms the pushed deletes of a scope's objects.
    pub(crate) fn forget_dead(&mut self, scope: ScopeNumber) {
        let mine = self.pushed.iter().filter(|(_, pushed)| pushed.baseline.scope == Some(scope));
        let dead: Vec<_> =
            mine.map(|(subject, _)| *subject).filter(|subject| matches!(subject, Subject::Dead(_))).collect();
        for subject in dead {
            self.remove(subject);
        }
    }
}
