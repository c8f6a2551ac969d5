//! Creates: a sandbox from a pool, a new one where the pool has none, or one from a snapshot.
//!
//! # What holds
//! - One conditional write gives a sandbox to a caller. It holds the version of what was seen, so of all
//!   replicas and retries one has it ([`mod@write`]).
//! - What is made is nobody's until that write ([`make`]), and ends by itself without it.
//! - Every create runs in a task of its own. It ends, or takes back what it did, also if its caller is gone.
//! - An `Idempotency-Key` gives one sandbox, across replicas and crashes ([`idempotency`]).
//! - Whoever came first gets the first sandbox that comes into the pool ([`queue`]); nobody polls.

pub(crate) mod idempotency;
mod make;
mod pick;
mod queue;
mod steps;
mod sweep;
#[cfg(test)]
mod tests;
mod undo;
mod write;

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use sandgate_cache::{Cache, Random, Seen};
use sandgate_objects::openkruise::resources::{PodTemplate, SandboxFacts};
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::{Caller, Error, ErrorKind, Network, NewSandbox, NoInternet, Secrets, Writes};

pub use sweep::Swept;

/// What a create needs of the rest of the manager.
///
/// Each step may be done twice for one sandbox: by a retry, or by another replica that adopts what this one
/// began.
pub trait Prepare: Send + Sync + 'static {
    /// Admits what the caller is about to use, before anything of it is written. `lock` names the entry: a
    /// second call with the same lock keeps the entry that is there, and makes one if there is none any more.
    /// A create that takes long calls again before it claims.
    ///
    /// # Errors
    /// The quota is used up, or nobody can say whether it is.
    fn admit(
        &self,
        caller: &Caller,
        lock: &str,
        template: Option<&PodTemplate>,
    ) -> impl Future<Output = Result<(), Error>> + Send;

    /// Gives back what [`admit`](Self::admit) took: nothing of it exists.
    fn release(&self, caller: &Caller, lock: &str) -> impl Future<Output = ()> + Send;

    /// Initialises the sandbox's runtime with what its annotation `init-runtime-request` says. A runtime that
    /// was initialised with the same before is as good.
    ///
    /// # Errors
    /// The runtime did not answer, or does not want it. The sandbox is given up.
    fn init(&self, sandbox: &Arc<Seen<SandboxFacts>>) -> impl Future<Output = Result<(), Error>> + Send;

    /// Writes down where the sandbox may connect to.
    ///
    /// # Errors
    /// It was not written, or may not have been. The sandbox is given up.
    fn restrict(
        &self,
        sandbox: &Arc<Seen<SandboxFacts>>,
        network: &Network,
    ) -> impl Future<Output = Result<(), Error>> + Send;

    /// Tells every gateway of the sandbox as it is now. Returns when they know it, or when that takes too
    /// long.
    fn announce(&self, sandbox: &Arc<Seen<SandboxFacts>>) -> impl Future<Output = ()> + Send;

    /// Tells every gateway that the sandbox is gone.
    fn withdraw(&self, sandbox: &Arc<Seen<SandboxFacts>>) -> impl Future<Output = ()> + Send;
}

/// How long the parts of a create may take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimSettings {
    /// How long a create waits for a pool that has no sandbox, if it may not make one.
    pub claim_timeout: Duration,
    /// How long a create waits until its sandbox is ready.
    pub ready_timeout: Duration,
    /// How long a write that was not answered is asked after before the caller is told so.
    pub settle: Duration,
    /// How long an `Idempotency-Key` waits for a sign of life of whoever began before it goes on itself. A
    /// create gives one in every third of it.
    pub lease: Duration,
    /// How long a marker without an end is taken for one that may still get one.
    pub abandoned: Duration,
    /// How long an `Idempotency-Key` is known.
    pub keep_markers: Duration,
    /// Where the markers are.
    pub system_namespace: String,
    /// The namespace that the manager works in; none is all of them.
    pub namespace: Option<String>,
    /// Where a sandbox can be without access to the internet.
    pub no_internet: NoInternet,
}

impl Default for ClaimSettings {
    fn default() -> Self {
        Self {
            claim_timeout: Duration::from_secs(60),
            ready_timeout: Duration::from_secs(60),
            settle: Duration::from_secs(15),
            lease: Duration::from_secs(10),
            abandoned: Duration::from_secs(60 * 60),
            keep_markers: Duration::from_secs(24 * 60 * 60),
            system_namespace: "sandgate-system".to_owned(),
            namespace: None,
            no_internet: NoInternet::default(),
        }
    }
}

/// What creates are made of.
pub struct ClaimParts<P> {
    /// What is known of the cluster.
    pub cache: Cache,
    /// The way to the API server.
    pub writes: Writes,
    /// The steps that others take.
    pub prepare: Arc<P>,
    /// Where IDs and tokens come from.
    pub secrets: Arc<dyn Secrets>,
    /// What spreads retries, and replicas over a pool.
    pub random: Random,
    /// How long the parts may take.
    pub settings: ClaimSettings,
}

/// What every create shares.
struct Shared<P> {
    cache: Cache,
    writes: Writes,
    prepare: Arc<P>,
    secrets: Arc<dyn Secrets>,
    random: Mutex<Random>,
    /// Where this process begins to look in a pool.
    place: u64,
    queue: queue::Queue,
    turns: idempotency::Turns,
    settings: ClaimSettings,
}

/// Makes sandboxes for callers. Clones share everything. When the last one is dropped, whatever is under way
/// stops where it is, as in a crash; [`drain`](Self::drain) first.
pub struct Claims<P> {
    shared: Arc<Shared<P>>,
    tasks: Arc<Tasks>,
}

#[derive(Default)]
struct Tasks {
    running: Mutex<JoinSet<()>>,
    tracker: TaskTracker,
}

impl Tasks {
    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let mut running = self.running.lock();
        while running.try_join_next().is_some() {}
        running.spawn(self.tracker.track_future(task));
    }
}

impl<P> Clone for Claims<P> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared), tasks: Arc::clone(&self.tasks) }
    }
}

impl<P: Prepare> Claims<P> {
    /// Creates by these parts.
    pub fn new(parts: ClaimParts<P>) -> Self {
        let ClaimParts { cache, writes, prepare, secrets, mut random, settings } = parts;
        let place = random.number();
        let shared = Shared {
            cache,
            writes,
            prepare,
            secrets,
            random: Mutex::new(random),
            place,
            queue: queue::Queue::default(),
            turns: idempotency::Turns::default(),
            settings,
        };
        Self { shared: Arc::new(shared), tasks: Arc::default() }
    }

    /// Gives the caller a sandbox: one that waits in the pool, or a new one.
    ///
    /// A caller that drops the future gives up: nothing remains of the request. With an `Idempotency-Key` the
    /// create goes on, because the caller may ask for it again.
    ///
    /// # Errors
    /// See [`ErrorKind`]. Except with [`ErrorKind::Unknown`], nothing remains of the request.
    pub async fn create(
        &self,
        caller: &Caller,
        wanted: NewSandbox,
    ) -> Result<Arc<Seen<SandboxFacts>>, Error> {
        if self.tasks.tracker.is_closed() {
            return Err(Error::new(ErrorKind::Unavailable, "the manager is stopping"));
        }
        let (reply, answer) = oneshot::channel();
        let (received, delivered) = oneshot::channel();
        let gone = CancellationToken::new();
        let _gone = gone.clone().drop_guard();
        let shared = Arc::clone(&self.shared);
        let caller = caller.clone();
        self.tasks.spawn(async move { shared.run(caller, wanted, reply, delivered, gone).await });
        // Its task has panicked, or was stopped where it was: what it had written by then is there.
        let lost = |_| Err(Error::new(ErrorKind::Unknown, "the create broke off: nobody knows what it did"));
        let result = answer.await.unwrap_or_else(lost);
        let _ = received.send(());
        result
    }

    /// How many creates wait for a sandbox of a pool.
    pub fn waiting(&self) -> usize {
        self.shared.queue.waiting()
    }

    /// Takes no more creates and waits until those under way have ended or taken back what they did.
    pub async fn drain(&self) {
        self.tasks.tracker.close();
        self.tasks.tracker.wait().await;
    }

    /// One look for what crashes have left: see [`Swept`].
    ///
    /// # Errors
    /// The API server cannot be asked.
    pub async fn sweep(&self) -> Result<Swept, Error> {
        self.shared.sweep().await
    }

    /// Sweeps from time to time, for ever.
    pub async fn keep_swept(&self, every: Duration) {
        loop {
            let wait = self.shared.random.lock().between(every, every.saturating_mul(2));
            tokio::time::sleep(wait).await;
            match self.sweep().await {
                Ok(swept) if swept == Swept::default() => {}
                Ok(swept) => tracing::info!(?swept, "removed what was left of creates"),
                Err(error) => tracing::warn!(%error, "cannot look for what is left of creates"),
            }
        }
    }
}
