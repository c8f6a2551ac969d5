//! The one gateway of the process: the route table and the threads that keep it true.
//!
//! Made when Envoy creates the bootstrap extension's config, which also happens in `--mode validate`:
//! making it starts nothing. [`Gateway::start`] starts the threads, once, when the server is up. Listeners
//! come and go with their filter configs; they all read this table, which is ready when the first list of
//! every source is in it.
//!
//! There are two threads. `sandgate` reads the routes file and the cluster and sweeps the table. `sandgate-push` takes
//! what peers push, where pushes are configured: it has a runtime of its own, so that a push does not wait for a list
//! that is being decoded or committed (the commit frees the table's lock between its steps). Envoy's main thread looks
//! after both: see [`thread`].

mod thread;

use std::future::pending;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use sandgate_routes::{Changes, Route, RouteReader, RouteTable, RouteWriter};
use sandgate_watch::{
    FileSource, FileStatus, FileStatusReader, KubernetesSource, KubernetesStatusReader, Receiver,
    RefreshDrain, RefreshStatus, RefreshStatusReader, Settings,
};
use tokio::time::{MissedTickBehavior, interval};

pub(crate) use thread::ThreadStatus;
use thread::{Stop, Watched};

static GATEWAY: OnceLock<Gateway> = OnceLock::new();

/// The gateway, once the bootstrap extension has made it.
pub(crate) fn current() -> Option<&'static Gateway> {
    GATEWAY.get()
}

/// How often expired tombstones are swept.
const SWEEP: Duration = Duration::from_secs(1);

pub(crate) struct Gateway {
    pub(crate) reader: RouteReader,
    pub(crate) made: Instant,
    writer: RouteWriter,
    file: Option<FileStatusReader>,
    kubernetes: Option<KubernetesStatusReader>,
    refresh: Option<RefreshStatusReader>,
    own_addresses: Vec<SocketAddr>,
    drain: Option<RefreshDrain>,
    /// How long the listeners wait for the first lists, from the start on.
    open_after: Option<Duration>,
    started: OnceLock<Instant>,
    sources: Watched,
    pushes: Option<Watched>,
    announcer: Arc<Announcer>,
}

/// Tells Envoy's main thread that something changed, until the gateway stops: a load of the routes file may
/// outlive the stop, and Envoy must not be called then.
#[derive(Default)]
struct Announcer(Mutex<Option<Box<dyn Fn() + Send>>>);

impl Announcer {
    fn set(&self, announce: Option<Box<dyn Fn() + Send>>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = announce;
    }

    fn announce(&self) {
        if let Some(announce) = &*self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            announce();
        }
    }
}

impl Gateway {
    /// Makes the gateway of this process; an error if there is one already.
    pub(crate) fn install(settings: &Settings) -> Result<&'static Self, &'static str> {
        let (writer, reader) = RouteTable::new(settings.limits());
        let announcer = Arc::<Announcer>::default();
        let file = settings.routes_file().map(|path| FileSource::new(path, writer.clone()));
        let kubernetes = settings.kubernetes().map(|kubernetes| {
            KubernetesSource::new(kubernetes, writer.clone()).admitting(settings.addresses().clone())
        });
        let receiver = settings
            .refresh()
            .map(|refresh| Receiver::new(refresh.clone(), settings.addresses().clone(), writer.clone()));
        let gateway = Self {
            reader,
            made: Instant::now(),
            file: file.as_ref().map(FileSource::status),
            kubernetes: kubernetes.as_ref().map(KubernetesSource::status),
            refresh: receiver.as_ref().map(Receiver::status),
            own_addresses: settings.own_addresses().to_vec(),
            drain: receiver.as_ref().map(Receiver::drain),
            open_after: settings.kubernetes().and_then(|settings| settings.open_after()),
            started: OnceLock::new(),
            sources: Sources::new(file, kubernetes, &writer, &announcer).watched(),
            pushes: receiver.map(|receiver| {
                Watched::new("sandgate-push", announcing(&announcer), move |stop| {
                    Box::pin(receiver.clone().run(stop.asked()))
                })
            }),
            writer,
            announcer,
        };
        GATEWAY
            .set(gateway)
            .map_err(|_| "the extension is configured twice in this process: once is enough")?;
        GATEWAY.get().ok_or("the gateway is gone")
    }

    /// Starts the threads. `announce` is called whenever a source may have changed, from other threads, until
    /// [`stop`](Self::stop) returns. A thread that cannot be started is tried again by [`look`](Self::look).
    pub(crate) fn start(&self, announce: impl Fn() + Send + 'static) -> io::Result<()> {
        if self.started.set(Instant::now()).is_err() {
            return Ok(());
        }
        self.announcer.set(Some(Box::new(announce)));
        let started: Vec<io::Result<()>> = self.watched().map(Watched::start).collect();
        started.into_iter().collect()
    }

    fn watched(&self) -> impl Iterator<Item = &Watched> {
        std::iter::once(&self.sources).chain(&self.pushes)
    }

    /// Looks after the threads; to be called by Envoy's main thread about every second, once they are started.
    pub(crate) fn look(&self) {
        let now = Instant::now();
        for thread in self.watched() {
            thread.look(now);
        }
    }

    /// Ends the threads and waits for them: after this nothing calls into Envoy any more.
    pub(crate) fn stop(&self) {
        self.watched().for_each(Watched::ask_to_stop);
        self.watched().for_each(Watched::stop);
        self.announcer.set(None);
    }

    /// Has Envoy's main thread bring the metrics up to date.
    pub(crate) fn announce(&self) {
        self.announcer.announce();
    }

    /// How the threads are.
    pub(crate) fn threads(&self) -> Vec<ThreadStatus> {
        self.watched().map(Watched::status).collect()
    }

    /// Whether the thread that keeps the table true runs.
    pub(crate) fn sources_up(&self) -> bool {
        self.sources.status().up
    }

    /// Whether the thread that takes pushes runs, if there is to be one.
    pub(crate) fn pushes_up(&self) -> bool {
        self.pushes.as_ref().is_some_and(|thread| thread.status().up)
    }

    /// Makes a thread panic.
    #[cfg(feature = "failpoints")]
    pub(crate) fn kill(&self, name: &str) -> bool {
        self.watched().filter(|thread| thread.status().name == name).map(Watched::kill).count() > 0
    }

    /// Subscribes to those changes of the table that somebody cares about, who is asked what an ID was and what it is.
    pub(crate) fn subscribe(
        &self,
        capacity: usize,
        cares: impl Fn(Option<&Route>, Option<&Route>) -> bool + Send + 'static,
    ) -> Changes {
        self.writer.subscribe_where(capacity, cares)
    }

    /// Live objects that are not served under the ID they claim.
    pub(crate) fn displaced(&self, most: usize) -> Vec<Arc<Route>> {
        self.writer.displaced(most)
    }

    /// What the routes file last did, if there is one.
    pub(crate) fn file_status(&self) -> Option<Arc<FileStatus>> {
        self.file.as_ref().map(FileStatusReader::load)
    }

    /// What the receiver of pushed routes has done, if there is one.
    pub(crate) fn refresh_status(&self) -> Option<RefreshStatus> {
        self.refresh.as_ref().map(RefreshStatusReader::load)
    }

    /// Where this process listens, as far as it has been told: listeners, admin port, receiver of pushes.
    pub(crate) fn own_addresses(&self) -> impl Iterator<Item = SocketAddr> {
        let receiver = self.refresh.as_ref().and_then(RefreshStatusReader::listening);
        self.own_addresses.iter().copied().chain(receiver)
    }

    /// This process is about to end, or to be replaced: what is pushed is not acknowledged any more.
    pub(crate) fn drain(&self) {
        if let Some(drain) = &self.drain {
            drain.begin();
        }
    }

    /// What the Kubernetes watch is doing, if there is one.
    pub(crate) fn kubernetes_status(&self) -> Option<&KubernetesStatusReader> {
        self.kubernetes.as_ref()
    }

    /// Whether the listeners may be open: the table is complete, or has taken longer than they may wait for it.
    pub(crate) fn may_open(&self) -> bool {
        self.reader.is_ready() || self.overdue_in().is_some_and(|left| left.is_zero())
    }

    /// How long the listeners still wait for the first lists, if they do not wait for ever.
    pub(crate) fn overdue_in(&self) -> Option<Duration> {
        let waited = self.started.get()?.elapsed();
        self.open_after.map(|wait| wait.saturating_sub(waited))
    }
}

fn announcing(announcer: &Arc<Announcer>) -> impl Fn() + Send + Sync + 'static {
    let announcer = Arc::clone(announcer);
    move || announcer.announce()
}

/// What keeps the table true, to be run as often as the thread is started.
struct Sources {
    file: Option<FileSource>,
    kubernetes: Option<KubernetesSource>,
    writer: RouteWriter,
    announcer: Arc<Announcer>,
}

impl Sources {
    /// The table is ready when the first list of each source is in it.
    fn new(
        file: Option<FileSource>,
        kubernetes: Option<KubernetesSource>,
        writer: &RouteWriter,
        announcer: &Arc<Announcer>,
    ) -> Self {
        let missing = usize::from(file.is_some()) + usize::from(kubernetes.is_some());
        let missing = Arc::new(AtomicUsize::new(missing));
        // A source that is run again may say so again.
        let listed = || {
            let (missing, writer, announce) = (Arc::clone(&missing), writer.clone(), announcing(announcer));
            let said = AtomicBool::new(false);
            move || {
                if !said.swap(true, Ordering::AcqRel) && missing.fetch_sub(1, Ordering::AcqRel) == 1 {
                    writer.set_ready();
                }
                announce();
            }
        };
        let file = file.map(|file| {
            let changed = announcing(announcer);
            file.on_first_load(listed()).on_status(move |_| changed())
        });
        let kubernetes =
            kubernetes.map(|source| source.on_first_lists(listed()).on_status(announcing(announcer)));
        Self { file, kubernetes, writer: writer.clone(), announcer: Arc::clone(announcer) }
    }

    fn watched(self) -> Watched {
        let on_end = announcing(&self.announcer);
        Watched::new("sandgate", on_end, move |stop| Box::pin(self.run(stop)))
    }

    /// Runs every source until one of them ends, which none of them should, or the thread is asked to stop.
    fn run(&self, stop: Stop) -> impl Future<Output = ()> + Send + 'static {
        let (file, kubernetes, writer) = (self.file.clone(), self.kubernetes.clone(), self.writer.clone());
        async move {
            tokio::select! {
                () = run_or_wait(file.map(FileSource::run)) => {}
                () = run_or_wait(kubernetes.map(KubernetesSource::run)) => {}
                () = sweep(&writer) => {}
                () = stop.asked() => {}
            }
        }
    }
}

async fn run_or_wait(source: Option<impl Future<Output = ()>>) {
    match source {
        Some(source) => source.await,
        None => pending().await,
    }
}

async fn sweep(writer: &RouteWriter) {
    let mut ticks = interval(SWEEP);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        writer.sweep();
    }
}
