//! Objects that end at a time written in the object, without an event.
//!
//! There is at most one entry for each object. An event or a list replaces or removes it, and a complete list
//! removes the entries of the objects that it does not name. So there are never more entries than live
//! objects.
//!
//! The times are wall-clock times. The clock can be set while the gateway runs, so it is read at least every
//! second. An object that is due is expired at exactly the version that named the time: the table ignores the
//! expiry if it knows a newer version.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;
use sandgate_routes::{ObjectKey, RouteWriter, Version};
use tokio::sync::Notify;
use tokio::time::timeout;

/// The longest time between two readings of the clock.
const CLOCK_CHECK: Duration = Duration::from_secs(1);

#[derive(Default)]
pub(super) struct Deadlines {
    inner: Mutex<Inner>,
    /// Notified when an entry becomes the first that is due.
    changed: Notify,
}

#[derive(Default)]
struct Inner {
    by_time: BTreeMap<(SystemTime, u64), Entry>,
    by_key: HashMap<Arc<ObjectKey>, (SystemTime, u64)>,
    numbered: u64,
}

struct Entry {
    key: Arc<ObjectKey>,
    version: Version,
    scope: usize,
    list: u64,
}

impl Deadlines {
    /// Expires the object at `at`, unless an event or a list replaces the entry. `scope` and `list` are the
    /// number of the scope that saw the object and of its latest list.
    pub(super) fn set(&self, key: &ObjectKey, version: Version, at: SystemTime, scope: usize, list: u64) {
        let mut inner = self.inner.lock();
        inner.remove(key);
        let key = Arc::new(key.clone());
        inner.numbered += 1;
        let place = (at, inner.numbered);
        inner.by_key.insert(Arc::clone(&key), place);
        inner.by_time.insert(place, Entry { key, version, scope, list });
        if inner.by_time.first_key_value().is_some_and(|(first, _)| *first == place) {
            self.changed.notify_one();
        }
    }

    /// Removes the entry of an object that has no end, or that is gone.
    pub(super) fn clear(&self, key: &ObjectKey) {
        let mut inner = self.inner.lock();
        // In most clusters no object has an end: then the key is not even hashed.
        if !inner.by_key.is_empty() {
            inner.remove(key);
        }
    }

    /// Removes the entries of a scope that are older than its list number `list`: that complete list did not
    /// name their objects.
    pub(super) fn keep_listed(&self, scope: usize, list: u64) {
        let mut inner = self.inner.lock();
        let Inner { by_time, by_key, .. } = &mut *inner;
        by_time.retain(|_, entry| {
            let keep = entry.scope != scope || entry.list >= list;
            if !keep {
                by_key.remove(&entry.key);
            }
            keep
        });
    }

    /// Expires the objects that are due. Runs until it is dropped.
    pub(super) async fn run(&self, writer: &RouteWriter) {
        loop {
            let now = SystemTime::now();
            while let Some((key, version)) = self.take_due(now) {
                let outcome = writer.expire(&key, &version);
                tracing::debug!("{key} is due at version {version}: {outcome:?}");
            }
            let wait = self
                .next()
                .map_or(CLOCK_CHECK, |at| at.duration_since(now).unwrap_or_default().min(CLOCK_CHECK));
            // Either way the next step is to look what is due.
            let _ = timeout(wait, self.changed.notified()).await;
        }
    }

    fn next(&self) -> Option<SystemTime> {
        self.inner.lock().by_time.first_key_value().map(|((at, _), _)| *at)
    }

    fn take_due(&self, now: SystemTime) -> Option<(Arc<ObjectKey>, Version)> {
        let mut inner = self.inner.lock();
        let first = inner.by_time.first_entry().filter(|first| first.key().0 <= now)?;
        let entry = first.remove();
        inner.by_key.remove(&entry.key);
        Some((entry.key, entry.version))
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.inner.lock().by_key.len()
    }
}

impl Inner {
    fn remove(&mut self, key: &ObjectKey) {
        if let Some(place) = self.by_key.remove(key) {
            self.by_time.remove(&place);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> ObjectKey {
        ObjectKey::new("p", "n", name).unwrap()
    }

    fn at(seconds: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
    }

    fn version(text: &str) -> Version {
        text.parse().unwrap()
    }

    fn due(deadlines: &Deadlines, now: u64) -> Vec<String> {
        std::iter::from_fn(|| deadlines.take_due(at(now)))
            .map(|(key, version)| format!("{}@{version}", key.name()))
            .collect()
    }

    #[test]
    fn what_is_due_comes_in_its_order_and_once() {
        let deadlines = Deadlines::default();
        deadlines.set(&key("b"), version("2"), at(20), 0, 1);
        deadlines.set(&key("a"), version("1"), at(10), 0, 1);
        deadlines.set(&key("c"), version("3"), at(30), 0, 1);
        assert_eq!(due(&deadlines, 9), [""; 0]);
        assert_eq!(due(&deadlines, 25), ["a@1", "b@2"]);
        assert_eq!(due(&deadlines, 25), [""; 0]);
        assert_eq!(deadlines.next(), Some(at(30)));
    }

    #[test]
    fn an_object_has_one_entry_and_the_last_one_counts() {
        let deadlines = Deadlines::default();
        deadlines.set(&key("a"), version("1"), at(10), 0, 1);
        deadlines.set(&key("a"), version("2"), at(40), 0, 1);
        assert_eq!(deadlines.len(), 1);
        assert_eq!(due(&deadlines, 39), [""; 0]);
        deadlines.clear(&key("a"));
        assert_eq!(due(&deadlines, 50), [""; 0]);
        assert_eq!(deadlines.len(), 0);
    }

    #[test]
    fn a_list_drops_what_it_did_not_name_and_nothing_of_others() {
        let deadlines = Deadlines::default();
        deadlines.set(&key("gone"), version("1"), at(10), 0, 1);
        deadlines.set(&key("kept"), version("1"), at(10), 0, 2);
        deadlines.set(&key("other"), version("1"), at(10), 1, 1);
        deadlines.keep_listed(0, 2);
        assert_eq!(due(&deadlines, 10), ["kept@1", "other@1"]);
    }
}
