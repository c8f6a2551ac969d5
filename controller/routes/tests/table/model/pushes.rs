//! Unconfirmed pushes of the naive table: every push is examined each time.

use sandgate_routes::{ObjectKey, Observation, Version};

use super::{Live, Model, Run, Source};

#[derive(Clone, Debug)]
pub(super) struct Pushed {
    pub(super) version: Version,
    pub(super) scope: Option<usize>,
    pub(super) baseline: Option<Observation>,
    pub(super) seen: u64,
    deadline: u64,
    queued: u64,
}

impl Model {
    fn covering(&self, key: &ObjectKey) -> Option<usize> {
        self.used.iter().copied().find(|scope| self.scopes[*scope].covers(key))
    }

    fn scope_of(&self, key: &ObjectKey) -> Option<usize> {
        let claims = self.live.get(key).map(|live| &live.claims);
        let seen_by =
            claims.and_then(|claims| self.used.iter().copied().find(|scope| claims.contains(scope)));
        seen_by.or_else(|| self.covering(key))
    }

    pub(super) fn is_passed(&self, key: &ObjectKey, version: &Version) -> bool {
        let floor = self.scope_of(key).and_then(|scope| self.floors.get(&scope));
        floor.is_some_and(|(floor, _)| version <= floor)
    }

    fn unconfirmed(
        &self,
        version: &Version,
        scope: Option<usize>,
        baseline: Option<Observation>,
        seen: u64,
        is_live: bool,
    ) -> Pushed {
        let deadline = match scope {
            Some(_) => self.now + self.limits.confirmation,
            None if is_live => self.now + self.limits.lease,
            None => u64::MAX,
        };
        Pushed { version: version.clone(), scope, baseline, seen, deadline, queued: deadline }
    }

    /// The unconfirmed push of a live object.
    pub(super) fn unconfirmed_upsert(&self, old: &Live, version: &Version) -> Pushed {
        let scope = self.scope_of(&old.observed.key);
        let (baseline, seen) = self.baseline_of(old);
        let mut pushed = self.unconfirmed(version, scope, baseline, seen, true);
        // A lease that is renewed keeps its place in the queue.
        if let (None, Some(before)) = (scope, &old.pushed) {
            pushed.queued = before.queued;
        }
        pushed
    }

    fn baseline_of(&self, live: &Live) -> (Option<Observation>, u64) {
        match &live.pushed {
            Some(pushed) => (pushed.baseline.clone(), pushed.seen),
            None => {
                let baseline = Observation { created: live.created, ..live.observed.clone() };
                let scope = self.scope_of(&live.observed.key);
                let run = self.runs.iter().find(|run| Some(run.scope) == scope && !run.superseded);
                let seen = run.map(|run| run.number).filter(|run| live.seen_by.contains(run)).unwrap_or(0);
                ((!live.claims.is_empty()).then_some(baseline), seen)
            }
        }
    }

    /// The unconfirmed push of an object that was not live: an upsert, if `is_live`, or a delete.
    pub(super) fn unconfirmed_unknown(
        &self,
        key: &ObjectKey,
        before: Option<Pushed>,
        version: &Version,
        is_live: bool,
    ) -> Pushed {
        match before {
            Some(before) => {
                let scope = before.scope.or_else(|| self.covering(key));
                self.unconfirmed(version, scope, before.baseline, before.seen, is_live)
            }
            None => self.unconfirmed(version, self.covering(key), None, 0, is_live),
        }
    }

    /// The unconfirmed delete of a live object.
    pub(super) fn unconfirmed_delete(&self, key: &ObjectKey, live: &Live, version: &Version) -> Pushed {
        let (baseline, seen) = self.baseline_of(live);
        self.unconfirmed(version, self.scope_of(key), baseline, seen, false)
    }

    fn pushed_mut(&mut self, key: &ObjectKey) -> Option<&mut Option<Pushed>> {
        if let Some(live) = self.live.get_mut(key) {
            return Some(&mut live.pushed);
        }
        self.dead.iter_mut().find(|dead| dead.key == *key).map(|dead| &mut dead.pushed)
    }

    /// Drops a baseline of this version: its object has expired.
    pub(super) fn end_baseline(&mut self, key: &ObjectKey, version: &Version) {
        if let Some(Some(pushed)) = self.pushed_mut(key) {
            pushed.baseline = pushed.baseline.take().filter(|baseline| baseline.version != *version);
        }
    }

    pub(super) fn renew_lease(&mut self, key: &ObjectKey) {
        let deadline = self.now + self.limits.lease;
        if let Some(Some(pushed)) = self.pushed_mut(key)
            && pushed.scope.is_none()
        {
            pushed.deadline = deadline;
        }
    }

    pub(super) fn set_baseline(&mut self, observed: &Observation, from: Source) {
        let deadline = self.now + self.limits.confirmation;
        let Some(scope) = from.scope() else { return };
        let Some(Some(pushed)) = self.pushed_mut(&observed.key) else { return };
        if pushed.baseline.as_ref().is_none_or(|baseline| baseline.version <= observed.version) {
            pushed.baseline = Some(observed.clone());
        }
        if pushed.scope.is_none() {
            (pushed.scope, pushed.deadline, pushed.queued) = (Some(scope), deadline, deadline);
        }
        if let Source::List(_, run) = from
            && pushed.scope == Some(scope)
        {
            pushed.seen = run;
        }
    }

    /// A complete list is in.
    pub(super) fn listed(&mut self, run: &Run) {
        self.floors.insert(run.scope, (run.version.clone(), self.now));
        let deadline = self.now + self.limits.confirmation;
        for key in self.live.keys().cloned().collect::<Vec<_>>() {
            let is_covered = self.scope_of(&key) == Some(run.scope);
            if let Some(pushed) = &mut self.live.get_mut(&key).unwrap().pushed
                && pushed.scope.is_none()
                && is_covered
            {
                (pushed.scope, pushed.deadline, pushed.queued) = (Some(run.scope), deadline, deadline);
            }
        }
        let live = self.live.values_mut().filter_map(|live| live.pushed.as_mut());
        let dead = self.dead.iter_mut().filter_map(|dead| dead.pushed.as_mut());
        for pushed in
            live.chain(dead).filter(|pushed| pushed.scope == Some(run.scope) && pushed.seen != run.number)
        {
            pushed.baseline = None;
        }
        self.reached(run.scope, &run.version);
    }

    /// The watch of a scope has come to a version.
    pub(crate) fn reached(&mut self, scope: usize, version: &Version) {
        self.using(scope);
        if let Some((floor, heard)) = self.floors.get_mut(&scope) {
            *heard = self.now;
            *floor = floor.clone().max(version.clone());
        }
        loop {
            let passed = self.live.iter().filter_map(|(key, live)| Some((live.pushed.as_ref()?, key)));
            let passed =
                passed.filter(|(pushed, _)| pushed.scope == Some(scope) && pushed.version <= *version);
            let Some((_, key)) =
                passed.min_by_key(|(pushed, key)| (pushed.version.clone(), self.live[*key].place))
            else {
                return;
            };
            let key = key.clone();
            self.overrule(&key);
        }
    }

    pub(super) fn overrule_overdue(&mut self) -> usize {
        let (now, later) = (self.now, self.now + (self.limits.confirmation / 30).max(1));
        let mut overruled = 0;
        loop {
            let live = self.live.iter().filter_map(|(key, live)| {
                let pushed = live.pushed.as_ref()?;
                Some(((pushed.queued, false, live.place), key, pushed))
            });
            let dead = self.dead.iter().filter_map(|dead| {
                let pushed = dead.pushed.as_ref()?;
                Some(((pushed.queued, true, dead.place), &dead.key, pushed))
            });
            let due = live.chain(dead).filter(|(_, _, pushed)| pushed.queued <= now);
            let Some((_, key, pushed)) = due.min_by_key(|(turn, ..)| *turn) else {
                return overruled;
            };
            let heard =
                |scope: usize| self.floors.get(&scope).is_some_and(|(_, heard)| *heard >= pushed.deadline);
            let is_over = pushed.deadline <= now && pushed.scope.is_none_or(heard);
            let key = key.clone();
            if is_over {
                self.overrule(&key);
                overruled += 1;
            } else if let Some(Some(pushed)) = self.pushed_mut(&key) {
                pushed.queued = if pushed.deadline > now { pushed.deadline } else { later };
            }
        }
    }

    fn overrule(&mut self, key: &ObjectKey) {
        self.overruled += 1;
        let pushed = self.pushed_mut(key).and_then(Option::take).unwrap();
        let floor = pushed.scope.and_then(|scope| self.floors.get(&scope)).map(|(floor, _)| floor.clone());
        match (self.live.contains_key(key), pushed.baseline, pushed.scope) {
            (true, Some(baseline), Some(scope)) => {
                self.live.get_mut(key).unwrap().claims.insert(scope);
                self.replace(&baseline, Source::Event(scope));
            }
            (true, None, None) => {
                self.take_out(key);
                // An equal push brings it back.
                if pushed.version.get() > 1 {
                    let before = (pushed.version.get() - 1).to_string();
                    self.bury(key, before.parse().unwrap(), None);
                }
            }
            (true, ..) => self.remove(key, floor.unwrap_or(pushed.version), None),
            (false, Some(baseline), Some(scope)) => {
                let at = self.dead.iter().position(|dead| dead.key == *key).unwrap();
                self.exhume(at);
                self.upsert(&baseline, Source::List(scope, pushed.seen));
                if let Some(live) = self.live.get_mut(key) {
                    live.seen_by.insert(pushed.seen);
                }
            }
            (false, ..) => {
                if let (Some(floor), Some(dead)) = (floor, self.dead.iter_mut().find(|dead| dead.key == *key))
                {
                    dead.version = floor;
                }
            }
        }
    }
}
