//! What a plan for the pods of a pool is made from. A look copies the pods that may be acted on, and counts
//! the rest.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use sandgate_objects::sandbox_env::resources::{EnvPod, SandboxEnv, SandboxPool};

use super::plan::{Observed, is_stale, max_unavailable};
use crate::view::{EnvPodClass, EnvPods, Seen, View, env_of};

/// How many pods of each sort a plan is given. Those beyond are acted on in the next look.
const LOOK: usize = 2048;

/// How long a ready pod is marked before it goes, where no scaling group says.
const WINDOW: SignedDuration = SignedDuration::from_secs(10);

/// Looks at a pool. The pods of these names are left alone.
pub(super) fn observe(
    view: &View,
    pool: &Seen<SandboxPool>,
    revision: &Arc<str>,
    cluster: &str,
    left_alone: &BTreeSet<Arc<str>>,
    now: Timestamp,
) -> Observed {
    let counts = view.env_pod_counts(&pool.key, revision);
    let reserved = view.env_pods_reserved(&pool.uid).len();
    let desired = usize::try_from(pool.spec.replicas).unwrap_or_default();
    let all = counts.current() + reserved;
    let budget = max_unavailable(&pool.spec);
    let pods = |class, limit: usize, wanted: &dyn Fn(&EnvPod) -> bool| -> EnvPods {
        if limit == 0 {
            return EnvPods::new();
        }
        let wanted = |pod: &EnvPod| !is_among(pod, left_alone) && wanted(pod);
        view.env_pods_that(&pool.key, class, limit.min(LOOK), wanted)
    };
    let every = |_: &EnvPod| true;
    let stale = |pod: &EnvPod| is_stale(pod, revision);
    let surplus = all.saturating_sub(desired);
    // Nothing is of an older revision where all are of this one.
    let is_mixed = counts.updated < counts.current() + counts.failed + counts.ended;
    let rolled = if all == desired && is_mixed { budget } else { 0 };
    let broken = if counts.current() >= desired { counts.failed } else { 0 };
    Observed {
        desired,
        admitted: None,
        counts,
        reserved,
        revision: Arc::clone(revision),
        max_unavailable: budget,
        window: window(view, pool, cluster),
        wait: None,
        unready: pods(EnvPodClass::IdleUnready, surplus, &every),
        ready: pods(EnvPodClass::IdleReady, surplus, &every),
        stale_unready: pods(EnvPodClass::IdleUnready, rolled, &stale),
        stale_ready: pods(EnvPodClass::IdleReady, rolled, &stale),
        marked: pods(EnvPodClass::IdleMarked, counts.idle_marked, &every),
        failed: pods(EnvPodClass::Failed, broken, &every),
        now,
    }
}

/// Whether a pod has one of these names.
pub(super) fn is_among(pod: &EnvPod, names: &BTreeSet<Arc<str>>) -> bool {
    pod.metadata.name.as_deref().is_some_and(|name| names.contains(name))
}

/// How long a ready pod is marked before it goes: as its scaling group says.
fn window(view: &View, pool: &Seen<SandboxPool>, cluster: &str) -> SignedDuration {
    let of_group = || {
        let env = view.get::<SandboxEnv>(&env_of(pool, &pool.key.namespace)?)?;
        let members = env.spec.members_in(cluster);
        let member = members.iter().find(|member| *member.name == *pool.key.name)?;
        let groups = &env.spec.autoscaling.as_ref()?.groups;
        let group = groups.iter().find(|group| group.name == member.config.scaling_group)?;
        let seconds = group.scale_down_policy.protection_window_seconds;
        Some(SignedDuration::from_secs(seconds.max(0).into()))
    };
    of_group().unwrap_or(WINDOW)
}
