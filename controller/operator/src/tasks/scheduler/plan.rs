//! What to ask of which executor now.

use std::sync::Arc;

use super::{Ask, Goal, Intent, Look, PodState, Request, Scheduler, pace};

impl Scheduler {
    /// Takes in what the batch looks like, and says what to ask now, the longest due first. Each request has
    /// to be followed by [`answered`](Self::answered), or by nothing if it was cut off, before the next plan.
    pub fn plan(&mut self, look: &Look<'_>) -> Vec<Request> {
        self.look(look);
        self.bind(look);
        let goals: Vec<Goal> = self.pods.values().map(|pod| self.goal(look, pod)).collect();
        let mut due = Vec::new();
        for ((uid, pod), goal) in self.pods.iter_mut().zip(goals) {
            pod.head_for(goal, look);
            let is_due = goal != Goal::Nothing && pod.next <= look.now;
            let Some(ip) = pod.ip.clone().filter(|_| is_due) else { continue };
            let since = pod.next;
            pod.asked_at = look.now;
            pod.asked = pod.asked.saturating_add(1);
            pod.next = pace::next(look.now, pod.asked);
            due.push((since, pod.index, Arc::clone(uid), ip, goal));
        }
        due.sort();
        due.into_iter()
            .map(|(_, _, pod, ip, goal)| Request { ask: self.ask(look, &pod, goal), pod, ip })
            .collect()
    }

    /// A request of this round was not sent after all. It comes first next time.
    pub fn put_off(&mut self, request: &Request, look: &Look<'_>) {
        if let Some(pod) = self.pods.get_mut(&request.pod) {
            pod.next = look.now;
            pod.is_sending = false;
        }
    }

    fn goal(&self, look: &Look<'_>, pod: &PodState) -> Goal {
        if !pod.is_here || pod.ip.is_none() {
            return Goal::Nothing;
        }
        if let Some(index) = pod.holds {
            let has_ended = self.tasks.get(&index).is_some_and(|task| task.result.is_some());
            return match (self.must_leave(look, index, pod), has_ended) {
                (true, _) if self.is_open(look, index, pod) => Goal::Check(index),
                (true, _) => Goal::Clear,
                (false, true) => Goal::Keep(index),
                (false, false) => Goal::Hold(index),
            };
        }
        if !pod.strays.is_empty() {
            return Goal::Clear;
        }
        let is_wanted = || {
            let waits = self.tasks.range(..look.replicas).any(|(_, task)| task.is_waiting());
            look.intent == Intent::Run && !pod.is_leaving && !pod.is_met && waits
        };
        if pod.is_suspect() || is_wanted() { Goal::Meet } else { Goal::Nothing }
    }

    fn ask(&mut self, look: &Look<'_>, uid: &str, goal: Goal) -> Ask {
        let Some(pod) = self.pods.get_mut(uid) else { return Ask::List };
        match goal {
            Goal::Clear => {
                if let Some(task) = pod.holds.and_then(|index| self.tasks.get_mut(&index)) {
                    task.is_told = true;
                }
                Ask::Clear
            }
            Goal::Hold(index) => {
                let lacks_it = pod.lacks_it || !pod.strays.is_empty();
                let spec = look.specs.and_then(|specs| specs.get(index));
                match (self.tasks.get_mut(&index), spec) {
                    (Some(task), Some(spec)) if lacks_it && task.is_due(look.now) => {
                        (task.is_sent, pod.is_sending) = (true, true);
                        Ask::Hold(Box::new(spec.clone()))
                    }
                    _ => Ask::List,
                }
            }
            Goal::Nothing | Goal::Meet | Goal::Keep(_) | Goal::Check(_) => Ask::List,
        }
    }
}

impl PodState {
    /// Takes on a goal. A new one is gone for at once.
    fn head_for(&mut self, goal: Goal, look: &Look<'_>) {
        if self.goal == goal {
            return;
        }
        self.goal = goal;
        self.asked = 0;
        self.next = match goal {
            Goal::Keep(_) => pace::slow(look.now),
            // An executor that does not answer is not asked more often because more is wanted of it.
            _ if self.failures > 1 => self.next,
            _ => look.now,
        };
    }
}
