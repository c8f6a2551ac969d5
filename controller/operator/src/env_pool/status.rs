//! The status of a pool: what it has now, after what was done. What others write in it stays.

use jiff::Timestamp;
use sandgate_objects::sandbox_env::names;
use sandgate_objects::sandbox_env::resources::{PhaseSelectors, PoolPhase, SandboxPhase, SandboxPoolStatus};

use super::admission::Admitted;
use crate::conditions::{self, Verdict};
use crate::view::EnvPodCounts;

/// What a status is made from.
#[derive(Clone, Debug)]
pub(super) struct Facts<'a> {
    /// The name of the pool.
    pub(super) name: &'a str,
    /// The generation of its spec.
    pub(super) generation: Option<i64>,
    /// How many pods there are to be.
    pub(super) desired: usize,
    /// How many there are.
    pub(super) counts: EnvPodCounts,
    /// The revision that pods are to have.
    pub(super) revision: &'a str,
    /// How many claims wait.
    pub(super) pending: i32,
    /// What its plugins say; none if they were not asked.
    pub(super) admitted: Option<&'a Admitted>,
    /// Whether it is being deleted.
    pub(super) is_leaving: bool,
    /// The time.
    pub(super) now: Timestamp,
}

fn number(count: usize) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}

/// The status that follows.
pub(super) fn status(known: Option<&SandboxPoolStatus>, facts: &Facts<'_>) -> SandboxPoolStatus {
    let Facts { name, generation, counts, revision, pending, .. } = facts;
    let mut status = known.cloned().unwrap_or_default();
    let broken = counts.failed + counts.ended;
    status.phase = Some(phase(facts));
    status.idle_replicas = number(counts.idle);
    status.unavailable_idle_replicas = number(counts.idle_unready);
    status.running_replicas = number(counts.running);
    status.starting_replicas = number(counts.starting);
    status.stopping_replicas = number(counts.stopping);
    status.failed_replicas = number(broken);
    status.updated_replicas = number(counts.updated);
    status.pending_requests = *pending;
    status.observed_generation = *generation;
    (*revision).clone_into(&mut status.update_revision);
    if status.current_revision.is_empty() || counts.updated == counts.current() + broken {
        (*revision).clone_into(&mut status.current_revision);
    }
    let all = format!("{}={name}", names::LABEL_POOL);
    let of = |phase: SandboxPhase| format!("{all},{}={phase}", names::LABEL_PHASE);
    status.selector = of(SandboxPhase::Running);
    status.label_selector.clone_from(&all);
    status.phase_selectors = Some(PhaseSelectors {
        idle: of(SandboxPhase::Idle),
        running: of(SandboxPhase::Running),
        starting: of(SandboxPhase::Starting),
        stopping: of(SandboxPhase::Stopping),
        failed: of(SandboxPhase::Failed),
        all,
    });
    let admitted = facts.admitted.map(|admitted| admitted.verdict(facts.desired));
    for verdict in verdicts(facts).into_iter().chain(admitted) {
        conditions::put(&mut status.conditions, verdict, *generation, facts.now);
    }
    status
}

fn phase(facts: &Facts<'_>) -> PoolPhase {
    let Facts { desired, counts, .. } = facts;
    let current = counts.current();
    match () {
        () if facts.is_leaving => PoolPhase::Terminating,
        () if *desired == 0 && current == 0 => PoolPhase::Pending,
        () if current < *desired => PoolPhase::ScalingUp,
        () if current > *desired => PoolPhase::ScalingDown,
        () if counts.idle_unready > 0 || counts.failed + counts.ended > 0 => PoolPhase::Degraded,
        () => PoolPhase::Ready,
    }
}

fn verdicts(facts: &Facts<'_>) -> [Verdict; 3] {
    let Facts { desired, counts, .. } = facts;
    let current = counts.current();
    let is_growing = current < *desired;
    let ready = counts.idle_ready;
    let (available, why) = match ready {
        _ if is_growing => (false, "ScalingUp"),
        0 => (false, "NoIdlePodsAvailable"),
        _ => (true, "IdlePodsAvailable"),
    };
    let scaling = match current.cmp(desired) {
        std::cmp::Ordering::Less => "ScalingUp",
        std::cmp::Ordering::Greater => "ScalingDown",
        std::cmp::Ordering::Equal => "ReplicasReady",
    };
    let (unready, broken) = (counts.idle_unready, counts.failed + counts.ended);
    let health = match (unready > 0, broken > 0) {
        (false, false) => "AllPodsHealthy",
        (true, false) => "UnhealthyIdlePods",
        (false, true) => "FailedPodsPresent",
        (true, true) => "UnhealthyAndFailedPods",
    };
    [
        Verdict {
            kind: "Available",
            holds: available,
            reason: why,
            message: format!("{ready} idle pods are ready"),
        },
        Verdict {
            kind: "Scaling",
            holds: current != *desired,
            reason: scaling,
            message: format!("{current} of {desired} replicas"),
        },
        Verdict {
            kind: "Degraded",
            holds: unready + broken > 0,
            reason: health,
            message: format!("{unready} idle pods are not ready, {broken} pods cannot be used"),
        },
    ]
}
