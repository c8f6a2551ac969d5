//! Does what a plan for a pool says.
//!
//! The parts of a plan are about different objects, so they are done at the same time: who waits for a pod
//! does not wait for a pod that is recycled. Whatever was decided from something that has changed since is
//! not done: every write carries a version. What has changed is read anew, and the caller decides again.

mod claims;
mod pods;
mod recycling;
mod turn;

use futures_util::StreamExt as _;
use futures_util::future::{join, join_all, join4};
use futures_util::stream;
use jiff::Timestamp;
use parking_lot::Mutex;

use super::PoolReconciler;
use super::observe::Observed;
use super::plan::{Claimed, Plan};
use crate::Key;
use crate::view::{Kept, Seen};
use crate::writes::WriteError;
pub(super) use recycling::Commands;

/// What became of something that was to be done.
#[derive(Debug, Default)]
pub(super) struct Applied {
    /// The first failure.
    pub(super) failure: Option<WriteError>,
    /// Something was not as it had been seen: the last such answer.
    pub(super) conflict: Option<WriteError>,
    /// Whether anything was written.
    pub(super) has_acted: bool,
    /// When to look again.
    pub(super) again: Option<Timestamp>,
}

impl Applied {
    /// Something was written.
    pub(super) fn acted() -> Self {
        Self { has_acted: true, ..Self::default() }
    }

    fn failed(error: WriteError) -> Self {
        Self { failure: Some(error), ..Self::default() }
    }

    fn conflicted(error: WriteError) -> Self {
        Self { conflict: Some(error), ..Self::default() }
    }

    /// Both.
    pub(super) fn add(&mut self, other: Self) {
        let Self { failure, conflict, has_acted, again } = other;
        self.failure = self.failure.take().or(failure);
        self.conflict = conflict.or(self.conflict.take());
        self.has_acted |= has_acted;
        self.again = [self.again, again].into_iter().flatten().min();
    }
}

impl Extend<Self> for Applied {
    fn extend<I: IntoIterator<Item = Self>>(&mut self, all: I) {
        all.into_iter().for_each(|one| self.add(one));
    }
}

impl FromIterator<Self> for Applied {
    fn from_iter<I: IntoIterator<Item = Self>>(all: I) -> Self {
        let mut sum = Self::default();
        sum.extend(all);
        sum
    }
}

/// The pods that were claimed in this look and not given yet.
#[derive(Debug, Default)]
pub(super) struct Pass(Mutex<Claimed>);

impl Pass {
    /// They, now.
    pub(super) fn claimed(&self) -> Claimed {
        self.0.lock().clone()
    }

    fn keep(&self, pod: &Key, mark: &str) {
        self.0.lock().insert(pod.clone(), mark.into());
    }

    /// The pod was given, or may have been.
    fn settle(&self, pod: &Key) {
        self.0.lock().remove(pod);
    }
}

impl PoolReconciler {
    /// Does everything that can be done.
    pub(super) async fn apply(
        &self,
        observed: &Observed,
        plan: &mut Plan,
        pass: &Pass,
        free_names: Vec<Key>,
    ) -> Applied {
        let Plan { turns, strays, unclaim, stamp, evict, stuck, delete, create, failures, .. } = plan;
        let turns = async {
            // Named, as the compiler cannot tell that the closure of an iterator is good for every turn.
            let turns: Vec<_> = turns.iter().map(|turn| self.turn(observed, turn, pass)).collect();
            stream::iter(turns).buffer_unordered(self.settings.allocations.max(1)).collect::<Applied>().await
        };
        let strays = async {
            let strays = join_all(strays.iter().map(|pod| self.stray(observed, pod)));
            let (strays, unclaimed) =
                join(strays, join_all(unclaim.iter().map(|pod| self.unclaim(pod)))).await;
            unclaim.iter().for_each(|pod| pass.settle(&pod.key));
            strays.into_iter().chain(unclaimed).collect::<Applied>()
        };
        let idle = async {
            let mut done = self.stamp(stamp).await;
            done.add(self.evict(observed, evict).await);
            done.add(self.give_up(observed, stuck).await);
            done.add(self.delete(delete).await);
            done
        };
        let made = self.create(observed, *create, free_names, failures);
        let (turns, strays, idle, made) = join4(turns, strays, idle, made).await;
        [turns, strays, idle, made].into_iter().collect()
    }

    /// A write was refused because the object had changed. Sees to it that the view is newer than that.
    async fn refreshed<T: Kept>(&self, seen: &Seen<T>, error: WriteError) -> Applied {
        self.metrics.conflict();
        let known = self.view.get::<T>(&seen.key);
        if known.is_some_and(|known| known.uid == seen.uid && known.version == seen.version)
            && let Err(error) = self.writes.read::<T>(&seen.key).await
        {
            return Applied::failed(error);
        }
        Applied::conflicted(error)
    }

    /// What becomes of a write that failed.
    async fn after<T: Kept>(&self, seen: &Seen<T>, error: WriteError) -> Applied {
        match error {
            WriteError::Conflict(_) | WriteError::NotFound(_) => self.refreshed(seen, error).await,
            error => Applied::failed(error),
        }
    }
}
