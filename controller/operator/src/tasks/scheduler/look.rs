//! Takes in what the batch looks like.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::Timestamp;

use super::{Intent, Leaving, Look, Notice, PodState, Scheduler, TaskPod, TaskState, pace};
use crate::EventKind;
use crate::tasks::specs;

impl Scheduler {
    pub(super) fn look(&mut self, look: &Look<'_>) {
        self.pods.values_mut().for_each(|pod| pod.is_here = false);
        for pod in look.pods {
            self.look_at(pod, look);
        }
        if self.intent.is_none_or(|(intent, _)| intent != look.intent) {
            self.intent = Some((look.intent, look.now));
        }
        if self.is_recovering {
            self.is_recovering = !look.is_whole;
            if self.settled == Timestamp::MIN {
                self.settled = pace::settled(look.now);
            }
        }
        let mut ended: Vec<Arc<str>> =
            look.pods.iter().filter(|pod| pod.has_ended).map(|pod| Arc::clone(&pod.uid)).collect();
        ended.extend(std::mem::take(&mut self.gone));
        for uid in ended {
            self.bury(look, &uid);
        }
        // What has tasks stays until somebody has confirmed that it is gone.
        self.pods.retain(|_, pod| pod.is_here || pod.is_used());
        for index in 0..look.replicas {
            let task = self.tasks.entry(index).or_default();
            task.result = task.result.or_else(|| look.done.0.get(&index).copied());
        }
        self.tasks.retain(|index, task| *index < look.replicas || task.on.is_some());
    }

    fn look_at(&mut self, seen: &TaskPod, look: &Look<'_>) {
        let may_hold = self.is_recovering && seen.ip.is_some();
        let pod = self.pods.entry(Arc::clone(&seen.uid)).or_insert_with(|| PodState::new(may_hold, look.now));
        pod.name = Arc::clone(&seen.name);
        pod.index = seen.index;
        pod.ip.clone_from(&seen.ip);
        (pod.is_leaving, pod.is_deleting) = (seen.is_leaving, seen.is_deleting);
        let since_now = Leaving { since: look.now, is_heard: false };
        let has_to_leave = seen.is_leaving || look.intent == Intent::Pause;
        pod.leaving = has_to_leave.then(|| pod.leaving.unwrap_or(since_now));
        pod.is_here = true;
        if std::mem::take(&mut pod.is_sending) {
            // The round that sent it was cut off.
            pod.settled = pace::settled(look.now);
        }
    }

    /// The pod is gone, and so is whatever ran in it.
    fn bury(&mut self, look: &Look<'_>, uid: &str) {
        let Some(pod) = self.pods.remove(uid) else { return };
        let Some(index) = pod.holds else { return };
        let Some(task) = self.tasks.get_mut(&index) else { return };
        (task.on, task.is_told) = (None, false);
        let was_sent = std::mem::take(&mut task.is_sent);
        if was_sent && task.result.is_none() {
            let why = format!("the pod {} is gone", pod.name);
            self.lost(look, index, &why);
        }
    }

    /// A task that had been given out has to be given out again.
    pub(super) fn lost(&mut self, look: &Look<'_>, index: usize, why: &str) {
        let Some(task) = self.tasks.get_mut(&index) else { return };
        (task.is_sent, task.is_shown) = (false, false);
        task.known = super::Known::Unknown;
        task.retries = task.retries.saturating_add(1);
        task.not_before = Some(pace::retry(look.now, task.retries));
        self.retried += 1;
        let (name, retries) = (specs::name(look.batch, index), task.retries);
        let note = format!("task {name} is given out again (retry {retries}): {why}");
        self.notice(EventKind::Warning, "TaskRetried", note);
    }

    /// The first of a reason is told: the others of the same moment are as a rule of the same cause.
    pub(super) fn notice(&mut self, kind: EventKind, reason: &'static str, note: String) {
        self.notices.entry(reason).or_insert(Notice { kind, reason, note });
    }
}

impl PodState {
    fn new(may_hold: bool, now: Timestamp) -> Self {
        Self {
            name: "".into(),
            index: None,
            ip: None,
            is_leaving: false,
            is_deleting: false,
            leaving: None,
            is_here: true,
            may_hold,
            is_met: false,
            holds: None,
            strays: BTreeSet::new(),
            lacks_it: false,
            goal: super::Goal::Nothing,
            asked: 0,
            failures: 0,
            error: None,
            asked_at: Timestamp::MIN,
            is_sending: false,
            settled: Timestamp::MIN,
            next: now,
        }
    }
}

impl TaskState {
    /// Whether it has no pod and needs one.
    pub(super) fn is_waiting(&self) -> bool {
        self.on.is_none() && self.result.is_none()
    }

    /// Whether it may be given out.
    pub(super) fn is_due(&self, now: Timestamp) -> bool {
        self.not_before.is_none_or(|at| at <= now)
    }
}
