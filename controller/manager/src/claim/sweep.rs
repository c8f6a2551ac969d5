//! What crashes leave behind, and when it goes.
//!
//! - A sandbox that was claimed for a marker which has another sandbox, or the lock of another create, is
//!   nobody's: its create died, and the key was taken over. It is deleted once it is older than any create.
//!   It has to be the very marker: a sandbox that was given out outlives its marker, and the key may be used
//!   again.
//! - A marker that stays open for long is turned to failed: then the rule above is about its sandbox.
//! - A marker is deleted when its key need not be known any more.

#[cfg(test)]
mod tests;

use std::time::Duration;

use jiff::Timestamp;
use sandgate_cache::request::Only;
use sandgate_cache::{ConfigMapFacts, Seen, WriteError};
use sandgate_objects::openkruise::names::{ANNOTATION_CLAIM_TIMESTAMP, LABEL_RESERVED_FAILED};
use sandgate_objects::openkruise::resources::SandboxFacts;

use super::idempotency::{self, Marker, State};
use super::steps::{lock_of, unavailable};
use super::{Prepare, Shared};
use crate::Error;
use crate::names::{KIND_CREATE, LABEL_CREATE, LABEL_CREATE_UID, LABEL_KIND};

/// How many objects one answer of the API server has.
const PAGE: u32 = 500;

/// What one sweep removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    /// Markers that were open for too long.
    pub abandoned: usize,
    /// Markers whose time was over.
    pub markers: usize,
    /// Sandboxes that were nobody's.
    pub sandboxes: usize,
}

/// What a sweep does with a marker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Stays,
    Fails,
    Goes,
}

impl<P: Prepare> Shared<P> {
    pub(super) async fn sweep(&self) -> Result<Swept, Error> {
        let mut swept = Swept::default();
        let namespace = &*self.settings.system_namespace;
        let selector = format!("{LABEL_KIND}={KIND_CREATE}");
        let markers = self.writes.list_all::<ConfigMapFacts>(Some(namespace), &selector, PAGE);
        for seen in markers.await.map_err(unavailable)? {
            let Ok(marker) = Marker::read(seen) else { continue };
            let now = self.cache.clock().now();
            match fate(&marker, now, self.settings.abandoned, self.settings.keep_markers) {
                Fate::Stays => {}
                Fate::Fails => {
                    let failed = idempotency::closed(&State::Failed);
                    swept.abandoned += usize::from(self.writes.patch(&marker.seen, failed).await.is_ok());
                }
                Fate::Goes => {
                    let deleted = self.writes.delete(&marker.seen, Only::ThisVersion).await;
                    swept.markers += usize::from(deleted.is_ok());
                }
            }
        }
        for seen in self.cache.sandboxes(None, None) {
            let Some(name) = create_of(&seen) else { continue };
            if self.is_nobodys(&seen, name).await.map_err(unavailable)? {
                tracing::warn!(sandbox = %seen.key, "deleting a sandbox that was claimed and never given out");
                let deleted = self.writes.delete(&seen, Only::ThisUid).await;
                swept.sandboxes += usize::from(deleted.is_ok());
            }
        }
        Ok(swept)
    }

    async fn is_nobodys(&self, seen: &Seen<SandboxFacts>, name: &str) -> Result<bool, WriteError> {
        let now = self.cache.clock().now();
        let oldest = self.settings.claim_timeout + self.settings.ready_timeout * 4;
        if !claimed_at(seen).is_some_and(|at| is_older(at, now, oldest)) {
            return Ok(false);
        }
        let key = idempotency::key(&self.settings.system_namespace, name);
        // What the cache shows decides nothing, but it spares the questions: a sandbox may outlive its marker
        // by far, and few have a marker that is another's.
        let known = self.cache.get::<ConfigMapFacts>(&key).map(Marker::read);
        if !matches!(&known, Some(Ok(marker)) if is_anothers(marker, seen)) {
            return Ok(false);
        }
        let Some(read) = self.writes.read::<ConfigMapFacts>(&key).await? else { return Ok(false) };
        Ok(Marker::read(read).is_ok_and(|marker| is_anothers(&marker, seen)))
    }
}

/// Whether the sandbox was claimed for this marker, and the marker is for another one now.
fn is_anothers(marker: &Marker, seen: &Seen<SandboxFacts>) -> bool {
    if *marker.seen.uid != *seen.label(LABEL_CREATE_UID) {
        return false;
    }
    match &marker.state {
        State::Done(reference) => reference.uid != seen.uid,
        State::Failed => true,
        State::Open => marker.lock != lock_of(seen),
    }
}

fn fate(marker: &Marker, now: Timestamp, abandoned: Duration, keep: Duration) -> Fate {
    match marker.state {
        State::Open if is_older(marker.at, now, abandoned) => Fate::Fails,
        State::Open => Fate::Stays,
        State::Done(_) | State::Failed if is_older(marker.at, now, keep) => Fate::Goes,
        State::Done(_) | State::Failed => Fate::Stays,
    }
}

fn is_older(at: Timestamp, now: Timestamp, than: Duration) -> bool {
    Duration::try_from(now.duration_since(at)).is_ok_and(|age| age > than)
}

/// The marker that the sandbox was claimed for, unless somebody keeps it.
fn create_of(seen: &SandboxFacts) -> Option<&str> {
    let is_kept = seen.is_deleting || seen.labels.has(LABEL_RESERVED_FAILED);
    seen.labels.get(LABEL_CREATE).filter(|_| !is_kept)
}

fn claimed_at(seen: &SandboxFacts) -> Option<Timestamp> {
    seen.annotations.get(ANNOTATION_CLAIM_TIMESTAMP)?.parse().ok()
}
