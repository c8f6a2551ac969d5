//! Taking back what a create did that did not come to an end.

use std::time::Duration;

use sandgate_cache::request::Only;
use sandgate_cache::{Key, Seen, WriteError};
use sandgate_objects::openkruise::names::LABEL_RESERVED_FAILED;
use sandgate_objects::openkruise::resources::SandboxFacts;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::steps::{One, lock_of};
use super::write::{Order, stamp};
use super::{Prepare, Shared};
use crate::timeouts::after;
use crate::{Caller, Reserve};

/// How long something is tried to be taken back. What is left then ends by its own timeout.
const LONGEST: Duration = Duration::from_secs(10 * 60);

/// What a create has left.
pub(super) enum What {
    /// Nothing but its place in the quota.
    Nothing,
    /// A sandbox.
    Sandbox(One),
    /// A sandbox that this patch may have claimed, or may still claim.
    Unsettled(One, Value),
    /// A sandbox of this name that may have been made.
    Made(Key),
}

/// What has to be taken back, and how.
pub(super) struct Left {
    pub(super) caller: Caller,
    pub(super) lock: String,
    pub(super) reserve: Reserve,
    /// Another create with the same key may take over what is left.
    pub(super) is_shared: bool,
    pub(super) what: What,
}

impl Left {
    /// What an order has left. A create whose caller is gone reserves nothing.
    pub(super) fn of(order: &Order, what: What, is_cancelled: bool) -> Self {
        let reserve = if is_cancelled { Reserve::Never } else { order.wanted.extensions.reserve_failed };
        let is_shared = order.marker.is_some();
        Self { caller: order.caller.clone(), lock: order.lock.clone(), reserve, is_shared, what }
    }
}

impl<P: Prepare> Shared<P> {
    /// Takes it back: tried until it is known.
    pub(super) async fn undo(&self, left: Option<Left>) {
        let Some(Left { caller, lock, reserve, is_shared, what }) = left else { return };
        let until = Instant::now() + LONGEST;
        let seen = match what {
            What::Nothing => None,
            What::Sandbox(seen) => Some(seen),
            What::Unsettled(seen, patch) => match self.settle(&seen, &patch, &lock, true, until).await {
                Ok(given) => given,
                Err(error) => return self.left_behind(&seen.key, &error),
            },
            What::Made(key) => match self.until_known(until, || self.writes.read::<SandboxFacts>(&key)).await
            {
                Ok(shown) => shown.filter(|shown| lock_of(shown) == lock),
                Err(error) => return self.left_behind(&key, &error),
            },
        };
        let Some(seen) = seen else { return self.prepare.release(&caller, &lock).await };
        if reserve == Reserve::Never {
            let lock = &*lock;
            let deleted = if is_shared {
                self.until_known(until, || self.delete_own(&seen, lock)).await
            } else {
                let delete = || self.writes.delete::<SandboxFacts>(&seen, Only::ThisUid);
                self.until_known(until, delete).await.map(|()| true)
            };
            match deleted {
                Ok(true) => {
                    self.writes.observer().undone("deleted");
                    tokio::join!(biased; self.prepare.release(&caller, lock), self.prepare.withdraw(&seen));
                }
                Ok(false) => self.prepare.release(&caller, lock).await,
                Err(error) => self.left_behind(&seen.key, &error),
            }
            return;
        }
        match self.until_known(until, || self.reserve(&seen, &lock, reserve)).await {
            Ok(()) => self.writes.observer().undone("reserved"),
            Err(error) => self.left_behind(&seen.key, &error),
        }
    }

    /// Deletes a sandbox while it has this lock. Returns false if another create has taken it over: then it
    /// is that create's.
    async fn delete_own(&self, seen: &Seen<SandboxFacts>, lock: &str) -> Result<bool, WriteError> {
        let read = self.writes.read::<SandboxFacts>(&seen.key).await?;
        let Some(shown) = read.filter(|shown| shown.uid == seen.uid) else { return Ok(true) };
        if lock_of(&shown) != lock {
            return Ok(false);
        }
        self.writes.delete(&shown, Only::ThisVersion).await.map(|()| true)
    }

    /// Marks a sandbox as failed, for somebody to look at, while it has this lock.
    async fn reserve(
        &self,
        seen: &Seen<SandboxFacts>,
        lock: &str,
        reserve: Reserve,
    ) -> Result<(), WriteError> {
        let ends = match reserve {
            Reserve::For(kept) => Some(stamp(after(self.cache.clock().now(), kept))),
            Reserve::Never | Reserve::Forever => None,
        };
        let Some(shown) = self.writes.read::<SandboxFacts>(&seen.key).await? else { return Ok(()) };
        if shown.uid != seen.uid || lock_of(&shown) != lock {
            return Ok(());
        }
        let patch = json!({
            "metadata": { "uid": &*seen.uid, "labels": { LABEL_RESERVED_FAILED: "true" } },
            "spec": { "shutdownTime": ends, "pauseTime": null },
        });
        self.writes.patch(&shown, patch).await.map(drop)
    }

    fn left_behind(&self, key: &Key, error: &WriteError) {
        self.writes.observer().undone("left");
        tracing::error!(sandbox = %key, %error, "a create that failed may have left a sandbox");
    }

    /// Tries until there is an answer that says what became of it.
    pub(super) async fn until_known<T, F>(
        &self,
        until: Instant,
        mut attempt: impl FnMut() -> F,
    ) -> Result<T, WriteError>
    where
        F: Future<Output = Result<T, WriteError>>,
    {
        let mut tries = 0;
        loop {
            match attempt().await {
                Ok(done) => return Ok(done),
                Err(error @ (WriteError::Refused { .. } | WriteError::NotLeading)) => return Err(error),
                Err(error) if Instant::now() >= until => return Err(error),
                Err(_) => self.pause(&mut tries).await,
            }
        }
    }
}
