//! Which replica leads: leader election by a `coordination.k8s.io/v1` Lease.
//!
//! # Protocol
//! 1. Every candidate reads the lease, and the one that holds it renews it every
//!    [`retry`](Times::retry). Each write carries the `resourceVersion` that was read, so of two writers one
//!    gets a conflict.
//! 2. A holder leads until [`renew`](Times::renew) after it *sent* its last successful write.
//! 3. Another candidate may take the lease over when it has seen one version of it for
//!    [`duration`](Times::duration), counted on its own clock from when it *received* that version. A lease
//!    without a holder may be taken at once.
//!
//! A write is sent before it is committed, and committed before anybody receives it, and `renew` is shorter
//! than `duration`: so by rule 2 the old leader ends before a new one begins by rule 3. No clock is compared
//! with another machine's. Clocks only have to run at nearly the same speed: with 15 s and 10 s one may run
//! half as fast again as the other.
//!
//! [`Leadership::check`] is asked before every write. A write that was sent just before the end may still be
//! under way when the next leader begins, so every write carries a version or a UID as well.
//!
//! A candidate that stops gives up the lease, and the next one has it after at most one
//! [`retry`](Times::retry).

mod candidate;
mod election;
#[cfg(test)]
mod tests;

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use crate::Failed;
pub use candidate::{Candidate, CandidateStatus};

/// The durations of an election.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    duration: Duration,
    renew: Duration,
    retry: Duration,
}

/// Why durations make no election.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TimesError {
    /// The API server keeps whole seconds, and at least one.
    #[error("the lease duration must be whole seconds, from 1 to 3600")]
    Duration,
    /// Else two could lead at once.
    #[error("the renew deadline must be shorter than the lease duration, or two replicas could lead at once")]
    Renew,
    /// Else one lost answer would end a leadership.
    #[error("the retry period must be at most half the renew deadline, or one lost answer ends a leadership")]
    Retry,
}

impl Times {
    /// Checks the durations against each other.
    ///
    /// # Errors
    /// See [`TimesError`].
    pub fn new(duration: Duration, renew: Duration, retry: Duration) -> Result<Self, TimesError> {
        if duration.subsec_nanos() != 0 || !(1..=3600).contains(&duration.as_secs()) {
            return Err(TimesError::Duration);
        }
        if renew >= duration {
            return Err(TimesError::Renew);
        }
        if retry.is_zero() || retry > renew / 2 {
            return Err(TimesError::Retry);
        }
        Ok(Self { duration, renew, retry })
    }

    /// How long a lease is left to a holder that is not heard of.
    pub fn duration(&self) -> Duration {
        self.duration
    }

    /// How long a holder leads after its last successful write.
    pub fn renew(&self) -> Duration {
        self.renew
    }

    /// How often the lease is renewed or read.
    pub fn retry(&self) -> Duration {
        self.retry
    }
}

impl Default for Times {
    fn default() -> Self {
        let seconds = Duration::from_secs;
        Self { duration: seconds(15), renew: seconds(10), retry: seconds(2) }
    }
}

/// Counts the leaders: a later leader has a higher number (the lease's `leaseTransitions`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Term(pub i32);

/// A leadership, and the time at which it ends unless it is renewed; none is never.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Held {
    term: Term,
    until: Option<Instant>,
}

impl Held {
    fn lasts(&self, now: Instant) -> bool {
        self.until.is_none_or(|until| now < until)
    }
}

/// Says who leads: the writer's side of a [`Leadership`]. If it is dropped, what it said last holds until its
/// time is over.
#[derive(Debug)]
pub struct Tenure(watch::Sender<Option<Held>>);

impl Tenure {
    /// This process leads until then.
    pub fn lead(&self, term: Term, until: Instant) {
        self.say(Some(Held { term, until: Some(until) }));
    }

    /// This process does not lead, from now on.
    pub fn end(&self) {
        self.say(None);
    }

    fn say(&self, held: Option<Held>) {
        self.0.send_if_modified(|current| std::mem::replace(current, held) != held);
    }
}

/// Whether this process leads: the reader's side, cheap to clone.
///
/// It ends by itself: when the time of a leadership is over, [`check`](Self::check) fails, whatever became of
/// the task that renews it.
#[derive(Clone, Debug)]
pub struct Leadership {
    state: watch::Receiver<Option<Held>>,
}

impl Leadership {
    /// Nobody leads until the [`Tenure`] says so.
    pub fn new() -> (Tenure, Self) {
        let (sender, state) = watch::channel(None);
        (Tenure(sender), Self { state })
    }

    /// This process leads from the start and for ever: for one replica, and for tests.
    pub fn always() -> Self {
        let (_, state) = watch::channel(Some(Held { term: Term(0), until: None }));
        Self { state }
    }

    /// The fence: to be asked before every write.
    ///
    /// # Errors
    /// [`Category::NotLeading`](crate::Category::NotLeading).
    pub fn check(&self) -> Result<Term, Failed> {
        self.term().ok_or_else(Failed::not_leading)
    }

    /// The term of this process, if it leads now.
    pub fn term(&self) -> Option<Term> {
        self.state.borrow().filter(|held| held.lasts(Instant::now())).map(|held| held.term)
    }

    /// Waits until this process leads. Never completes if it will not.
    pub async fn gained(&self) -> Term {
        let mut state = self.state.clone();
        loop {
            if let Some(held) = state.borrow_and_update().filter(|held| held.lasts(Instant::now())) {
                return held.term;
            }
            if state.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    /// Waits until this process does not lead.
    pub async fn lost(&self) {
        let mut state = self.state.clone();
        loop {
            let held = *state.borrow_and_update();
            let Some(held) = held.filter(|held| held.lasts(Instant::now())) else { return };
            tokio::select! {
                biased;
                // A writer that is gone changes nothing, and does not extend anything.
                Ok(()) = state.changed() => {}
                () = ended(held.until) => {}
            }
        }
    }

    /// Waits until the answer of [`check`](Self::check) is another one.
    pub async fn changed(&self) {
        if self.term().is_some() {
            self.lost().await;
        } else {
            self.gained().await;
        }
    }
}

async fn ended(until: Option<Instant>) {
    match until {
        Some(until) => sleep_until(until).await,
        None => std::future::pending().await,
    }
}
