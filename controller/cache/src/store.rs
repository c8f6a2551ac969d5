//! The objects of one kind: the newest version of each, and what is known to be gone.

#[cfg(test)]
mod tests;

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
/// - An object that left what is followed, by a write of this process or in the middle of a list, leaves its
///   UID and its version behind. Nothing up to that version brings it back.
#[derive(Debug)]
pub struct Store<T> {
    live: BTreeMap<Key, Arc<Seen<T>>>,
    /// The same, for reads by key. It is never walked.
    by_key: HashMap<Key, Arc<Seen<T>>, foldhash::fast::RandomState>,
    /// The UIDs that are gone though the watch has not come so far.
    gone: BTreeMap<Arc<str>, Gone>,
    /// How many lists have begun.
    lists: u64,
    /// While a list is read: what was named since it began.
    named: Option<BTreeSet<Key>>,
    reached: Option<Version>,
    complete: bool,
}

/// How an object went.
#[derive(Debug)]
struct Gone {
    /// Its newest version that is known.
    version: Version,
    /// Whether a newer version brings it back: it has left what is followed, and may exist.
    returns: bool,
    /// How many lists had begun.
    lists: u64,
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

    /// The version up to which the watch has shown everything.
    pub fn shown_up_to(&self) -> Option<&Version> {
        self.reached.as_ref()
    }

    /// Takes an object in, unless something newer is known.
    pub fn offer(&mut self, seen: Arc<Seen<T>>, source: Source) -> Option<Change<T>> {
        if source == Source::Watch
            && let Some(named) = &mut self.named
        {
            named.insert(seen.key.clone());
        }
        if let Some(gone) = self.gone.get(&seen.uid) {
            if !gone.returns || seen.version <= gone.version {
                return None;
            }
            self.gone.remove(&seen.uid);
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
            // An older end is not the one that is waited for: the object had come back since.
            let is_shown = |gone: &Gone| version.is_none_or(|version| gone.version <= *version);
            if self.gone.get(uid).is_some_and(is_shown) {
                self.gone.remove(uid);
            }
        }
        if let Some(named) = &mut self.named {
            // The list takes back that it named the object. How far the watch has come is known when the list
            // is complete; until then the UID has to refuse an answer that is older than the end.
            named.remove(key);
            if let (Some(uid), Some(version)) = (uid, version) {
                let gone = Gone { version: version.clone(), returns: true, lists: self.lists };
                self.gone.entry(uid.into()).or_insert(gone);
            }
        } else if let Some(version) = version {
            self.reached(version);
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
        let known = self.live.get(key).filter(|known| known.uid == *uid)?;
        let gone = Gone { version: known.version.clone(), returns: false, lists: self.lists };
        self.gone.insert(Arc::clone(uid), gone);
        let before = self.remove(key);
        Some(Change { before, after: None })
    }

    /// The answer to a write, or to a live read, says that this UID is not what is followed any more, at this
    /// version. If the store has an older one, that goes.
    pub fn left(&mut self, key: &Key, uid: &Arc<str>, version: &Version) -> Option<Change<T>> {
        self.live.get(key).filter(|known| known.uid == *uid && known.version < *version)?;
        let gone = Gone { version: version.clone(), returns: true, lists: self.lists };
        self.gone.insert(Arc::clone(uid), gone);
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
        // Up to here the watch has shown what has left. What was deleted is not in a list that was asked for
        // after the delete: not in the first that began after it, which may have been asked for before, but
        // in the next.
        let lists = self.lists;
        self.gone
            .retain(|_, gone| if gone.returns { gone.version > *version } else { gone.lists + 1 >= lists });
        let missing = |seen: &Seen<T>| seen.version <= *version && !named.contains(&seen.key);
        self.take(missing)
    }

    /// The server's versions went back: whatever is newer is lost time.
    pub fn rewind(&mut self, version: &Version) -> Vec<Change<T>> {
        self.reached = Some(version.clone());
        self.gone.clear();
        self.take(|seen| seen.version > *version)
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
