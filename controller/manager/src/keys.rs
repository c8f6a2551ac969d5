//! The API keys: who may use the API.
//!
//! # Where they come from
//! Each key is a Secret of the system namespace, made by `sandgate keys` or by the API
//! ([`sandgate_objects::keys`] says what is in it). The cache watches these Secrets and tells [`KeyStore`] of
//! every change, so a key is good as soon as its Secret is seen here, and is refused from the event that
//! deletes it. A Secret that is no key takes itself out, and the log says why.
//!
//! # How one is looked for
//! By its hash, which an ordered map finds, and which is then compared in constant time. The time taken tells
//! something about the hash of what was presented, which its sender knows anyway, and nothing about a key.
//!
//! # Last use
//! A use is noted in memory. [`LastUse`] writes it into the Secret now and then, and says how often.

mod manage;
#[cfg(test)]
mod tests;
mod used;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use jiff::Timestamp;
use parking_lot::RwLock;
use sandgate_cache::{Change, Clock, Key, SecretFacts, Seen};
use sandgate_objects::keys::{
    ADMIN_TEAM, Digest, KIND, KIND_LABEL, LAST_USED, StoredKey, read_entry, unwrap_sdk_form,
};

pub use manage::{ManagedKeys, NoKeys};
pub use used::LastUse;

use crate::Caller;

/// The keys that are known. Clones are the same store.
#[derive(Clone)]
pub struct KeyStore {
    shared: Arc<Shared>,
}

struct Shared {
    clock: Arc<dyn Clock>,
    /// OpenKruise's Secret, if it is read.
    openkruise: Option<Key>,
    state: RwLock<State>,
}

#[derive(Default)]
struct State {
    /// By hash, and by the Secret: two Secrets may have one hash, and each may be deleted by itself.
    by_digest: BTreeMap<(Digest, Key), Arc<Known>>,
    by_secret: BTreeMap<Key, Vec<Arc<Known>>>,
    /// Secrets that should be keys and are none.
    unreadable: BTreeMap<Key, usize>,
    /// When each key was used, by its ID. It outlives changes of the Secret.
    uses: BTreeMap<Arc<str>, Arc<Use>>,
}

/// A key.
struct Known {
    key: StoredKey,
    caller: Caller,
    secret: Key,
    /// What the Secret says of the last use.
    written: Option<Timestamp>,
    last: Arc<Use>,
    /// The Secret is OpenKruise's: it is read, and never written.
    foreign: bool,
}

/// The last use here, in seconds since 1970; nothing is `i64::MIN`.
struct Use(AtomicI64);

impl Use {
    fn never() -> Self {
        Self(AtomicI64::new(i64::MIN))
    }

    fn note(&self, now: Timestamp) {
        self.0.fetch_max(now.as_second(), Ordering::Relaxed);
    }

    fn get(&self) -> Option<Timestamp> {
        Timestamp::from_second(self.0.load(Ordering::Relaxed)).ok()
    }
}

impl Known {
    /// The last use that is known, here or by the Secret.
    fn last_used(&self) -> Option<Timestamp> {
        self.written.max(self.last.get())
    }
}

impl KeyStore {
    /// A store without keys. With `openkruise` it also takes the keys of that Secret, which is OpenKruise's.
    pub fn new(clock: Arc<dyn Clock>, openkruise: Option<Key>) -> Self {
        Self { shared: Arc::new(Shared { clock, openkruise, state: RwLock::default() }) }
    }

    /// Takes over a change of a Secret. The cache calls it for every one.
    pub fn changed(&self, change: &Change<SecretFacts>) {
        let Some(either) = change.after.as_ref().or(change.before.as_ref()) else { return };
        // A Secret that waits for a finalizer is deleted.
        let after = change.after.as_ref().filter(|seen| !seen.is_deleting);
        let (keys, unreadable) = match after {
            Some(seen) if self.shared.openkruise.as_ref() == Some(&seen.key) => openkruise(seen),
            Some(seen) if is_key(seen) => ours(seen),
            _ => (Vec::new(), 0),
        };
        self.replace(&either.key, after, keys, unreadable);
    }

    fn replace(
        &self,
        secret: &Key,
        seen: Option<&Arc<Seen<SecretFacts>>>,
        keys: Vec<StoredKey>,
        unreadable: usize,
    ) {
        let written = seen.and_then(|seen| seen.annotations.get(LAST_USED)?.parse().ok());
        let foreign = self.shared.openkruise.as_ref() == Some(secret);
        let mut state = self.shared.state.write();
        let State { by_digest, by_secret, unreadable: wrong, uses } = &mut *state;
        let before = by_secret.remove(secret).unwrap_or_default();
        for (digest, _) in before.iter().flat_map(|known| known.key.digests()) {
            by_digest.remove(&(digest, secret.clone()));
        }
        let mut known = Vec::with_capacity(keys.len());
        for key in keys {
            let caller = caller(&key);
            let last = uses.entry(Arc::clone(&caller.owner)).or_insert_with(|| Arc::new(Use::never()));
            let last = Arc::clone(last);
            let secret = secret.clone();
            known.push(Arc::new(Known { key, caller, secret, written, last, foreign }));
        }
        for known in &known {
            let entries =
                known.key.digests().map(|(digest, _)| ((digest, secret.clone()), Arc::clone(known)));
            by_digest.extend(entries);
        }
        for gone in before.iter().filter(|gone| known.iter().all(|now| now.caller.owner != gone.caller.owner))
        {
            uses.remove(&gone.caller.owner);
        }
        if !known.is_empty() {
            by_secret.insert(secret.clone(), known);
        }
        wrong.remove(secret);
        if unreadable > 0 {
            wrong.insert(secret.clone(), unreadable);
        }
    }

    /// Who has this key: as it was made, or in the form in which OpenKruise's users give theirs to the SDK.
    pub fn authenticate(&self, presented: &str) -> Option<Caller> {
        let now = self.shared.clock.now();
        let look = |text: &str| self.find(&Digest::of(text.as_bytes()), now);
        look(presented).or_else(|| look(&unwrap_sdk_form(presented)?))
    }

    fn find(&self, presented: &Digest, now: Timestamp) -> Option<Caller> {
        let state = self.shared.state.read();
        let first = (*presented, Key::new("", ""));
        let with_this = state.by_digest.range(first..).take_while(|((digest, _), _)| digest == presented);
        for (_, known) in with_this {
            let is_good = |(digest, end): (Digest, Option<Timestamp>)| {
                digest.matches(presented) && end.is_none_or(|end| now < end)
            };
            if known.key.digests().any(is_good) {
                known.last.note(now);
                return Some(known.caller.clone());
            }
        }
        None
    }

    /// How many keys there are, and how many Secrets or entries of theirs are none though they should be.
    pub fn counts(&self) -> (usize, usize) {
        let state = self.shared.state.read();
        (state.by_secret.values().map(Vec::len).sum(), state.unreadable.values().sum())
    }

    /// Everything that is known, in the order of the Secrets.
    fn all(&self) -> Vec<Arc<Known>> {
        self.shared.state.read().by_secret.values().flatten().cloned().collect()
    }
}

/// Whether a Secret should be a key.
fn is_key(seen: &Seen<SecretFacts>) -> bool {
    seen.labels.get(KIND_LABEL).is_some_and(|kind| kind == KIND)
}

/// The key of a Secret of ours, and how many it should have been and is not.
fn ours(seen: &Seen<SecretFacts>) -> (Vec<StoredKey>, usize) {
    match StoredKey::read(&seen.key.name, |entry| seen.data.get(entry).map(Vec::as_slice)) {
        Ok(key) => (vec![key], 0),
        Err(error) => {
            tracing::warn!("the Secret {} is no key: {error}", seen.key);
            (Vec::new(), 1)
        }
    }
}

/// The keys of OpenKruise's Secret, and how many of its entries are none.
fn openkruise(seen: &Seen<SecretFacts>) -> (Vec<StoredKey>, usize) {
    let mut keys = Vec::with_capacity(seen.data.len());
    for (id, json) in &seen.data {
        match read_entry(id, json) {
            Ok(key) => keys.push(key),
            Err(error) => tracing::warn!("{id} of the Secret {} is no key: {error}", seen.key),
        }
    }
    let unreadable = seen.data.len() - keys.len();
    (keys, unreadable)
}

fn caller(key: &StoredKey) -> Caller {
    Caller {
        owner: key.meta.id.as_str().into(),
        team: key.meta.team.as_str().into(),
        namespace: key.meta.namespace.as_deref().map(Into::into),
        quota: key.meta.quota.limits.as_slice().into(),
    }
}

/// Whether a caller may do everything with keys.
fn is_admin(caller: &Caller) -> bool {
    *caller.team == *ADMIN_TEAM
}
