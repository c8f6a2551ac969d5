//! What the reconciler remembers between two looks at an environment. All of it can be lost.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use sandgate_routes::Version;

use crate::Key;

/// For how long it is believed whether a pull secret exists.
const BELIEVED: SignedDuration = SignedDuration::from_mins(5);

/// The versions of everything that a look read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Read {
    pub(super) env: Option<(Arc<str>, Version)>,
    pub(super) template: Option<(Arc<str>, Version)>,
    pub(super) pools: Vec<(Key, Arc<str>, Version)>,
    pub(super) known: Option<BTreeSet<String>>,
}

/// Whether a pull secret exists.
#[derive(Clone, Debug)]
struct Secret {
    /// None if the API server did not let us know.
    exists: Option<bool>,
    generation: Option<i64>,
    until: Timestamp,
}

#[derive(Default)]
struct Of {
    /// The UID of the environment.
    uid: Option<Arc<str>>,
    secret: Option<Secret>,
    /// The warnings of the last look.
    warned: BTreeSet<String>,
    /// What was read when nothing was to do, and until when that holds.
    quiet: Option<(Read, Option<Timestamp>)>,
}

/// Of each environment.
#[derive(Default)]
pub(super) struct Memory(Mutex<BTreeMap<Key, Of>>);

impl Memory {
    /// Of another environment of the same name nothing is remembered.
    fn of<R>(&self, key: &Key, uid: &Arc<str>, change: impl FnOnce(&mut Of) -> R) -> R {
        let mut all = self.0.lock();
        let of = all.entry(key.clone()).or_default();
        if of.uid.as_ref() != Some(uid) {
            *of = Of { uid: Some(Arc::clone(uid)), ..Of::default() };
        }
        change(of)
    }

    pub(super) fn forget(&self, key: &Key) {
        self.0.lock().remove(key);
    }

    /// Whether the pull secret exists, if that was looked up for this generation not long ago.
    pub(super) fn secret(
        &self,
        key: &Key,
        uid: &Arc<str>,
        generation: Option<i64>,
        now: Timestamp,
    ) -> Option<Option<bool>> {
        self.of(key, uid, |of| {
            let secret = of.secret.as_ref()?;
            (secret.generation == generation && now < secret.until).then_some(secret.exists)
        })
    }

    pub(super) fn looked_up(
        &self,
        key: &Key,
        uid: &Arc<str>,
        generation: Option<i64>,
        exists: Option<bool>,
        now: Timestamp,
    ) {
        let until = now.checked_add(BELIEVED).unwrap_or(now);
        self.of(key, uid, |of| of.secret = Some(Secret { exists, generation, until }));
    }

    /// The warnings that the last look did not have.
    pub(super) fn new_warnings(&self, key: &Key, uid: &Arc<str>, warnings: BTreeSet<String>) -> Vec<String> {
        self.of(key, uid, |of| {
            let new = warnings.difference(&of.warned).cloned().collect();
            of.warned = warnings;
            new
        })
    }

    /// Nothing was to do with what was read. That holds until this time, or as long as what was looked up is
    /// believed.
    pub(super) fn is_quiet_now(&self, key: &Key, uid: &Arc<str>, read: Read, until: Option<Timestamp>) {
        self.of(key, uid, |of| {
            let secret = of.secret.as_ref().map(|secret| secret.until);
            of.quiet = Some((read, until.into_iter().chain(secret).min()));
        });
    }

    /// Whether nothing is to do, because nothing was and nothing has changed.
    pub(super) fn is_quiet(&self, key: &Key, uid: &Arc<str>, read: &Read, now: Timestamp) -> bool {
        self.of(key, uid, |of| {
            let holds = |(known, until): &(Read, Option<Timestamp>)| {
                known == read && until.is_none_or(|until| now < until)
            };
            of.quiet.as_ref().is_some_and(holds)
        })
    }
}
