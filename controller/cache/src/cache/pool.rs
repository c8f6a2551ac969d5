//! The sandboxes that wait to be claimed.
//!
//! # Time
//! A sandbox whose `shutdownTime` passes leaves the pool without an event. So nothing here remembers the
//! time: every read is given it and skips, or does not count, what has expired. What has expired is deleted
//! by its controller soon, so there are few of them.
//!
//! # Names
//! A pool is asked for by the name of its set, or by the name of the template that the set refers to. A
//! sandbox stands under both where they differ. (OpenKruise's index has the second alone, so a claim by the
//! name of a set with a `templateRef` finds nothing.)
//!
//! # Order
//! Sandboxes that can be claimed stand on a ring, at a place that is derived from their UID. Processes that
//! begin at different places take different sandboxes until the pool is nearly empty.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use jiff::Timestamp;
use sandgate_objects::Kind as _;
use sandgate_objects::openkruise::names;
use sandgate_objects::openkruise::resources::SandboxFacts;
use sandgate_routes::State;

use super::index::in_namespace;
use super::sharing::forget;
use crate::predicates::{annotation, has_expired, label};
use crate::{Change, Key, Seen};

type One = Arc<Seen<SandboxFacts>>;

/// A place on the ring.
type Place = (u64, Key);

/// The pools of all namespaces.
#[derive(Default)]
pub(crate) struct Pools(BTreeMap<Arc<str>, BTreeMap<Arc<str>, Pool>>);

/// The sandboxes of one name in one namespace.
#[derive(Default)]
struct Pool {
    /// What can be claimed, by revision.
    free: BTreeMap<Arc<str>, BTreeMap<Place, One>>,
    /// How many of them end at which time, if they do.
    ends: BTreeMap<Timestamp, usize>,
    /// In creation, or locked by somebody.
    others: BTreeMap<Key, One>,
}

/// Where a sandbox stands.
struct Standing<'a> {
    /// The names that its pool has.
    names: [&'a str; 2],
    /// The revision, if it can be claimed.
    free: Option<&'a str>,
}

/// Where a sandbox stands as long as it has not expired.
fn standing(sandbox: &SandboxFacts) -> Option<Standing<'_>> {
    if sandbox.is_deleting {
        return None;
    }
    let state = sandbox.address().map(|address| (sandbox.live_state(address), address)).ok()?;
    let is_available = match state {
        (State::Available, address) => address.ip().is_some(),
        (State::Creating, _) if sandbox.pool().is_some() => false,
        _ => return None,
    };
    let (template, pool) =
        (label(sandbox, names::LABEL_SANDBOX_TEMPLATE), label(sandbox, names::LABEL_SANDBOX_POOL));
    let is_locked = !annotation(sandbox, names::ANNOTATION_LOCK).is_empty();
    let is_free = is_available && !is_locked && sandbox.created.is_some();
    let names = [template, if pool == template { "" } else { pool }];
    let is_named = names.iter().any(|name| !name.is_empty());
    is_named.then(|| Standing { names, free: is_free.then(|| label(sandbox, names::LABEL_TEMPLATE_HASH)) })
}

/// The place of a UID on the ring: FNV-1a, with its bits mixed.
fn place(uid: &str) -> u64 {
    let hash = uid.bytes().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    (hash ^ (hash >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

impl Pools {
    /// Brings the pools up to date. Returns the names of the pools of a sandbox that can be claimed, also if
    /// it could be before: whoever tried with its last version, and failed, may try again.
    pub(crate) fn changed(&mut self, change: &Change<SandboxFacts>) -> Vec<Arc<str>> {
        let before = change.before.as_ref().and_then(|seen| Some((seen, standing(seen)?)));
        if let Some((seen, standing)) = before {
            self.remove(seen, &standing);
        }
        let mut gained = Vec::new();
        if let Some((seen, standing)) = change.after.as_ref().and_then(|seen| Some((seen, standing(seen)?))) {
            self.insert(seen, &standing);
            if standing.free.is_some() {
                let names = standing.names.into_iter().filter(|name| !name.is_empty());
                gained.extend(names.map(Arc::from));
            }
        }
        gained
    }

    fn insert(&mut self, seen: &One, standing: &Standing<'_>) {
        for name in standing.names.into_iter().filter(|name| !name.is_empty()) {
            let pools = entry(&mut self.0, name);
            let pool = match pools.get_mut(&*seen.key.namespace) {
                Some(pool) => pool,
                None => pools.entry(Arc::clone(&seen.key.namespace)).or_default(),
            };
            match standing.free {
                Some(revision) => {
                    let place = (place(&seen.uid), seen.key.clone());
                    entry(&mut pool.free, revision).insert(place, Arc::clone(seen));
                    if let Some(ends) = seen.shutdown_time {
                        *pool.ends.entry(ends).or_default() += 1;
                    }
                }
                None => {
                    pool.others.insert(seen.key.clone(), Arc::clone(seen));
                }
            }
        }
    }

    fn remove(&mut self, seen: &One, standing: &Standing<'_>) {
        for name in standing.names.into_iter().filter(|name| !name.is_empty()) {
            let Some(pools) = self.0.get_mut(name) else { continue };
            let Some(pool) = pools.get_mut(&*seen.key.namespace) else { continue };
            pool.others.remove(&seen.key);
            if let Some(revision) = standing.free
                && let Some(free) = pool.free.get_mut(revision)
            {
                let was_there = free.remove(&(place(&seen.uid), seen.key.clone())).is_some();
                if let Some(ends) = seen.shutdown_time.filter(|_| was_there) {
                    forget(&mut pool.ends, &ends);
                }
                if free.is_empty() {
                    pool.free.remove(revision);
                }
            }
            if pool.free.is_empty() && pool.others.is_empty() {
                pools.remove(&*seen.key.namespace);
            }
            if pools.is_empty() {
                self.0.remove(name);
            }
        }
    }

    fn named<'a>(&'a self, namespace: Option<&'a str>, name: &str) -> impl Iterator<Item = &'a Pool> {
        let pools = self.0.get(name);
        let (one, all) = match namespace {
            Some(namespace) => (pools.and_then(|pools| pools.get(namespace)), None),
            None => (None, pools.map(BTreeMap::values)),
        };
        one.into_iter().chain(all.into_iter().flatten())
    }

    /// Everything in a pool that has not expired, in the order of the keys.
    pub(crate) fn members(&self, namespace: Option<&str>, name: &str, now: Timestamp) -> Vec<One> {
        let mut members = Vec::new();
        for pool in self.named(namespace, name) {
            let free = pool.free.values().flat_map(BTreeMap::values);
            let all = free.chain(in_namespace(&pool.others, None));
            members.extend(all.filter(|seen| !has_expired(seen, now)).cloned());
        }
        members.sort_unstable_by(|a, b| a.key.cmp(&b.key));
        members
    }

    /// What can be claimed: first of the revision asked for, then of others; each from `start` on around the
    /// ring.
    pub(crate) fn free<'a>(
        &'a self,
        namespace: Option<&'a str>,
        name: &str,
        revision: Option<&'a str>,
        start: u64,
        now: Timestamp,
    ) -> impl Iterator<Item = &'a One> {
        let pools: Vec<_> = self.named(namespace, name).collect();
        let wanted =
            revision.map(|revision| pools.iter().filter_map(|pool| pool.free.get(revision)).collect());
        let wanted: Vec<_> = wanted.unwrap_or_default();
        let others = pools.iter().flat_map(|pool| pool.free.iter());
        let others: Vec<_> =
            others.filter(|(of, _)| revision != Some(&***of)).map(|(_, free)| free).collect();
        wanted
            .into_iter()
            .chain(others)
            .flat_map(move |free| from(free, start))
            .filter(move |seen| !has_expired(seen, now))
    }

    /// How many can be claimed.
    pub(crate) fn count_free(&self, namespace: Option<&str>, name: &str, now: Timestamp) -> usize {
        let free = |pool: &Pool| {
            let all: usize = pool.free.values().map(BTreeMap::len).sum();
            // As `has_expired` has it: what ends now is still there.
            let expired: usize = pool.ends.range(..now).map(|(_, count)| count).sum();
            all - expired
        };
        self.named(namespace, name).map(free).sum()
    }

    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

fn from(free: &BTreeMap<Place, One>, start: u64) -> impl Iterator<Item = &One> {
    let first = (start, Key::new("", ""));
    let rest = free.range((Bound::Included(first.clone()), Bound::Unbounded));
    rest.chain(free.range(..first)).map(|(_, seen)| seen)
}

fn entry<'a, V: Default>(map: &'a mut BTreeMap<Arc<str>, V>, name: &str) -> &'a mut V {
    map.entry(name.into()).or_default()
}
