//! What is kept beside the objects, and who has to look when one of them changes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use sandgate_cache::{Change, Seen, Source, Store};
use sandgate_follow::Rejected;
use sandgate_objects::openkruise::resources::{Sandbox, SandboxSet, SandboxTemplate, TemplateRef};
use sandgate_routes::Version;

use super::decode::Kept;
use super::pod::PodFacts;
use super::pool::{Child, set_of};
use super::{Controller, Inner};
use crate::Key;

impl Inner {
    pub(super) fn offer<T: Kept>(&mut self, seen: Arc<Seen<T>>, source: Source) {
        if let Some(change) = T::store(self).offer(seen, source) {
            T::changed(self, change);
        }
    }

    pub(super) fn ended<T: Kept>(&mut self, key: &Key, uid: Option<&str>, version: Option<&Version>) {
        if let Some(change) = T::store(self).ended(key, uid, version) {
            T::changed(self, change);
        }
    }

    /// Applies what a list changed. Returns how many objects it was.
    pub(super) fn apply<T: Kept>(&mut self, changes: Vec<Change<T>>) -> u64 {
        let count = changes.len() as u64;
        for change in changes {
            T::changed(self, change);
        }
        count
    }

    /// What came from the watch, read here and now: for feeds without a follower.
    pub(super) fn watch<T: Kept>(&mut self, object: &[u8]) -> Result<(), Rejected> {
        let seen = T::read(object)?;
        let version = seen.version.clone();
        self.offer(Arc::new(seen), Source::Watch);
        T::store(self).reached(&version);
        Ok(())
    }

    fn mark(&mut self, controller: Controller, key: Key) {
        self.dirty.insert((controller, key));
    }

    /// Marks whoever names this template.
    fn mark_referrers(&mut self, template: &Key) {
        let referrers = self.referrers.get(template).into_iter().flatten();
        self.dirty.extend(referrers.cloned());
    }

    fn refer(
        &mut self,
        who: &(Controller, Key),
        before: Option<&Option<TemplateRef>>,
        after: Option<&Option<TemplateRef>>,
    ) {
        let name = |reference: Option<&Option<TemplateRef>>| {
            reference.and_then(Option::as_ref).map(|reference| reference.name.clone())
        };
        let (before, after) = (name(before), name(after));
        if before == after {
            return;
        }
        let key = |name: &str| Key::new(&who.1.namespace, name);
        if let Some(name) = before {
            forget_one(&mut self.referrers, &key(&name), who);
        }
        if let Some(name) = after {
            self.referrers.entry(key(&name)).or_default().insert(who.clone());
        }
    }
}

pub(super) fn forget_one<K: Ord, V: Ord>(index: &mut BTreeMap<K, BTreeSet<V>>, at: &K, value: &V) {
    if let Some(values) = index.get_mut(at) {
        values.remove(value);
        if values.is_empty() {
            index.remove(at);
        }
    }
}

impl Kept for Sandbox {
    fn store(inner: &mut Inner) -> &mut Store<Self> {
        &mut inner.sandboxes
    }

    fn peek(inner: &Inner) -> &Store<Self> {
        &inner.sandboxes
    }

    /// A sandbox concerns itself, and its set if the set would count or order it otherwise. The set that it
    /// left is one of these: it refills.
    fn changed(inner: &mut Inner, Change { before, after }: Change<Self>) {
        let Some(key) = after.as_ref().or(before.as_ref()).map(|seen| seen.key.clone()) else { return };
        inner.refer(
            &(Controller::Sandbox, key.clone()),
            before.as_ref().map(|seen| &seen.spec.template_ref),
            after.as_ref().map(|seen| &seen.spec.template_ref),
        );
        if after.is_some() {
            inner.reserved.remove(&key);
        }
        let child = |seen: &Arc<Seen<Self>>| {
            let (name, uid) = set_of(&seen.object)?;
            Some((Key::new(&seen.key.namespace, name), Arc::<str>::from(uid), Child::of(seen)))
        };
        let before = before.as_ref().and_then(child);
        let after = after.as_ref().and_then(child);
        let same = match (&before, &after) {
            (Some((_, was_in, was)), Some((_, is_in, is))) => was_in == is_in && !was.differs(is),
            (None, None) => true,
            _ => false,
        };
        if let Some((set, uid, _)) = before {
            let pool = inner.pools.entry(Arc::clone(&uid)).or_default();
            pool.remove(&key);
            if pool.is_empty() {
                inner.pools.remove(&uid);
            }
            if !same {
                inner.mark(Controller::SandboxSet, set);
            }
        }
        if let Some((set, uid, child)) = after {
            inner.pools.entry(uid).or_default().insert(child);
            if !same {
                inner.mark(Controller::SandboxSet, set);
            }
        }
        inner.mark(Controller::Sandbox, key);
    }
}

impl Kept for SandboxSet {
    fn store(inner: &mut Inner) -> &mut Store<Self> {
        &mut inner.sets
    }

    fn peek(inner: &Inner) -> &Store<Self> {
        &inner.sets
    }

    fn changed(inner: &mut Inner, Change { before, after }: Change<Self>) {
        let Some(key) = after.as_ref().or(before.as_ref()).map(|seen| seen.key.clone()) else { return };
        let who = (Controller::SandboxSet, key);
        inner.refer(
            &who,
            before.as_ref().map(|seen| &seen.spec.template_ref),
            after.as_ref().map(|seen| &seen.spec.template_ref),
        );
        if let Some(before) = before
            && after.is_none_or(|after| after.uid != before.uid)
        {
            inner.reserved.retain(|_, reserved| reserved.set != before.uid);
        }
        inner.dirty.insert(who);
    }
}

impl Kept for SandboxTemplate {
    fn store(inner: &mut Inner) -> &mut Store<Self> {
        &mut inner.templates
    }

    fn peek(inner: &Inner) -> &Store<Self> {
        &inner.templates
    }

    /// A template concerns whoever names it, and the set whose revision it is.
    fn changed(inner: &mut Inner, Change { before, after }: Change<Self>) {
        let Some(key) = after.as_ref().or(before.as_ref()).map(|seen| seen.key.clone()) else { return };
        inner.mark_referrers(&key);
        let owner = |seen: &Arc<Seen<Self>>| {
            let owners = seen.metadata.owner_references.as_deref().unwrap_or_default();
            let owner = owners.iter().find(|owner| owner.controller == Some(true))?;
            Some((Key::new(&seen.key.namespace, &owner.name), Arc::<str>::from(owner.uid.as_str())))
        };
        if let Some((set, uid)) = before.as_ref().and_then(owner) {
            forget_one(&mut inner.revisions, &uid, &key);
            inner.mark(Controller::SandboxSet, set);
        }
        if let Some((set, uid)) = after.as_ref().and_then(owner) {
            inner.revisions.entry(uid).or_default().insert(key.clone());
            inner.mark(Controller::SandboxSet, set);
        }
    }
}

impl Kept for PodFacts {
    fn store(inner: &mut Inner) -> &mut Store<Self> {
        &mut inner.pods
    }

    fn peek(inner: &Inner) -> &Store<Self> {
        &inner.pods
    }

    /// A pod concerns the sandbox of its name: whether it is the sandbox's own pod or is in its way.
    fn changed(inner: &mut Inner, Change { before, after }: Change<Self>) {
        if let Some(seen) = after.or(before) {
            inner.mark(Controller::Sandbox, seen.key.clone());
        }
    }
}
