//! Waits for an object to be as somebody needs it.

use std::sync::Arc;
use std::time::Duration;

use sandgate_objects::openkruise::resources::{Checkpoint, SandboxFacts};
use sandgate_objects::sandbox_env::resources::EnvPod;
use tokio_util::sync::CancellationToken;

use super::hub::{Outcome, Predicate, Registered};
use super::run::Found;
use super::{Cache, Kept, Shared, turn};
use crate::predicates::{
    checkpoint_done, ended, env_running, is_paused, is_ready, pvc_bound, ready, wants_pause,
};
use crate::{Action, Check, Clock, Key, PvcFacts, Seen, WaitError};

/// A wait that has not begun. Made by [`Cache::wait`] and the like; [`within`](Self::within) runs it.
#[must_use = "a wait does nothing until it is awaited"]
pub struct Wait<T> {
    shared: Arc<Shared>,
    key: Key,
    uid: Arc<str>,
    action: Action,
    predicate: Predicate<T>,
    cancel: Option<CancellationToken>,
}

impl<T: Kept> Wait<T> {
    /// What is waited for.
    pub fn action(&self) -> Action {
        self.action
    }

    /// Ends the wait with [`WaitError::Cancelled`] when this is cancelled.
    pub fn cancelled_by(mut self, cancel: CancellationToken) -> Self {
        self.cancel = Some(cancel);
        self
    }

    /// Waits, at most this long.
    ///
    /// 1. The object as the cache has it is looked at. If it decides, that is the end.
    /// 2. If there is no time, the wait ends with [`WaitError::NotSatisfied`].
    /// 3. An action that takes turns takes or joins its turn.
    /// 4. The predicate is asked about every version after that of step 1, in their order and when they
    ///    arrive, until one decides. An object that the cache does not have is read live once.
    ///
    /// Dropping the future ends the wait and lets go of the turn.
    ///
    /// # Errors
    /// See [`WaitError`].
    pub async fn within(self, timeout: Duration) -> Result<Arc<Seen<T>>, WaitError> {
        let Self { shared, key, uid, action, predicate, cancel } = self;
        let registered = shared.register(&key, &uid, predicate);
        if let Some(outcome) = registered.outcome() {
            return outcome;
        }
        if timeout.is_zero() {
            return Err(WaitError::NotSatisfied);
        }
        let _held = action.takes_turns().then(|| turn::take(&shared, &uid, action)).transpose()?;
        Until { shared: &shared, key: &key, uid: &uid, timeout, cancel: cancel.as_ref() }
            .run(&registered)
            .await
    }
}

/// A wait that runs.
pub(super) struct Until<'a> {
    pub(super) shared: &'a Arc<Shared>,
    pub(super) key: &'a Key,
    pub(super) uid: &'a Arc<str>,
    pub(super) timeout: Duration,
    pub(super) cancel: Option<&'a CancellationToken>,
}

impl Until<'_> {
    pub(super) async fn run<T: Kept>(&self, registered: &Registered<'_, T>) -> Outcome<T> {
        let cancelled = async {
            match self.cancel {
                Some(cancel) => cancel.cancelled().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            outcome = self.decided(registered) => outcome,
            () = cancelled => Err(WaitError::Cancelled),
            () = tokio::time::sleep(self.timeout) => Err(WaitError::Timeout),
        }
    }

    async fn decided<T: Kept>(&self, registered: &Registered<'_, T>) -> Outcome<T> {
        if let Some(outcome) = registered.outcome() {
            return outcome;
        }
        // The waiter is registered: a stop that comes after this ends it.
        if self.shared.is_stopped() {
            return Err(WaitError::Cancelled);
        }
        if !registered.has_looked() {
            tokio::select! {
                biased;
                outcome = registered.ended() => return outcome,
                () = self.look_live(registered) => {}
            }
        }
        registered.ended().await
    }

    /// Looks at an object that the cache does not have.
    async fn look_live<T: Kept>(&self, registered: &Registered<'_, T>) {
        match self.shared.read_live::<T>(self.key).await {
            Found::Object(seen) if seen.uid == *self.uid => {
                Cache { shared: Arc::clone(self.shared) }.answered(&seen);
                // What the cache took in was told. What it did not is judged all the same.
                registered.look(&seen);
                if registered.outcome().is_some()
                    || T::peek(&self.shared.inner.read()).get(self.key).is_some()
                {
                    return;
                }
                let failed = WaitError::Failed("the object is outside of what is followed".to_owned());
                // What is followed and not kept is older than its end, which the watch has shown.
                let is_followed = self.shared.selects::<T>(&seen);
                registered.end(Err(if is_followed { WaitError::Gone } else { failed }));
            }
            Found::Object(_) | Found::Nothing => registered.end(Err(WaitError::Gone)),
            // The watch will show it, or the time will pass.
            Found::Unknown => {}
        }
    }
}

/// What each action waits for on a sandbox. The wait begins after the spec was written and the answer was
/// given to the cache, so a spec that asks for something else is one that somebody has changed since.
pub(super) fn predicate_of(action: Action, clock: Arc<dyn Clock>) -> Predicate<SandboxFacts> {
    Box::new(move |seen| {
        let now = clock.now();
        let (is_asked_for, is_done) = match action {
            Action::Ready => return ready(seen, now),
            Action::Pause => (wants_pause(seen), is_paused(seen)),
            Action::Resume => (!wants_pause(seen), is_ready(seen, now)),
            Action::Checkpoint | Action::Bind => {
                return Check::Failed(format!("a sandbox has no {action}"));
            }
        };
        if let Some(failed) = ended(seen, now) {
            return failed;
        }
        if !is_asked_for {
            return Check::Failed(format!("somebody else has undone the {action}"));
        }
        Check::holds(is_done)
    })
}

impl Cache {
    /// A wait until the predicate is done with the object of this key and UID. Each waiter has its own
    /// predicate. It is asked once about each version, and must neither block nor change the cache.
    pub fn wait<T: Kept>(
        &self,
        key: &Key,
        uid: &str,
        action: Action,
        predicate: impl FnMut(&Seen<T>) -> Check + Send + 'static,
    ) -> Wait<T> {
        Wait {
            shared: Arc::clone(&self.shared),
            key: key.clone(),
            uid: uid.into(),
            action,
            predicate: Box::new(predicate),
            cancel: None,
        }
    }

    /// A wait until a sandbox is ready: see [`ready`].
    pub fn ready(&self, key: &Key, uid: &str) -> Wait<SandboxFacts> {
        let clock = Arc::clone(&self.shared.clock);
        self.wait(key, uid, Action::Ready, move |seen| ready(seen, clock.now()))
    }

    /// A wait until a checkpoint is done: see [`checkpoint_done`].
    pub fn checkpoint_done(&self, key: &Key, uid: &str) -> Wait<Checkpoint> {
        self.wait(key, uid, Action::Checkpoint, |seen: &Seen<Checkpoint>| checkpoint_done(seen))
    }

    /// A wait until a claimed pod runs the sandbox of this ID: see [`env_running`].
    pub fn env_running(&self, key: &Key, uid: &str, id: &str) -> Wait<EnvPod> {
        let id = id.to_owned();
        self.wait(key, uid, Action::Ready, move |pod: &Seen<EnvPod>| env_running(pod, &id))
    }

    /// A wait until a volume claim is bound: see [`pvc_bound`].
    pub fn pvc_bound(&self, key: &Key, uid: &str) -> Wait<PvcFacts> {
        self.wait(key, uid, Action::Bind, |seen: &Seen<PvcFacts>| pvc_bound(seen))
    }
}
