//! Pause, and what it has in common with [resume](crate::resume).
//!
//! Each of them reads the sandbox from the API server, decides, takes its turn, writes with the version that
//! it decided on, and waits for the event. Where somebody else wrote first, or no answer came, it reads and
//! decides again: whatever was written shows in the object, so nothing is remembered elsewhere, and a replica
//! that dies in the middle is followed by any other. Once it is about to write it goes on without its caller.
//! - The same action joins: of two that pause, one writes, both wait, and both succeed.
//! - A pause during a resume is refused at once.
//! - A resume during a pause waits until the pause is complete, and then resumes.
//! - A pause that the controller refuses is taken back, with the deadlines that the sandbox had before.

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join;
use jiff::Timestamp;
use sandgate_cache::predicates::{has_ended, is_paused, is_true, phase, wants_pause};
use sandgate_cache::{Action, Check, Seen, Turn, WaitError, WriteError};
use sandgate_objects::Kind as _;
use sandgate_objects::openkruise::names::{
    ANNOTATION_RESERVE_PAUSED, CONDITION_PAUSED, CONDITION_READY, CONDITION_RUNTIME_INITIALIZED,
    PHASE_RUNNING,
};
use sandgate_objects::openkruise::resources::SandboxFacts;
use serde_json::json;
use tokio::time::sleep;

use crate::core::{Core, TRIES};
use crate::tasks::Asked;
use crate::timeouts::{Deadlines, Policy, retention, write_retention};
use crate::{Caller, Error, ErrorKind};

/// The reason of a pause that no runtime in the cluster can do.
const REASON_HIBERNATE_UNSUPPORTED: &str = "HibernateUnsupported";
/// How long whoever joined a pause that is refused leaves it to whoever wrote it to take it back.
const TAKEN_BACK: Duration = Duration::from_secs(5);
/// Between two tries to take a pause back.
const AGAIN: Duration = Duration::from_millis(500);

/// A sandbox.
pub(crate) type One = Arc<Seen<SandboxFacts>>;

impl Core {
    /// Pauses a sandbox.
    pub(crate) async fn pause(
        &self,
        caller: &Caller,
        id: &str,
        reserve: Option<Duration>,
        asked: &Asked,
    ) -> Result<(), Error> {
        let mut seen = self.seen_live(caller, id).await?;
        if wants_pause(&seen) && is_paused(&seen) {
            return Err(Error::new(ErrorKind::Conflict, format!("sandbox {id} is paused already")));
        }
        let now = self.now();
        // The deadlines before the pause, if it was written here.
        let (mut unknown, mut before) = (None, None);
        for _ in 0..TRIES {
            let turn = self.cache.turn(&seen, Action::Pause).map_err(|error| waited(id, error))?;
            if !wants_pause(&seen) {
                if !can_pause(&seen, now) {
                    return Err(cannot(id, "paused", &seen));
                }
                let (kept, deadlines) = (reserve.unwrap_or_else(|| retention(&seen)), Deadlines::of(&seen));
                let mut patch = json!({"spec": deadlines.paused(kept, now).spec()});
                patch["spec"]["paused"] = true.into();
                if let Some(reserve) = reserve {
                    patch["metadata"]["annotations"][ANNOTATION_RESERVE_PAUSED] =
                        write_retention(reserve).into();
                }
                asked.begin();
                match self.writes.patch(&seen, patch).await {
                    Ok(written) => (seen, before) = (written, Some(deadlines)),
                    Err(WriteError::NotFound(_)) => return Err(Error::no_sandbox(id)),
                    Err(error @ (WriteError::Conflict(_) | WriteError::Unanswered(_))) => {
                        drop(turn);
                        before = matches!(error, WriteError::Unanswered(_)).then_some(deadlines);
                        unknown = Some(error);
                        seen = self.decide_again(caller, id, &seen, &mut unknown).await?;
                        continue;
                    }
                    Err(error) => return Err(error.into()),
                }
            }
            // The gateways need not wait for the pod to end.
            let paused = self.paused(id, &turn, &seen, before);
            let (paused, ()) = join(paused, self.gateways.announce(&seen, self.now())).await;
            let paused = paused?;
            let noted = self.quota.paused(caller, &paused);
            join(noted, self.gateways.announce(&paused, self.now())).await;
            return Ok(());
        }
        Err(unknown.map_or_else(|| cannot(id, "paused", &seen), Error::from))
    }

    /// Waits until a pause is complete. One that the controller refuses is taken back.
    async fn paused(
        &self,
        id: &str,
        turn: &Turn,
        seen: &One,
        before: Option<Deadlines>,
    ) -> Result<One, Error> {
        let is_refused = |seen: &Seen<SandboxFacts>| Check::holds(refusal(seen).is_some());
        let refused = self.cache.wait(&seen.key, &seen.uid, Action::Ready, is_refused);
        let refused = tokio::select! {
            biased;
            // First, because whoever takes the pause back ends the other wait too.
            Ok(refused) = refused.within(self.settings.pause_timeout) => refused,
            paused = turn.wait(self.settings.pause_timeout) => return paused.map_err(|error| waited(id, error)),
        };
        let why = refusal(&refused).unwrap_or_default();
        self.take_back(refused, before).await;
        Err(Error::new(ErrorKind::Unsupported, format!("sandbox {id} cannot be paused: {why}")))
    }

    /// Takes back a pause that is refused. Who did not write it does not know the deadlines `before`, so it
    /// is left to who did, for a while. If nobody succeeds, the next resume takes it back.
    async fn take_back(&self, mut refused: One, before: Option<Deadlines>) {
        if before.is_none() {
            let is_over = |seen: &Seen<SandboxFacts>| Check::holds(refusal(seen).is_none());
            let over = self.cache.wait(&refused.key, &refused.uid, Action::Ready, is_over);
            match over.within(TAKEN_BACK).await {
                Err(WaitError::Timeout) => refused = self.newest(&refused),
                _ => return,
            }
        }
        let mut last = None;
        for _ in 0..TRIES {
            if refusal(&refused).is_none() {
                return;
            }
            let deadlines = before.unwrap_or_else(|| {
                let floor = self.settings.min_resume_timeout;
                Deadlines::of(&refused).resumed(None, None, retention(&refused), floor, self.now())
            });
            let mut patch = json!({"spec": deadlines.spec()});
            patch["spec"]["paused"] = false.into();
            match self.writes.patch(&refused, patch).await {
                Ok(running) => return self.gateways.announce(&running, self.now()).await,
                Err(WriteError::NotFound(_)) => return,
                Err(error @ (WriteError::Conflict(_) | WriteError::Unanswered(_))) => last = Some(error),
                Err(error) => {
                    last = Some(error);
                    sleep(AGAIN).await;
                }
            }
            match self.writes.read::<SandboxFacts>(&refused.key).await {
                Ok(Some(read)) if read.uid == refused.uid => refused = read,
                Ok(_) => return,
                Err(error) => {
                    last = Some(error);
                    sleep(AGAIN).await;
                }
            }
        }
        let error = last.map(|error| error.to_string()).unwrap_or_default();
        tracing::warn!(sandbox = %refused.key, "a pause that is refused is not taken back: {error}");
    }

    /// Gives a running sandbox another end.
    pub(crate) async fn set_timeout(
        &self,
        caller: &Caller,
        id: &str,
        timeout: Duration,
        policy: Policy,
    ) -> Result<(), Error> {
        let seen = self.seen_live(caller, id).await?;
        self.move_end(caller, id, &seen, timeout, policy).await.map(drop)
    }

    /// Gives a running sandbox that was seen another end.
    pub(crate) async fn move_end(
        &self,
        caller: &Caller,
        id: &str,
        seen: &One,
        timeout: Duration,
        policy: Policy,
    ) -> Result<One, Error> {
        let now = self.now();
        let decide = |seen: &Seen<SandboxFacts>| {
            if wants_pause(seen) {
                let message = format!("sandbox {id} is paused: its timeout is set when it is resumed");
                return Err(Error::new(ErrorKind::Conflict, message));
            }
            let moved = Deadlines::of(seen).moved(timeout, policy, retention(seen), now);
            Ok(moved.map(|moved| json!({"spec": moved.spec()})))
        };
        self.change(caller, id, seen, decide).await
    }

    /// The sandbox as it is now, after a write that did not succeed or was not answered.
    pub(crate) async fn decide_again(
        &self,
        caller: &Caller,
        id: &str,
        seen: &Seen<SandboxFacts>,
        unknown: &mut Option<WriteError>,
    ) -> Result<One, Error> {
        match self.again(caller, id, seen).await {
            Err(error) if error.kind == ErrorKind::Unavailable => {
                // Nobody can say whether the write was done.
                Err(unknown.take().map_or(error, Error::from))
            }
            seen => seen,
        }
    }
}

/// Whether a sandbox can be paused. One that is not ready for a moment can, but not one that has just
/// resumed: somebody waits for it.
fn can_pause(sandbox: &SandboxFacts, now: Timestamp) -> bool {
    let initialized = sandbox.condition(CONDITION_RUNTIME_INITIALIZED);
    let is_starting = initialized.is_some_and(|it| &*it.status == "False");
    phase(sandbox) == PHASE_RUNNING
        && sandbox.pool().is_none()
        && !has_ended(sandbox, now)
        && (is_true(sandbox, CONDITION_READY) || !is_starting)
}

/// Why the controller does not pause a sandbox that it is asked to pause.
pub(crate) fn refusal(sandbox: &SandboxFacts) -> Option<String> {
    let paused = sandbox.condition(CONDITION_PAUSED)?;
    let is_refused = wants_pause(sandbox)
        && phase(sandbox) == PHASE_RUNNING
        && &*paused.status == "False"
        && &*paused.reason == REASON_HIBERNATE_UNSUPPORTED;
    is_refused.then(|| paused.message.to_string())
}

/// The error of a sandbox that is not in a state for it.
pub(crate) fn cannot(id: &str, what: &str, sandbox: &SandboxFacts) -> Error {
    let is = match phase(sandbox) {
        "" => "new",
        PHASE_RUNNING if wants_pause(sandbox) => "about to pause",
        PHASE_RUNNING => "running and not ready",
        other => other,
    };
    Error::new(ErrorKind::Conflict, format!("sandbox {id} cannot be {what} now: it is {is}"))
}

/// The error of a wait.
pub(crate) fn waited(id: &str, error: WaitError) -> Error {
    match error {
        WaitError::Gone => Error::no_sandbox(id),
        WaitError::Conflict { existing, wanted } => {
            let message = format!("sandbox {id}: cannot {wanted}, because a {existing} is under way");
            Error::new(ErrorKind::Conflict, message)
        }
        WaitError::Timeout | WaitError::NotSatisfied => {
            let message = format!("sandbox {id}: it was asked for, and was not complete in time");
            Error::new(ErrorKind::Timeout, message)
        }
        WaitError::Cancelled => Error::new(ErrorKind::Unavailable, "the manager is stopping"),
        WaitError::Failed(why) => Error::new(ErrorKind::Conflict, format!("sandbox {id}: {why}")),
        WaitError::Used => Error::new(ErrorKind::Internal, "a turn was used twice"),
    }
}
