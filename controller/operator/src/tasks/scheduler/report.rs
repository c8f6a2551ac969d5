//! What follows for the batch.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;

use super::answer::UNREACHABLE;
use super::{Goal, Intent, Known, Look, PodState, Scheduler, TaskState, WhenCompleted};
use crate::EventKind;
use crate::tasks::done::Done;
use crate::tasks::specs::InvalidTask;

/// What the batch has to say, and what to do for it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// For the status.
    pub counts: TaskCounts,
    /// What the annotation `sandgate.dev/tasks-done` has to say; none if it shall not be there. A task that
    /// has ended leaves its pod only in a pass that finds it in the annotation.
    pub done: Option<String>,
    /// Pods that are not needed any more, for `alloc-release`. Only where tasks' pods are released.
    pub release: Vec<Arc<str>>,
    /// Pods that are about to leave the batch and have no task (any more): they may be released.
    pub cleared: Vec<Arc<str>>,
    /// Whether no pod has, or may have, a task of the batch. Then a batch that is paused may be committed,
    /// and the task finalizer of one that is deleted may go.
    pub all_released: bool,
    /// Pods that are about to leave the batch and have, or may have, a task: by name, since when.
    pub uncleared: BTreeMap<Arc<str>, Timestamp>,
    /// Since when all tasks are being stopped, by a pause or a deletion; none if they run, or have stopped.
    pub stopping_since: Option<Timestamp>,
    /// Pods that have tasks and are not in the batch any more. Each has to be read live: see
    /// [`pod_gone`](crate::Tasks::pod_gone).
    pub missing: Vec<MissingPod>,
    /// What people should hear: events on the batch.
    pub notices: Vec<Notice>,
    /// Why tasks are not started or not known, for people; none if all is well.
    pub trouble: Option<String>,
    /// Why no task can be made of the template.
    pub invalid: Option<InvalidTask>,
    /// When to look again if nothing happens before.
    pub again: Option<Timestamp>,
    /// How many tasks were given out again since the last report.
    pub retried: u64,
}

/// How many tasks there are of each kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TaskCounts {
    /// They wait for a pod.
    pub pending: usize,
    /// They run.
    pub running: usize,
    /// They have ended with 0.
    pub succeed: usize,
    /// They have ended otherwise.
    pub failed: usize,
    /// Their executor has not said.
    pub unknown: usize,
}

/// A pod that a live read has to tell of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingPod {
    /// Its UID.
    pub uid: Arc<str>,
    /// Its name.
    pub name: Arc<str>,
}

/// Something that people should hear.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// Good news or not.
    pub kind: EventKind,
    /// In one word.
    pub reason: &'static str,
    /// In a sentence.
    pub note: String,
}

impl Scheduler {
    /// Says what follows, after the last answer of a pass.
    pub fn report(&mut self, look: &Look<'_>) -> Report {
        let notices = std::mem::take(&mut self.notices).into_values().collect();
        let missing = self.pods.iter().filter(|(_, pod)| !pod.is_here);
        let missing = missing
            .map(|(uid, pod)| MissingPod { uid: Arc::clone(uid), name: Arc::clone(&pod.name) })
            .collect();
        let is_used = |uid: &Arc<str>| self.pods.get(uid).is_some_and(PodState::is_used);
        let cleared = look.pods.iter().filter(|pod| pod.is_leaving && !is_used(&pod.uid));
        let cleared = cleared.map(|pod| Arc::clone(&pod.name)).collect();
        let leaving = self.pods.values().filter(|pod| pod.is_here && pod.is_leaving && pod.is_used());
        let since = |pod: &PodState| Some((Arc::clone(&pod.name), pod.leaving?.since));
        let uncleared = leaving.filter_map(since).collect();
        let all_released = !self.is_recovering && !self.pods.values().any(PodState::is_used);
        let stopping = self.intent.filter(|(intent, _)| *intent != Intent::Run && !all_released);
        Report {
            counts: self.counts(look),
            done: self.done(look).write(),
            release: self.surplus(look),
            cleared,
            uncleared,
            stopping_since: stopping.map(|(_, since)| since),
            all_released,
            missing,
            notices,
            trouble: self.pods.values().find_map(|pod| pod.error.clone()),
            invalid: None,
            again: self.again(look),
            retried: std::mem::take(&mut self.retried),
        }
    }

    fn counts(&self, look: &Look<'_>) -> TaskCounts {
        let mut counts = TaskCounts::default();
        for task in self.tasks.range(..look.replicas).map(|(_, task)| task) {
            *match (task.result, &task.on) {
                (Some(true), _) => &mut counts.succeed,
                (Some(false), _) => &mut counts.failed,
                (None, None) => &mut counts.pending,
                (None, Some(pod)) if self.runs(task, pod) => &mut counts.running,
                (None, Some(_)) => &mut counts.unknown,
            } += 1;
        }
        counts
    }

    fn runs(&self, task: &TaskState, pod: &str) -> bool {
        let answers = |pod: &PodState| pod.is_here && pod.failures < UNREACHABLE;
        task.known == Known::Running && self.pods.get(pod).is_some_and(answers)
    }

    /// The results that the batch has to keep: those whose pods are gone, or are to forget them.
    fn done(&self, look: &Look<'_>) -> Done {
        let leaves = |task: &TaskState| {
            let pod = task.on.as_ref().and_then(|uid| self.pods.get(uid));
            look.intent == Intent::Pause
                || look.when_completed == WhenCompleted::Release
                || pod.is_none_or(|pod| pod.is_leaving)
        };
        let mut done = Done::default();
        for (index, task) in self.tasks.range(..look.replicas) {
            if let Some(result) = task.result
                && (leaves(task) || look.done.0.contains_key(index))
            {
                done.0.insert(*index, result);
            }
        }
        done
    }

    /// Free pods beyond what waiting tasks need, those of tasks that have ended first.
    fn surplus(&self, look: &Look<'_>) -> Vec<Arc<str>> {
        if look.when_completed != WhenCompleted::Release || look.intent != Intent::Run || self.is_blocked() {
            return Vec::new();
        }
        let has_result = |index: Option<usize>| {
            let task = index.and_then(|index| self.tasks.get(&index));
            task.is_some_and(|task| task.result.is_some())
        };
        let waiting = self.tasks.range(..look.replicas).filter(|(_, task)| task.is_waiting()).count();
        let idle = self.pods.values().filter(|pod| pod.is_here && !pod.is_leaving && !pod.is_used());
        let mut idle: Vec<_> =
            idle.map(|pod| (!has_result(pod.index), std::cmp::Reverse(pod.index), &pod.name)).collect();
        idle.sort();
        let surplus = idle.len().saturating_sub(waiting);
        let mut names: Vec<_> = idle[..surplus].iter().map(|(_, _, name)| Arc::clone(name)).collect();
        names.sort();
        names
    }

    fn again(&self, look: &Look<'_>) -> Option<Timestamp> {
        let pods = self.pods.values().filter(|pod| pod.is_here && pod.goal != Goal::Nothing);
        let tasks = self.tasks.values().filter(|task| task.is_waiting() && !task.is_due(look.now));
        pods.map(|pod| pod.next).chain(tasks.filter_map(|task| task.not_before)).min()
    }
}
