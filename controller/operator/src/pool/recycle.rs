//! What happens to a pod that a batch gives back.

use std::sync::Arc;

use jiff::Timestamp;

use crate::view::PodState;

/// The next step on a pod's way back into its pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// The pod is as it has to be, or is ending: its batch has given it back.
    Over,
    /// It is deleted.
    Delete,
    /// Its containers are restarted: the record is written to the pod first.
    Restart {
        /// The text of the record.
        record: String,
        /// The containers.
        containers: Vec<Arc<str>>,
        /// When the next try is due. Nothing of this one may begin then.
        until: Timestamp,
    },
    /// Something has to happen to it first. If nothing does, it is looked at again then.
    Wait(Option<Timestamp>),
}

/// Brings pods back.
pub(super) trait Recycler: Send + Sync {
    /// The next step for a pod that this batch gives back.
    fn next(&self, pod: &PodState, batch: &str, now: Timestamp) -> Step;

    /// What is run in a container to restart it.
    fn command(&self) -> &[String] {
        &[]
    }
}

/// The pod is deleted, and the pool makes another one. This is what a pool does that says nothing.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Delete;

/// The pod is given to the next batch as it is.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Noop;

impl Recycler for Delete {
    fn next(&self, pod: &PodState, _: &str, _: Timestamp) -> Step {
        if pod.is_deleting { Step::Over } else { Step::Delete }
    }
}

impl Recycler for Noop {
    /// A pod that has ended serves nobody any more.
    fn next(&self, pod: &PodState, _: &str, _: Timestamp) -> Step {
        if pod.has_ended() && !pod.is_deleting { Step::Delete } else { Step::Over }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::PodPhase;

    #[test]
    fn what_comes_back_is_deleted_or_kept() {
        let now = Timestamp::UNIX_EPOCH;
        let pod = |phase, is_deleting| PodState { phase, is_deleting, ..PodState::default() };
        for (phase, is_deleting, by_delete, by_noop) in [
            (PodPhase::Running, false, Step::Delete, Step::Over),
            (PodPhase::Pending, false, Step::Delete, Step::Over),
            (PodPhase::Failed, false, Step::Delete, Step::Delete),
            (PodPhase::Succeeded, false, Step::Delete, Step::Delete),
            (PodPhase::Running, true, Step::Over, Step::Over),
            (PodPhase::Failed, true, Step::Over, Step::Over),
        ] {
            let pod = pod(phase, is_deleting);
            assert_eq!(Delete.next(&pod, "b", now), by_delete, "{phase:?}");
            assert_eq!(Noop.next(&pod, "b", now), by_noop, "{phase:?}");
        }
        assert!(Delete.command().is_empty());
    }
}
