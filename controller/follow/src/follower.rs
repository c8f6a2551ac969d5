//! The task of one follower: list, watch, and again.

use std::sync::Arc;
use std::time::Duration;

use sandgate_routes::Version;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use crate::api::Api;
use crate::backoff::Backoff;
use crate::events::Lines;
use crate::failure::Failure;
use crate::log::BoundedLog;
use crate::sink::Sink;
use crate::status::{FollowState, ListMode, StatusCell};
use crate::target::Target;

mod list;
mod watch;

/// After so many failed attempts in a row to resume from one version, though the server answers, there is a
/// list.
pub const MAX_RESUMES: u32 = 3;

/// If the last list is older than this, a 410 is followed by a list after the shortest wait.
const LIST_AGAIN: Duration = Duration::from_secs(10);

/// How long [`supervise`] waits before it starts a follower again.
const RESTART: Duration = Duration::from_secs(1);

/// Called on the runtime's thread. They must not block.
#[derive(Clone)]
pub struct Hooks {
    /// The status changed otherwise than by counts and times.
    pub changed: Arc<dyn Fn() + Send + Sync>,
    /// The first complete list was committed.
    pub first_list: Arc<dyn Fn() + Send + Sync>,
}

/// Lists and watches one [`Target`] for one [`Sink`].
///
/// A complete list is committed at its version, and the watch continues from there. Each event is applied as
/// soon as it is read. A watch that ends is resumed from the last version of an event or a bookmark. There is
/// a new list only if the server has forgotten that version, or if the resource was gone, or if resuming
/// keeps failing.
///
/// # Rewinds
/// An API server that was restored from a backup counts on from an older version, unless its versions were
/// bumped during the restore, as etcd advises. A sink that keeps the newest version of an object would show a
/// past that has been undone. The follower notices this by an event, a bookmark or a list whose version is
/// below one that it has seen. After every broken watch it also asks for the current version, before it
/// resumes. A rewind leads to a new list, and [`Sink::rewind`] drops every object that is newer than the
/// list. As long as the sink holds objects of the list back, the follower lists again every
/// [`held_back`](crate::Timing::held_back).
pub struct Follower<S> {
    api: Arc<Api>,
    target: Target,
    sink: S,
    status: Arc<StatusCell>,
    log: BoundedLog,
    hooks: Hooks,
    /// How many objects the API server has.
    objects: u64,
    /// Where the watch resumes; none before the first list and where a new list is needed.
    version: Option<Version>,
    /// The newest version seen.
    newest: Option<Version>,
    backoff: Backoff,
    absent: Backoff,
    /// Failures since the version last changed.
    failures: u32,
    /// The last watch broke: check the server's version before resuming.
    check_version: bool,
    /// A streamed list was cut off: read the next one in pages.
    avoid_streaming: bool,
    relist_at: Option<Instant>,
    /// When the last list was committed, and when the last watch began.
    listed_at: Option<Instant>,
    watching_since: Option<Instant>,
}

/// Runs the follower that `make` returns, and a new one if it panics, until it is dropped. Until the new one
/// watches, the status says so. `name` is for the log.
pub async fn supervise<S: Sink>(name: &str, make: impl Fn() -> Follower<S>) {
    loop {
        let follower = make();
        let (status, hooks) = (Arc::clone(&follower.status), follower.hooks.clone());
        // A set of one task ends the task when it is dropped.
        let mut task = JoinSet::new();
        task.spawn(follower.run());
        // The result is always a panic, which the panic hook has logged: a follower never returns.
        let _ = task.join_next().await;
        tracing::error!("the watch of {name} panicked and is started again");
        status.update(|status| {
            status.state = FollowState::BackingOff;
            status.error = Some("the watch panicked and is started again".into());
        });
        (hooks.changed)();
        sleep(RESTART).await;
    }
}

impl<S: Sink> Follower<S> {
    /// Nothing is requested before [`run`](Self::run). Lines of the log start with `name`. The status
    /// outlives the follower, and may have been used by an earlier one.
    pub fn new(
        name: String,
        api: Arc<Api>,
        target: Target,
        sink: S,
        status: Arc<StatusCell>,
        hooks: Hooks,
    ) -> Self {
        let timing = &api.timing;
        Follower {
            backoff: Backoff::new(timing.retry, timing.retry_cap),
            absent: Backoff::new(timing.retry, timing.absent_cap),
            api,
            target,
            sink,
            status,
            log: BoundedLog::new(name),
            hooks,
            objects: 0,
            version: None,
            newest: None,
            failures: 0,
            check_version: false,
            avoid_streaming: false,
            relist_at: None,
            listed_at: None,
            watching_since: None,
        }
    }

    /// Runs until it is dropped. Needs a Tokio runtime with time and I/O enabled.
    pub async fn run(mut self) {
        loop {
            let ended = self.list_and_watch().await;
            let watched = self.watching_since.take().map_or(Duration::ZERO, |since| since.elapsed());
            // A list alone does not reset the wait: a watch that always fails would cause a list each time.
            if watched >= self.api.timing.watch_at_least {
                self.backoff.reset();
            }
            let wait = match ended {
                Ok(()) if watched >= self.api.timing.watch_at_least => Duration::ZERO,
                Ok(()) => self.backoff.next(None),
                Err(failure) => self.failed(&failure),
            };
            self.check_version |= watched < self.api.timing.watch;
            if !wait.is_zero() {
                sleep(wait).await;
            }
        }
    }

    /// One list, if one is needed, and one watch.
    async fn list_and_watch(&mut self) -> Result<(), Failure> {
        let mut stream = match self.version.clone() {
            Some(version) => self.resume(&version).await?,
            None => match self.list().await? {
                (_, Some(stream)) => stream,
                (version, None) => self.resume(&version).await?,
            },
        };
        self.watch(&mut stream).await
    }

    /// Records a failure and returns the wait before the next attempt.
    fn failed(&mut self, failure: &Failure) -> Duration {
        self.check_version = true;
        self.failures += 1;
        let absent = failure.code() == Some(404);
        let answered = match failure {
            Failure::Garbled(_) => true,
            Failure::Refused { code, .. } => !matches!(code, 401 | 403 | 429 | 503),
            _ => false,
        };
        if failure.needs_a_list() || (answered && self.failures >= MAX_RESUMES) {
            self.version = None;
        }
        // The server is up, and the sink needs nothing but a list.
        if matches!(failure, Failure::Gone(_)) && self.listed_at.is_none_or(|at| at.elapsed() > LIST_AGAIN) {
            self.backoff.reset();
        }
        let text = match failure.code() {
            Some(404) => format!("waiting for the CRD of {}: the API server does not know it", self.target),
            Some(401) => format!("the API server does not accept the credentials: {failure}"),
            Some(403) => format!("a right is missing: {failure}"),
            _ => failure.to_string(),
        };
        self.log.failed(&text);
        let state = if absent { FollowState::WaitingForResource } else { FollowState::BackingOff };
        self.status.update(|status| {
            status.state = state;
            status.error = Some(text.into());
        });
        (self.hooks.changed)();
        let backoff = if absent { &mut self.absent } else { &mut self.backoff };
        backoff.next(failure.retry_after())
    }

    /// Gives the sink a complete list. Returns its version, and the watch that continues a streamed list.
    async fn list(&mut self) -> Result<(Version, Option<Lines>), Failure> {
        let api = Arc::clone(&self.api);
        let _turn = api.turn_to_list().await;
        let began = Instant::now();
        let (version, stream) = self.read_list().await.inspect_err(|_| self.sink.abandon())?;
        let mode = if stream.is_some() { ListMode::Streaming } else { ListMode::Paged };
        let mut committed = self.sink.commit(&version);
        let rewound = self.newest.as_ref().filter(|newest| version < **newest);
        if let Some(newest) = rewound {
            self.log.error(&format!(
                "the API server's versions went back from {newest} to {version}: was it restored from a backup?"
            ));
            committed.held_back += self.sink.rewind(&version);
        }
        let first = !self.status.is_listed();
        self.status.set_objects(self.objects);
        self.status.update(|status| {
            status.listed = true;
            status.lists += 1;
            status.mode = Some(mode);
            status.rewinds += u64::from(rewound.is_some());
            status.held_back = if status.rewinds > 0 { committed.held_back } else { 0 };
        });
        let held_back = self.status.load().held_back > 0;
        self.relist_at = held_back.then(|| Instant::now() + api.timing.held_back);
        self.log.info(&format!(
            "a {} list of {} objects at version {version} is in after {} ms; {} deleted",
            mode.as_str(),
            self.objects,
            began.elapsed().as_millis(),
            committed.deleted
        ));
        self.resume_from(&version);
        self.check_version = false;
        self.listed_at = Some(Instant::now());
        if first {
            (self.hooks.first_list)();
        }
        Ok((version, stream))
    }

    /// Records the version that the sink has, and where the next watch resumes.
    fn resume_from(&mut self, version: &Version) {
        self.newest = Some(version.clone());
        self.version = Some(version.clone());
        self.failures = 0;
        self.absent.reset();
    }

    fn watch_seconds(&mut self) -> u64 {
        let watch = self.api.timing.watch;
        watch.mul_f64(1.0 + self.backoff.fraction()).as_secs().max(1)
    }
}
