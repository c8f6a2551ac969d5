//! How much growth is admitted: quotas and other rules of the pool's plugins.
//!
//! The whole target is asked for first. If there is not enough for it, the most that is admitted is found by
//! halving what lies between the replicas and the target. A spec that is refused as such, or a plugin that
//! cannot answer, ends the search: asking for less would not help. What was admitted before is kept.
//!
//! Asking must change nothing: it happens up to 32 times for one decision.

use std::time::Duration;

use sandgate_objects::sandbox_env::resources::AttemptResult;

/// How much of a refusal's message is kept.
const MAX_MESSAGE: usize = 512;

/// Says how many replicas a pool may have.
pub trait Admission: Sync {
    /// How many of `candidate` replicas are admitted. Must not change anything.
    ///
    /// # Errors
    /// Why the pool may not have so many.
    fn ask(&self, candidate: i32) -> impl Future<Output = Result<i32, AdmissionRefusal>> + Send;
}

/// Why a pool may not have so many replicas.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct AdmissionRefusal {
    /// What kind of refusal it is.
    pub kind: RefusalKind,
    /// Why, for people.
    pub message: String,
    /// When it may be worth asking again.
    pub retry_after: Option<Duration>,
}

/// What kind of refusal it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RefusalKind {
    /// There is not enough for so many. Fewer may do.
    Insufficient,
    /// The pool may not have a single further replica as it is.
    InvalidSpec,
    /// It could not be found out.
    Internal,
}

/// What was admitted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdmissionOutcome {
    /// The replicas that the pool may have: at least those that it has.
    pub accepted: i32,
    /// What the status says about the attempt.
    pub result: AttemptResult,
    /// Why it is not more; empty if all was admitted.
    pub message: String,
    /// The longest time that a refusal asked for.
    pub retry_after: Option<Duration>,
}

/// The questions, one after the other.
#[derive(Clone, Debug)]
pub struct AdmissionLadder {
    target: i32,
    /// The most that is known to be admitted.
    low: i32,
    /// The least that is known not to be, or one more than the target.
    high: i32,
    /// What is asked.
    next: Option<i32>,
    outcome: AdmissionOutcome,
}

impl AdmissionLadder {
    /// From the replicas that a pool has to those that it is to have.
    pub fn new(from: i32, target: i32) -> Self {
        let from = from.max(0);
        let outcome = AdmissionOutcome {
            accepted: from,
            result: AttemptResult::Enough,
            message: String::new(),
            retry_after: None,
        };
        let next = Some(target).filter(|target| *target > from);
        Self { target, low: from, high: target.saturating_add(1), next, outcome }
    }

    /// Asks until it is known what is admitted.
    pub async fn climb(mut self, admission: &impl Admission) -> AdmissionOutcome {
        while let Some(candidate) = self.candidate() {
            self.answered(admission.ask(candidate).await);
        }
        self.outcome()
    }

    /// How many replicas to ask for; none if nothing is left to ask.
    pub fn candidate(&self) -> Option<i32> {
        self.next
    }

    /// Takes the answer for the candidate.
    pub fn answered(&mut self, answer: Result<i32, AdmissionRefusal>) {
        let Some(candidate) = self.next.take() else { return };
        match answer {
            Ok(admitted) if admitted >= candidate => self.low = candidate,
            Ok(admitted) => {
                self.low = self.low.max(admitted);
                self.high = candidate;
                self.refused(
                    AttemptResult::Insufficient,
                    format!("{admitted} of {candidate} replicas are admitted"),
                );
            }
            Err(AdmissionRefusal { kind, message, retry_after }) => {
                self.outcome.retry_after = self.outcome.retry_after.max(retry_after);
                if kind != RefusalKind::Insufficient {
                    // The search is over, and this is why.
                    self.outcome.message.clear();
                    self.refused(AttemptResult::Failed, message);
                    return;
                }
                self.high = candidate;
                self.refused(AttemptResult::Insufficient, message);
            }
        }
        if self.low < self.target && self.high - self.low > 1 {
            self.next = Some(self.low + (self.high - self.low) / 2);
        }
    }

    /// What was admitted, as far as it was asked for.
    pub fn outcome(self) -> AdmissionOutcome {
        AdmissionOutcome { accepted: self.low, ..self.outcome }
    }

    /// The first message is about the whole target, and stays.
    fn refused(&mut self, result: AttemptResult, message: String) {
        self.outcome.result = result;
        if self.outcome.message.is_empty() {
            self.outcome.message = message;
            let end = self.outcome.message.floor_char_boundary(MAX_MESSAGE);
            self.outcome.message.truncate(end);
        }
    }
}
