//! Writes when keys were used, now and then.

use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use sandgate_cache::{Cache, Random, SecretFacts, WriteError};
use sandgate_objects::keys::LAST_USED;
use serde_json::json;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::{KeyStore, Known};
use crate::Writes;

/// A Secret says a use that is at most so old, plus the pause between two looks.
const EVERY: SignedDuration = SignedDuration::from_mins(10);
/// The pause between two looks is a random time of these: replicas do not write at the same moment.
const LOOK: (Duration, Duration) = (Duration::from_secs(20), Duration::from_secs(40));
/// No look writes more than so many: the rest waits for the next one.
const AT_ONCE: usize = 50;

/// Writes the last use of each key into its Secret: at most every ten minutes for each key, over all replicas
/// together. A write depends on the version that was seen, so of two replicas one writes, and the other sees
/// it. A write that fails is left to the next look.
pub struct LastUse {
    store: KeyStore,
    cache: Cache,
    writes: Writes,
    random: Random,
}

impl LastUse {
    /// For the keys of this store.
    pub fn new(store: KeyStore, cache: Cache, writes: Writes, random: Random) -> Self {
        Self { store, cache, writes, random }
    }

    /// Runs until `stop`.
    pub async fn run(mut self, stop: CancellationToken) {
        loop {
            let pause = self.random.between(LOOK.0, LOOK.1);
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                () = sleep(pause) => {}
            }
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                () = self.write_due() => {}
            }
        }
    }

    /// Writes what is due.
    pub(super) async fn write_due(&self) {
        let now = self.store.shared.clock.now();
        for (known, used) in due(&self.store, now).into_iter().take(AT_ONCE) {
            let Some(seen) = self.cache.get::<SecretFacts>(&known.secret) else { continue };
            let patch = json!({ "metadata": { "annotations": { LAST_USED: used.to_string() } } });
            match self.writes.patch(&seen, patch).await {
                Ok(_) => {}
                Err(WriteError::Conflict(_) | WriteError::NotFound(_)) => {}
                Err(error) => {
                    tracing::warn!("the last use of the key {} was not written: {error}", known.caller.owner);
                    // What is wrong with one is wrong with all.
                    return;
                }
            }
        }
    }
}

/// The keys whose Secret says too old a use, and the use that it should say.
pub(super) fn due(store: &KeyStore, now: Timestamp) -> Vec<(Arc<Known>, Timestamp)> {
    let mut due = Vec::new();
    for known in store.all() {
        let Some(used) = known.last.get().filter(|_| !known.foreign) else { continue };
        let is_due = match known.written {
            None => true,
            Some(written) => used > written && now.duration_since(written) >= EVERY,
        };
        if is_due {
            due.push((known, used));
        }
    }
    due
}
