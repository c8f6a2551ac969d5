//! Resume and connect. What they have in common with a pause stands [there](crate::pause).
//!
//! # The runtime
//! A resume may bring a new pod, whose runtime has neither the variables nor the token of the sandbox. So
//! whoever resumes also initialises the runtime:
//! 1. The write that resumes puts [`ANNOTATION_INIT_PENDING`] on the sandbox.
//! 2. The sandbox is ready, and its runtime is initialised.
//! 3. A write takes the annotation away, if the sandbox has not been resumed again since.
//!
//! While the annotation is there, nobody is told that the sandbox runs before having done steps 2 and 3. So a
//! manager that dies in between, a runtime that fails for a while and a second manager that connects at the
//! same time lose nothing: whoever connects next does it, and if nobody does, the sweep. To initialise a
//! runtime twice is to do it once. OpenKruise's controller does it too, before it says that the sandbox is
//! ready.

use std::sync::Arc;
use std::time::Duration;

use sandgate_cache::predicates::{is_pausing, is_resumable, is_true, phase, pod_ip, wants_pause};
use sandgate_cache::{Action, Check, Seen, WaitError, WriteError};
use sandgate_objects::openkruise::names::{
    ANNOTATION_INIT_RUNTIME_REQUEST, ANNOTATION_LOCK, CONDITION_READY, PHASE_RUNNING,
};
use sandgate_objects::openkruise::resources::SandboxFacts;
use serde_json::json;
use tokio::time::Instant;

use crate::core::{Core, TRIES};
use crate::describe::{annotation, describe};
use crate::pause::{One, cannot, refusal, waited};
use crate::runtime::Init;
use crate::tasks::Asked;
use crate::timeouts::{Deadlines, Policy, retention};
use crate::{Caller, Connected, Described, Error};

/// The annotation of a sandbox that was resumed and whose runtime is not initialised yet. The value is the
/// version that the resume was decided on, which no other resume has.
pub(crate) const ANNOTATION_INIT_PENDING: &str = "sandgate.dev/init-pending";
/// How long a connect waits for a sandbox that runs and is not ready.
const NOT_READY: Duration = Duration::from_secs(10);

/// What a resume is asked for beside resuming.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Wish {
    /// How long it lives from now.
    pub(crate) timeout: Option<Duration>,
    /// Whether it pauses then.
    pub(crate) auto_pause: Option<bool>,
}

/// One request to resume.
struct Resume<'a> {
    caller: &'a Caller,
    id: &'a str,
    wish: Wish,
    asked: &'a Asked,
    until: Instant,
    /// The last write that was not done, or not answered.
    unknown: Option<WriteError>,
    /// Whether the sandbox was not just running.
    is_resumed: bool,
    /// Whether it was this request that wrote it.
    has_written: bool,
}

impl Core {
    /// Resumes a sandbox. One that runs stays as it is.
    pub(crate) async fn resume(
        &self,
        caller: &Caller,
        id: &str,
        wish: Wish,
        asked: &Asked,
    ) -> Result<Described, Error> {
        let (seen, _) = self.run_again(caller, id, wish, asked).await?;
        Ok(describe(&self.cache, &seen, self.now()))
    }

    /// Lets a sandbox that runs live at least so long from now, or resumes it.
    pub(crate) async fn connect(
        &self,
        caller: &Caller,
        id: &str,
        timeout: Option<Duration>,
        asked: &Asked,
    ) -> Result<(Described, Connected), Error> {
        let wish = Wish { timeout, auto_pause: None };
        let (mut seen, done) = self.run_again(caller, id, wish, asked).await?;
        // Whoever else resumed it may have asked for less.
        if let (false, Some(timeout)) = (done.has_written, timeout) {
            seen = self.move_end(caller, id, &seen, timeout, Policy::ExtendOnly).await?;
        }
        let connected = if done.is_resumed { Connected::Resumed } else { Connected::Running };
        Ok((describe(&self.cache, &seen, self.now()), connected))
    }

    async fn run_again<'a>(
        &self,
        caller: &'a Caller,
        id: &'a str,
        wish: Wish,
        asked: &'a Asked,
    ) -> Result<(One, Resume<'a>), Error> {
        let until = Instant::now() + self.settings.resume_timeout;
        let (unknown, is_resumed, has_written) = (None, false, false);
        let mut resume = Resume { caller, id, wish, asked, until, unknown, is_resumed, has_written };
        let mut seen = self.seen_live(caller, id).await?;
        for _ in 0..TRIES {
            resume.is_resumed |= !runs(&seen);
            if let Some(running) = self.try_resume(&mut resume, &mut seen).await? {
                return Ok((running, resume));
            }
            seen = self.decide_again(caller, id, &seen, &mut resume.unknown).await?;
        }
        Err(resume.unknown.map_or_else(|| cannot(id, "resumed", &seen), Error::from))
    }

    /// One attempt. None if the sandbox has to be looked at again. `seen` is the newest afterwards.
    async fn try_resume(&self, resume: &mut Resume<'_>, seen: &mut One) -> Result<Option<One>, Error> {
        let (id, now) = (resume.id, self.now());
        let is_refused = refusal(seen).is_some();
        if is_pausing(seen, now) && !is_refused {
            self.pause_over(id, seen, resume.until).await?;
            return Ok(None);
        }
        let runs = runs(seen);
        if runs && is_true(seen, CONDITION_READY) && !self.is_resuming(seen) {
            return Ok(Some(Arc::clone(seen)));
        }
        if !is_resumable(seen, now) && !is_refused {
            return Err(cannot(id, "resumed", seen));
        }
        // A sandbox that runs and is not ready comes back soon, or its owner has to see to it.
        let until = if runs { resume.until.min(Instant::now() + NOT_READY) } else { resume.until };
        let left = until.saturating_duration_since(Instant::now());
        let turn = self.cache.turn_within(seen, Action::Resume, left).await;
        let turn = turn.map_err(|error| waited(id, error))?;
        if wants_pause(seen) && !self.write_resume(resume, seen).await? {
            return Ok(None);
        }
        let left = until.saturating_duration_since(Instant::now());
        let ready = match turn.wait(left).await {
            Err(WaitError::Timeout) if runs => return Ok(Some(Arc::clone(seen))),
            ready => ready.map_err(|error| waited(id, error))?,
        };
        let running = self.initialise(&ready).await?;
        self.gateways.announce(&running, self.now()).await;
        Ok(Some(running))
    }

    /// Writes that the sandbox runs again. Returns whether that was done: if not, it has to be looked at
    /// again.
    async fn write_resume(&self, resume: &mut Resume<'_>, seen: &mut One) -> Result<bool, Error> {
        self.quota.resumed(resume.caller, seen).await?;
        let Wish { timeout, auto_pause } = resume.wish;
        let (kept, floor) = (retention(seen), self.settings.min_resume_timeout);
        let deadlines = Deadlines::of(seen).resumed(timeout, auto_pause, kept, floor, self.now());
        let mut patch = json!({"spec": deadlines.spec()});
        patch["spec"]["paused"] = false.into();
        if !annotation(seen, ANNOTATION_INIT_RUNTIME_REQUEST).is_empty() {
            patch["metadata"]["annotations"][ANNOTATION_INIT_PENDING] = seen.version.to_string().into();
        }
        resume.asked.begin();
        match self.writes.patch(seen, patch).await {
            Ok(written) => {
                (*seen, resume.has_written) = (written, true);
                Ok(true)
            }
            Err(error @ (WriteError::Conflict(_) | WriteError::Unanswered(_))) => {
                resume.unknown = Some(error);
                Ok(false)
            }
            Err(WriteError::NotFound(_)) => {
                self.quota.release(resume.caller, annotation(seen, ANNOTATION_LOCK)).await;
                Err(Error::no_sandbox(resume.id))
            }
            // Another manager may have resumed it meanwhile, so it counts as running until that is known.
            Err(error) => Err(error.into()),
        }
    }

    /// Initialises the runtime of a sandbox that is ready, and takes the note away that it has to be done.
    /// Returns the sandbox as it is then.
    async fn initialise(&self, ready: &One) -> Result<One, Error> {
        self.runtime.init(&self.cache, ready, Init::Again).await?;
        let pending = annotation(ready, ANNOTATION_INIT_PENDING);
        let mut seen = self.newest(ready);
        if pending.is_empty() {
            return Ok(seen);
        }
        for _ in 0..TRIES {
            let is_same = annotation(&seen, ANNOTATION_INIT_PENDING) == pending
                && pod_ip(&seen) == pod_ip(ready)
                && !wants_pause(&seen);
            if !is_same {
                break;
            }
            let patch = json!({"metadata": {"annotations": {ANNOTATION_INIT_PENDING: null}}});
            match self.writes.patch(&seen, patch).await {
                Ok(written) => return Ok(written),
                Err(WriteError::Conflict(_) | WriteError::Unanswered(_)) => {}
                Err(_) => break,
            }
            match self.writes.read::<SandboxFacts>(&seen.key).await {
                Ok(Some(read)) if read.uid == seen.uid => seen = read,
                _ => break,
            }
        }
        // If the note is still there, it is done once more.
        Ok(seen)
    }

    /// Initialises the runtimes of sandboxes that somebody has resumed and left so.
    pub(crate) async fn initialise_left(&self) {
        for seen in self.cache.sandboxes(None, None) {
            let is_left = !annotation(&seen, ANNOTATION_INIT_PENDING).is_empty()
                && phase(&seen) == PHASE_RUNNING
                && !wants_pause(&seen)
                && is_true(&seen, CONDITION_READY)
                && !self.is_resuming(&seen);
            if is_left && let Err(error) = self.initialise(&seen).await {
                tracing::warn!(sandbox = %seen.key, "resumed, and not initialised: {error}");
            }
        }
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
}

/// Whether a sandbox runs, and nobody has to do anything for that.
fn runs(sandbox: &SandboxFacts) -> bool {
    phase(sandbox) == PHASE_RUNNING
        && !wants_pause(sandbox)
        && annotation(sandbox, ANNOTATION_INIT_PENDING).is_empty()
}
