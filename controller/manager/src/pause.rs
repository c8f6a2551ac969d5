//! Pause, resume and connect.
//!
//! Each of them reads the sandbox from the API server, decides, takes its turn, writes with the version that
//! it decided on, and waits for the event. Where somebody else wrote first, or no answer came, it reads and
//! decides again: whatever was written shows in the object, so nothing is remembered elsewhere, and a replica
//! that dies in the middle is followed by any other.
//! - The same action joins: of two that pause, one writes, both wait, and both succeed.
//! - A pause during a resume is refused at once.
//! - A resume during a pause waits until the pause is complete, and then resumes.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join;
use jiff::Timestamp;
use sandgate_cache::predicates::{
    has_ended, is_paused, is_pausing, is_resumable, is_true, phase, wants_pause,
};
use sandgate_cache::{Action, Check, Seen, Turn, WaitError, WriteError};
use sandgate_objects::Kind as _;
use sandgate_objects::openkruise::names::{
    ANNOTATION_LOCK, ANNOTATION_RESERVE_PAUSED, CONDITION_PAUSED, CONDITION_READY,
    CONDITION_RUNTIME_INITIALIZED, PHASE_RUNNING,
};
use sandgate_objects::openkruise::resources::SandboxFacts;
use serde_json::json;
use tokio::time::Instant;

use crate::core::{Core, TRIES};
use crate::describe::{Size, annotation, describe, template_of};
use crate::runtime::Init;
use crate::timeouts::{Deadlines, Policy, retention, write_retention};
use crate::{Caller, Connected, Described, Error, ErrorKind};

/// The reason of a pause that no runtime in the cluster can do.
const REASON_HIBERNATE_UNSUPPORTED: &str = "HibernateUnsupported";
/// How long a connect waits for a sandbox that runs and is not ready.
const NOT_READY: Duration = Duration::from_secs(10);

/// A sandbox.
type One = Arc<Seen<SandboxFacts>>;

/// What a resume is asked for beside resuming.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Wish {
    /// How long it lives from now.
    pub(crate) timeout: Option<Duration>,
    /// Whether it pauses then.
    pub(crate) auto_pause: Option<bool>,
}

/// What becomes of an attempt to resume.
enum Resumed {
    /// It was running before.
    Ran(One),
    /// It runs again.
    Runs(One),
    /// Somebody else was faster.
    Again,
}

impl Core {
    /// Pauses a sandbox.
    pub(crate) async fn pause(
        &self,
        caller: &Caller,
        id: &str,
        reserve: Option<Duration>,
    ) -> Result<(), Error> {
        let mut seen = self.seen_live(caller, id).await?;
        if wants_pause(&seen) && is_paused(&seen) {
            return Err(Error::new(ErrorKind::Conflict, format!("sandbox {id} is paused already")));
        }
        let now = self.now();
        let mut unknown = None;
        for _ in 0..TRIES {
            let turn = self.cache.turn(&seen, Action::Pause).map_err(|error| waited(id, error))?;
            if !wants_pause(&seen) {
                if !can_pause(&seen, now) {
                    return Err(cannot(id, "paused", &seen));
                }
                let kept = reserve.unwrap_or_else(|| retention(&seen));
                let mut patch = json!({"spec": Deadlines::of(&seen).paused(kept, now).spec()});
                patch["spec"]["paused"] = true.into();
                if let Some(reserve) = reserve {
                    patch["metadata"]["annotations"][ANNOTATION_RESERVE_PAUSED] =
                        write_retention(reserve).into();
                }
                match self.writes.patch(&seen, patch).await {
                    Ok(written) => seen = written,
                    Err(WriteError::NotFound(_)) => return Err(Error::no_sandbox(id)),
                    Err(error @ (WriteError::Conflict(_) | WriteError::Unanswered(_))) => {
                        drop(turn);
                        unknown = Some(error);
                        seen = self.decide_again(caller, id, &seen, &mut unknown).await?;
                        continue;
                    }
                    Err(error) => return Err(error.into()),
                }
            }
            // The gateways need not wait for the pod to end.
            let (paused, ()) =
                join(self.paused(id, &turn, &seen), self.gateways.announce(&seen, self.now())).await;
            let paused = paused?;
            let lock = annotation(&paused, ANNOTATION_LOCK).to_owned();
            join(self.quota.paused(caller, &lock), self.gateways.announce(&paused, self.now())).await;
            return Ok(());
        }
        Err(unknown.map_or_else(|| cannot(id, "paused", &seen), Error::from))
    }

    /// Waits until a pause is complete. One that the controller refuses is taken back.
    async fn paused(&self, id: &str, turn: &Turn, seen: &One) -> Result<One, Error> {
        let is_refused = |seen: &Seen<SandboxFacts>| Check::holds(refusal(seen).is_some());
        let refused = self.cache.wait(&seen.key, &seen.uid, Action::Ready, is_refused);
        let refused = tokio::select! {
            biased;
            paused = turn.wait(self.settings.pause_timeout) => return paused.map_err(|error| waited(id, error)),
            Ok(refused) = refused.within(self.settings.pause_timeout) => refused,
        };
        // If this fails, the next resume takes it back.
        if let Err(error) = self.writes.patch(&refused, json!({"spec": {"paused": false}})).await {
            tracing::warn!(sandbox = %refused.key, "a pause that is refused cannot be taken back: {error}");
        }
        let why = refusal(&refused).unwrap_or_default();
        Err(Error::new(ErrorKind::Unsupported, format!("sandbox {id} cannot be paused: {why}")))
    }

    /// Resumes a sandbox. One that runs stays as it is.
    pub(crate) async fn resume(&self, caller: &Caller, id: &str, wish: Wish) -> Result<Described, Error> {
        let (seen, _) = self.run_again(caller, id, wish).await?;
        Ok(describe(&self.cache, &seen, self.now()))
    }

    /// Lets a sandbox that runs live at least so long from now, or resumes it.
    pub(crate) async fn connect(
        &self,
        caller: &Caller,
        id: &str,
        timeout: Option<Duration>,
    ) -> Result<(Described, Connected), Error> {
        let (mut seen, connected) = self.run_again(caller, id, Wish { timeout, auto_pause: None }).await?;
        if let (Connected::Running, Some(timeout)) = (connected, timeout) {
            seen = self.move_end(caller, id, &seen, timeout, Policy::ExtendOnly).await?;
        }
        Ok((describe(&self.cache, &seen, self.now()), connected))
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

    async fn move_end(
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

    async fn run_again(&self, caller: &Caller, id: &str, wish: Wish) -> Result<(One, Connected), Error> {
        let until = Instant::now() + self.settings.resume_timeout;
        let mut seen = self.seen_live(caller, id).await?;
        let (mut unknown, mut was_paused) = (None, false);
        for _ in 0..TRIES {
            was_paused |= wants_pause(&seen);
            match self.try_resume(caller, id, wish, &mut seen, &mut unknown, until).await? {
                Resumed::Ran(seen) if was_paused => return Ok((seen, Connected::Resumed)),
                Resumed::Ran(seen) => return Ok((seen, Connected::Running)),
                Resumed::Runs(seen) => return Ok((seen, Connected::Resumed)),
                Resumed::Again => seen = self.decide_again(caller, id, &seen, &mut unknown).await?,
            }
        }
        Err(unknown.map_or_else(|| cannot(id, "resumed", &seen), Error::from))
    }

    /// One attempt. `seen` is the newest afterwards.
    async fn try_resume(
        &self,
        caller: &Caller,
        id: &str,
        wish: Wish,
        seen: &mut One,
        unknown: &mut Option<WriteError>,
        until: Instant,
    ) -> Result<Resumed, Error> {
        let now = self.now();
        let is_refused = refusal(seen).is_some();
        if is_pausing(seen, now) && !is_refused {
            self.pause_over(id, seen, until).await?;
            return Ok(Resumed::Again);
        }
        let runs = phase(seen) == PHASE_RUNNING && !wants_pause(seen);
        if runs && is_true(seen, CONDITION_READY) && !self.is_resuming(seen) {
            return Ok(Resumed::Ran(Arc::clone(seen)));
        }
        if !is_resumable(seen, now) && !is_refused {
            return Err(cannot(id, "resumed", seen));
        }
        // A sandbox that runs and is not ready comes back soon, or its owner has to see to it.
        let until = if runs { until.min(Instant::now() + NOT_READY) } else { until };
        let left = until.saturating_duration_since(Instant::now());
        let turn = self.cache.turn_within(seen, Action::Resume, left).await;
        let turn = turn.map_err(|error| waited(id, error))?;
        if wants_pause(seen) {
            let lock = annotation(seen, ANNOTATION_LOCK).to_owned();
            self.quota.resumed(caller, &lock, self.size_of(seen)).await?;
            let floor = self.settings.min_resume_timeout;
            let deadlines =
                Deadlines::of(seen).resumed(wish.timeout, wish.auto_pause, retention(seen), floor, now);
            let mut patch = json!({"spec": deadlines.spec()});
            patch["spec"]["paused"] = false.into();
            match self.writes.patch(seen, patch).await {
                Ok(written) => *seen = written,
                Err(error @ (WriteError::Conflict(_) | WriteError::Unanswered(_))) => {
                    *unknown = Some(error);
                    return Ok(Resumed::Again);
                }
                Err(error) => {
                    self.quota.paused(caller, &lock).await;
                    let gone = matches!(error, WriteError::NotFound(_));
                    return Err(if gone { Error::no_sandbox(id) } else { error.into() });
                }
            }
        }
        let left = until.saturating_duration_since(Instant::now());
        let resumed = match turn.wait(left).await {
            Err(WaitError::Timeout) if runs => return Ok(Resumed::Ran(Arc::clone(seen))),
            resumed => resumed.map_err(|error| waited(id, error))?,
        };
        self.runtime.init(&self.cache, &resumed, Init::Again).await?;
        let resumed = self.newest(&resumed);
        self.gateways.announce(&resumed, self.now()).await;
        Ok(if runs { Resumed::Ran(resumed) } else { Resumed::Runs(resumed) })
    }

    /// Whether somebody here resumes the sandbox, though it looks as if it ran.
    fn is_resuming(&self, seen: &Seen<SandboxFacts>) -> bool {
        matches!(self.cache.under_way(&seen.uid), Some((Action::Resume, _)))
    }

    /// Waits until a pause is complete.
    async fn pause_over(&self, id: &str, seen: &Seen<SandboxFacts>, until: Instant) -> Result<(), Error> {
        let clock = Arc::clone(self.cache.clock());
        let is_over = move |seen: &Seen<SandboxFacts>| Check::holds(!is_pausing(seen, clock.now()));
        // It only looks, so it takes no turn.
        let wait = self.cache.wait(&seen.key, &seen.uid, Action::Ready, is_over);
        let left = until.saturating_duration_since(Instant::now());
        wait.within(left).await.map(drop).map_err(|error| waited(id, error))
    }

    /// The sandbox as it is now, after a write that did not succeed or was not answered.
    async fn decide_again(
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

    /// What a sandbox uses while it runs.
    fn size_of(&self, sandbox: &Seen<SandboxFacts>) -> Size {
        let (own, named) = (sandbox.template.as_ref(), sandbox.template_ref.as_deref());
        Size::of(template_of(&self.cache, &sandbox.key.namespace, own, named))
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
fn refusal(sandbox: &SandboxFacts) -> Option<String> {
    let paused = sandbox.condition(CONDITION_PAUSED)?;
    let is_refused = wants_pause(sandbox)
        && phase(sandbox) == PHASE_RUNNING
        && &*paused.status == "False"
        && &*paused.reason == REASON_HIBERNATE_UNSUPPORTED;
    is_refused.then(|| paused.message.to_string())
}

/// The error of a sandbox that is not in a state for it.
fn cannot(id: &str, what: &str, sandbox: &SandboxFacts) -> Error {
    let is = match phase(sandbox) {
        "" => "new",
        PHASE_RUNNING if wants_pause(sandbox) => "about to pause",
        PHASE_RUNNING => "running and not ready",
        other => other,
    };
    Error::new(ErrorKind::Conflict, format!("sandbox {id} cannot be {what} now: it is {is}"))
}

/// The error of a wait.
fn waited(id: &str, error: WaitError) -> Error {
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
