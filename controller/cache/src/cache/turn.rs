//! One action at a time on a sandbox.
//!
//! # Who takes a turn
//! Whoever pauses or resumes takes the turn before it writes the spec, and keeps it until the wait has ended.
//! - The same action joins: two callers that pause one sandbox both hold the turn, and both succeed.
//! - Another action is refused at once and told what is under way.
//! - The turn is free when the last holder lets go. To let go twice is to let go once.
//!
//! The turn belongs to this process. Between processes the first write of the spec wins: the version that it
//! carries decides.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use sandgate_objects::openkruise::resources::SandboxFacts;
use tokio::sync::Notify;

use super::hub::Predicate;
use super::wait::{Until, predicate_of};
use super::{Cache, Shared};
use crate::{Action, Key, Seen, WaitError};

/// Whose turn it is, by the UID of the object.
#[derive(Default)]
pub(crate) struct Turns(Mutex<BTreeMap<Arc<str>, Taken>>);

struct Taken {
    action: Action,
    holders: usize,
    freed: Arc<Notify>,
}

/// A share in a turn until it is dropped.
pub(super) struct Held {
    shared: Arc<Shared>,
    uid: Arc<str>,
}

impl Drop for Held {
    fn drop(&mut self) {
        let mut turns = self.shared.turns.0.lock();
        let Some(taken) = turns.get_mut(&self.uid) else { return };
        taken.holders -= 1;
        if taken.holders == 0 {
            taken.freed.notify_waiters();
            turns.remove(&self.uid);
        }
    }
}

impl Turns {
    /// What is under way on an object.
    pub(crate) fn under_way(&self, uid: &str) -> Option<(Action, usize)> {
        self.0.lock().get(uid).map(|taken| (taken.action, taken.holders))
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.0.lock().len()
    }
}

/// Takes or joins a turn.
pub(super) fn take(shared: &Arc<Shared>, uid: &Arc<str>, wanted: Action) -> Result<Held, WaitError> {
    let mut turns = shared.turns.0.lock();
    let free = || Taken { action: wanted, holders: 0, freed: Arc::default() };
    let taken = turns.entry(Arc::clone(uid)).or_insert_with(free);
    if taken.action != wanted {
        return Err(WaitError::Conflict { existing: taken.action, wanted });
    }
    taken.holders += 1;
    Ok(Held { shared: Arc::clone(shared), uid: Arc::clone(uid) })
}

/// The turn to do something to a sandbox. Made by [`Cache::turn`]; dropping it lets go of it.
pub struct Turn {
    shared: Arc<Shared>,
    key: Key,
    uid: Arc<str>,
    action: Action,
    predicate: Mutex<Option<Predicate<SandboxFacts>>>,
    /// None after the release, and from the start of the wait on.
    held: Mutex<Option<Held>>,
}

impl Turn {
    /// What is done.
    pub fn action(&self) -> Action {
        self.action
    }

    /// Waits until the action is complete, at most this long, and lets go of the turn however that ends. To
    /// be called once, after the spec was written and its answer given to the cache.
    ///
    /// # Errors
    /// [`WaitError::Used`] if it was called before, or after the [release](Self::release); otherwise as
    /// [`Wait::within`](super::Wait::within).
    pub async fn wait(&self, timeout: Duration) -> Result<Arc<Seen<SandboxFacts>>, WaitError> {
        let Some(_held) = self.held.lock().take() else { return Err(WaitError::Used) };
        let Some(predicate) = self.predicate.lock().take() else { return Err(WaitError::Used) };
        let registered = self.shared.register(&self.key, &self.uid, predicate);
        Until { shared: &self.shared, key: &self.key, uid: &self.uid, timeout, cancel: None }
            .run(&registered)
            .await
    }

    /// Lets go of the turn. It does nothing if that was done before, and while a [`wait`](Self::wait) runs,
    /// which does it itself.
    pub fn release(&self) {
        drop(self.held.lock().take());
    }
}

impl Cache {
    /// Takes the turn for an action on a sandbox, or joins those who have it for the same action.
    ///
    /// # Errors
    /// [`WaitError::Conflict`] if another action has its turn.
    pub fn turn(&self, sandbox: &Seen<SandboxFacts>, action: Action) -> Result<Turn, WaitError> {
        let held = take(&self.shared, &sandbox.uid, action)?;
        Ok(Turn {
            shared: Arc::clone(&self.shared),
            key: sandbox.key.clone(),
            uid: Arc::clone(&sandbox.uid),
            action,
            predicate: Mutex::new(Some(predicate_of(action, Arc::clone(&self.shared.clock)))),
            held: Mutex::new(Some(held)),
        })
    }

    /// The same, but waits for another action to be over.
    ///
    /// # Errors
    /// [`WaitError::Conflict`] if another action still has its turn after this time.
    pub async fn turn_within(
        &self,
        sandbox: &Seen<SandboxFacts>,
        action: Action,
        timeout: Duration,
    ) -> Result<Turn, WaitError> {
        let turn = async {
            loop {
                let Some(taken) = self.freed(&sandbox.uid) else {
                    match self.turn(sandbox, action) {
                        Err(WaitError::Conflict { .. }) => continue,
                        turn => return turn,
                    }
                };
                // Registered before the try, so that a release in between is not lost.
                let mut freed = pin!(taken.notified());
                freed.as_mut().enable();
                match self.turn(sandbox, action) {
                    Err(WaitError::Conflict { .. }) => {
                        let is_still_taken =
                            self.freed(&sandbox.uid).is_some_and(|now| Arc::ptr_eq(&now, &taken));
                        if is_still_taken {
                            freed.await;
                        }
                    }
                    turn => return turn,
                }
            }
        };
        match tokio::time::timeout(timeout, turn).await {
            Ok(turn) => turn,
            Err(_) => self.turn(sandbox, action),
        }
    }

    /// What tells when the present turn on an object is over.
    fn freed(&self, uid: &str) -> Option<Arc<Notify>> {
        self.shared.turns.0.lock().get(uid).map(|taken| Arc::clone(&taken.freed))
    }

    /// What is under way on an object, and for how many.
    pub fn under_way(&self, uid: &str) -> Option<(Action, usize)> {
        self.shared.turns.under_way(uid)
    }
}
