//! One `Idempotency-Key`, one sandbox: across retries, replicas and crashes.
//!
//! Each key has a marker, a ConfigMap in the system namespace that is named by the owner and the key. It is
//! `open` with the lock of the create that works for it, then `done` with the sandbox, or `failed`.
//! 1. A create makes the marker, or finds one. It fails with 409 if the marker is of another request.
//! 2. It claims a sandbox with the marker's lock, and with a label that names the marker.
//! 3. It makes the sandbox ready, then turns the marker from `open` to `done`. This conditional write
//!    decides: whoever loses it deletes its own sandbox and answers with the winner's.
//! 4. A create that fails turns the marker to `failed` before it deletes its sandbox. If somebody else has
//!    turned it to `done` with that sandbox, the sandbox stays.
//!
//! A create renews its marker from time to time, so that a slow one is not taken for dead. A retry that finds
//! an `open` marker waits for its end. A marker that the retry has seen unchanged for a lease, by its own
//! clock, is of a creator that has died: the retry looks for a sandbox with the marker's UID and lock, and
//! goes on with it at step 3; if there is none, it puts a lock of its own into the marker and goes on at step
//! 2. Should the creator live, it learns so when it renews the marker, and claims nothing; or it loses the
//! write of step 3. What it leaves if it dies has a lock that no marker has: the [sweep](super::sweep)
//! deletes it.
//!
//! The sandboxes of a marker have its UID. After a day the marker goes, and the key may be used again: what
//! has the UID of a marker that is gone is its owner's, whatever becomes of the next marker of this name.

mod lease;
pub(crate) mod marker;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use sandgate_cache::{Action, Check, ConfigMapFacts, Seen, WriteError};
use sandgate_objects::openkruise::names::LABEL_RESERVED_FAILED;
use sandgate_objects::openkruise::resources::SandboxFacts;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use lease::Watched;
pub(super) use marker::{Marker, Reference, State, closed, key};
use marker::{name_of, request_hash};

use super::make::Source;
use super::steps::{Ended, Failed, How, One, is_given, unavailable};
use super::undo::{Left, What};
use super::write::Order;
use super::{Prepare, Shared};
use crate::names::LABEL_CREATE_UID;
use crate::{Caller, Error, ErrorKind, NewSandbox};

/// One create at a time for each key in this process: the second waits for the first.
#[derive(Default)]
pub(super) struct Turns(Mutex<BTreeMap<String, Arc<tokio::sync::Mutex<()>>>>);

impl Turns {
    fn of(&self, name: &str) -> Arc<tokio::sync::Mutex<()>> {
        let mut turns = self.0.lock();
        turns.retain(|_, turn| Arc::strong_count(turn) > 1);
        Arc::clone(turns.entry(name.to_owned()).or_default())
    }
}

/// Where a create with a key begins.
enum Begun {
    /// At its claim.
    Claim(Marker),
    /// At the sandbox that another create with the key has claimed.
    Adopt(Marker, One),
    /// At its end.
    Done(Reference),
}

/// What the last write to a marker said.
enum Closed {
    /// It is as this create wrote it.
    Ours,
    /// Another create with the key has written it.
    Others(Marker),
    /// There is no marker any more.
    Gone,
}

impl<P: Prepare> Shared<P> {
    /// A create with an `Idempotency-Key`. It ends also if nobody waits for it.
    pub(super) async fn keyed(&self, caller: &Caller, wanted: NewSandbox, key: &str) -> Ended {
        let name = name_of(&caller.owner, key);
        let turn = self.turns.of(&name);
        let _turn = turn.lock().await;
        let request = request_hash(&wanted);
        let (source, order) = match self.order(caller, wanted).await {
            Ok(order) => order,
            Err(error) => return (Err(error), None),
        };
        let until = Instant::now() + self.settings.claim_timeout + self.settings.ready_timeout;
        match self.begin(&name, &order, &request, until).await {
            Ok(Begun::Done(reference)) => (self.again(&reference).await, None),
            Ok(Begun::Claim(marker)) => self.go_on(&source, order, marker, None, until).await,
            Ok(Begun::Adopt(marker, seen)) => self.go_on(&source, order, marker, Some(seen), until).await,
            Err(error) => (Err(error), None),
        }
    }

    /// Makes the marker, or finds out what the one that is there means.
    async fn begin(&self, name: &str, order: &Order, request: &str, until: Instant) -> Result<Begun, Error> {
        let key = key(&self.settings.system_namespace, name);
        let (mut tries, mut watched) = (0, Watched::default());
        // Without an answer it does not go on for as long as it may wait for another create.
        let patience = || until.min(Instant::now() + self.settings.settle);
        let mut silent_until = patience();
        loop {
            let now = self.cache.clock().now();
            let object = marker::new(&key, &order.caller.owner, request, &order.lock, now);
            match self.writes.create::<ConfigMapFacts>(&key.namespace, &object).await {
                Ok(seen) => return Ok(Begun::Claim(Marker::read(seen)?)),
                Err(error @ WriteError::Refused { .. }) => return Err(error.into()),
                Err(WriteError::NotFound(why)) => {
                    let message = format!("the system namespace cannot be written to: {why}");
                    return Err(Error::new(ErrorKind::Internal, message));
                }
                Err(WriteError::AlreadyExists(_) | WriteError::Conflict(_)) => silent_until = patience(),
                Err(error) if Instant::now() >= silent_until => return Err(unavailable(error)),
                Err(_) => self.pause(&mut tries).await,
            }
            match self.writes.read::<ConfigMapFacts>(&key).await {
                Ok(None) => continue,
                Ok(Some(seen)) => {
                    let marker = Marker::read(seen)?;
                    if let Some(begun) = self.found(marker, order, request, &mut watched).await? {
                        return Ok(begun);
                    }
                    silent_until = patience();
                }
                Err(error) if Instant::now() >= silent_until => return Err(unavailable(error)),
                Err(_) => self.pause(&mut tries).await,
            }
            if Instant::now() >= until {
                return Err(under_way());
            }
        }
    }

    /// What a marker that is there means. None if it has to be looked at again.
    async fn found(
        &self,
        marker: Marker,
        order: &Order,
        request: &str,
        watched: &mut Watched,
    ) -> Result<Option<Begun>, Error> {
        if marker.request != request {
            let message = "Idempotency-Key: it was used for another request";
            return Err(Error::new(ErrorKind::Conflict, message));
        }
        if marker.lock == order.lock {
            // Its own, by a create without an answer.
            return Ok(Some(Begun::Claim(marker)));
        }
        match &marker.state {
            State::Done(reference) => return Ok(Some(Begun::Done(reference.clone()))),
            State::Failed => {}
            State::Open => {
                let left = self.settings.lease.saturating_sub(watched.unchanged_for(&marker));
                if !left.is_zero() {
                    self.changed(&marker, left).await;
                    return Ok(None);
                }
                if let Some(seen) = self.claimed_for(&order.caller, &marker).await? {
                    return Ok(Some(Begun::Adopt(marker, seen)));
                }
            }
        }
        let patch = marker::taken_over(&order.lock, self.cache.clock().now());
        match self.writes.patch(&marker.seen, patch).await {
            Ok(seen) => {
                // Whoever has that lock has died, and nothing lasts that it stands for. A create that has
                // failed releases it itself when its sandbox is gone: until then that counts.
                if marker.state == State::Open {
                    self.prepare.release(&order.caller, &marker.lock).await;
                }
                Ok(Some(Begun::Claim(Marker::read(seen)?)))
            }
            // The next look says whose it is.
            Err(WriteError::Refused { code, message }) => Err(WriteError::Refused { code, message }.into()),
            Err(_) => Ok(None),
        }
    }

    /// The living sandbox that was claimed for this marker.
    async fn claimed_for(&self, caller: &Caller, marker: &Marker) -> Result<Option<One>, Error> {
        let selector = format!("{LABEL_CREATE_UID}={}", marker.seen.uid);
        let found = self.writes.list::<SandboxFacts>(self.namespace_of(caller), &selector, 16).await;
        let fits = |seen: &One| {
            let is_kept = seen.is_deleting || seen.labels.has(LABEL_RESERVED_FAILED);
            is_given(seen, &marker.lock) && !is_kept
        };
        Ok(found.map_err(unavailable)?.into_iter().find(fits))
    }

    /// Waits until the marker is not as it was seen, at most so long.
    async fn changed(&self, marker: &Marker, within: Duration) {
        let (key, uid) = (&marker.seen.key, &marker.seen.uid);
        let was = marker.seen.version.clone();
        let is_other = move |seen: &Seen<ConfigMapFacts>| Check::holds(seen.version > was);
        // Whatever ends the wait, the marker is looked at again.
        let _ = self.cache.wait::<ConfigMapFacts>(key, uid, Action::Ready, is_other).within(within).await;
    }

    /// From the claim, or from a claimed sandbox, to the end.
    async fn go_on(
        &self,
        source: &Source,
        mut order: Order,
        mut marker: Marker,
        adopted: Option<One>,
        until: Instant,
    ) -> Ended {
        order.lock.clone_from(&marker.lock);
        order.marker = Some(marker.mark());
        let lost = CancellationToken::new();
        let attempt = async {
            match adopted {
                None => self.attempt(source, &order, &lost).await,
                // It may have been claimed a moment ago, so it may not be ready after a change in place.
                Some(seen) => match self.finish(&order, &seen, true, &lost).await {
                    Ok(seen) => Ok((seen, How::Again)),
                    Err(error) => Err(Failed { error, left: What::Sandbox(seen) }),
                },
            }
        };
        match self.while_renewed(&mut marker, &lost, attempt).await {
            Ok((seen, how)) => self.succeed(&order, marker, seen, how, until).await,
            Err(failed) => self.fail(&order, marker, failed, lost.is_cancelled(), until).await,
        }
    }

    async fn succeed(&self, order: &Order, marker: Marker, seen: One, how: How, until: Instant) -> Ended {
        let state = State::Done(Reference::of(&seen));
        let lost = match self.close(&marker, &state).await {
            Ok(Closed::Ours | Closed::Gone) => return (Ok((seen, how)), None),
            Ok(Closed::Others(marker)) => marker,
            // The sandbox and the open marker stay: a retry finds them.
            Err(error) => return (Err(Error::from(error)), None),
        };
        if matches!(&lost.state, State::Done(reference) if *reference == Reference::of(&seen)) {
            return (Ok((seen, how)), None);
        }
        let left = Left::of(order, What::Sandbox(seen), true);
        (self.winner(lost, until).await, Some(left))
    }

    async fn fail(
        &self,
        order: &Order,
        marker: Marker,
        failed: Failed,
        is_lost: bool,
        until: Instant,
    ) -> Ended {
        let Failed { error, left } = failed;
        let uid = match &left {
            What::Sandbox(seen) | What::Unsettled(seen, _) => Some(Arc::clone(&seen.uid)),
            What::Nothing | What::Made(_) => None,
        };
        let undo = Some(Left::of(order, left, is_lost));
        match self.close(&marker, &State::Failed).await {
            Ok(Closed::Ours | Closed::Gone) => (Err(error), undo),
            Ok(Closed::Others(other)) => match &other.state {
                // Another create with the key has made it ready.
                State::Done(reference) if uid.as_deref() == Some(&*reference.uid) => {
                    (self.again(reference).await, None)
                }
                _ => (self.winner(other, until).await, undo),
            },
            // Nobody may delete what a retry may have taken for good.
            Err(error) => (Err(Error::from(error)), None),
        }
    }

    /// Writes how the create ended, if the marker is still its own and open: tried until it is known.
    async fn close(&self, marker: &Marker, state: &State) -> Result<Closed, WriteError> {
        let until = Instant::now() + self.settings.settle;
        let mut seen = Arc::clone(&marker.seen);
        loop {
            let written = self
                .until_known(until, async || match self.writes.patch(&seen, closed(state)).await {
                    Err(WriteError::Conflict(_) | WriteError::NotFound(_)) => Ok(false),
                    other => other.map(|_| true),
                })
                .await?;
            if written {
                return Ok(Closed::Ours);
            }
            let read = self.until_known(until, || self.writes.read::<ConfigMapFacts>(&seen.key)).await?;
            let Some(read) = read else { return Ok(Closed::Gone) };
            let Ok(is) = Marker::read(read) else { return Ok(Closed::Gone) };
            if is.lock == marker.lock && is.state == *state {
                return Ok(Closed::Ours);
            }
            if is.lock != marker.lock || is.state != State::Open {
                return Ok(Closed::Others(is));
            }
            // Somebody has changed something that means nothing.
            seen = is.seen;
        }
    }

    /// The sandbox of whoever has the marker now.
    async fn winner(&self, mut marker: Marker, until: Instant) -> Result<(One, How), Error> {
        loop {
            match &marker.state {
                State::Done(reference) => return self.again(reference).await,
                State::Open if Instant::now() < until => {
                    self.changed(&marker, until - Instant::now()).await;
                }
                State::Failed | State::Open => return Err(under_way()),
            }
            let read = self.writes.read::<ConfigMapFacts>(&marker.seen.key).await.map_err(unavailable)?;
            marker = Marker::read(read.ok_or_else(under_way)?)?;
        }
    }

    /// The sandbox of a request that was done before.
    async fn again(&self, reference: &Reference) -> Result<(One, How), Error> {
        let Reference { key, uid } = reference;
        let read = self.writes.read::<SandboxFacts>(key).await.map_err(unavailable)?;
        let lives = |seen: &One| seen.uid == *uid && !seen.is_deleting;
        let Some(seen) = read.filter(lives) else {
            let message = "Idempotency-Key: the sandbox that was made for it has ended";
            return Err(Error::new(ErrorKind::Conflict, message));
        };
        Ok((seen, How::Again))
    }
}

fn under_way() -> Error {
    let message = "Idempotency-Key: another request with it is under way".to_owned();
    Error { kind: ErrorKind::Conflict, message, retry_after: Some(Duration::from_secs(1)) }
}
