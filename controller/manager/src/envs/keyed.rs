//! One `Idempotency-Key`, one sandbox of an environment: across retries, replicas and crashes.
//!
//! The markers are those of other creates ([`crate::claim`]), and the lock in a marker is the ID of the
//! sandbox.
//! 1. A create makes the marker with the ID that it has drawn, or finds one. It fails with 409 if the marker
//!    is of another request.
//! 2. It claims a pod under that ID, makes it ready, and turns the marker from `open` to `done`. This
//!    conditional write decides: whoever loses it gives its pod back and looks at the marker again.
//! 3. A retry that finds a marker looks for the pod with its ID. One that is there is the sandbox, or will
//!    be: the retry goes on at making it ready. One that is not there has ended if the marker is `done`. If
//!    the marker is `open`, its creator lives as long as it renews the marker; one that has not done so for a
//!    lease is dead, and the retry puts an ID of its own into the marker.
//!
//! Should the creator live, it learns so at step 2. What it leaves if it dies then is released after its idle
//! timeout.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use sandgate_cache::{Action, Check, ConfigMapFacts, Key, Seen, WriteError};
use sandgate_objects::sandbox_env::names::ANNOTATION_OWNER;
use sandgate_routes::Version;
use tokio::time::{Instant, sleep};

use super::Environments;
use super::create::{Order, failed};
use super::describe::is_shown;
use super::pods::One;
use crate::claim::idempotency::marker::{self, Marker, Reference, State};
use crate::find::unread;
use crate::{Error, ErrorKind, NewSandbox};

/// How long a marker without a sign of life is taken for one whose creator lives.
const LEASE: Duration = Duration::from_secs(10);
/// How long a question to the API server without an answer is repeated.
const SETTLE: Duration = Duration::from_secs(15);
/// The pause between two tries.
const PAUSE: Duration = Duration::from_millis(100);

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
    /// At the pod that another create with the key has claimed.
    Adopt(Marker, One),
    /// At its end.
    Done(One),
}

impl Environments {
    /// A create with an `Idempotency-Key`. It goes on also if nobody waits for it.
    pub(super) async fn keyed(
        self: &Arc<Self>,
        order: &Arc<Order>,
        new: &NewSandbox,
        key: &str,
    ) -> Result<(One, &'static str), Error> {
        let name = marker::name_of(&order.caller.owner, key);
        let turn = self.turns.of(&name);
        let _turn = turn.lock().await;
        let key = marker::key(&self.core.settings.system_namespace, &name);
        let request = marker::request_hash(new);
        let until = Instant::now() + order.patience() + order.startup(None);
        loop {
            let (mut marker, adopted) = match self.begin(&key, order, &request, until).await? {
                Begun::Done(pod) => return Ok((pod, "again")),
                Begun::Claim(marker) => (marker, None),
                Begun::Adopt(marker, pod) => (marker, Some(pod)),
            };
            let how = if adopted.is_some() { "again" } else { "env" };
            let mut pod = adopted;
            let work = async {
                if let Some(pod) = &pod {
                    return self.ready(order, pod).await;
                }
                let claimed = Arc::clone(pod.insert(self.claim(order).await?));
                self.admitted(order, &claimed).await
            };
            let worked = self.while_renewed(&mut marker, work).await;
            let state = match &worked {
                Ok(pod) => State::Done(Reference { key: pod.key.clone(), uid: Arc::clone(&pod.uid) }),
                Err(_) => State::Failed,
            };
            let is_ours = self.close(&marker, &state).await;
            match (worked, is_ours) {
                (Ok(pod), Ok(true)) => return Ok((pod, how)),
                // The pod and the open marker stay: a retry finds them.
                (Ok(_), Err(error)) => return Err(error.into()),
                // Another create with the key has made its own, or has made this one ready.
                (Ok(pod), Ok(false)) => self.yield_to_the_other(order, &key, &pod).await?,
                (Err(error), is_ours) => {
                    match (pod, is_ours) {
                        (Some(pod), Ok(true)) => self.undo(order, &pod, failed(&error)).await,
                        // Another create with the key may have answered with this very pod.
                        (Some(pod), Ok(false)) => self.yield_to_the_other(order, &key, &pod).await?,
                        // The pod and the open marker stay: a retry finds them.
                        (Some(_), Err(_)) | (None, _) => {}
                    }
                    return Err(error);
                }
            }
            if Instant::now() >= until {
                return Err(under_way());
            }
        }
    }

    /// Gives back the pod of a create that has lost its marker, unless the marker is for this very sandbox.
    async fn yield_to_the_other(
        self: &Arc<Self>,
        order: &Arc<Order>,
        key: &Key,
        pod: &One,
    ) -> Result<(), Error> {
        let read = self.core.writes.read::<ConfigMapFacts>(key).await.map_err(unread)?;
        let is_its =
            read.map(Marker::read).transpose()?.is_some_and(|marker| marker.lock == pod.sandbox_id());
        if !is_its {
            let error = Error::new(ErrorKind::Conflict, "another create with the key was faster");
            self.undo(order, pod, failed(&error)).await;
        }
        Ok(())
    }

    /// Makes the marker, or finds out what the one that is there means.
    async fn begin(&self, key: &Key, order: &Order, request: &str, until: Instant) -> Result<Begun, Error> {
        let mut seen_since: Option<(Version, Instant)> = None;
        let mut silent_until = Instant::now() + SETTLE;
        loop {
            let object = marker::new(key, &order.caller.owner, request, &order.id, self.core.now());
            let created = self.core.writes.create::<ConfigMapFacts>(&key.namespace, &object).await;
            let marker = match created {
                Ok(seen) => return Ok(Begun::Claim(Marker::read(seen)?)),
                Err(error @ WriteError::Refused { .. }) => return Err(error.into()),
                Err(WriteError::NotFound(why)) => {
                    let message = format!("the system namespace cannot be written to: {why}");
                    return Err(Error::new(ErrorKind::Internal, message));
                }
                Err(error) => match self.core.writes.read::<ConfigMapFacts>(key).await {
                    Ok(Some(seen)) => Marker::read(seen)?,
                    read => {
                        // One that was there, and has been taken away since, is no silence.
                        let is_gone = matches!((&read, &error), (Ok(None), WriteError::AlreadyExists(_)));
                        let last = if is_gone { until } else { silent_until.min(until) };
                        if Instant::now() >= last {
                            return Err(unread(error));
                        }
                        sleep(PAUSE).await;
                        continue;
                    }
                },
            };
            silent_until = Instant::now() + SETTLE;
            if marker.request != request {
                let message = "Idempotency-Key: it was used for another request";
                return Err(Error::new(ErrorKind::Conflict, message));
            }
            if marker.lock == order.id {
                // Its own, by a write without an answer.
                return Ok(Begun::Claim(marker));
            }
            let found = self.made_for(order, &marker).await?;
            match (&marker.state, found) {
                (State::Done(_), Some(pod)) => return Ok(Begun::Done(pod)),
                (State::Done(_), None) => {
                    let message = "Idempotency-Key: the sandbox that was made for it has ended";
                    return Err(Error::new(ErrorKind::Conflict, message));
                }
                (State::Open, found) => {
                    let version = &marker.seen.version;
                    let since = match &seen_since {
                        Some((was, since)) if was == version => *since,
                        _ => Instant::now(),
                    };
                    seen_since = Some((version.clone(), since));
                    let left = LEASE.saturating_sub(since.elapsed());
                    if !left.is_zero() {
                        if Instant::now() >= until {
                            return Err(under_way());
                        }
                        self.marker_changed(&marker, left).await;
                        continue;
                    }
                    if let Some(pod) = found {
                        return Ok(Begun::Adopt(marker, pod));
                    }
                }
                (State::Failed, _) => {}
            }
            let patch = marker::taken_over(&order.id, self.core.now());
            match self.core.writes.patch(&marker.seen, patch).await {
                Ok(seen) => return Ok(Begun::Claim(Marker::read(seen)?)),
                Err(error @ WriteError::Refused { .. }) => return Err(error.into()),
                // The next look says whose it is.
                Err(_) if Instant::now() < until => sleep(PAUSE).await,
                Err(error) => return Err(unread(error)),
            }
        }
    }

    /// The living sandbox with the ID of a marker.
    async fn made_for(&self, order: &Order, marker: &Marker) -> Result<Option<One>, Error> {
        let found = self.list(self.core.namespace_of(&order.caller), &marker.lock).await?;
        let is_it = |pod: &One| is_shown(pod) && pod.annotation(ANNOTATION_OWNER) == &*order.caller.owner;
        Ok(found.into_iter().find(is_it))
    }

    /// Waits until the marker is not as it was seen, at most so long.
    async fn marker_changed(&self, marker: &Marker, within: Duration) {
        let was = marker.seen.version.clone();
        let is_other = move |seen: &Seen<ConfigMapFacts>| Check::holds(seen.version > was);
        let (key, uid) = (&marker.seen.key, &marker.seen.uid);
        let wait = self.core.cache.wait::<ConfigMapFacts>(key, uid, Action::Ready, is_other);
        // Whatever ends the wait, the marker is looked at again.
        if wait.within(within).await.is_err() {
            sleep(PAUSE).await;
        }
    }

    /// Does the work of a create, and meanwhile renews its marker.
    async fn while_renewed<T>(&self, marker: &mut Marker, work: impl Future<Output = T>) -> T {
        let mut work = std::pin::pin!(work);
        loop {
            tokio::select! {
                biased;
                done = &mut work => return done,
                () = sleep(LEASE / 3) => {}
            }
            // The work does not wait for it. A write that is left alone carries a version.
            let renewed = tokio::select! {
                biased;
                done = &mut work => return done,
                renewed = self.renew(marker) => renewed,
            };
            if let Some(seen) = renewed {
                marker.seen = seen;
            }
        }
    }

    /// Writes a sign of life into a marker. Returns its newest version, as long as it is this create's: an
    /// answer that is lost must not make every later sign a conflict.
    async fn renew(&self, marker: &Marker) -> Option<Arc<Seen<ConfigMapFacts>>> {
        if let Ok(seen) = self.core.writes.patch(&marker.seen, marker::renewed(self.core.now())).await {
            return Some(seen);
        }
        let read = self.core.writes.read::<ConfigMapFacts>(&marker.seen.key).await.ok().flatten()?;
        let is = Marker::read(read).ok()?;
        (is.lock == marker.lock && is.state == State::Open).then_some(is.seen)
    }

    /// Writes how a create ended, if the marker is still its own: tried until it is known. Says whether it
    /// is.
    async fn close(&self, marker: &Marker, state: &State) -> Result<bool, WriteError> {
        let until = Instant::now() + SETTLE;
        let mut seen = Arc::clone(&marker.seen);
        loop {
            let error = match self.core.writes.patch(&seen, marker::closed(state)).await {
                Ok(_) => return Ok(true),
                Err(error) => error,
            };
            match self.core.writes.read::<ConfigMapFacts>(&seen.key).await {
                // A marker that somebody has taken away decides nothing.
                Ok(None) => return Ok(true),
                Ok(Some(read)) => {
                    let Ok(is) = Marker::read(read) else { return Ok(true) };
                    if is.lock != marker.lock || (is.state != State::Open && is.state != *state) {
                        return Ok(false);
                    }
                    if is.state == *state {
                        return Ok(true);
                    }
                    seen = is.seen;
                }
                Err(_) => {}
            }
            if Instant::now() >= until {
                return Err(error);
            }
            sleep(PAUSE).await;
        }
    }
}

fn under_way() -> Error {
    let message = "Idempotency-Key: another request with it is under way".to_owned();
    Error { kind: ErrorKind::Conflict, message, retry_after: Some(Duration::from_secs(1)) }
}
