//! The status of a batch, and the events that tell of its changes.

use jiff::Timestamp;
use sandgate_objects::opensandbox::names;
use sandgate_objects::opensandbox::resources::{BatchSandbox, BatchSandboxStatus};

use super::plan::{Turn, phase, told_at};
use super::tally::Tally;
use crate::facts::{self, Fact};
use crate::tasks::TaskCounts;

/// The status of a batch with these pods and tasks; none if it is not to be written.
pub(super) fn status(
    batch: &BatchSandbox,
    turn: &Turn,
    tally: &Tally,
    is_pooled: bool,
    tasks: TaskCounts,
    now: Timestamp,
) -> Option<BatchSandboxStatus> {
    let mut draft = Draft::of(batch, now);
    if *turn == Turn::Hold {
        return None;
    }
    draft.count(tally);
    // In the other turns nobody has looked at the tasks.
    if turn.is_of_pods() || *turn == Turn::Paused {
        draft.count_tasks(tasks);
    }
    match turn {
        Turn::Hold => {}
        Turn::Steady | Turn::Waiting => {
            let missing = batch.spec.replicas().saturating_sub(tally.replicas);
            if is_pooled && missing > 0 {
                let pool = batch.spec.pool().unwrap_or_default();
                let why = if tally.is_pool_exhausted { ": its poolMax is reached" } else { "" };
                draft.pending = format!("the pool {pool} has not given {missing} of the pods yet{why}");
            }
            let was_resuming = draft.phase() == names::PHASE_RESUMING;
            draft.steady(tally);
            // A pause that was asked for during a resume is heard after it.
            let is_back = draft.phase() != names::PHASE_RESUMING && batch.spec.pause != Some(true);
            if *turn == Turn::Steady && (!was_resuming || is_back) {
                draft.acknowledge();
            }
        }
        Turn::Pausing => {
            draft.remove(names::CONDITION_PAUSE_FAILED);
            draft.acknowledge();
            draft.enter(names::PHASE_PAUSING);
        }
        Turn::PauseRefused { reason, message } => {
            draft.put(names::CONDITION_PAUSE_FAILED, Fact::new(*reason, message));
            draft.acknowledge();
            if phase(batch).is_empty() {
                draft.enter(names::PHASE_SUCCEED);
            }
        }
        Turn::PauseFailed(message) => {
            let (reason, phase) = match tally.replicas {
                0 => (names::REASON_POD_NOT_FOUND, names::PHASE_FAILED),
                _ => (names::REASON_SNAPSHOT_FAILED, names::PHASE_SUCCEED),
            };
            draft.put(names::CONDITION_PAUSE_FAILED, Fact::new(reason, message));
            draft.enter(phase);
        }
        Turn::Paused => {
            // A resume that was asked for in the meantime is still to be heard.
            if batch.spec.pause != Some(false) {
                draft.acknowledge();
            }
            draft.remove(names::CONDITION_POD_FAILED);
            draft.enter(names::PHASE_PAUSED);
        }
        Turn::Resuming => {
            draft.remove(names::CONDITION_RESUME_FAILED);
            draft.acknowledge();
            draft.enter(names::PHASE_RESUMING);
        }
        Turn::ResumeFailed { reason, message } => {
            draft.put(names::CONDITION_RESUME_FAILED, Fact::new(*reason, message));
            draft.enter(names::PHASE_PAUSED);
        }
    }
    let is_first = batch.status.as_ref().is_none_or(|status| status.phase.is_none());
    let says_nothing = draft.phase() == names::PHASE_PENDING && (tally.replicas == 0 || !is_pooled);
    let is_early = told_at(batch, is_pooled).is_none_or(|at| now < at) && batch.warnings().is_empty();
    if is_first && says_nothing && is_early && batch.spec.replicas() > 0 {
        return None;
    }
    Some(draft.status)
}

/// A status to be: what it is now, and what is changed in it.
struct Draft {
    status: BatchSandboxStatus,
    generation: Option<i64>,
    /// Why no pod is ready.
    pending: String,
    now: Timestamp,
}

impl Draft {
    fn of(batch: &BatchSandbox, now: Timestamp) -> Self {
        let generation = batch.metadata.generation;
        let mut status = batch.status.clone().unwrap_or_default();
        status.observed_generation = generation;
        let pending = "no pod is ready yet".to_owned();
        Self { status, generation, pending, now }
    }

    fn phase(&self) -> &str {
        self.status.phase.as_deref().unwrap_or_default()
    }

    fn put(&mut self, kind: &str, fact: Fact) {
        facts::put(&mut self.status.conditions, kind, fact, self.now);
    }

    fn remove(&mut self, kind: &str) {
        facts::remove(&mut self.status.conditions, kind);
    }

    fn count(&mut self, tally: &Tally) {
        self.status.replicas = number(tally.replicas);
        self.status.allocated = number(tally.allocated);
        self.status.ready = number(tally.ready);
    }

    fn count_tasks(&mut self, tasks: TaskCounts) {
        self.status.task_pending = number(tasks.pending);
        self.status.task_running = number(tasks.running);
        self.status.task_succeed = number(tasks.succeed);
        self.status.task_failed = number(tasks.failed);
        self.status.task_unknown = number(tasks.unknown);
    }

    /// The wish about a pause has been heard.
    fn acknowledge(&mut self) {
        self.status.pause_observed_generation = self.status.pause_observed_generation.max(self.generation);
    }

    /// The phase is what the pods come to. A batch that comes back from a pause does so until a pod is ready
    /// or cannot start.
    fn steady(&mut self, tally: &Tally) {
        let was_resuming = self.phase() == names::PHASE_RESUMING;
        match &tally.failure {
            Some(failure) => {
                self.put(names::CONDITION_POD_FAILED, failure.clone());
                if was_resuming {
                    self.put(names::CONDITION_RESUME_FAILED, failure.clone());
                }
                self.enter(names::PHASE_FAILED);
            }
            None => {
                self.remove(names::CONDITION_POD_FAILED);
                match (tally.ready > 0, was_resuming) {
                    (true, _) => {
                        self.remove(names::CONDITION_RESUME_FAILED);
                        self.enter(names::PHASE_SUCCEED);
                    }
                    (false, true) => self.enter(names::PHASE_RESUMING),
                    (false, false) => self.enter(names::PHASE_PENDING),
                }
            }
        }
    }

    /// Enters a phase, with the one condition that it has.
    fn enter(&mut self, phase: &str) {
        self.status.phase = Some(phase.to_owned());
        let (kind, fact) = match phase {
            names::PHASE_PENDING => {
                (names::CONDITION_PROGRESSING, Fact::new(names::REASON_CREATING, self.pending.clone()))
            }
            names::PHASE_SUCCEED => (names::CONDITION_READY, Fact::new(names::REASON_PODS_READY, "")),
            names::PHASE_PAUSING => {
                (names::CONDITION_PROGRESSING, Fact::new(names::REASON_PAUSE_IN_PROGRESS, ""))
            }
            names::PHASE_PAUSED => (names::CONDITION_PAUSED, Fact::new(names::REASON_PAUSED, "")),
            names::PHASE_RESUMING => {
                (names::CONDITION_PROGRESSING, Fact::new(names::REASON_RESUME_IN_PROGRESS, ""))
            }
            _ => ("", Fact::new("", "")),
        };
        for other in [names::CONDITION_PROGRESSING, names::CONDITION_READY, names::CONDITION_PAUSED] {
            if other != kind {
                self.remove(other);
            }
        }
        if !kind.is_empty() {
            self.put(kind, fact);
        }
    }
}

fn number(count: usize) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}

/// Something that people are told by an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Notice {
    /// Whether something is wrong.
    pub(super) is_warning: bool,
    /// In one word.
    pub(super) reason: &'static str,
    /// For people.
    pub(super) message: String,
}

/// The conditions that are worth an event.
const WARNINGS: [&str; 3] =
    [names::CONDITION_POD_FAILED, names::CONDITION_PAUSE_FAILED, names::CONDITION_RESUME_FAILED];

/// What a change of the status is worth telling: what has gone wrong, and the end of a pause or a resume.
pub(super) fn notices(before: Option<&BatchSandboxStatus>, after: &BatchSandboxStatus) -> Vec<Notice> {
    let mut notices = Vec::new();
    for kind in WARNINGS {
        let Some(condition) = after.condition(kind) else { continue };
        let known = before.and_then(|status| status.condition(kind));
        if known.is_none_or(|known| known.reason != condition.reason) {
            let message = format!("{}: {}", condition.reason, condition.message);
            notices.push(Notice { is_warning: true, reason: kind, message });
        }
    }
    let phase_before = before.and_then(|status| status.phase.as_deref()).unwrap_or_default();
    let told = match (phase_before, after.phase.as_deref().unwrap_or_default()) {
        (names::PHASE_PAUSING, names::PHASE_PAUSED) => Some(("Paused", "the batch is paused")),
        (names::PHASE_RESUMING, names::PHASE_SUCCEED) => {
            Some(("Resumed", "the batch is back from its pause"))
        }
        _ => None,
    };
    notices.extend(told.map(|(reason, message)| Notice {
        is_warning: false,
        reason,
        message: message.to_owned(),
    }));
    notices
}
