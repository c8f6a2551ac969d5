//! What only a push has said, until the watch says it too.
//!
//! A push is news: it may be ahead of the watch, and then it counts by its version like anything else. But a version
//! that only a push has claimed proves nothing, and one that is too high would win for ever. So it is remembered, with
//! the last word of the watch on the object, until one of these:
//!
//! 1. The watch speaks of the object at that version or a later one, or of its end: that stands, and the push is
//!    forgotten.
//! 2. The watch has come past that version without a word of it: the object never had it. What the watch said last
//!    stands. A death is not judged so: whoever deletes an object knows the last version of its life, not that of its
//!    end.
//! 3. The time for it is over, and the watch was heard since: as in 2. A watch that is silent overrules nobody.
//!
//! Where no watch covers the object there is nobody to ask: a pushed route then has a lease, which every push renews. A
//! pushed death has the time of its tombstone; a watch that speaks of the object in that time is asked from then on.

use std::collections::{BTreeSet, HashMap};

use foldhash::fast::RandomState;

use crate::scope::ScopeNumber;
use crate::{Observation, Version};

/// A live object or a dead one, by the slot of its record or of its tombstone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Subject {
    Live(u32),
    Dead(u32),
}

/// One thing that a push has said.
pub(crate) struct Pushed {
    /// The version that it claimed.
    pub(crate) version: Version,
    /// The scope whose watch will tell; nothing where there is only a lease.
    pub(crate) scope: Option<ScopeNumber>,
    /// What the watch said last; nothing if it knows no such object.
    pub(crate) baseline: Option<Box<Observation>>,
    /// The last relist that had a word on it, by number.
    pub(crate) seen: u32,
    deadline: u64,
    queued: u64,
}

#[derive(Default)]
pub(crate) struct Unconfirmed {
    pushed: HashMap<Subject, Pushed, RandomState>,
    /// By deadline. One that was renewed is met too early and put back.
    deadlines: BTreeSet<(u64, Subject)>,
    /// The live ones by scope and version.
    by_version: HashMap<ScopeNumber, BTreeSet<(Version, Subject)>>,
}

impl Unconfirmed {
    pub(crate) fn get_mut(&mut self, subject: Subject) -> Option<&mut Pushed> {
        self.pushed.get_mut(&subject)
    }

    /// Remembers what a push said, in the place of what an earlier one said of the same.
    pub(crate) fn insert(
        &mut self,
        subject: Subject,
        version: Version,
        scope: Option<ScopeNumber>,
        baseline: Option<Box<Observation>>,
        seen: u32,
        deadline: u64,
    ) {
        if scope.is_none()
            && let Some(pushed) = self.pushed.get_mut(&subject)
            && pushed.scope.is_none()
        {
            (pushed.version, pushed.deadline) = (version, deadline);
            return;
        }
        self.remove(subject);
        if let (Some(scope), Subject::Live(_)) = (scope, subject) {
            self.by_version.entry(scope).or_default().insert((version.clone(), subject));
        }
        self.deadlines.insert((deadline, subject));
        let pushed = Pushed { version, scope, baseline, seen, deadline, queued: deadline };
        self.pushed.insert(subject, pushed);
    }

    /// What the watch said last at this version has come to its end: it does not come back when the push is given up.
    pub(crate) fn end_baseline(&mut self, subject: Subject, version: &Version) {
        if let Some(pushed) = self.pushed.get_mut(&subject)
            && pushed.baseline.as_ref().is_some_and(|baseline| baseline.version == *version)
        {
            pushed.baseline = None;
        }
    }

    /// Forgets what was pushed, if anything was.
    pub(crate) fn remove(&mut self, subject: Subject) -> Option<Pushed> {
        if self.pushed.is_empty() {
            return None;
        }
        let pushed = self.pushed.remove(&subject)?;
        self.deadlines.remove(&(pushed.queued, subject));
        if let Some(scope) = pushed.scope
            && let Some(versions) = self.by_version.get_mut(&scope)
        {
            versions.remove(&(pushed.version.clone(), subject));
        }
        Some(pushed)
    }

    /// Prolongs the lease of a route that was pushed again.
    pub(crate) fn renew(&mut self, subject: Subject, deadline: u64) {
        if let Some(pushed) = self.pushed.get_mut(&subject).filter(|pushed| pushed.scope.is_none()) {
            pushed.deadline = deadline;
        }
    }

    /// A live one that the watch of a scope has come past.
    pub(crate) fn passed(&self, scope: ScopeNumber, reached: &Version) -> Option<Subject> {
        let (version, subject) = self.by_version.get(&scope)?.first()?;
        (version <= reached).then_some(*subject)
    }

    /// One whose time is over, of those whose scope has been `heard` of since. One that has to wait is looked at again
    /// `later`.
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
            let is_heard =
                pushed.scope.is_none_or(|scope| heard(scope).is_some_and(|at| at >= pushed.deadline));
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

    /// A complete list of a scope had no word on these: the watch knows no such objects.
    pub(crate) fn forget_unseen(&mut self, scope: ScopeNumber, relist: u32) {
        let mine = self.pushed.values_mut().filter(|pushed| pushed.scope == Some(scope));
        for pushed in mine.filter(|pushed| pushed.seen != relist) {
            pushed.baseline = None;
        }
    }

    /// The live ones that have only a lease.
    pub(crate) fn leased(&self) -> Vec<u32> {
        let leased = self.pushed.iter().filter(|(_, pushed)| pushed.scope.is_none());
        leased
            .filter_map(|(subject, _)| if let Subject::Live(slot) = subject { Some(*slot) } else { None })
            .collect()
    }

    /// Forgets the deaths that were pushed of a scope's objects: they stand.
    pub(crate) fn forget_dead(&mut self, scope: ScopeNumber) {
        let mine = self.pushed.iter().filter(|(_, pushed)| pushed.scope == Some(scope));
        let dead: Vec<_> =
            mine.map(|(subject, _)| *subject).filter(|subject| matches!(subject, Subject::Dead(_))).collect();
        for subject in dead {
            self.remove(subject);
        }
    }
}
