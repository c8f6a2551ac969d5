//! Where the view keeps the kinds of environments, and who has to look when one of them changes.

use std::collections::BTreeSet;
use std::sync::Arc;

use sandgate_cache::{Change, Seen, Store};
use sandgate_objects::sandbox_env::names;
use sandgate_objects::sandbox_env::resources::{EnvPod, SandboxEnv, SandboxPool, SandboxTemplate};

use super::super::decode::Kept;
use super::super::{Controller, Inner, index::forget_one};
use crate::Key;

/// The environment of a pool: the one that owns it, or else the one that its label names.
pub fn env_of(pool: &SandboxPool, namespace: &str) -> Option<Key> {
    let mut owners = pool.metadata.owner_references.iter().flatten();
    let is_env = |owner: &str, version: &str| owner == names::KIND_ENV && version.starts_with(names::GROUP);
    let owner = owners.find(|owner| is_env(&owner.kind, &owner.api_version));
    let name = owner.map_or_else(|| pool.env(), |owner| &owner.name);
    (!name.is_empty()).then(|| Key::new(namespace, name))
}

fn key_of<T>(change: &Change<T>) -> Option<Key> {
    change.after.as_ref().or(change.before.as_ref()).map(|seen| seen.key.clone())
}

impl Kept for SandboxEnv {
    fn store(inner: &mut Inner) -> &mut Store<Self> {
        &mut inner.environments.envs
    }

    fn peek(inner: &Inner) -> &Store<Self> {
        &inner.environments.envs
    }

    /// An environment concerns itself, its pools, which scale by what it says, and lone pools of its name. A
    /// change of its status alone concerns nobody.
    fn changed(inner: &mut Inner, change: Change<Self>) {
        let Some(key) = key_of(&change) else { return };
        let template = |seen: &Option<Arc<Seen<Self>>>| {
            seen.as_ref().map(|seen| Arc::<str>::from(seen.spec.template_ref.name.as_str()))
        };
        let (before, after) = (template(&change.before), template(&change.after));
        if before != after {
            if let Some(before) = before {
                forget_one(&mut inner.environments.envs_of, &before, &key);
            }
            if let Some(after) = after {
                inner.environments.envs_of.entry(after).or_default().insert(key.clone());
            }
        }
        if is_status_only(&change) {
            return;
        }
        let pools = inner.environments.pools_of.get(&key).cloned().unwrap_or_default();
        for pool in pools {
            inner.dirty.insert((Controller::EnvPool, pool.clone()));
            inner.dirty.insert((Controller::PoolAdoption, pool));
        }
        inner.dirty.insert((Controller::PoolAdoption, key.clone()));
        inner.dirty.insert((Controller::SandboxEnv, key));
    }
}

/// Whether neither the spec nor the life of an environment has changed.
fn is_status_only(change: &Change<SandboxEnv>) -> bool {
    let (Some(before), Some(after)) = (&change.before, &change.after) else { return false };
    let facts = |seen: &Seen<SandboxEnv>| {
        let metadata = &seen.metadata;
        (Arc::clone(&seen.uid), metadata.generation, metadata.deletion_timestamp.is_some())
    };
    facts(before) == facts(after) && before.metadata.labels == after.metadata.labels
}

impl Kept for SandboxPool {
    fn store(inner: &mut Inner) -> &mut Store<Self> {
        &mut inner.environments.pools
    }

    fn peek(inner: &Inner) -> &Store<Self> {
        &inner.environments.pools
    }

    /// A pool concerns its environments, the one before and the one after, and its siblings, which yield to
    /// each other. It concerns itself where more than its status has changed.
    fn changed(inner: &mut Inner, change: Change<Self>) {
        let Some(key) = key_of(&change) else { return };
        let env = |seen: &Option<Arc<Seen<Self>>>| {
            seen.as_ref().and_then(|seen| env_of(&seen.object, &seen.key.namespace))
        };
        let (before, after) = (env(&change.before), env(&change.after));
        if before != after {
            if let Some(before) = &before {
                forget_one(&mut inner.environments.pools_of, before, &key);
            }
            if let Some(after) = &after {
                inner.environments.pools_of.entry(after.clone()).or_default().insert(key.clone());
            }
        }
        let envs: BTreeSet<Key> = before.into_iter().chain(after).collect();
        inner.dirty.extend(envs.into_iter().map(|env| (Controller::SandboxEnv, env)));
        if let Some(before) = &change.before
            && change.after.as_ref().is_none_or(|after| after.uid != before.uid)
        {
            inner.reserved.retain(|_, reserved| reserved.set != before.uid);
        }
        if concerns_itself(&change) {
            inner.dirty.insert((Controller::EnvPool, key.clone()));
            inner.dirty.insert((Controller::PoolAdoption, key));
        }
    }
}

/// Whether more than the status of a pool has changed.
fn concerns_itself(change: &Change<SandboxPool>) -> bool {
    let (Some(before), Some(after)) = (&change.before, &change.after) else { return true };
    let (was, is) = (&before.metadata, &after.metadata);
    before.uid != after.uid
        || was.generation != is.generation
        || was.deletion_timestamp.is_some() != is.deletion_timestamp.is_some()
        || was.labels != is.labels
        || was.annotations != is.annotations
        || was.owner_references != is.owner_references
        || was.finalizers != is.finalizers
}

impl Kept for SandboxTemplate {
    fn store(inner: &mut Inner) -> &mut Store<Self> {
        &mut inner.environments.templates
    }

    fn peek(inner: &Inner) -> &Store<Self> {
        &inner.environments.templates
    }

    /// A template concerns the environments that name it.
    fn changed(inner: &mut Inner, change: Change<Self>) {
        let Some(key) = key_of(&change) else { return };
        let envs = inner.environments.envs_of.get(&key.name).into_iter().flatten();
        inner.dirty.extend(envs.cloned().map(|env| (Controller::SandboxEnv, env)));
    }
}

impl Kept for EnvPod {
    fn store(inner: &mut Inner) -> &mut Store<Self> {
        &mut inner.environments.pods
    }

    fn peek(inner: &Inner) -> &Store<Self> {
        &inner.environments.pods
    }

    /// A pod concerns its pool.
    fn changed(inner: &mut Inner, Change { before, after }: Change<Self>) {
        let pool = |seen: &Arc<Seen<Self>>| Key::new(&seen.key.namespace, seen.pool());
        let (was_in, is_in) = (before.as_ref().map(pool), after.as_ref().map(pool));
        if let (Some(before), Some(was_in)) = (&before, &was_in)
            && (Some(was_in) != is_in.as_ref())
        {
            if let Some(fleet) = inner.environments.fleets.get_mut(was_in) {
                fleet.remove(&before.key);
                if fleet.is_empty() {
                    inner.environments.fleets.remove(was_in);
                }
            }
            inner.dirty.insert((Controller::EnvPool, was_in.clone()));
        }
        if let (Some(after), Some(is_in)) = (&after, is_in) {
            inner.reserved.remove(&after.key);
            inner.environments.fleets.entry(is_in.clone()).or_default().put(after);
            inner.dirty.insert((Controller::EnvPool, is_in));
        }
    }
}
