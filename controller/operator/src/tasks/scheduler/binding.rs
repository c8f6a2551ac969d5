//! Gives waiting tasks to free pods.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{Intent, Look, Scheduler};

impl Scheduler {
    /// Binds what can be bound. Task i gets the pod of index i if that is free. A pod is given another task
    /// only if its own does not wait for it.
    pub(super) fn bind(&mut self, look: &Look<'_>) {
        if look.intent != Intent::Run || look.specs.is_none() || self.is_blocked() {
            return;
        }
        let strays: BTreeSet<usize> = self.pods.values().flat_map(|pod| &pod.strays).copied().collect();
        let waits = |(index, task): (&usize, &super::TaskState)| {
            let is_due = task.is_due(look.now) && !strays.contains(index);
            task.is_waiting().then_some((*index, is_due))
        };
        let waiting: BTreeMap<usize, bool> = self.tasks.range(..look.replicas).filter_map(waits).collect();
        if waiting.is_empty() {
            return;
        }
        let mut free: BTreeMap<(Option<usize>, Arc<str>), Arc<str>> = BTreeMap::new();
        for (uid, pod) in self.pods.iter().filter(|(_, pod)| pod.is_free()) {
            free.insert((pod.index, Arc::clone(&pod.name)), Arc::clone(uid));
        }
        let mut bonds = Vec::new();
        for (index, is_due) in &waiting {
            let own = free.range((Some(*index), "".into())..).next().map(|(place, _)| place.clone());
            // Kept for a task that waits a little longer, too.
            let Some(own) = own.filter(|(at, _)| *at == Some(*index)) else { continue };
            let uid = free.remove(&own);
            if let (Some(uid), true) = (uid, is_due) {
                bonds.push((*index, uid));
            }
        }
        let bound: Vec<usize> = bonds.iter().map(|(index, _)| *index).collect();
        let rest = waiting.iter().filter(|(index, is_due)| **is_due && !bound.contains(index));
        bonds.extend(rest.map(|(index, _)| *index).zip(free.into_values()));
        for (index, uid) in bonds {
            let (Some(task), Some(pod)) = (self.tasks.get_mut(&index), self.pods.get_mut(&uid)) else {
                continue;
            };
            task.on = Some(uid);
            (task.is_sent, task.is_shown, task.is_told) = (false, false, false);
            task.known = super::Known::Unknown;
            (pod.holds, pod.lacks_it) = (Some(index), true);
        }
    }
}
