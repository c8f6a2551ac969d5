//! The decision about one claim.

use std::cmp::Reverse;
use std::sync::Arc;

use jiff::Timestamp;

use super::Wish;
use super::entry::{EnvRoutes, ForeignCluster};
use super::few::Few;
use super::score::{PoolLoad, Rejected, rate};

/// Where a claim goes.
#[derive(Debug)]
pub enum Route {
    /// To a pool of the environment in this cluster: to the first whose line takes it. If none does, the
    /// answer is 429.
    Here(Candidates),
    /// To the pool of this cluster that is named. The router knows environments only: whether there is such a
    /// pool, the caller must see.
    Pool,
    /// To another cluster.
    Forward {
        /// The cluster.
        cluster: Arc<str>,
        /// Where the claim can wait if that cluster does not take it. None if the cluster was named, or if no
        /// pool is here.
        here: Option<Candidates>,
    },
    /// Nowhere now: every line is full. The answer is 429.
    Saturated,
    /// Nowhere: the pools of the members are others', or of another template. The answer is 503.
    Inconsistent,
    /// Nowhere: no member has the scaling group that is wished for. The answer is 503.
    NoSuchGroup,
    /// Nowhere: the environment does not keep pods that wait, and jobs are not made.
    NotSupported,
    /// Nowhere: the answer is 404.
    NotFound(Missing),
}

/// What is not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    /// The environment.
    Env,
    /// Any member of it.
    Members,
}

/// Pools of an environment, the best first. There is at least one.
#[derive(Clone, Debug)]
pub struct Candidates {
    env: Arc<EnvRoutes>,
    order: Few<Ranked>,
}

/// A member's place in a ranking.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Ranked {
    pub(super) score: i64,
    /// Its place by name.
    pub(super) member: usize,
}

impl Candidates {
    /// The names of the pools, the best first.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<str>> {
        let ranked = self.order.as_slice().iter();
        ranked.filter_map(|ranked| self.env.members.get(ranked.member)).map(|member| &member.name)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.order.as_slice().len()
    }

    /// Never.
    pub fn is_empty(&self) -> bool {
        self.order.as_slice().is_empty()
    }
}

/// The best first: by score, then by name.
pub(super) fn sort(ranked: &mut [Ranked]) {
    ranked.sort_unstable_by_key(|ranked| (Reverse(ranked.score), ranked.member));
}

/// Decides about one claim. Another cluster's word counts if it was heard after `since`.
pub(super) fn decide(
    env: Arc<EnvRoutes>,
    wish: &Wish<'_>,
    since: Timestamp,
    now: Timestamp,
    load: &impl PoolLoad,
) -> Route {
    if !env.is_warm {
        return Route::NotSupported;
    }
    let is_wished = |group: &str| wish.scaling_group.is_none_or(|wished| wished == group);
    let heard = |cluster: &&ForeignCluster| cluster.heard.is_some_and(|heard| heard >= since);
    let is_foreign = || {
        let mut members = env.foreign.iter().filter(heard).flat_map(|cluster| &cluster.members);
        members.any(|member| is_wished(&member.group))
    };
    let is_here = env.members.iter().any(|member| is_wished(&member.group));
    if !is_here && !is_foreign() {
        let has_any = !env.members.is_empty() || env.foreign.iter().any(|cluster| heard(&cluster));
        return if has_any && wish.scaling_group.is_some() {
            Route::NoSuchGroup
        } else {
            Route::NotFound(Missing::Members)
        };
    }
    let Ranking { order, serves, is_inconsistent } = rank(&env, wish, now, load);
    let foreign = if serves {
        None
    } else {
        env.foreign
            .iter()
            .filter(heard)
            .filter_map(|cluster| capacity(cluster, is_wished, now).map(|most| (most, cluster)))
            // The first by name of those that have the same.
            .rev()
            .max_by_key(|(most, _)| *most)
            .map(|(_, cluster)| Arc::clone(&cluster.id))
    };
    let here = (!order.as_slice().is_empty()).then_some(Candidates { env, order });
    match (foreign, here) {
        (Some(cluster), here) => Route::Forward { cluster, here },
        (None, Some(here)) => Route::Here(here),
        (None, None) if is_inconsistent => Route::Inconsistent,
        (None, None) => Route::Saturated,
    }
}

/// The members that a claim can go to.
struct Ranking {
    /// The best first.
    order: Few<Ranked>,
    /// Whether one of them serves it at once or grows.
    serves: bool,
    /// Whether members are left out because their pools are not as they should be, and none because of its
    /// full line.
    is_inconsistent: bool,
}

fn rank(env: &EnvRoutes, wish: &Wish<'_>, now: Timestamp, load: &impl PoolLoad) -> Ranking {
    let (mut ranked, mut last) = (Few::default(), Few::default());
    let (mut serves, mut is_any_full, mut is_any_inconsistent) = (false, false, false);
    for (member, known) in env.members.iter().enumerate() {
        let rated = rate(known, wish, now, load);
        serves |= rated.serves;
        let place = Ranked { score: rated.score.total(), member };
        match rated.rejected {
            None => ranked.push(place),
            Some(why) if why.is_last_resort() => last.push(place),
            Some(why) => {
                is_any_full |= why == Rejected::LineFull;
                is_any_inconsistent |= why == Rejected::Inconsistent;
            }
        }
    }
    if ranked.as_slice().is_empty() {
        ranked = last;
    }
    if ranked.as_slice().len() > 1 {
        sort(ranked.as_mut_slice());
    }
    Ranking { order: ranked, serves, is_inconsistent: is_any_inconsistent && !is_any_full }
}

/// The idle pods of a cluster, and the pods by which it can grow. None if it has neither.
fn capacity(
    cluster: &ForeignCluster,
    is_wished: impl Fn(&str) -> bool,
    now: Timestamp,
) -> Option<(i64, i64)> {
    let members = cluster.members.iter().filter(|member| is_wished(&member.group));
    let (idle, headroom) = members.fold((0_i64, 0_i64), |(idle, headroom), member| {
        let is_saturated = member.saturated_until.is_some_and(|until| until > now);
        let grows = if is_saturated { 0 } else { member.headroom };
        (idle.saturating_add(member.idle), headroom.saturating_add(grows))
    });
    (idle > 0 || headroom > 0).then_some((idle, headroom))
}
