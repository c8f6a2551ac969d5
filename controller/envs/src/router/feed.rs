//! What the router is told, in the order of versions.
//!
//! # Why the order of telling does not matter
//! Versions of environments can be compared, also between objects that had the same name one after the other.
//! 1. An upsert counts if its version is greater than what is known under its name, and than the version of
//!    the last delete there, and if its UID is not the one that was deleted.
//! 2. A delete counts if its UID is the known one, or if its version is not less than what is known.
//!
//! So what is known in the end is the greatest version that no delete ended, in whatever order it came. A
//! delete whose teller knows neither UID nor the last version may come too early to count; the informer,
//! which knows the version of the delete itself, tells it again.

use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::sync::Arc;

use sandgate_cache::{Key, Seen};
use sandgate_objects::sandbox_env::resources::SandboxEnv;
use sandgate_routes::Version;

use super::EnvRouter;
use super::entry::EnvRoutes;
use crate::EnvRouterSync;

/// What became of what was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fed {
    /// It is known now.
    Taken,
    /// It was known, or something newer.
    Known,
    /// The environment had been deleted.
    Gone,
}

/// What has been told.
#[derive(Default)]
pub(super) struct Order {
    known: BTreeMap<Key, Told>,
    deleted: BTreeMap<Key, Delete>,
    /// The deletes by age.
    ages: BTreeMap<u64, Key>,
    last: u64,
}

struct Told {
    uid: Arc<str>,
    version: Version,
}

struct Delete {
    /// The object that does not come back in any version, if it is known.
    uid: Option<Arc<str>>,
    version: Version,
    /// When it was told.
    age: u64,
}

impl Order {
    /// Remembers a delete, and forgets the oldest if there are too many.
    fn bury(&mut self, key: Key, uid: Option<Arc<str>>, version: Version, cap: usize) {
        self.dig_up(&key);
        self.last += 1;
        self.ages.insert(self.last, key.clone());
        self.deleted.insert(key, Delete { uid, version, age: self.last });
        while self.deleted.len() > cap {
            let Some((_, oldest)) = self.ages.pop_first() else { break };
            self.deleted.remove(&oldest);
        }
    }

    fn dig_up(&mut self, key: &Key) {
        if let Some(gone) = self.deleted.remove(key) {
            self.ages.remove(&gone.age);
        }
    }
}

impl EnvRouterSync for EnvRouter {
    fn on_env_upsert(&self, env: &Seen<SandboxEnv>) {
        self.upsert(env);
    }

    fn on_env_deleted(&self, env: &Key, version: Option<&Version>) {
        match version {
            Some(version) => self.delete(env, None, version),
            None => self.absent(env),
        };
    }
}

impl EnvRouter {
    /// There is this environment, in this version.
    pub fn upsert(&self, env: &Seen<SandboxEnv>) -> Fed {
        let mut order = self.order.lock();
        if let Some(gone) = order.deleted.get(&env.key) {
            if gone.uid.as_ref() == Some(&env.uid) || env.version <= gone.version {
                return Fed::Gone;
            }
            order.dig_up(&env.key);
        }
        if order.known.get(&env.key).is_some_and(|known| env.version <= known.version) {
            return Fed::Known;
        }
        let told = Told { uid: Arc::clone(&env.uid), version: env.version.clone() };
        order.known.insert(env.key.clone(), told);
        // One that is being deleted makes no more sandboxes; its versions go on counting.
        if env.object.metadata.deletion_timestamp.is_some() {
            self.entries.pin().remove(&env.key);
        } else {
            let entry = EnvRoutes::of(&env.object, &self.settings.cluster);
            self.entries.pin().insert(env.key.clone(), Arc::new(entry));
        }
        Fed::Taken
    }

    /// The environment is gone: the one of this UID in whatever version, or what there was up to this
    /// version.
    pub fn delete(&self, env: &Key, uid: Option<&str>, version: &Version) -> Fed {
        let mut order = self.order.lock();
        let mut uid: Option<Arc<str>> = uid.map(Into::into);
        let mut version = version.clone();
        if let Some(known) = order.known.get(env) {
            if uid.as_ref() == Some(&known.uid) {
                version = version.max(known.version.clone());
            } else if version < known.version {
                return Fed::Known;
            } else if uid.is_none() {
                uid = Some(Arc::clone(&known.uid));
            }
            order.known.remove(env);
            self.entries.pin().remove(env);
        } else if order.deleted.get(env).is_some_and(|gone| version <= gone.version) {
            return Fed::Known;
        }
        order.bury(env.clone(), uid, version, self.settings.tombstones);
        Fed::Taken
    }

    /// Nobody sees the environment, but nobody can say since when. It comes back by an upsert of the version
    /// that was known, for it may be that one that is seen next.
    fn absent(&self, env: &Key) -> Fed {
        let mut order = self.order.lock();
        let Some(known) = order.known.remove(env) else { return Fed::Known };
        self.entries.pin().remove(env);
        if let Some(before) = NonZeroU64::new(known.version.get() - 1) {
            order.bury(env.clone(), None, before.into(), self.settings.tombstones);
        }
        Fed::Taken
    }
}

impl EnvRouter {
    /// Drops the environments that a complete list of this version does not have: deletes that were missed.
    /// What is known in a newer version stays. Returns how many were dropped.
    pub fn retain(&self, listed: &Version, is_there: impl Fn(&Key) -> bool) -> usize {
        let mut order = self.order.lock();
        let known = order.known.iter().filter(|(key, known)| known.version <= *listed && !is_there(key));
        let gone: Vec<Key> = known.map(|(key, _)| key.clone()).collect();
        for key in &gone {
            self.entries.pin().remove(key);
            if let Some(known) = order.known.remove(key) {
                order.bury(key.clone(), Some(known.uid), known.version, self.settings.tombstones);
            }
        }
        gone.len()
    }
}

#[cfg(test)]
impl Order {
    /// The names whose deletes are remembered. Both maps must have the same.
    pub(super) fn remembered(&self) -> Vec<&str> {
        let mut by_age: Vec<&Key> = self.ages.values().collect();
        by_age.sort();
        assert!(by_age.into_iter().eq(self.deleted.keys()));
        self.deleted.keys().map(|key| &*key.name).collect()
    }
}
