//! What a decision is made of: values, taken at one time.

use jiff::Timestamp;
use sandgate_objects::sandbox_env::resources::{
    AttemptResult, AutoscalingStatus, MemberConfig, ScaleUpPolicy, ScalingGroup,
};

use super::levels::ScaleLevels;
use super::now::{Now, seconds};
use super::session::ScaleSession;

/// A pool with what is around it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ScaleSnapshot {
    /// The pool.
    pub pool: ScalePool,
    /// Its scaling group. None if the environment, the member or the group does not exist, or the member is
    /// in none: such a pool does not scale by itself.
    pub group: Option<ScalingGroup>,
    /// The pools of the group that this cluster has, sorted by name. The pool itself may be among them.
    pub siblings: Vec<ScalePool>,
    /// The generation of the environment.
    pub generation: Option<i64>,
    /// What this process remembers of the pool.
    pub session: ScaleSession,
    /// The time.
    pub now: Timestamp,
}

/// A pool as it is.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ScalePool {
    /// The name.
    pub name: String,
    /// The pool in numbers.
    pub levels: ScaleLevels,
    /// What its member says.
    pub limits: ScaleLimits,
    /// What was done with it before.
    pub status: AutoscalingStatus,
    /// When a pod of it was last claimed.
    pub last_create: Option<Timestamp>,
    /// Since when each idle pod has waited for a claim: since it was released, or was made. One for each pod
    /// of `levels.idle`, in any order.
    pub idle_since: Vec<Timestamp>,
}

/// What the member of a pool says about its size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScaleLimits {
    /// The least replicas.
    pub min: i32,
    /// The greatest replicas; 0 is no limit.
    pub max: i32,
    /// Which pool grows first: the lower goes before.
    pub up_priority: i32,
    /// Which pool shrinks first: the higher goes before.
    pub down_priority: i32,
}

impl From<&MemberConfig> for ScaleLimits {
    fn from(config: &MemberConfig) -> Self {
        Self {
            min: config.min_replicas,
            max: config.max_replicas,
            up_priority: config.up_priority(),
            down_priority: config.down_priority(),
        }
    }
}

impl ScaleSnapshot {
    /// The other pools of the group.
    pub(super) fn others(&self) -> impl Iterator<Item = &ScalePool> {
        self.siblings.iter().filter(|sibling| sibling.name != self.pool.name)
    }

    /// The replicas of the other pools of the group.
    pub(super) fn others_replicas(&self) -> i64 {
        self.others().map(|sibling| sibling.levels.replicas()).sum()
    }
}

impl ScalePool {
    /// Whether an attempt to grow failed a short time ago.
    pub(super) fn is_saturated(&self, policy: &ScaleUpPolicy, now: &mut Now) -> bool {
        let cooldown = seconds(policy.saturation_cooldown_seconds);
        failed_attempt(&self.status).is_some_and(|at| now.is_within(at, cooldown))
    }

    /// The replicas that it may have, without regard to its group.
    pub(super) fn cap(&self, target: i64) -> i64 {
        if self.limits.max > 0 { target.min(i64::from(self.limits.max)) } else { target }
    }
}

/// When the last attempt to grow was made, if it did not get all that it asked for.
fn failed_attempt(status: &AutoscalingStatus) -> Option<Timestamp> {
    let has_failed = match status.last_scale_up_attempt_result? {
        AttemptResult::Enough => false,
        AttemptResult::JustRight | AttemptResult::Insufficient | AttemptResult::Failed => true,
    };
    status.last_scale_up_attempt_time.as_ref().filter(|_| has_failed).map(|time| time.0)
}

/// Until when a pool does not try to grow, because it could not. The time may have passed.
pub fn saturated_until(status: &AutoscalingStatus, policy: &ScaleUpPolicy) -> Option<Timestamp> {
    failed_attempt(status)?.checked_add(seconds(policy.saturation_cooldown_seconds)).ok()
}
