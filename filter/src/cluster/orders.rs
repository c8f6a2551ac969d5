//! What the main thread has its workers do, and how far each of them has got.
//!
//! The main thread gives orders in *batches* with rising numbers and has Envoy call every worker with the
//! number of each. A worker that is called has finished whatever it was doing: it has passed the *barrier* of
//! that number. It carries out every batch that it has not carried out yet, up to that number.
//!
//! # Why no order is lost
//! 1. A batch is kept until every worker has passed it, however late one is and however many batches follow.
//! 2. A thread is a worker from when it first has a load balancer or is first called, of whichever cluster,
//!    until it ends. A thread that has requests in flight is therefore known when a batch is given.
//! 3. Each worker has its own place in the sequence, so that a batch that was given while it was late is
//!    carried out when it is called next, and none is carried out twice.
//! 4. What is on its way when a cluster is replaced goes with it. The cluster that follows compares
//!    everything that is in flight with the table before it does anything else.
//!
//! None of this is on the way of a request: a worker takes the lock when it is called, the main thread when
//! it runs.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use super::process::Process;
use super::streams::End;

/// Tells a worker's thread from every other, also from those that have ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WorkerId(u64);

/// The threads that serve requests.
#[derive(Clone, Debug, Default)]
pub(crate) struct Workers(Arc<Mutex<Vec<WorkerId>>>);

impl Workers {
    /// One more, for as long as this is held.
    pub(crate) fn join(&self) -> Member {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let id = WorkerId(NEXT.fetch_add(1, Ordering::Relaxed));
        self.0.lock().push(id);
        Member { id, workers: self.clone() }
    }
}

/// A worker's place among the [`Workers`].
#[derive(Debug)]
pub(crate) struct Member {
    id: WorkerId,
    workers: Workers,
}

impl Member {
    pub(crate) fn id(&self) -> WorkerId {
        self.id
    }

    #[cfg(test)]
    pub(crate) fn workers(&self) -> &Workers {
        &self.workers
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.workers.0.lock().retain(|known| *known != self.id);
    }
}

thread_local! {
    static MEMBER: Member = Process::current().workers.join();
}

/// This thread, which is a worker from here on; `None` while it ends.
pub(crate) fn this_worker() -> Option<WorkerId> {
    MEMBER.try_with(Member::id).ok()
}

/// The orders of one cluster.
#[derive(Debug, Default)]
pub(crate) struct Orders {
    workers: Workers,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The number of the newest batch.
    newest: u64,
    /// The batches that some worker has not passed, in order.
    open: VecDeque<(u64, Arc<[End]>)>,
    /// How far each worker has got; none is 0.
    passed: Vec<(WorkerId, u64)>,
}

impl State {
    fn passed_by(&self, worker: WorkerId) -> u64 {
        self.passed.iter().find(|(known, _)| *known == worker).map_or(0, |(_, number)| *number)
    }

    /// The last batch that all of these workers have passed. Drops the batches up to it.
    fn passed_by_all(&mut self, workers: &[WorkerId]) -> u64 {
        self.passed.retain(|(worker, _)| workers.contains(worker));
        let all = workers.iter().map(|worker| self.passed_by(*worker)).min().unwrap_or(self.newest);
        while self.open.front().is_some_and(|(number, _)| *number <= all) {
            self.open.pop_front();
        }
        all
    }
}

impl Orders {
    pub(crate) fn new(workers: &Workers) -> Self {
        Self { workers: workers.clone(), state: Mutex::default() }
    }

    /// Main thread: gives a batch and says its number, with which every worker is to be called.
    pub(crate) fn give(&self, ends: Vec<End>) -> u64 {
        let mut state = self.state.lock();
        state.newest += 1;
        let number = state.newest;
        state.open.push_back((number, ends.into()));
        number
    }

    /// Main thread: whether every worker has passed the newest barrier.
    pub(crate) fn all_passed(&self) -> bool {
        let mut state = self.state.lock();
        let newest = state.newest;
        let workers = self.workers.0.lock();
        state.passed_by_all(&workers) >= newest
    }

    /// A worker was called with this number: what it has to do.
    pub(crate) fn take(&self, worker: WorkerId, number: u64) -> Vec<Arc<[End]>> {
        let state = self.state.lock();
        let passed = state.passed_by(worker);
        let due = |batch: &&(u64, Arc<[End]>)| (passed + 1..=number).contains(&batch.0);
        state.open.iter().filter(due).map(|(_, ends)| Arc::clone(ends)).collect()
    }

    /// The worker has done it. Whether it was the last one to pass the newest barrier.
    pub(crate) fn done(&self, worker: WorkerId, number: u64) -> bool {
        let mut state = self.state.lock();
        match state.passed.iter_mut().find(|(known, _)| *known == worker) {
            Some((_, passed)) => *passed = number.max(*passed),
            None => state.passed.push((worker, number)),
        }
        let newest = state.newest;
        let workers = self.workers.0.lock();
        number == newest && state.passed_by_all(&workers) >= newest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end(identity: u64) -> End {
        End::now(identity, None)
    }

    fn identities(orders: &Orders, worker: &Member, number: u64) -> Vec<u64> {
        let taken = orders.take(worker.id(), number);
        taken.iter().flat_map(|ends| ends.iter().map(|end| end.identity())).collect()
    }

    #[test]
    fn a_worker_that_is_late_carries_out_every_batch_that_was_given_meanwhile() {
        let workers = Workers::default();
        let (quick, late) = (workers.join(), workers.join());
        let orders = Orders::new(&workers);
        for identity in 1..=3 {
            let number = orders.give(vec![end(identity)]);
            assert_eq!(identities(&orders, &quick, number), [identity]);
            assert!(!orders.done(quick.id(), number) && !orders.all_passed());
        }
        // It is called three times, one after the other, each time with what it has not done.
        assert_eq!(identities(&orders, &late, 1), [1]);
        assert!(!orders.done(late.id(), 1));
        assert_eq!(identities(&orders, &late, 3), [2, 3], "a call that was left out");
        assert!(orders.done(late.id(), 3) && orders.all_passed());
        assert!(identities(&orders, &late, 3).is_empty(), "nothing is carried out twice");
        assert!(orders.state.lock().open.is_empty(), "what all have passed is forgotten");
    }

    #[test]
    fn a_worker_that_joins_while_a_barrier_is_up_does_not_stand_in_for_another() {
        let workers = Workers::default();
        let (first, orders) = (workers.join(), Orders::new(&workers));
        let number = orders.give(vec![end(1)]);
        let second = workers.join();
        assert!(!orders.done(second.id(), number), "the first has not passed");
        assert!(!orders.all_passed());
        assert!(orders.done(first.id(), number) && orders.all_passed());
    }

    #[test]
    fn nobody_waits_for_a_worker_that_has_ended_and_without_workers_for_nobody() {
        let workers = Workers::default();
        let orders = Orders::new(&workers);
        orders.give(vec![end(1)]);
        assert!(orders.all_passed());
        let (stays, goes) = (workers.join(), workers.join());
        let number = orders.give(vec![end(2)]);
        assert!(!orders.done(stays.id(), number));
        drop(goes);
        assert!(orders.all_passed());
    }
}
