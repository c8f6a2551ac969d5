//! What an executor's answer says.

use std::collections::BTreeSet;
use std::sync::Arc;

use sandgate_executor_wire::Task;

use super::{Ask, Goal, Intent, Known, Look, Request, Scheduler, pace};
use crate::EventKind;
use crate::tasks::executors::ExecutorError;
use crate::tasks::specs;

/// The failure in a row from which on it is told, and the state of the pod's task is unknown.
pub(super) const UNREACHABLE: u32 = 3;

/// What an answer says of one task.
enum Said {
    Running,
    Ended { succeeded: bool },
    Nothing,
}

impl Scheduler {
    /// Takes in an answer. `look` is the one of the plan, at the time of the answer.
    pub fn answered(&mut self, look: &Look<'_>, request: &Request, answer: Result<Vec<Task>, ExecutorError>) {
        match answer {
            Ok(list) => self.listed(look, request, &list),
            Err(error) => self.failed(look, request, &error),
        }
    }

    fn listed(&mut self, look: &Look<'_>, request: &Request, list: &[Task]) {
        let Some(pod) = self.pods.get_mut(&request.pod) else { return };
        (pod.failures, pod.error) = (0, None);
        (pod.is_met, pod.is_sending) = (true, false);
        let is_settled = pod.asked_at >= pod.settled.max(self.settled);
        if let Some(leaving) = pod.leaving.as_mut().filter(|_| is_settled) {
            leaving.is_heard = true;
        }
        let (mut own, mut strays) = (None, BTreeSet::new());
        for task in list {
            let Some(index) = specs::index(look.batch, &task.name) else { continue };
            if pod.holds == Some(index) {
                own = Some((said(task), task.deletion_timestamp.is_some()));
                continue;
            }
            let known = self.tasks.entry(index).or_default();
            if pod.holds.is_none() && known.on.is_none() {
                // Nobody else has it: this is where it has been.
                known.on = Some(Arc::clone(&request.pod));
                (known.is_sent, known.is_shown) = (true, true);
                pod.holds = Some(index);
                own = Some((said(task), task.deletion_timestamp.is_some()));
            } else {
                strays.insert(index);
            }
        }
        pod.strays = strays;
        pod.lacks_it = own.is_none();
        pod.may_hold &= own.is_none() && pod.asked_at < self.settled;
        pod.next = match pod.goal {
            Goal::Keep(_) => pace::slow(look.now),
            _ => pace::next(look.now, pod.asked),
        };
        let goal = pod.goal;
        let (Some(index), name) = (pod.holds, Arc::clone(&pod.name)) else { return };
        let Some(state) = self.tasks.get_mut(&index) else { return };
        match own {
            Some((said, is_told)) => {
                (state.is_shown, state.refusals) = (true, 0);
                state.is_told |= is_told;
                state.known = if matches!(said, Said::Running) { Known::Running } else { Known::Unknown };
                // What ends while it is being stopped has not ended by itself. A pod that is being deleted
                // stops its processes too: of those that fail then, nobody knows why.
                if let (Said::Ended { succeeded }, None) = (said, state.result)
                    && !state.is_told
                    && (succeeded || !pod.is_deleting)
                {
                    state.result = Some(succeeded);
                }
            }
            None if request.ask == Ask::Clear => {
                pod.holds = None;
                let was_sent = std::mem::take(&mut state.is_sent);
                (state.on, state.is_shown, state.is_told) = (None, false, false);
                (state.known, state.not_before) = (Known::Unknown, None);
                let runs_again = state.result.is_none() && index < look.replicas;
                if was_sent && runs_again && look.intent == Intent::Run {
                    self.lost(look, index, &format!("it was stopped on the pod {name}"));
                }
            }
            None if state.is_shown && state.result.is_none() && matches!(goal, Goal::Hold(_)) => {
                self.lost(look, index, &format!("the executor of the pod {name} does not have it any more"));
            }
            None => {}
        }
    }

    fn failed(&mut self, look: &Look<'_>, request: &Request, error: &ExecutorError) {
        let Some(pod) = self.pods.get_mut(&request.pod) else { return };
        pod.failures = pod.failures.saturating_add(1);
        pod.next = pace::after_failure(look.now, pod.failures);
        pod.is_met = false;
        if std::mem::take(&mut pod.is_sending) && matches!(error, ExecutorError::Unreachable(_)) {
            pod.settled = pace::settled(look.now);
        }
        let (failures, name) = (pod.failures, Arc::clone(&pod.name));
        pod.error = Some(format!("pod {name}: {error}"));
        let (reason, at) = match error {
            ExecutorError::Refused { .. } if matches!(request.ask, Ask::Hold(_)) => ("TaskRefused", 1),
            ExecutorError::Refused { .. } => ("TaskExecutorRefuses", 1),
            ExecutorError::Unauthorized => ("TaskExecutorUnauthorized", 1),
            ExecutorError::NoToken(_) => ("TaskExecutorTokenMissing", 1),
            ExecutorError::Unreachable(_) => ("TaskExecutorUnreachable", UNREACHABLE),
            ExecutorError::Malformed(_) => ("TaskExecutorMalformed", UNREACHABLE),
        };
        let mut times = failures;
        if let (Ask::Hold(task), ExecutorError::Refused { .. }) = (&request.ask, error) {
            let held = pod.holds.and_then(|index| self.tasks.get_mut(&index));
            if let Some(state) = held {
                state.refusals = state.refusals.saturating_add(1);
                // Also the first time: nothing has changed yet.
                state.not_before = Some(pace::retry(look.now, state.refusals.saturating_add(1)));
                times = state.refusals;
            }
            if times.is_power_of_two() {
                let note = format!("task {} on pod {name}: {error}", task.name);
                self.notice(EventKind::Warning, reason, note);
            }
        } else if failures == at {
            self.notice(EventKind::Warning, reason, format!("pod {name}: {error}"));
        }
    }
}

fn said(task: &Task) -> Said {
    if let Some(status) = &task.process_status {
        return match (&status.running, &status.terminated) {
            (_, Some(ended)) => Said::Ended { succeeded: ended.exit_code == 0 },
            (Some(_), None) => Said::Running,
            (None, None) => Said::Nothing,
        };
    }
    let Some(pod) = &task.pod_status else { return Said::Nothing };
    let is_ready = || pod.conditions.iter().any(|one| one.type_ == "Ready" && one.status == "True");
    match pod.phase.as_str() {
        "Succeeded" => Said::Ended { succeeded: true },
        "Failed" => Said::Ended { succeeded: false },
        "Running" if is_ready() => Said::Running,
        _ => Said::Nothing,
    }
}
