//! What can be asked. A namespace or an owner that is none stands for all of them.

use std::sync::Arc;

use sandgate_objects::openkruise::resources::{Checkpoint, SandboxFacts, SandboxSet};
use sandgate_routes::State;

use super::{Cache, Kept};
use crate::predicates::{is_live_for_quota, is_reserved_failed, state};
use crate::{ConfigMapFacts, Key, PvcFacts, SecretFacts, Seen, Store};

/// Why there is no one answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// There is none. A cache that lags may not have it yet.
    #[error("not found in the cache")]
    NotFound,
    /// Several objects claim the ID, and none of them is given.
    #[error("several objects have this ID")]
    Ambiguous,
}

impl Cache {
    /// The object of this name.
    pub fn get<T: Kept>(&self, key: &Key) -> Option<Arc<Seen<T>>> {
        T::peek(&self.shared.inner.read()).get(key).cloned()
    }

    /// The claimed sandbox of this ID.
    ///
    /// # Errors
    /// See [`ReadError`].
    pub fn claimed(&self, namespace: Option<&str>, id: &str) -> Result<Arc<Seen<SandboxFacts>>, ReadError> {
        let inner = self.shared.inner.read();
        let mut found = inner.ids.get(namespace, id);
        match (found.next(), found.next()) {
            (Some(one), None) => Ok(Arc::clone(one)),
            (None, _) => Err(ReadError::NotFound),
            (Some(_), Some(_)) => Err(ReadError::Ambiguous),
        }
    }

    /// The sandboxes of a pool that are available or in creation, by the name of the set or its template.
    pub fn in_pool(&self, namespace: Option<&str>, template: &str) -> Vec<Arc<Seen<SandboxFacts>>> {
        let now = self.shared.clock.now();
        self.shared.inner.read().pools.members(namespace, template, now)
    }

    /// At most `limit` sandboxes of a pool that can be claimed now: available, with an address, not locked,
    /// not expired. Those of the revision come first. The cost does not grow with the pool.
    pub fn available(
        &self,
        namespace: Option<&str>,
        template: &str,
        revision: Option<&str>,
        limit: usize,
    ) -> Vec<Arc<Seen<SandboxFacts>>> {
        self.available_from(namespace, template, revision, 0, limit)
    }

    /// The same, from a place on the ring of the pool's sandboxes on. Processes that begin at different
    /// places are given different sandboxes, as long as there are enough.
    pub fn available_from(
        &self,
        namespace: Option<&str>,
        template: &str,
        revision: Option<&str>,
        start: u64,
        limit: usize,
    ) -> Vec<Arc<Seen<SandboxFacts>>> {
        let now = self.shared.clock.now();
        let inner = self.shared.inner.read();
        inner.pools.free(namespace, template, revision, start, now).take(limit).cloned().collect()
    }

    /// The first sandbox in that order that `fits`, which is called under the cache's lock and must be short.
    pub fn pick(
        &self,
        namespace: Option<&str>,
        template: &str,
        revision: Option<&str>,
        start: u64,
        mut fits: impl FnMut(&Seen<SandboxFacts>) -> bool,
    ) -> Option<Arc<Seen<SandboxFacts>>> {
        let now = self.shared.clock.now();
        let inner = self.shared.inner.read();
        inner.pools.free(namespace, template, revision, start, now).find(|seen| fits(seen)).cloned()
    }

    /// How many sandboxes of a pool can be claimed now. The cost does not grow with the pool.
    pub fn count_available(&self, namespace: Option<&str>, template: &str) -> usize {
        let now = self.shared.clock.now();
        self.shared.inner.read().pools.count_free(namespace, template, now)
    }

    /// The sets.
    pub fn sets(&self, namespace: Option<&str>) -> Vec<Arc<Seen<SandboxSet>>> {
        in_namespace(&self.shared.inner.read().sets, namespace).cloned().collect()
    }

    /// The set of this name; the first, if several namespaces have one.
    pub fn set(&self, namespace: Option<&str>, name: &str) -> Option<Arc<Seen<SandboxSet>>> {
        self.shared.inner.read().set_names.get(namespace, name).next().cloned()
    }

    /// The checkpoint of this ID; the first, if several have it.
    pub fn checkpoint(&self, namespace: Option<&str>, id: &str) -> Option<Arc<Seen<Checkpoint>>> {
        self.shared.inner.read().checkpoint_ids.get(namespace, id).next().cloned()
    }

    /// The checkpoints of an owner.
    pub fn checkpoints(&self, namespace: Option<&str>, owner: Option<&str>) -> Vec<Arc<Seen<Checkpoint>>> {
        let inner = self.shared.inner.read();
        match owner {
            Some(owner) => inner.checkpoint_owners.get(namespace, owner).cloned().collect(),
            None => in_namespace(&inner.checkpoints, namespace).cloned().collect(),
        }
    }

    /// The sandboxes of an owner, without those that are only kept because their create failed.
    pub fn sandboxes(&self, namespace: Option<&str>, owner: Option<&str>) -> Vec<Arc<Seen<SandboxFacts>>> {
        let inner = self.shared.inner.read();
        let is_shown = |seen: &&Arc<Seen<SandboxFacts>>| !is_reserved_failed(seen);
        match owner {
            Some(owner) => inner.owners.get(namespace, owner).filter(is_shown).cloned().collect(),
            None => in_namespace(&inner.sandboxes, namespace).filter(is_shown).cloned().collect(),
        }
    }

    /// How many of them are not dead.
    pub fn count_active(&self, namespace: Option<&str>, owner: Option<&str>) -> usize {
        let now = self.shared.clock.now();
        let inner = self.shared.inner.read();
        let is_active =
            |seen: &&Arc<Seen<SandboxFacts>>| !is_reserved_failed(seen) && state(seen, now) != State::Dead;
        match owner {
            Some(owner) => inner.owners.get(namespace, owner).filter(is_active).count(),
            None => in_namespace(&inner.sandboxes, namespace).filter(is_active).count(),
        }
    }

    /// The sandboxes of an owner that are [live for a quota](is_live_for_quota). No owner has none.
    pub fn live_of(&self, owner: &str) -> Vec<Arc<Seen<SandboxFacts>>> {
        let inner = self.shared.inner.read();
        inner.owners.get(None, owner).filter(|seen| is_live_for_quota(seen)).cloned().collect()
    }

    /// The volume claims of an owner.
    pub fn pvcs(&self, namespace: Option<&str>, owner: Option<&str>) -> Vec<Arc<Seen<PvcFacts>>> {
        let inner = self.shared.inner.read();
        match owner {
            Some(owner) => inner.pvc_owners.get(namespace, owner).cloned().collect(),
            None => in_namespace(&inner.pvcs, namespace).cloned().collect(),
        }
    }

    /// The volume claim that is bound to the volume of this name.
    pub fn volume(&self, namespace: Option<&str>, name: &str) -> Option<Arc<Seen<PvcFacts>>> {
        self.shared.inner.read().volumes.get(namespace, name).next().cloned()
    }

    /// The Secrets of the system namespace.
    pub fn secrets(&self) -> Vec<Arc<Seen<SecretFacts>>> {
        self.shared.inner.read().secrets.iter().cloned().collect()
    }

    /// The ConfigMaps of the system namespace.
    pub fn config_maps(&self) -> Vec<Arc<Seen<ConfigMapFacts>>> {
        self.shared.inner.read().config_maps.iter().cloned().collect()
    }
}

fn in_namespace<'a, T>(
    store: &'a Store<T>,
    namespace: Option<&'a str>,
) -> impl Iterator<Item = &'a Arc<Seen<T>>> {
    store.within(namespace)
}
