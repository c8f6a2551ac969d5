//! The lines: who waits for a pod of which pool, and which pods are being written.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use sandgate_cache::Key;
use sandgate_routes::Version;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::{Candidate, Inner, Pods, Reply};
use crate::lookup::ByKey;

/// How many lines are kept before those that nobody stands in are forgotten.
const LINES: usize = 4096;
/// How many stale versions are kept.
const STALE: usize = 65_536;

/// A claim that has not ended.
pub(super) struct Waiter<P: Pods> {
    pub(super) request: Arc<P::Request>,
    pub(super) reply: oneshot::Sender<Reply<P>>,
}

/// The line of a pool.
pub(super) struct Line<P: Pods> {
    /// Those without a pod in hand, by number.
    pub(super) waiting: BTreeMap<u64, Waiter<P>>,
    /// Those whose pod is being written.
    pub(super) swapping: BTreeMap<u64, Waiter<P>>,
    /// How many pods are being written: also for those that have left.
    pub(super) in_flight: usize,
    pub(super) last_dispatch: Option<Instant>,
    /// Whether it waits for its turn to write.
    pub(super) is_held_up: bool,
    /// The demand that was told last, and when.
    pub(super) told: usize,
    pub(super) told_at: Option<Instant>,
    published: Arc<AtomicUsize>,
}

impl<P: Pods> Line<P> {
    pub(super) fn queued(&self) -> usize {
        self.waiting.len() + self.swapping.len()
    }

    fn publish(&self) {
        self.published.store(self.queued(), Ordering::Relaxed);
    }

    fn is_idle(&self) -> bool {
        self.queued() == 0 && self.in_flight == 0 && self.told == 0 && !self.is_held_up
    }
}

/// A version that others have changed though the source may still show it.
struct Stale {
    pool: Key,
    version: Version,
    until: Instant,
}

/// A claim and the pod that is to be written for it.
pub(super) struct Start<P: Pods> {
    pub(super) pool: Key,
    pub(super) number: u64,
    pub(super) candidate: Candidate<P::Pod>,
    pub(super) request: Arc<P::Request>,
}

/// The lines of all pools.
pub(super) struct Lines<P: Pods> {
    last: u64,
    pub(super) is_closed: bool,
    pub(super) unfinished: usize,
    /// How many more pods may be written now.
    free: usize,
    pub(super) pools: BTreeMap<Key, Line<P>>,
    /// The pools that wait for their turn to write, the next one first.
    held_up: VecDeque<Key>,
    /// The pods that are being written.
    picked: BTreeSet<Key>,
    /// What is to be started when the lock is free.
    starts: Vec<Start<P>>,
    stale: BTreeMap<Key, Stale>,
    /// The stale versions by their ends: all count for the same time.
    ends: VecDeque<(Instant, Key)>,
    /// The pools whose demand has something to tell.
    pub(super) untold: BTreeSet<Key>,
    /// When the next look is due, and how long it is from one to the next.
    pub(super) repair: Option<(Instant, Duration)>,
}

impl<P: Pods> Lines<P> {
    pub(super) fn new(swaps: usize) -> Self {
        Self {
            last: 0,
            is_closed: false,
            unfinished: 0,
            free: swaps.max(1),
            pools: BTreeMap::new(),
            held_up: VecDeque::new(),
            picked: BTreeSet::new(),
            starts: Vec::new(),
            stale: BTreeMap::new(),
            ends: VecDeque::new(),
            untold: BTreeSet::new(),
            repair: None,
        }
    }

    /// Puts a claim at the end of the line. Returns its number.
    pub(super) fn enter(
        &mut self,
        pool: &Key,
        waiter: Waiter<P>,
        published: &ByKey<Arc<AtomicUsize>>,
    ) -> u64 {
        self.last += 1;
        self.unfinished += 1;
        if self.pools.len() >= LINES && !self.pools.contains_key(pool) {
            let published = published.pin();
            self.pools.retain(|pool, line| {
                if line.is_idle() {
                    published.remove(pool);
                }
                !line.is_idle()
            });
        }
        let line = self.pools.entry(pool.clone()).or_insert_with(|| {
            let count = Arc::new(AtomicUsize::new(0));
            published.pin().insert(pool.clone(), Arc::clone(&count));
            Line {
                waiting: BTreeMap::new(),
                swapping: BTreeMap::new(),
                in_flight: 0,
                last_dispatch: None,
                is_held_up: false,
                told: 0,
                told_at: None,
                published: count,
            }
        });
        line.waiting.insert(self.last, waiter);
        line.publish();
        self.last
    }

    /// Takes a claim out of the line, wherever it stands.
    pub(super) fn leave(&mut self, pool: &Key, number: u64) -> Option<Waiter<P>> {
        let line = self.pools.get_mut(pool)?;
        let waiter = line.waiting.remove(&number).or_else(|| line.swapping.remove(&number))?;
        line.publish();
        self.unfinished -= 1;
        Some(waiter)
    }

    /// Puts a claim that lost its pod back to its place, if it has not left.
    pub(super) fn back(&mut self, pool: &Key, number: u64) {
        if let Some(line) = self.pools.get_mut(pool)
            && let Some(waiter) = line.swapping.remove(&number)
        {
            line.waiting.insert(number, waiter);
        }
    }

    /// Lets nobody in any more. Returns those who wait.
    pub(super) fn close(&mut self, published: &ByKey<Arc<AtomicUsize>>) -> Vec<Waiter<P>> {
        self.is_closed = true;
        let mut all = BTreeMap::new();
        for line in self.pools.values_mut() {
            all.append(&mut line.waiting);
            line.publish();
        }
        published.pin().clear();
        self.unfinished -= all.len();
        all.into_values().collect()
    }

    /// A pod is no longer being written.
    pub(super) fn put_down(&mut self, pool: &Key, pod: &Key) {
        self.picked.remove(pod);
        self.free += 1;
        if let Some(line) = self.pools.get_mut(pool) {
            line.in_flight -= 1;
        }
    }

    /// A pod is not as this version any more: it is not taken again before the source shows a newer one, or
    /// before this time.
    pub(super) fn is_stale(&mut self, pool: &Key, pod: Key, version: Version, until: Instant) {
        if self.stale.len() >= STALE
            && let Some((_, oldest)) = self.ends.pop_front()
        {
            self.stale.remove(&oldest);
        }
        self.ends.push_back((until, pod.clone()));
        self.stale.insert(pod, Stale { pool: pool.clone(), version, until });
    }

    /// Forgets the stale versions whose time has come. Returns their pools.
    pub(super) fn fresh_again(&mut self, now: Instant) -> BTreeSet<Key> {
        let mut pools = BTreeSet::new();
        while let Some((_, pod)) = self.ends.pop_front_if(|(until, _)| *until <= now) {
            if self.stale.get(&pod).is_some_and(|stale| stale.until <= now)
                && let Some(stale) = self.stale.remove(&pod)
            {
                pools.insert(stale.pool);
            }
        }
        pools
    }

    /// When the next stale version is tried again.
    pub(super) fn next_fresh(&self) -> Option<Instant> {
        self.ends.front().map(|(until, _)| *until)
    }

    /// Whether any claim waits without a pod in hand.
    pub(super) fn is_anyone_waiting(&self) -> bool {
        self.pools.values().any(|line| !line.waiting.is_empty())
    }

    /// The next claim of a pool and a pod for it.
    fn pair(&mut self, pool: &Key, pods: &P) -> Pair<P> {
        let Some(line) = self.pools.get_mut(pool) else { return Pair::None };
        let Some(first) = line.waiting.first_entry() else { return Pair::None };
        if self.free == 0 {
            return Pair::HeldUp;
        }
        let candidate = pods.idle(pool, &mut |key, version| {
            !self.picked.contains(key) && self.stale.get(key).is_none_or(|stale| *version > stale.version)
        });
        let Some(candidate) = candidate else { return Pair::None };
        let (number, waiter) = first.remove_entry();
        let request = Arc::clone(&waiter.request);
        line.swapping.insert(number, waiter);
        line.in_flight += 1;
        self.free -= 1;
        self.picked.insert(candidate.key.clone());
        self.stale.remove(&candidate.key);
        Pair::Made(Start { pool: pool.clone(), number, candidate, request })
    }
}

/// A claim and a pod.
enum Pair<P: Pods> {
    Made(Start<P>),
    /// Too many pods are being written.
    HeldUp,
    /// No claim waits, or no pod is idle.
    None,
}

impl<P: Pods> Inner<P> {
    /// Does something under the lock, and then starts the writes that came of it. A runtime that is about to
    /// end drops a task where it is started, and that takes the lock.
    pub(super) fn with<R>(self: &Arc<Self>, act: impl FnOnce(&mut Lines<P>) -> R) -> R {
        let mut lines = self.lines.lock();
        let result = act(&mut lines);
        let starts = std::mem::take(&mut lines.starts);
        drop(lines);
        for start in starts {
            self.start_swap(start);
        }
        result
    }

    /// Gives idle pods to the first of a line, to so many at most. Returns to how many.
    pub(super) fn dispatch(&self, lines: &mut Lines<P>, pool: &Key, most: usize) -> usize {
        for made in 0..most {
            match lines.pair(pool, &self.pods) {
                Pair::Made(start) => lines.starts.push(start),
                Pair::HeldUp => {
                    lines.hold_up(pool);
                    return made;
                }
                Pair::None => return made,
            }
        }
        most
    }

    /// A pod of the pool is no longer being written: somebody else may write.
    pub(super) fn go_on(&self, lines: &mut Lines<P>, pool: &Key) {
        // Behind those that wait for their turn, or one long line would never let the others write.
        lines.hold_up(pool);
        self.take_turns(lines);
        self.consider(lines, pool);
        if lines.pools.get(pool).is_some_and(|line| !line.waiting.is_empty()) {
            // The version that has become stale has an end.
            self.bell.notify_one();
        }
    }

    /// Gives those their turn who wait for it, one pod each.
    pub(super) fn take_turns(&self, lines: &mut Lines<P>) {
        while lines.free > 0 {
            let Some(pool) = lines.held_up.pop_front() else { return };
            if let Some(line) = lines.pools.get_mut(&pool) {
                line.is_held_up = false;
            }
            if self.dispatch(lines, &pool, 1) == 1 {
                lines.hold_up(&pool);
            }
        }
    }
}

impl<P: Pods> Lines<P> {
    /// Lets a pool wait for its turn to write.
    pub(super) fn hold_up(&mut self, pool: &Key) {
        if let Some(line) = self.pools.get_mut(pool)
            && !line.waiting.is_empty()
            && !line.is_held_up
        {
            line.is_held_up = true;
            self.held_up.push_back(pool.clone());
        }
    }
}
