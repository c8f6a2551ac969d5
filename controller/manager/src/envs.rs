//! Sandboxes of scitix's environments: pods of a pool that were claimed.
//!
//! A template that no SandboxSet and no snapshot has is the name of an environment. The
//! [router](sandgate_envs::router::EnvRouter) ranks its pools, the [scheduler](Scheduler) claims a pod of the
//! first whose line takes the claim, and the operator puts the image into the pod. The answer comes when the
//! sandbox runs.
//!
//! # What holds
//! - One write with the version of the pod that was seen claims it ([`pods`]). Of all replicas one has it.
//! - Every create runs in a task of its own. It ends, or gives its pod back, also if its caller is gone.
//! - An `Idempotency-Key` gives one sandbox, across replicas ([`keyed`]).
//! - A manager that dies after a claim leaves a sandbox that nobody knows. It is released after its idle
//!   timeout; with a key, a retry finds it.
//! - Whatever ends a sandbox gives its pod back, or deletes it where something could be left in it
//!   ([`sandgate_envs::change::release`]).
//!
//! # Its time
//! E2B's timeout is the time from now on. Here it is the time without use: the annotation
//! `agentbox.navix.sh/idle-timeout`. To set it is a use, so right after that both are the same. `endAt` is
//! the last use that the pod says, and the timeout. A sandbox that never ends is asked for by
//! `e2b.agents.kruise.io/never-timeout` in the metadata, because the API takes no timeout of zero.
//!
//! # Its ID
//! The ID is a UUID in lower case. scitix's own has the cluster and a dot before it, which no host name of
//! the form `{port}-{id}.{domain}` can have.
//!
//! # What other replicas and the operator learn
//! A pool has an annotation of each replica with how many claims wait for it, and one with the time of the
//! last claim ([`notes`]).

mod create;
mod describe;
mod feed;
mod find;
mod keyed;
mod life;
mod notes;
mod pods;
#[cfg(test)]
pub(crate) mod tests;
mod wish;

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join;
use parking_lot::Mutex;
use sandgate_cache::Random;
use sandgate_envs::router::Loads;
use sandgate_envs::scheduler::{Scheduler, Settings as LineSettings};
use tokio_util::task::TaskTracker;

use crate::core::Core;
use crate::{Error, ErrorKind};
pub(crate) use describe::{is_live, size_of_pod};
pub use feed::EnvFeed;
use keyed::Turns;
pub(crate) use life::Found;
use notes::Notes;
use pods::EnvPods;

/// How long a sandbox may take to run, unless its creator or its pool says otherwise.
const STARTUP: Duration = Duration::from_secs(120);
/// The router is brought up to what the cache has this often, give or take a fifth.
const REPAIR: Duration = Duration::from_secs(10);
/// How long claims under way may take to end when the process ends.
const FAREWELL: Duration = Duration::from_secs(15);

/// What is known of environments, and their lines.
pub(crate) struct Environments {
    core: Arc<Core>,
    feed: EnvFeed,
    lines: Scheduler<EnvPods>,
    notes: Arc<Notes>,
    turns: Turns,
    /// What goes on though nobody waits for it.
    tasks: TaskTracker,
    random: Mutex<Random>,
}

/// How many claims wait, and how many environments the router knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EnvCounts {
    /// Claims that wait for a pod of a pool.
    pub waiting: usize,
    /// Environments that the router knows.
    pub routed: usize,
}

impl Environments {
    /// Environments that this feed tells of. It has to be made where a runtime is.
    pub(crate) fn new(core: &Arc<Core>, feed: EnvFeed, mut random: Random) -> Arc<Self> {
        let replica = format!("{:016x}", random.number());
        let notes = Arc::new(Notes::new(core, &replica));
        let pods = EnvPods::new(core, &notes);
        let settings = LineSettings { line: core.settings.env_line, ..LineSettings::default() };
        let lines = Scheduler::new(pods, settings);
        let (core, random) = (Arc::clone(core), Mutex::new(random));
        let (turns, tasks) = (Turns::default(), TaskTracker::new());
        let envs = Arc::new(Self { core, feed, lines, notes, turns, tasks, random });
        envs.feed.serve(&envs);
        envs
    }

    /// The load of a pool is what the cache and the line of this process say.
    fn load(&self) -> Loads<'_, EnvPods> {
        Loads { idle: self.feed.idle(), lines: &self.lines }
    }

    /// How many claims wait, and how many environments the router knows.
    pub(crate) fn counts(&self) -> EnvCounts {
        EnvCounts { waiting: self.lines.pending().values().sum(), routed: self.feed.router().len() }
    }

    /// Repairs the router and writes what pools are told, for ever.
    pub(crate) async fn keep(&self) {
        let repair = async {
            loop {
                let wait = self.random.lock().between(REPAIR * 4 / 5, REPAIR * 6 / 5);
                tokio::time::sleep(wait).await;
                self.feed.repair(&self.core.cache);
            }
        };
        join(repair, self.notes.keep(&self.lines)).await;
    }

    /// Takes no more claims, waits for what is under way, and takes back what pools were told.
    pub(crate) async fn drain(&self) {
        let drained = self.lines.drain(FAREWELL).await;
        if drained.unsettled > 0 {
            tracing::warn!(
                unsettled = drained.unsettled,
                "claims of pods were given up; who has them is not known"
            );
        }
        self.tasks.close();
        self.tasks.wait().await;
        self.notes.end(&self.lines).await;
    }
}

/// Environments do not have this.
pub(crate) fn unsupported(what: &str, hint: &str) -> Error {
    let message = format!("{what}: sandboxes of environments cannot do this. {hint}");
    Error::new(ErrorKind::Unsupported, message)
}
