//! What a pool does about the number of its pods, and about those of an older revision.
//!
//! - Sandboxes, and pods that become sandboxes or come back, are left alone. Only pods that wait go.
//! - A pod that is ready may be claimed at any time. So it is marked first, which keeps claims away, and goes
//!   when the mark has stood for the protection window. Each write has the version of the pod: of a mark and
//!   a claim, or a deletion and a claim, one fails. A pod that is not ready cannot be claimed and goes
//!   at once.
//! - As many pods are marked in one look as have to go.
//! - A mark that is not needed any more is taken off.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use sandgate_objects::sandbox_env::names;
use sandgate_objects::sandbox_env::resources::{DEFAULT_MAX_UNAVAILABLE, EnvPod, SandboxPoolSpec};

use crate::view::{EnvPodCounts, EnvPods, Seen};

/// What a plan is made from.
#[derive(Clone, Debug, Default)]
pub(super) struct Observed {
    /// How many pods there are to be.
    pub(super) desired: usize,
    /// How many of them are admitted now: more are not made.
    pub(super) admitted: Option<usize>,
    /// How many there are.
    pub(super) counts: EnvPodCounts,
    /// How many were asked for and not seen.
    pub(super) reserved: usize,
    /// The revision that pods are to have.
    pub(super) revision: Arc<str>,
    /// How many pods may be missing while old ones are replaced.
    pub(super) max_unavailable: usize,
    /// How long a ready pod is marked before it goes.
    pub(super) window: SignedDuration,
    /// When the next pod may be made, if that is not now.
    pub(super) wait: Option<Timestamp>,
    /// Idle pods that are not ready, oldest first, as far as they may go.
    pub(super) unready: EnvPods,
    /// Idle pods that are ready and not marked, oldest first, as far as they may go.
    pub(super) ready: EnvPods,
    /// Idle pods that are not ready and of an older revision, oldest first.
    pub(super) stale_unready: EnvPods,
    /// Idle pods that are ready, not marked and of an older revision, oldest first.
    pub(super) stale_ready: EnvPods,
    /// Every marked idle pod.
    pub(super) marked: EnvPods,
    /// Pods that cannot be used.
    pub(super) failed: EnvPods,
    /// The time.
    pub(super) now: Timestamp,
}

/// What to do.
#[derive(Clone, Debug, Default)]
pub(super) struct Plan {
    /// How many pods to make.
    pub(super) create: usize,
    /// Which pods to mark.
    pub(super) mark: EnvPods,
    /// From which to take the mark off.
    pub(super) unmark: EnvPods,
    /// Which pods to delete.
    pub(super) delete: EnvPods,
    /// When to look again.
    pub(super) again: Option<Timestamp>,
}

/// Whether a pod is of another revision than this.
pub(super) fn is_stale(pod: &EnvPod, revision: &str) -> bool {
    pod.label(names::LABEL_TEMPLATE_HASH) != revision
}

/// How many pods may be missing while old ones are replaced: at least one, or none would ever be.
pub(super) fn max_unavailable(spec: &SandboxPoolSpec) -> usize {
    let replicas = u64::try_from(spec.replicas).unwrap_or_default();
    let percent = |text: &str| -> Option<u64> {
        let percent: u64 = text.trim().strip_suffix('%')?.trim().parse().ok()?;
        Some(percent.min(100) * replicas / 100)
    };
    let usual = || percent(DEFAULT_MAX_UNAVAILABLE).unwrap_or_default();
    let share = match &spec.max_unavailable {
        None => usual(),
        Some(IntOrString::Int(number)) => u64::try_from(*number).unwrap_or_default(),
        Some(IntOrString::String(text)) => percent(text).unwrap_or_else(usual),
    };
    usize::try_from(share).unwrap_or(usize::MAX).max(1)
}

/// Makes a plan.
pub(super) fn plan(observed: &Observed) -> Plan {
    let Observed { desired, counts, reserved, .. } = observed;
    let all = counts.current() + reserved;
    let mut plan = Plan::default();
    if all > *desired {
        shrink(observed, all - desired, &mut plan);
    } else {
        if all < *desired {
            grow(observed, all, &mut plan);
        }
        roll(observed, all == *desired, &mut plan);
    }
    if counts.current() >= *desired {
        // As long as it is not replaced, a pod that cannot be used is there to be looked into.
        plan.delete.extend(observed.failed.iter().cloned());
    }
    plan
}

fn grow(observed: &Observed, all: usize, plan: &mut Plan) {
    let wanted = observed.admitted.map_or(observed.desired, |admitted| admitted.min(observed.desired));
    match observed.wait {
        Some(until) => plan.again = earlier(plan.again, until),
        None => plan.create = wanted.saturating_sub(all),
    }
}

/// Gives up so many idle pods.
fn shrink(observed: &Observed, surplus: usize, plan: &mut Plan) {
    plan.delete.extend(observed.unready.iter().take(surplus).cloned());
    let rest = surplus - plan.delete.len();
    let going = by_mark(&observed.marked);
    let (going, spared) = going.split_at(going.len().min(rest));
    go(observed, going, plan);
    plan.unmark.extend(spared.iter().cloned());
    plan.mark.extend(observed.ready.iter().take(rest - going.len()).cloned());
}

/// Replaces idle pods of older revisions: not so many at a time that more than the budget are missing of
/// those that are, or soon are, of use.
fn roll(observed: &Observed, is_whole: bool, plan: &mut Plan) {
    let Observed { counts, desired, max_unavailable: budget, revision, .. } = observed;
    let of_use = counts.idle_ready + counts.idle_marked + counts.running + counts.starting;
    let mut room = (of_use + budget).saturating_sub(*desired);
    if counts.running + counts.starting > 0 {
        // A pool in use keeps half of its idle pods for the next claims.
        room = room.min((counts.idle_ready + counts.idle_marked).div_ceil(2));
    }
    let marked = by_mark(&observed.marked);
    let (stale, fresh): (EnvPods, EnvPods) = marked.into_iter().partition(|pod| is_stale(pod, revision));
    let (going, spared) = stale.split_at(stale.len().min(room));
    go(observed, going, plan);
    plan.unmark.extend(fresh.into_iter().chain(spared.iter().cloned()));
    if is_whole {
        plan.delete.extend(observed.stale_unready.iter().take(*budget).cloned());
        plan.mark.extend(observed.stale_ready.iter().take(room - going.len()).cloned());
    }
}

/// What becomes of marked pods that go.
fn go(observed: &Observed, going: &[Arc<Seen<EnvPod>>], plan: &mut Plan) {
    for pod in going {
        // A mark that cannot be read, or is ahead of this clock, is made anew.
        let marked = pod.time(names::ANNOTATION_SCALE_DOWN).filter(|at| *at <= observed.now);
        match marked.and_then(|at| at.checked_add(observed.window).ok()) {
            _ if !pod.is_ready => plan.delete.push(Arc::clone(pod)),
            None => plan.mark.push(Arc::clone(pod)),
            Some(until) if until <= observed.now => plan.delete.push(Arc::clone(pod)),
            Some(until) => plan.again = earlier(plan.again, until),
        }
    }
}

/// The pods with the oldest mark first.
fn by_mark(pods: &EnvPods) -> EnvPods {
    let mut pods = pods.clone();
    pods.sort_by_cached_key(|pod| {
        let at = pod.time(names::ANNOTATION_SCALE_DOWN);
        (at.is_none(), at, pod.created(), pod.key.clone())
    });
    pods
}

fn earlier(one: Option<Timestamp>, other: Timestamp) -> Option<Timestamp> {
    Some(one.map_or(other, |one| one.min(other)))
}
