//! What the view knows of environments, their pools and the pods of those.
//!
//! # Indexes
//! - The pools of each environment, by its namespace and name.
//! - The environments of each template, by its name.
//! - The pods that name each pool, by the pool's key, with counts by who controls them; see [`fleet`]. A
//!   pool's own are those that its UID controls: the same that managers claim.
//!
//! Each is a function of the objects that were seen, whatever their order.

mod fleet;
mod kept;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use sandgate_cache::{Seen, Store};
use sandgate_objects::sandbox_env::resources::{EnvPod, SandboxEnv, SandboxPool, SandboxTemplate};

use super::View;
use crate::Key;
pub use fleet::{EnvPodClass, EnvPodCounts};
use fleet::{Fleet, Owned};
pub use kept::env_of;

/// The objects of environments, and what is kept beside them.
#[derive(Default)]
pub(super) struct Environments {
    pub(super) envs: Store<SandboxEnv>,
    pub(super) pools: Store<SandboxPool>,
    pub(super) templates: Store<SandboxTemplate>,
    pub(super) pods: Store<EnvPod>,
    /// By the key of the environment.
    pools_of: BTreeMap<Key, BTreeSet<Key>>,
    /// By the name of the template, which has no namespace.
    envs_of: BTreeMap<Arc<str>, BTreeSet<Key>>,
    /// By the key of the pool.
    fleets: BTreeMap<Key, Fleet>,
}

impl Environments {
    /// The pods that a pool controls; none if there is no such pool.
    fn owned(&self, pool: &Key) -> Option<&Owned> {
        let uid = &self.pools.get(pool)?.uid;
        self.fleets.get(pool)?.of_owner(uid)
    }
}

/// A pool's pods of one class.
pub type EnvPods = Vec<Arc<Seen<EnvPod>>>;

impl View {
    /// The pools that are an environment's by their owner or their label, in the order of their names.
    pub fn env_pools(&self, env: &Key) -> Vec<Arc<Seen<SandboxPool>>> {
        let inner = self.shared.inner.lock();
        let environments = &inner.environments;
        let keys = environments.pools_of.get(env).into_iter().flatten();
        keys.filter_map(|key| environments.pools.get(key).cloned()).collect()
    }

    /// Every pool, in the order of the keys.
    pub(crate) fn all_env_pools(&self) -> Vec<Arc<Seen<SandboxPool>>> {
        self.shared.inner.lock().environments.pools.iter().cloned().collect()
    }

    /// The pods that name a pool and were shown anew since the last call: who looks at these has looked at
    /// all.
    pub(crate) fn take_changed_env_pods(&self, pool: &Key) -> BTreeSet<Key> {
        let mut inner = self.shared.inner.lock();
        inner.environments.fleets.get_mut(pool).map(Fleet::take_changed).unwrap_or_default()
    }

    /// Every pod that names a pool, whoever controls it.
    pub(crate) fn env_pod_keys(&self, pool: &Key) -> BTreeSet<Key> {
        let inner = self.shared.inner.lock();
        inner.environments.fleets.get(pool).map(|fleet| fleet.all().cloned().collect()).unwrap_or_default()
    }

    /// Every environment, in the order of the keys.
    pub fn envs(&self) -> Vec<Arc<Seen<SandboxEnv>>> {
        self.shared.inner.lock().environments.envs.iter().cloned().collect()
    }

    /// How many pods a pool has of each class, and of a revision. It costs nothing to ask.
    pub fn env_pod_counts(&self, pool: &Key, revision: &str) -> EnvPodCounts {
        let inner = self.shared.inner.lock();
        inner.environments.owned(pool).map(|owned| owned.counts(revision)).unwrap_or_default()
    }

    /// A pool's pods of a class, oldest first, at most `limit`.
    pub fn env_pods(&self, pool: &Key, class: EnvPodClass, limit: usize) -> EnvPods {
        self.env_pods_that(pool, class, limit, |_| true)
    }

    /// A pool's pods of a class that `wanted` accepts, oldest first, at most `limit`.
    pub fn env_pods_that(
        &self,
        pool: &Key,
        class: EnvPodClass,
        limit: usize,
        wanted: impl Fn(&EnvPod) -> bool,
    ) -> EnvPods {
        let inner = self.shared.inner.lock();
        let environments = &inner.environments;
        let Some(owned) = environments.owned(pool) else { return Vec::new() };
        let pods = owned.of(class).filter_map(|key| environments.pods.get(key));
        pods.filter(|pod| wanted(pod)).take(limit).cloned().collect()
    }

    /// When each idle pod of a pool was made, or became idle again; oldest first, at most `limit`.
    pub fn idle_since(&self, pool: &Key, limit: usize) -> Vec<Timestamp> {
        let inner = self.shared.inner.lock();
        inner.environments.owned(pool).map(|owned| owned.idle_since(limit)).unwrap_or_default()
    }

    /// The names of a pool's pods that were asked for and have not been seen.
    pub fn env_pods_reserved(&self, pool_uid: &str) -> Vec<super::Reserved> {
        let inner = self.shared.inner.lock();
        inner.reserved.values().filter(|reserved| &*reserved.set == pool_uid).cloned().collect()
    }

    /// Registers the name of a pod before it is asked for. False if the name is in use.
    pub fn reserve_env_pod(&self, pool_uid: &Arc<str>, key: &Key, revision: &Arc<str>) -> bool {
        let mut inner = self.shared.inner.lock();
        if inner.environments.pods.get(key).is_some() || inner.reserved.contains_key(key) {
            return false;
        }
        let reserved =
            super::Reserved { key: key.clone(), revision: revision.clone(), set: pool_uid.clone() };
        inner.reserved.insert(key.clone(), reserved);
        true
    }
}
