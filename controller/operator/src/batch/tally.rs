//! What the pods of a batch come to: counts, addresses, and what is wrong with them.

use std::borrow::Cow;

use sandgate_objects::opensandbox::names;

use crate::facts::Fact;
use crate::view::{BatchPod, PodPhase, PodState, SeenPod};

/// [`names::CONDITION_POD_FAILED`]: a pod has ended by a failure that has no name.
const REASON_FAILED: &str = "PodFailed";

/// The pods of a batch, counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Tally {
    /// How many there are.
    pub(super) replicas: usize,
    /// How many of them have a node or an address.
    pub(super) allocated: usize,
    /// How many of them are ready.
    pub(super) ready: usize,
    /// Why some of them do not come up.
    pub(super) failure: Option<Fact>,
    /// Whether its pool has as many pods as it may, and all are taken.
    pub(super) is_pool_exhausted: bool,
}

impl Tally {
    pub(super) fn of(pods: &[BatchPod]) -> Self {
        let all: Vec<_> = pods.iter().filter_map(|pod| Some((pod, &**pod.pod.as_ref()?))).collect();
        let count = |counts: fn(&PodState) -> bool| all.iter().filter(|(_, state)| counts(state)).count();
        Self {
            replicas: all.len(),
            allocated: count(PodState::is_assigned),
            ready: count(|pod| pod.is_ready && !pod.is_deleting),
            failure: failure(&all),
            is_pool_exhausted: false,
        }
    }
}

/// Why a pod does not come up without help.
fn trouble(pod: &PodState) -> Option<Cow<'static, str>> {
    if pod.is_deleting {
        return None;
    }
    if pod.phase == PodPhase::Failed {
        return Some(pod.reason.as_ref().map_or(REASON_FAILED.into(), |reason| reason.to_string().into()));
    }
    pod.containers.iter().find_map(|container| {
        let reason = container.waiting.as_deref()?;
        names::FAILED_WAITING.into_iter().find(|known| *known == reason).map(Cow::from)
    })
}

fn failure(pods: &[(&BatchPod, &PodState)]) -> Option<Fact> {
    // In the order in which they were met: the first of those that are met most often is named.
    let mut reasons: Vec<(Cow<'static, str>, usize, &str)> = Vec::new();
    for (pod, state) in pods {
        let Some(reason) = trouble(state) else { continue };
        match reasons.iter_mut().find(|(known, ..)| *known == reason) {
            Some((_, count, _)) => *count += 1,
            None => reasons.push((reason, 1, &pod.key.name)),
        }
    }
    let failed: usize = reasons.iter().map(|(_, count, _)| count).sum();
    let most = reasons.iter().map(|(_, count, _)| *count).max()?;
    let (reason, _, sample) = reasons.into_iter().find(|(_, count, _)| *count == most)?;
    let observed = pods.len();
    let message =
        format!("{failed}/{observed} observed pods failed; primary reason={reason}; sample pod={sample}");
    Some(Fact::new(reason, message))
}

/// The addresses of the pods, for the annotation: one a pod, and empty where nothing can be reached. A pod
/// that is ending, or has ended, is not at its address for long.
pub(super) fn endpoints(pods: &[BatchPod]) -> Vec<String> {
    let address = |pod: &SeenPod| {
        let is_there = !pod.is_deleting && !pod.has_ended();
        pod.ip.clone().filter(|_| is_there)
    };
    let each =
        |pod: &BatchPod| pod.pod.as_ref().and_then(address).map_or_else(String::new, |ip| ip.to_string());
    pods.iter().map(each).collect()
}
