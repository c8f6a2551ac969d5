//! What becomes of a pool's pods that somebody wants to have gone: the label `pool.opensandbox.io/evict`.
//!
//! An idle pod goes at once and is given to nobody. One that a batch holds stays as long as the batch holds
//! it: whoever has drained a node has to wait for its sandboxes.
//!
//! The label alone says that a pod is given to nobody. A handler decides when such a pod goes, and about no
//! other: it can put an eviction off, and the pod counts to `poolMax` until then.

use crate::view::PodState;

/// What is done with an idle pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Eviction {
    /// It is not deleted yet. It is given to nobody meanwhile.
    Keep,
    /// It is deleted.
    Delete,
}

/// Decides when idle pods that somebody wants to have gone are deleted.
pub(super) trait EvictionHandler: Send + Sync {
    /// What is done with a pod that no batch holds and that has the label.
    fn of_idle(&self, pod: &PodState) -> Eviction;
}

/// The handler of a pool that names no other.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ByLabel;

impl EvictionHandler for ByLabel {
    fn of_idle(&self, pod: &PodState) -> Eviction {
        if pod.wants_eviction && !pod.is_deleting { Eviction::Delete } else { Eviction::Keep }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_idle_pod_goes_if_its_label_says_so_and_it_does_not_go_already() {
        for (wants_eviction, is_deleting, expected) in [
            (true, false, Eviction::Delete),
            (false, false, Eviction::Keep),
            (true, true, Eviction::Keep),
            (false, true, Eviction::Keep),
        ] {
            let pod = PodState { wants_eviction, is_deleting, ..PodState::default() };
            assert_eq!(ByLabel.of_idle(&pod), expected);
        }
    }
}
