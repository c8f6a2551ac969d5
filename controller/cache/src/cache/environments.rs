//! What can be asked about scitix's environments: who has a name, which pods can be claimed, whose they are.
//!
//! # Order
//! The pods of a pool that can be claimed stand in the order in which they became ready, the oldest first. A
//! pod that is about to be deleted is not among them.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use sandgate_objects::sandbox_env::resources::{EnvPod, SandboxEnv, SandboxPool};

use super::Cache;
use crate::{Change, Key, Seen};

type One = Arc<Seen<EnvPod>>;

/// Since when a pod is ready, and which one it is.
type Place = (Timestamp, Key);

/// The pods that can be claimed, by pool.
#[derive(Default)]
pub(crate) struct IdlePods(BTreeMap<Key, BTreeMap<Place, One>>);

/// The pool of a pod and its place in it; none if it cannot be claimed.
fn standing(pod: &Seen<EnvPod>) -> Option<(Key, Place)> {
    let since = pod.ready_since.unwrap_or_else(|| pod.created());
    pod.is_claimable().then(|| (pool_of(pod), (since, pod.key.clone())))
}

/// The pool that a pod says it is of.
fn pool_of(pod: &Seen<EnvPod>) -> Key {
    Key { namespace: Arc::clone(&pod.key.namespace), name: pod.pool().into() }
}

impl IdlePods {
    pub(crate) fn changed(&mut self, change: &Change<EnvPod>) {
        if let Some((pool, place)) = change.before.as_deref().and_then(standing)
            && let Some(pods) = self.0.get_mut(&pool)
        {
            pods.remove(&place);
            if pods.is_empty() {
                self.0.remove(&pool);
            }
        }
        if let Some(seen) = &change.after
            && let Some((pool, place)) = standing(seen)
        {
            self.0.entry(pool).or_default().insert(place, Arc::clone(seen));
        }
    }

    fn of(&self, pool: &Key) -> impl Iterator<Item = &One> {
        self.0.get(pool).into_iter().flat_map(BTreeMap::values)
    }

    fn count(&self, pool: &Key) -> usize {
        self.0.get(pool).map_or(0, BTreeMap::len)
    }

    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Cache {
    /// The environments.
    pub fn envs(&self, namespace: Option<&str>) -> Vec<Arc<Seen<SandboxEnv>>> {
        self.shared.inner.read().envs.within(namespace).cloned().collect()
    }

    /// The environment of this name; the first, if several namespaces have one.
    pub fn env(&self, namespace: Option<&str>, name: &str) -> Option<Arc<Seen<SandboxEnv>>> {
        self.shared.inner.read().env_names.get(namespace, name).next().cloned()
    }

    /// The pool of this name; the first, if several namespaces have one.
    pub fn env_pool(&self, namespace: Option<&str>, name: &str) -> Option<Arc<Seen<SandboxPool>>> {
        self.shared.inner.read().env_pools.within(namespace).find(|pool| *pool.key.name == *name).cloned()
    }

    /// The first pod of a pool that can be claimed and that `fits`, which is called under the cache's lock
    /// and must be short. The oldest goes first.
    pub fn pick_pod(&self, pool: &Key, mut fits: impl FnMut(&Seen<EnvPod>) -> bool) -> Option<One> {
        self.shared.inner.read().idle_pods.of(pool).find(|pod| fits(pod)).cloned()
    }

    /// At most `limit` pods of a pool that can be claimed, the oldest first.
    pub fn idle_pods(&self, pool: &Key, limit: usize) -> Vec<One> {
        self.shared.inner.read().idle_pods.of(pool).take(limit).cloned().collect()
    }

    /// How many pods of a pool can be claimed. The cost does not grow with the pool.
    pub fn count_idle_pods(&self, pool: &Key) -> usize {
        self.shared.inner.read().idle_pods.count(pool)
    }

    /// The pods that have a sandbox ID: starting, running, or on their way back to the pool.
    pub fn pods_of_sandbox(&self, namespace: Option<&str>, id: &str) -> Vec<One> {
        self.shared.inner.read().env_ids.get(namespace, id).cloned().collect()
    }

    /// The pods of an owner's sandboxes.
    pub fn pods_of_owner(&self, namespace: Option<&str>, owner: &str) -> Vec<One> {
        self.shared.inner.read().env_owners.get(namespace, owner).cloned().collect()
    }
}
