//! Which pool of an environment a claim goes to.
//!
//! # Who writes
//! The router is an [`EnvRouterSync`](crate::EnvRouterSync): it takes what is known of environments, from an
//! informer, from the reconciler after each success, or from both. They may tell the same thing twice and in
//! any order:
//! - An older version of an environment never takes the place of a newer one.
//! - What was deleted does not come back by an upsert that was sent before. The UID and the version of the
//!   delete are kept for that; how many are kept is bounded, and the oldest go first.
//! - Whatever was missed is in the next version that is told, because each holds all. A delete that was
//!   missed is repaired by [`EnvRouter::retain`] after a complete list.
//!
//! # Who reads
//! [`EnvRouter::route`] takes no lock: it finds an environment's entry in a map, which the writer replaces as
//! a whole. It decides by one entry from beginning to end, and by the load of the pools at that moment, which
//! its caller knows. Up to [`FEW`] members it does not allocate.
//!
//! # The rule
//! 1. Members are left out that have a full line, those whose pool is another's or of another template, and
//!    those of other scaling groups if one is wished for.
//! 2. The rest is ranked by score, then by name. Members that cannot serve are not ranked, unless none can:
//!    a member at its greatest size without an idle pod, or without a pool.
//! 3. If no member here has an idle pod or can grow, the claim goes to the cluster with the most idle pods,
//!    else to the one that can grow the most. If there is none, it waits here.
//!
//! The score is `-1000·priority + 100·idle + 5·min(headroom, 10) - 2·queue`, and `-1000000` while the pool is
//! saturated and has no idle pod.

mod decide;
mod entry;
mod explain;
mod feed;
mod few;
mod loads;
mod score;
mod template_id;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use parking_lot::Mutex;

use self::entry::EnvRoutes;
use self::feed::Order;
use crate::lookup::{ByKey, Named, by_key};

pub use self::decide::{Candidates, Missing, Route};
pub use self::explain::Explained;
pub use self::feed::Fed;
pub use self::few::FEW;
pub use self::loads::{IdleCounts, Loads};
pub use self::score::{Load, PoolLoad, Rejected, Score};
pub use self::template_id::{TemplateId, TemplateIdError};

/// What a router must know of the place where it is.
#[derive(Clone, Debug)]
pub struct RouterSettings {
    /// The cluster that this process is in.
    pub cluster: Arc<str>,
    /// For how long another cluster's last word counts. One without a time does not count.
    pub foreign_for: Duration,
    /// How many deletes are remembered.
    pub tombstones: usize,
}

impl RouterSettings {
    /// The settings of a router in this cluster.
    pub fn of(cluster: &str) -> Self {
        Self { cluster: cluster.into(), foreign_for: Duration::from_secs(60), tombstones: 4096 }
    }
}

/// What a claim asks for.
#[derive(Clone, Copy, Debug)]
pub struct Wish<'a> {
    /// The namespace.
    pub namespace: &'a str,
    /// The cluster, if one is named: then the name is a pool's, else an environment's.
    pub cluster: Option<&'a str>,
    /// The environment or the pool.
    pub name: &'a str,
    /// The scaling group that the pool of an environment must have, if it must.
    pub scaling_group: Option<&'a str>,
}

/// The entries of all environments.
pub struct EnvRouter {
    settings: RouterSettings,
    entries: ByKey<Arc<EnvRoutes>>,
    /// Locked by writers only.
    order: Mutex<Order>,
}

impl EnvRouter {
    /// A router that knows no environment.
    pub fn new(settings: RouterSettings) -> Self {
        Self { settings, entries: by_key(), order: Mutex::default() }
    }

    /// Where a claim goes.
    pub fn route(&self, wish: &Wish<'_>, now: Timestamp, load: &impl PoolLoad) -> Route {
        match wish.cluster {
            Some(cluster) if *cluster == *self.settings.cluster => Route::Pool,
            Some(cluster) => Route::Forward { cluster: cluster.into(), here: None },
            None => match self.entry(wish.namespace, wish.name) {
                Some(entry) => decide::decide(entry, wish, self.since(now), now, load),
                None => Route::NotFound(Missing::Env),
            },
        }
    }

    /// How the members of an environment are ranked, and why: the best first, then those that are left out.
    /// None if there is no such environment.
    pub fn explain(&self, wish: &Wish<'_>, now: Timestamp, load: &impl PoolLoad) -> Option<Vec<Explained>> {
        self.entry(wish.namespace, wish.name).map(|entry| explain::explain(&entry, wish, now, load))
    }

    /// How many environments are known.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether none is known.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    fn entry(&self, namespace: &str, name: &str) -> Option<Arc<EnvRoutes>> {
        self.entries.pin().get(&Named { namespace, name }).cloned()
    }

    /// The oldest word of another cluster that still counts.
    fn since(&self, now: Timestamp) -> Timestamp {
        now.checked_sub(self.settings.foreign_for).unwrap_or(Timestamp::MIN)
    }
}
