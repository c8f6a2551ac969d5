//! The task that writes a pod for a claim.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use sandgate_cache::Key;
use sandgate_routes::Version;
use tokio::time::{Instant, sleep};

use super::lines::Start;
use super::{Candidate, ClaimError, Inner, Pods, Settled, SwapError};

/// How long the first look at a pod waits whose write was not answered, and how long a later one at most.
const LOOKS: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(2));
/// How long a write without an answer may still arrive.
const ARRIVES: Duration = Duration::from_secs(10);

/// What became of a write.
enum Outcome<P: Pods> {
    /// The pod is the claim's.
    Won(P::Claimed),
    /// It is not, and never will be.
    Lost,
    /// The claim cannot be written.
    Refused(P::Refusal),
    /// Its caller had left before anything was written.
    Unwanted,
    /// Nobody knows, and there is no time to find out.
    Unsettled,
}

/// A pod on the way to its claim. Whoever drops it gives the pod back.
pub(super) struct Given<P: Pods> {
    inner: Arc<Inner<P>>,
    claimed: Option<P::Claimed>,
}

impl<P: Pods> Given<P> {
    /// The claim has it. It is there until it is taken.
    pub(super) fn take(mut self) -> Option<P::Claimed> {
        self.claimed.take()
    }
}

impl<P: Pods> Drop for Given<P> {
    fn drop(&mut self) {
        let Some(claimed) = self.claimed.take() else { return };
        let inner = Arc::clone(&self.inner);
        let give_back = async move {
            tokio::select! {
                biased;
                () = inner.pods.give_back(claimed) => {}
                () = inner.cut.cancelled() => inner.is_unsettled(),
            }
        };
        self.inner.tasks.spawn_on(give_back, &self.inner.runtime);
    }
}

impl<P: Pods> Inner<P> {
    /// Starts the task that writes the pod for the claim of this number.
    pub(super) fn start_swap(self: &Arc<Self>, start: Start<P>) {
        let Start { pool, number, candidate, request } = start;
        let inner = Arc::clone(self);
        let hand = Hand {
            inner: Arc::clone(self),
            pool,
            number,
            pod: candidate.key.clone(),
            version: candidate.version.clone(),
            is_empty: false,
        };
        let task = async move {
            if !hand.is_wanted() {
                return hand.end(Outcome::Unwanted);
            }
            let outcome = tokio::select! {
                biased;
                outcome = inner.write(&hand, &candidate, &request) => outcome,
                () = inner.cut.cancelled() => {
                    inner.is_unsettled();
                    Outcome::Unsettled
                }
            };
            hand.end(outcome);
        };
        self.tasks.spawn_on(task, &self.runtime);
    }

    /// Writes the pod, and does not rest before it is known whose it is.
    async fn write(&self, hand: &Hand<P>, candidate: &Candidate<P::Pod>, request: &P::Request) -> Outcome<P> {
        // The last write that was not answered.
        let mut unanswered: Option<Instant> = None;
        let mut pause = LOOKS.0;
        loop {
            let no = match self.pods.swap(candidate, request).await {
                Ok(claimed) => return Outcome::Won(claimed),
                Err(SwapError::Conflict | SwapError::Gone) => Some(Outcome::Lost),
                Err(SwapError::Refused(why)) => Some(Outcome::Refused(why)),
                Err(SwapError::PutOff) => None,
                Err(SwapError::Unanswered) => {
                    unanswered = Some(Instant::now());
                    None
                }
            };
            let Some(since) = unanswered else {
                if let Some(no) = no {
                    return no;
                }
                sleep(pause).await;
                pause = (pause * 2).min(LOOKS.1);
                if !hand.is_wanted() {
                    return Outcome::Unwanted;
                }
                continue;
            };
            // Every such answer may be about what an earlier write of ours has done.
            loop {
                sleep(pause).await;
                pause = (pause * 2).min(LOOKS.1);
                match self.pods.settle(candidate, request).await {
                    Settled::Ours(claimed) => return Outcome::Won(claimed),
                    Settled::NotOurs => return Outcome::Lost,
                    Settled::Unchanged => break,
                    Settled::Unknown => {}
                }
            }
            // What has not arrived by now does not arrive any more.
            if let Some(no) = no.filter(|_| since.elapsed() >= ARRIVES) {
                return no;
            }
        }
    }

    fn is_unsettled(&self) {
        self.unsettled.fetch_add(1, Ordering::Relaxed);
    }
}

/// A pod in the hand of a claim.
struct Hand<P: Pods> {
    inner: Arc<Inner<P>>,
    pool: Key,
    number: u64,
    pod: Key,
    version: Version,
    is_empty: bool,
}

impl<P: Pods> Hand<P> {
    /// Whether the claim has not left.
    fn is_wanted(&self) -> bool {
        let lines = self.inner.lines.lock();
        lines.pools.get(&self.pool).is_some_and(|line| line.swapping.contains_key(&self.number))
    }

    fn end(mut self, outcome: Outcome<P>) {
        self.is_empty = true;
        let inner = &self.inner;
        let now = Instant::now();
        let stale_until = now + inner.settings.stale_for;
        let answer = inner.with(|lines| {
            lines.put_down(&self.pool, &self.pod);
            // The source may still show the version that was written over.
            if !matches!(outcome, Outcome::Refused(_) | Outcome::Unwanted) {
                lines.is_stale(&self.pool, self.pod.clone(), self.version.clone(), stale_until);
            }
            let reply = match outcome {
                Outcome::Won(claimed) => {
                    if let Some(line) = lines.pools.get_mut(&self.pool) {
                        line.last_dispatch = Some(now);
                    }
                    Some(Ok(Given { inner: Arc::clone(inner), claimed: Some(claimed) }))
                }
                Outcome::Refused(why) => Some(Err(ClaimError::Refused(why))),
                Outcome::Unwanted => None,
                Outcome::Lost if !lines.is_closed => None,
                Outcome::Lost | Outcome::Unsettled => Some(Err(ClaimError::Closed)),
            };
            let answer = match reply {
                None => {
                    lines.back(&self.pool, self.number);
                    None
                }
                Some(reply) => Some((lines.leave(&self.pool, self.number), reply)),
            };
            inner.go_on(lines, &self.pool);
            answer
        });
        match answer {
            // If nobody is there to read it, a pod comes back with the error and is given back.
            Some((Some(waiter), reply)) => drop(waiter.reply.send(reply)),
            Some((None, reply)) => drop(reply),
            None => {}
        }
    }
}

impl<P: Pods> Drop for Hand<P> {
    /// The task died. Its claim is told by the end of its channel. The next write is started by the upkeep:
    /// if the runtime is about to end, it would die here, and so would the next.
    fn drop(&mut self) {
        if self.is_empty {
            return;
        }
        self.inner.is_unsettled();
        let until = Instant::now() + self.inner.settings.stale_for;
        let mut lines = self.inner.lines.lock();
        lines.put_down(&self.pool, &self.pod);
        lines.is_stale(&self.pool, self.pod.clone(), self.version.clone(), until);
        let waiter = lines.leave(&self.pool, self.number);
        lines.hold_up(&self.pool);
        drop(lines);
        self.inner.bell.notify_one();
        drop(waiter);
    }
}
