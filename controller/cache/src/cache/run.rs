//! Start, run and stop of the followers.

mod live;
mod parts;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;
use sandgate_follow::{Api, FollowState, Follower, Hooks, StatusCell};
use sandgate_objects::openkruise::resources::{Checkpoint, SandboxFacts, SandboxSet, SandboxTemplate};
use sandgate_objects::sandbox_env::resources::{EnvPod, SandboxEnv, SandboxPool};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use super::{Cache, Kept, Kind, for_kind};
use crate::{ConfigMapFacts, Group, PvcFacts, SecretFacts};
pub(super) use live::Found;
pub(super) use parts::{BeforeStart, Parts};

/// Why a cache did not start. Everything that had been started was stopped.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StartError {
    /// The cache was built without an API server: it is fed by somebody else.
    #[error("the cache has no API server to follow")]
    NoApi,
    /// It runs already.
    #[error("the cache was started before and not stopped")]
    Running,
    /// It was stopped while it started.
    #[error("the cache was stopped while it started")]
    Stopped,
    /// A follower could not be started.
    #[error("{what} could not be started: {why}")]
    Part {
        /// Which one.
        what: String,
        /// Why.
        why: String,
    },
    /// The API server does not know a kind: its CRD is not installed.
    #[error("the API server does not know {}", .0.join(", "))]
    Absent(Vec<String>),
    /// The first lists were not complete in time. Each with what it waits for.
    #[error("not listed in time: {}", .0.join("; "))]
    NotListed(Vec<String>),
    /// A task ended that must not.
    #[error("{0}, which must not happen; see the log")]
    Ended(String),
}

/// Why a cache that ran does not any more.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RunError {
    /// A task ended that must not: which one, and how.
    #[error("{0}, which must not happen; see the log")]
    Ended(String),
    /// It was asked to.
    #[error("the cache was stopped")]
    Stopped,
}

/// A resource that is followed.
#[derive(Clone, Debug)]
pub struct Followed {
    /// As in `sandboxes.agents.kruise.io`.
    pub resource: String,
    /// Its namespace; none is all of them.
    pub namespace: Option<String>,
    /// The state of its follower.
    pub status: Arc<StatusCell>,
}

/// `resource`, or `resource in NAMESPACE`.
impl fmt::Display for Followed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.namespace {
            Some(namespace) => write!(f, "{} in {namespace}", self.resource),
            None => self.resource.fmt(f),
        }
    }
}

impl Followed {
    /// What is wrong with it now.
    fn problem(&self) -> Option<String> {
        let status = self.status.load();
        if status.listed && status.error.is_none() {
            return None;
        }
        let why = status.error.map(|error| format!(": {error}")).unwrap_or_default();
        Some(format!("{self}: {}{why}", status.state))
    }
}

/// The last run of a cache, or the last start.
#[derive(Default)]
pub(super) struct Runs(Mutex<Latest>);

#[derive(Default)]
struct Latest {
    /// Also one that has ended. None before the first start, and after one that failed.
    run: Option<Run>,
    /// How the last start failed.
    failed: Option<StartError>,
}

#[derive(Clone)]
struct Run {
    stop: CancellationToken,
    followed: Arc<Vec<Followed>>,
    /// How it ended, once everything has been stopped.
    ended: watch::Receiver<Option<RunError>>,
}

impl Run {
    async fn ended(&self) -> RunError {
        let mut ended = self.ended.clone();
        let error = ended.wait_for(Option::is_some).await.ok().and_then(|ended| ended.clone());
        error.unwrap_or_else(given_up)
    }

    /// How it ended; none while it goes on.
    fn error(&self) -> Option<RunError> {
        // Asked first: whoever says how it ended does so before it goes.
        let is_given_up = self.ended.has_changed().is_err();
        let error = self.ended.borrow().clone();
        error.or_else(|| is_given_up.then(given_up))
    }
}

/// Nobody is left who could say how it ended.
fn given_up() -> RunError {
    RunError::Ended("the cache's own task panicked, or its start was dropped".to_owned())
}

/// A cache that runs. Dropping it asks everything to stop, and ends every wait soon after.
pub struct Running {
    cache: Cache,
    run: Run,
}

impl Running {
    /// Waits for the end: of a task that must not end, or of all by [`stop`](Self::stop). Everything else has
    /// been stopped then.
    pub async fn ended(&self) -> RunError {
        self.run.ended().await
    }

    /// Stops the followers, ends every wait with [`Cancelled`](crate::WaitError::Cancelled), and returns when
    /// all have ended. A second call returns when the first would.
    pub async fn stop(&self) {
        self.cache.stop().await;
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.run.stop.cancel();
    }
}

impl Cache {
    /// Starts a follower for each kind, and returns when each has had its first list.
    ///
    /// # Errors
    /// See [`StartError`]. Nothing is left running.
    pub async fn start(&self) -> Result<Running, StartError> {
        let parts = &self.shared.parts;
        // A start that fails on cue is one without an API server too, for tests of whoever starts a cache.
        if parts.api.is_none() && parts.before_start.is_none() {
            return Err(StartError::NoApi);
        }
        let stop = CancellationToken::new();
        let (sender, ended) = watch::channel(None);
        let (changes, mut changed) = watch::channel(());
        let mut group = Group::default();
        let (run, was_stopped) = {
            let mut latest = self.shared.runs.0.lock();
            if latest.run.as_ref().is_some_and(|run| run.error().is_none()) {
                return Err(StartError::Running);
            }
            let followed = if parts.api.is_some() { parts.followed() } else { Vec::new() };
            let run = Run { stop: stop.clone(), followed: Arc::new(followed), ended };
            *latest = Latest { run: Some(run.clone()), failed: None };
            // Under the lock: a stop that comes now finds the run, and what it says is not overwritten.
            (run, self.shared.stopped.swap(false, Ordering::AcqRel))
        };
        let listed = match self.spawn_all(&run, &changes, &mut group) {
            Ok(()) => tokio::select! {
                biased;
                () = stop.cancelled() => Err(StartError::Stopped),
                ended = group.ended() => Err(StartError::Ended(ended)),
                listed = self.first_lists(&run, &mut changed) => listed,
            },
            failed => failed,
        };
        if let Err(error) = listed {
            group.stop().await;
            if was_stopped {
                self.shared.stopped.store(true, Ordering::Release);
            }
            *self.shared.runs.0.lock() = Latest { run: None, failed: Some(error.clone()) };
            let _ = sender.send(Some(RunError::Stopped));
            return Err(error);
        }
        tokio::spawn(supervised(self.clone(), group, stop, sender));
        Ok(Running { cache: self.clone(), run })
    }

    fn spawn_all(&self, run: &Run, changes: &watch::Sender<()>, group: &mut Group) -> Result<(), StartError> {
        let parts = &self.shared.parts;
        for (number, kind) in parts.kinds().enumerate() {
            if let Some(before) = &parts.before_start {
                let what = format!("the watch of {}", kind.as_str());
                before(kind).map_err(|why| StartError::Part { what, why })?;
            }
            if let (Some(api), Some(followed)) = (&parts.api, run.followed.get(number)) {
                for_kind!(kind, spawn(self, api, followed, changes, group));
            }
        }
        Ok(())
    }

    /// Waits for the first list of each kind.
    async fn first_lists(&self, run: &Run, changed: &mut watch::Receiver<()>) -> Result<(), StartError> {
        let began = Instant::now();
        let (all, absent) = (began + self.shared.parts.start, began + self.shared.parts.absent);
        let missing = || run.followed.iter().filter(|followed| !followed.status.is_listed());
        loop {
            if missing().next().is_none() {
                return Ok(());
            }
            let is_absent = |it: &&Followed| it.status.load().state == FollowState::WaitingForResource;
            let unknown: Vec<_> = missing().filter(is_absent).map(ToString::to_string).collect();
            let now = Instant::now();
            if now >= absent && !unknown.is_empty() {
                return Err(StartError::Absent(unknown));
            }
            if now >= all {
                return Err(StartError::NotListed(missing().filter_map(Followed::problem).collect()));
            }
            let next = if now < absent { absent.min(all) } else { all };
            tokio::select! {
                biased;
                // The sender lives in the hooks of the followers.
                _ = changed.changed() => {}
                () = sleep_until(next) => {}
            }
        }
    }

    /// Stops the followers, if this cache was started, ends every wait with
    /// [`Cancelled`](crate::WaitError::Cancelled), and returns when all have ended. What is cached can still
    /// be read. A second call does nothing more.
    pub async fn stop(&self) {
        let run = {
            let latest = self.shared.runs.0.lock();
            self.shared.stopped.store(true, Ordering::Release);
            latest.run.clone()
        };
        if let Some(run) = run {
            run.stop.cancel();
            run.ended().await;
        }
        self.shared.hubs.cancel();
    }

    /// What is followed; nothing before the [start](Self::start).
    pub fn followed(&self) -> Vec<Followed> {
        let latest = self.shared.runs.0.lock();
        latest.run.as_ref().map(|run| run.followed.to_vec()).unwrap_or_default()
    }

    /// Whether the cache follows the cluster now. A cache that is fed by somebody else is healthy once every
    /// kind was listed.
    ///
    /// # Errors
    /// What is wrong, a sentence each.
    pub fn healthy(&self) -> Result<(), Vec<String>> {
        let (run, failed) = {
            let latest = self.shared.runs.0.lock();
            (latest.run.clone(), latest.failed.clone())
        };
        if let Some(error) = failed {
            return Err(vec![error.to_string()]);
        }
        if let Some(error) = run.as_ref().and_then(Run::error) {
            return Err(vec![error.to_string()]);
        }
        if self.shared.is_stopped() {
            return Err(vec!["the cache was stopped".to_owned()]);
        }
        let followed = run.iter().flat_map(|run| run.followed.iter());
        let problems: Vec<_> = followed.filter_map(Followed::problem).collect();
        if !problems.is_empty() {
            return Err(problems);
        }
        if self.synced() { Ok(()) } else { Err(vec!["not every kind has been listed".to_owned()]) }
    }

    /// Whether the cache has followed the cluster for at least this long without a failure: after a while it
    /// has what happened while it did not. A cache that is fed by somebody else has if it is
    /// [healthy](Self::healthy).
    pub fn healthy_for(&self, time: Duration) -> bool {
        let now = SystemTime::now();
        let has_watched = |followed: &Followed| {
            let since = followed.status.load().watching_since;
            since.is_some_and(|since| now.duration_since(since).is_ok_and(|watched| watched >= time))
        };
        self.healthy().is_ok() && self.followed().iter().all(has_watched)
    }
}

/// Waits for the stop, or for a task that ends, and stops all.
async fn supervised(
    cache: Cache,
    mut group: Group,
    stop: CancellationToken,
    sender: watch::Sender<Option<RunError>>,
) {
    let ended = tokio::select! {
        biased;
        () = stop.cancelled() => None,
        name = group.ended() => Some(name),
    };
    group.stop().await;
    // Nobody tells a wait anything any more. This comes before the end is known, because after that the cache
    // may be started again.
    cache.shared.stopped.store(true, Ordering::Release);
    cache.shared.hubs.cancel();
    let error = ended.map_or(RunError::Stopped, RunError::Ended);
    if let RunError::Ended(_) = &error {
        tracing::error!("{error}");
    }
    let _ = sender.send(Some(error));
}

/// Starts a follower. If it panics, what it was about to change may be half done, so it is not started again:
/// its end is the end of the run.
fn spawn<T: Kept>(
    cache: &Cache,
    api: &Arc<Api>,
    followed: &Followed,
    changes: &watch::Sender<()>,
    group: &mut Group,
) {
    let target = cache.shared.parts.target::<T>();
    let (changed, first_list) = (changes.clone(), changes.clone());
    let hooks = Hooks {
        changed: Arc::new(move || changed.send_modify(|()| {})),
        first_list: Arc::new(move || first_list.send_modify(|()| {})),
    };
    let (api, feed, status) = (Arc::clone(api), cache.feed::<T>(), Arc::clone(&followed.status));
    let follower = Follower::new(followed.to_string(), api, target, feed, status, hooks);
    group.spawn(&format!("the watch of {followed}"), async move |stop: CancellationToken| {
        tokio::select! {
            biased;
            () = stop.cancelled() => {}
            () = follower.run() => {}
        }
    });
}
