//! How good a member is for the next claim.

use jiff::Timestamp;
use sandgate_objects::sandbox_env::resources::MemberState;

use super::Wish;
use super::entry::Member;

/// What a step of priority costs: as much as ten idle pods.
const PRIORITY: i64 = -1000;
/// What an idle pod is worth.
const IDLE: i64 = 100;
/// What a pod is worth by which the pool can grow.
const HEADROOM: i64 = 5;
/// The most such pods that count: together they are worth half an idle pod.
const HEADROOM_AT_MOST: i64 = 10;
/// What a claim costs that waits.
const QUEUE: i64 = -2;
/// What it costs that the pool could not grow lately.
const SATURATED: i64 = -1_000_000;

/// The load of a pool now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// How many pods can be claimed.
    pub idle_ready: usize,
    /// How many claims have not ended.
    pub queued: usize,
    /// Whether the line takes no more.
    pub is_full: bool,
}

/// Tells the load of pools. It is asked for each member of an environment, so it should take no lock.
pub trait PoolLoad {
    /// The load of a pool, or none if it is not known. The idle pods are then those that the environment's
    /// status has, and the line is empty.
    fn load(&self, namespace: &str, pool: &str) -> Option<Load>;
}

/// What a score is the sum of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Score {
    /// For the priority.
    pub priority: i64,
    /// For the idle pods.
    pub idle: i64,
    /// For the pods by which the pool can grow.
    pub headroom: i64,
    /// For the claims that wait.
    pub queue: i64,
    /// For the saturation.
    pub saturation: i64,
}

impl Score {
    /// The score.
    pub fn total(&self) -> i64 {
        let Self { priority, idle, headroom, queue, saturation } = *self;
        [idle, headroom, queue, saturation].into_iter().fold(priority, i64::saturating_add)
    }
}

/// Why a member is not ranked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rejected {
    /// Another scaling group is wished for.
    OtherGroup,
    /// The line takes no more.
    LineFull,
    /// It has as many pods as it may have, and none is idle.
    MaxedOut {
        /// How many pods it wants.
        desired: i64,
        /// How many it may have.
        max: i64,
    },
    /// It has no pool, and so no idle pod.
    NoPool,
    /// Its pool is another's, or of another template.
    Inconsistent,
}

impl Rejected {
    /// Whether the member is ranked if all others are rejected too.
    pub(super) fn is_last_resort(self) -> bool {
        match self {
            // The pods of such a pool are somebody else's, or something else.
            Self::OtherGroup | Self::LineFull | Self::Inconsistent => false,
            Self::MaxedOut { .. } | Self::NoPool => true,
        }
    }
}

/// A member now.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rated {
    pub(super) score: Score,
    pub(super) rejected: Option<Rejected>,
    /// Whether a claim is served without another's end: there is an idle pod, or the pool can grow.
    pub(super) serves: bool,
}

/// Rates a member.
pub(super) fn rate(member: &Member, wish: &Wish<'_>, now: Timestamp, load: &impl PoolLoad) -> Rated {
    let known = load.load(wish.namespace, &member.name);
    let idle = known.map_or(member.idle, |load| number(load.idle_ready));
    let queued = known.map_or(0, |load| number(load.queued));
    let headroom = member.max.map(|max| (max - member.desired).max(0));
    let is_saturated = idle == 0 && member.saturated_until.is_some_and(|until| until > now);
    let score = Score {
        priority: PRIORITY.saturating_mul(member.priority.into()),
        idle: IDLE.saturating_mul(idle),
        headroom: HEADROOM * headroom.unwrap_or(HEADROOM_AT_MOST).min(HEADROOM_AT_MOST),
        queue: QUEUE.saturating_mul(queued),
        saturation: if is_saturated { SATURATED } else { 0 },
    };
    let is_full = known.is_some_and(|load| load.is_full);
    let is_other = wish.scaling_group.is_some_and(|group| group != member.group);
    let rejected = match (member.state, member.max) {
        _ if is_other => Some(Rejected::OtherGroup),
        _ if is_full => Some(Rejected::LineFull),
        (Some(MemberState::Inconsistent), _) => Some(Rejected::Inconsistent),
        _ if idle > 0 => None,
        (Some(MemberState::Missing), _) => Some(Rejected::NoPool),
        (_, Some(max)) if member.desired >= max => Some(Rejected::MaxedOut { desired: member.desired, max }),
        _ => None,
    };
    let can_grow = member.scales && !is_saturated && headroom != Some(0);
    Rated { score, rejected, serves: rejected.is_none() && (idle > 0 || can_grow) }
}

fn number(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
