//! The objects of one kind: the newest version of each, and what is known to be gone.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Deref;
use std::sync::Arc;

use sandgate_routes::Version;

use crate::Key;

/// An object as it was at one version. It never changes; whoever wants to write clones what it needs.
#[derive(Clone, Debug)]
pub struct Seen<T> {
    /// Namespace and name.
    pub key: Key,
    /// Which object of that name it is.
    pub uid: Arc<str>,
    /// The version.
    pub version: Version,
    /// The object.
    pub object: T,
}

impl<T> Deref for Seen<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.object
    }
}

/// What one observation changed. Both sides are the same key; at least one is there.
#[derive(Debug)]
pub struct Change<T> {
    /// As it was; none if it is new.
    pub before: Option<Arc<Seen<T>>>,
    /// As it is; none if it is gone.
    pub after: Option<Arc<Seen<T>>>,
}

/// Who says that an object is as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The list or the watch. It shows everything, in the order of the versions.
    Watch,
    /// The answer to a write or to a live read. It may arrive before or after the watch shows the same.
    Answer,
}

/// The objects of one kind.
///
/// # Order
/// - Of two versions of one object the newer stays, whoever brings it.
/// - An object that the store does not have, brought by an answer, is new only if its version is above what
///   the watch has reached. Otherwise the watch has shown it before, and has shown its end.
/// - An object that this process deleted leaves its UID behind. Until the watch shows the end too, nothing
///   that the watch says of that UID brings it back.
#[derive(Debug)]
pub struct Store<T> {
    live: BTreeMap<Key, Arc<Seen<T>>>,
    /// The same, for reads by key. It is never walked.
    by_key: HashMap<Key, Arc<Seen<T>>, foldhash::fast::RandomState>,
    /// The UIDs that are gone though the watch has not shown it, and during which list they went.
    gone: BTreeMap<Arc<str>, u64>,
    /// How many lists have begun.
    lists: u64,
    /// While a list is read: what was named since it began.
    named: Option<BTreeSet<Key>>,
    reached: Option<Version>,
    complete: bool,
}

impl<T> Default for Store<T> {
    fn default() -> Self {
        Self {
            live: BTreeMap::new(),
            by_key: HashMap::default(),
            gone: BTreeMap::new(),
            lists: 0,
            named: None,
            reached: None,
            complete: false,
        }
    }
}

impl<T> Store<T> {
    /// The object of this name.
    pub fn get(&self, key: &Key) -> Option<&Arc<Seen<T>>> {
        self.by_key.get(key)
    }

    /// How many objects there are.
    pub fn len(&self) -> usize {
        self.live.len()
    }

    /// Whether there is no object.
    pub fn is_empty(&self) -> bool {
        self.live.is_empty()
    }

    /// Every object, in the order of the keys.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Seen<T>>> {
        self.live.values()
    }

    /// The objects of a namespace, or all, in the order of the keys.
    pub fn within<'a>(&'a self, namespace: Option<&'a str>) -> impl Iterator<Item = &'a Arc<Seen<T>>> {
        // The empty name comes before every name.
        let first = Key::new(namespace.unwrap_or_default(), "");
        let is_within = move |key: &Key| namespace.is_none_or(|namespace| *key.namespace == *namespace);
        self.live.range(first..).take_while(move |(key, _)| is_within(key)).map(|(_, seen)| seen)
    }

    /// Whether a complete list was ever read.
    pub fn is_complete(&self) -> bool {
        self.complete
    }

    /// Takes an object in, unless something newer is known.
    pub fn offer(&mut self, seen: Arc<Seen<T>>, source: Source) -> Option<Change<T>> {
        if source == Source::Watch
            && let Some(named) = &mut self.named
        {
            named.insert(seen.key.clone());
        }
        if self.gone.contains_key(&seen.uid) {
            return None;
        }
        let before = self.live.get(&seen.key);
        let is_news = match before {
            Some(known) => known.version < seen.version,
            None => source == Source::Watch || self.reached.as_ref().is_none_or(|at| *at < seen.version),
        };
        if !is_news {
            return None;
        }
        let before = before.map(Arc::clone);
        self.live.insert(seen.key.clone(), Arc::clone(&seen));
        self.by_key.insert(seen.key.clone(), Arc::clone(&seen));
        Some(Change { before, after: Some(seen) })
    }

    /// The watch shows that the object ended. Without a UID or a version it was just seen to go.
    pub fn ended(&mut self, key: &Key, uid: Option<&str>, version: Option<&Version>) -> Option<Change<T>> {
        if let Some(uid) = uid {
            self.gone.remove(uid);
        }
        let known = self.live.get(key)?;
        let is_other = uid.is_some_and(|uid| uid != &*known.uid);
        if is_other || version.is_some_and(|version| *version < known.version) {
            return None;
        }
        let before = self.remove(key);
        Some(Change { before, after: None })
    }

    /// The answer to a delete, or to a live read that found nothing, says that this UID is gone.
    pub fn forget(&mut self, key: &Key, uid: &Arc<str>) -> Option<Change<T>> {
        if self.live.get(key).is_none_or(|known| known.uid != *uid) {
            return None;
        }
        self.gone.insert(Arc::clone(uid), self.lists);
        let before = self.remove(key);
        Some(Change { before, after: None })
    }

    fn remove(&mut self, key: &Key) -> Option<Arc<Seen<T>>> {
        self.by_key.remove(key);
        self.live.remove(key)
    }

    /// A list begins.
    pub fn begin(&mut self) {
        self.lists += 1;
        self.named = Some(BTreeSet::new());
    }

    /// The list failed: it says nothing of what it did not name.
    pub fn abandon(&mut self) {
        self.named = None;
    }

    /// Everything up to this version has been shown.
    pub fn reached(&mut self, version: &Version) {
        if self.reached.as_ref().is_none_or(|at| at < version) {
            self.reached = Some(version.clone());
        }
    }

    /// For feeds that never begin a list: everything up to this version has been shown.
    pub fn complete_at(&mut self, version: &Version) {
        self.complete = true;
        self.reached(version);
    }

    /// The list is complete: what it did not name, and what is not newer than it, is gone.
    pub fn commit(&mut self, version: &Version) -> Vec<Change<T>> {
        self.complete = true;
        self.reached(version);
        let named = self.named.take().unwrap_or_default();
        // A list that began after the delete does not have the object: there is nothing left to hide.
        let lists = self.lists;
        self.gone.retain(|_, at| *at >= lists);
        let missing = |seen: &Seen<T>| seen.version <= *version && !named.contains(&seen.key);
        self.take(missing)
    }

    /// The server's versions went back: whatever is newer is lost time.
    pub fn rewind(&mut self, version: &Version) -> Vec<Change<T>> {
        self.reached = Some(version.clone());
        self.gone.clear();
        self.take(|seen| seen.version > *version)
    }

    /// Forgets everything, as a new store would have it.
    pub fn clear(&mut self) -> Vec<Change<T>> {
        let changes = self.take(|_| true);
        *self = Self::default();
        changes
    }

    fn take(&mut self, which: impl Fn(&Seen<T>) -> bool) -> Vec<Change<T>> {
        let taken = self.live.extract_if(.., |_, seen| which(seen));
        let taken: Vec<_> = taken.map(|(_, seen)| Change { before: Some(seen), after: None }).collect();
        for seen in taken.iter().filter_map(|change| change.before.as_ref()) {
            self.by_key.remove(&seen.key);
        }
        taken
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU64;

    use super::*;

    fn version(number: u64) -> Version {
        NonZeroU64::new(number).unwrap().into()
    }

    fn named(name: &str, uid: &str, at: u64) -> Arc<Seen<u64>> {
        Arc::new(Seen { key: Key::new("a", name), uid: uid.into(), version: version(at), object: at })
    }

    fn seen(uid: &str, at: u64) -> Arc<Seen<u64>> {
        named("x", uid, at)
    }

    fn shown(store: &Store<u64>) -> Option<(&str, u64)> {
        store.get(&Key::new("a", "x")).map(|seen| (&*seen.uid, seen.object))
    }

    #[test]
    fn an_older_or_equal_version_changes_nothing_whoever_brings_it() {
        let mut store = Store::default();
        assert!(store.offer(seen("u", 5), Source::Answer).is_some());
        for source in [Source::Watch, Source::Answer] {
            assert!(store.offer(seen("u", 5), source).is_none());
            assert!(store.offer(seen("u", 4), source).is_none());
        }
        assert!(store.offer(seen("u", 6), Source::Watch).is_some());
        assert_eq!(shown(&store), Some(("u", 6)));
    }

    #[test]
    fn a_late_answer_does_not_bring_back_what_the_watch_has_ended() {
        let mut store = Store::default();
        store.offer(seen("u", 5), Source::Watch);
        store.ended(&Key::new("a", "x"), Some("u"), Some(&version(9)));
        store.reached(&version(9));
        assert!(store.offer(seen("u", 7), Source::Answer).is_none());
        assert_eq!(shown(&store), None);
        assert!(store.offer(seen("v", 10), Source::Answer).is_some(), "a later object of the name is news");
    }

    #[test]
    fn a_deleted_object_stays_gone_until_the_watch_has_shown_its_end() {
        let mut store = Store::default();
        store.offer(seen("u", 5), Source::Watch);
        assert!(store.forget(&Key::new("a", "x"), &"u".into()).is_some());
        assert!(store.offer(seen("u", 6), Source::Watch).is_none());
        assert!(store.offer(seen("v", 8), Source::Watch).is_some(), "another object of the name");
        store.ended(&Key::new("a", "x"), Some("u"), Some(&version(7)));
        assert_eq!(shown(&store), Some(("v", 8)));
        assert!(store.gone.is_empty());
    }

    #[test]
    fn a_complete_list_ends_what_it_did_not_name_but_nothing_newer() {
        let mut store = Store::default();
        store.offer(seen("u", 5), Source::Watch);
        store.offer(named("y", "w", 12), Source::Answer);
        store.begin();
        assert_eq!(store.commit(&version(10)).len(), 1);
        assert_eq!(shown(&store), None);
        assert_eq!(store.len(), 1, "what was written after the list stays");
        assert!(store.is_complete());
    }

    #[test]
    fn a_list_that_was_abandoned_ends_nothing() {
        let mut store = Store::default();
        store.offer(seen("u", 5), Source::Watch);
        store.begin();
        store.abandon();
        assert_eq!(shown(&store), Some(("u", 5)));
        assert!(!store.is_complete());
    }

    #[test]
    fn what_comes_and_goes_between_lists_leaves_nothing_behind() {
        let mut store = Store::default();
        store.begin();
        store.offer(named("kept", "k", 1), Source::Watch);
        store.commit(&version(1));
        for number in 2..100 {
            store.offer(named(&format!("x{number}"), "u", number), Source::Watch);
            store.ended(&Key::new("a", &format!("x{number}")), Some("u"), Some(&version(number)));
        }
        assert_eq!((store.len(), store.gone.len()), (1, 0));
        assert!(store.named.is_none());
    }

    #[test]
    fn a_tombstone_ends_with_a_list_that_began_after_it() {
        let mut store = Store::default();
        store.offer(seen("u", 5), Source::Watch);
        store.begin();
        store.offer(seen("u", 5), Source::Watch);
        store.forget(&Key::new("a", "x"), &"u".into());
        store.commit(&version(6));
        assert!(store.offer(seen("u", 6), Source::Watch).is_none(), "that list began before the delete");
        store.begin();
        store.commit(&version(8));
        assert!(store.gone.is_empty());
    }

    #[test]
    fn a_rewind_drops_what_is_newer_and_takes_older_versions_again() {
        let mut store = Store::default();
        store.offer(seen("u", 50), Source::Watch);
        assert_eq!(store.rewind(&version(10)).len(), 1);
        assert!(store.offer(seen("u", 8), Source::Watch).is_some());
    }
}
