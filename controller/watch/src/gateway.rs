//! The gateway's sources put together: the route table and the threads that keep it up to date.
//!
//! [`Gateway::new`] makes the table and its sources and starts nothing. [`Gateway::start`] starts the
//! threads, once. The table is ready when the first list of every source is in it. Without a cluster to
//! watch, that is the first load of the routes file. Pushes do not count.
//!
//! There are up to three threads. `sandgate` runs the routes file and the Kubernetes watch and sweeps the
//! table. `sandgate-push` runs the receiver of pushes, where one is configured. It has a runtime of its own,
//! so that a push does not wait for a list that is being decoded or committed (a commit releases the table's
//! lock between its steps). `sandgate-auth` keeps the keys up to date, where there are any: a request that
//! waits for a key does not wait for a list either. The process calls [`Gateway::supervise`] about every
//! second, which restarts a thread that died.

mod supervised;
#[cfg(test)]
mod tests;

use std::future::pending;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use sandgate_keyring::{Keyring, KeyringError};
use sandgate_routes::{Changes, Route, RouteReader, RouteTable, RouteWriter};
use tokio::time::{MissedTickBehavior, interval};

use crate::{
    Activity, FileSource, FileStatus, FileStatusReader, KubernetesSource, KubernetesStatusReader, Receiver,
    RefreshDrain, RefreshStatus, RefreshStatusReader, Settings,
};
use supervised::Supervised;
pub use supervised::ThreadStatus;

/// How often expired tombstones are swept.
const SWEEP: Duration = Duration::from_secs(1);

/// A route table and the sources that write it.
pub struct Gateway {
    reader: RouteReader,
    created: Instant,
    writer: RouteWriter,
    file: Option<FileStatusReader>,
    kubernetes: Option<KubernetesStatusReader>,
    refresh: Option<RefreshStatusReader>,
    own_addresses: Vec<SocketAddr>,
    drain: Option<RefreshDrain>,
    /// How long the listeners wait for the first lists, counted from the start.
    open_after: Option<Duration>,
    started: OnceLock<Instant>,
    sources: Supervised,
    receiver: Option<Supervised>,
    keyring: Option<Keyring>,
    keys: Option<Supervised>,
    announcer: Arc<Announcer>,
}

/// Calls the hook given to [`Gateway::start`], from any thread, until the gateway stops. A load of the routes
/// file may outlive the stop, and must not call the hook then.
#[derive(Default)]
struct Announcer(Mutex<Option<Box<dyn Fn() + Send>>>);

impl Announcer {
    fn announce(&self) {
        if let Some(hook) = &*self.0.lock() {
            hook();
        }
    }

    fn hook(self: &Arc<Self>) -> impl Fn() + Send + Sync + 'static {
        let announcer = Arc::clone(self);
        move || announcer.announce()
    }
}

impl Gateway {
    /// Makes a gateway. Nothing is started; files with keys are read, because without keys a gateway refuses
    /// requests that it should let pass.
    ///
    /// # Errors
    /// A file with keys that is missing or wrong.
    pub fn new(settings: &Settings) -> Result<Self, KeyringError> {
        Self::make(settings, None)
    }

    /// Makes a gateway whose push port, if there is one, answers which sandboxes were used. Nothing is
    /// started.
    ///
    /// # Errors
    /// As of [`new`](Self::new).
    pub fn with_activity(settings: &Settings, activity: Arc<dyn Activity>) -> Result<Self, KeyringError> {
        Self::make(settings, Some(activity))
    }

    fn make(settings: &Settings, activity: Option<Arc<dyn Activity>>) -> Result<Self, KeyringError> {
        let keyring = settings.auth().map(Keyring::new).transpose()?;
        let (writer, reader) = RouteTable::new(settings.limits());
        let announcer = Arc::<Announcer>::default();
        let addresses = settings.addresses();
        let file = settings.routes_file().map(|path| FileSource::new(path, writer.clone()));
        let kubernetes = settings
            .kubernetes()
            .map(|settings| KubernetesSource::new(settings, writer.clone()).admitting(addresses.clone()));
        let receiver = settings.refresh().map(|refresh| {
            let receiver = Receiver::new(refresh.clone(), addresses.clone(), writer.clone());
            match activity {
                Some(activity) => receiver.reporting(activity, settings.providers()),
                None => receiver,
            }
        });
        Ok(Self {
            reader,
            created: Instant::now(),
            file: file.as_ref().map(FileSource::status),
            kubernetes: kubernetes.as_ref().map(KubernetesSource::status),
            refresh: receiver.as_ref().map(Receiver::status),
            own_addresses: settings.own_addresses().to_vec(),
            drain: receiver.as_ref().map(Receiver::drain),
            open_after: settings.kubernetes().and_then(|settings| settings.open_after()),
            started: OnceLock::new(),
            sources: supervise_sources(file, kubernetes, writer.clone(), &announcer),
            receiver: receiver.map(|receiver| {
                Supervised::new("sandgate-push", announcer.hook(), move |stop| {
                    Box::pin(receiver.clone().run(stop.requested()))
                })
            }),
            keys: keyring.clone().map(|keyring| {
                Supervised::new("sandgate-auth", announcer.hook(), move |stop| {
                    let keyring = keyring.clone();
                    Box::pin(async move {
                        tokio::select! {
                            () = keyring.run() => {}
                            () = stop.requested() => {}
                        }
                    })
                })
            }),
            keyring,
            writer,
            announcer,
        })
    }

    /// Starts the threads; a second call does nothing. `announce` is called from any thread whenever a source
    /// may have changed, until [`stop`](Self::stop) returns. After an error [`supervise`](Self::supervise)
    /// tries again.
    pub fn start(&self, announce: impl Fn() + Send + 'static) -> io::Result<()> {
        if self.started.set(Instant::now()).is_err() {
            return Ok(());
        }
        *self.announcer.0.lock() = Some(Box::new(announce));
        // Every thread is tried before the first error is returned.
        let results: Vec<io::Result<()>> = self.supervised().map(Supervised::start).collect();
        results.into_iter().collect()
    }

    fn supervised(&self) -> impl Iterator<Item = &Supervised> {
        std::iter::once(&self.sources).chain(&self.receiver).chain(&self.keys)
    }

    /// Restarts threads that died. To be called about every second once the gateway is started.
    pub fn supervise(&self) {
        let now = Instant::now();
        for thread in self.supervised() {
            thread.check(now);
        }
    }

    /// Ends the threads and waits for them. After this the hook given to [`start`](Self::start) is not
    /// called.
    pub fn stop(&self) {
        self.supervised().for_each(Supervised::request_stop);
        self.supervised().for_each(Supervised::stop);
        *self.announcer.0.lock() = None;
    }

    /// Calls the hook given to [`start`](Self::start).
    pub fn announce(&self) {
        self.announcer.announce();
    }

    /// The route table.
    #[inline]
    pub fn reader(&self) -> &RouteReader {
        &self.reader
    }

    /// The time since the gateway was made.
    pub fn age(&self) -> Duration {
        self.created.elapsed()
    }

    /// The states of the threads.
    pub fn threads(&self) -> Vec<ThreadStatus> {
        self.supervised().map(Supervised::status).collect()
    }

    /// Whether the thread that runs the sources is up.
    pub fn sources_up(&self) -> bool {
        self.sources.status().up
    }

    /// Whether the thread that receives pushes is configured and up.
    pub fn receiver_up(&self) -> bool {
        self.receiver.as_ref().is_some_and(|thread| thread.status().up)
    }

    /// The keys that credentials are checked with, where any are configured.
    #[inline]
    pub fn keyring(&self) -> Option<&Keyring> {
        self.keyring.as_ref()
    }

    /// Whether the thread that keeps the keys up to date is configured and up.
    pub fn keyring_up(&self) -> bool {
        self.keys.as_ref().is_some_and(|thread| thread.status().up)
    }

    /// Makes the thread of this name panic. Returns whether there is one.
    #[cfg(feature = "failpoints")]
    pub fn kill(&self, name: &str) -> bool {
        self.supervised().filter(|thread| thread.status().name == name).map(Supervised::kill).count() > 0
    }

    /// Subscribes to the changes of the table that `filter` accepts. `filter` gets the route of an ID before
    /// and after the change.
    pub fn subscribe(
        &self,
        capacity: usize,
        filter: impl Fn(Option<&Route>, Option<&Route>) -> bool + Send + 'static,
    ) -> Changes {
        self.writer.subscribe_where(capacity, filter)
    }

    /// At most `limit` live objects that are not served under the ID they claim.
    pub fn displaced(&self, limit: usize) -> Vec<Arc<Route>> {
        self.writer.displaced(limit)
    }

    /// The state of the routes file, where one is configured.
    pub fn file_status(&self) -> Option<Arc<FileStatus>> {
        self.file.as_ref().map(FileStatusReader::load)
    }

    /// The state of the Kubernetes watch, where one is configured.
    pub fn kubernetes_status(&self) -> Option<&KubernetesStatusReader> {
        self.kubernetes.as_ref()
    }

    /// The state of the receiver of pushes, where one is configured.
    pub fn refresh_status(&self) -> Option<RefreshStatus> {
        self.refresh.as_ref().map(RefreshStatusReader::load)
    }

    /// The addresses that this process listens on, as far as they are known: those of the settings, and the
    /// receiver's.
    pub fn own_addresses(&self) -> impl Iterator<Item = SocketAddr> {
        let receiver = self.refresh.as_ref().and_then(RefreshStatusReader::listening);
        self.own_addresses.iter().copied().chain(receiver)
    }

    /// Stops acknowledging pushes: this process is about to end or to be replaced. Pushes are still applied.
    pub fn drain(&self) {
        if let Some(drain) = &self.drain {
            drain.begin();
        }
    }

    /// Whether the listeners may open: the table is ready, or the time that they wait for it is over.
    pub fn may_open(&self) -> bool {
        self.reader.is_ready() || self.opens_in().is_some_and(|left| left.is_zero())
    }

    /// How long the listeners still wait for the first lists; `None` where the wait has no limit or the
    /// gateway is not started.
    pub fn opens_in(&self) -> Option<Duration> {
        let waited = self.started.get()?.elapsed();
        self.open_after.map(|wait| wait.saturating_sub(waited))
    }
}

/// The thread that runs the file and the Kubernetes watch and sweeps the table. It marks the table as ready
/// when the first list of both is in.
fn supervise_sources(
    file: Option<FileSource>,
    kubernetes: Option<KubernetesSource>,
    writer: RouteWriter,
    announcer: &Arc<Announcer>,
) -> Supervised {
    let missing = usize::from(file.is_some()) + usize::from(kubernetes.is_some());
    let missing = Arc::new(AtomicUsize::new(missing));
    let listed = || {
        let (missing, writer, announce) = (Arc::clone(&missing), writer.clone(), announcer.hook());
        // A source that is restarted completes a first list again. Each source counts once.
        let counted = AtomicBool::new(false);
        move || {
            if !counted.swap(true, Ordering::AcqRel) && missing.fetch_sub(1, Ordering::AcqRel) == 1 {
                writer.set_ready();
            }
            announce();
        }
    };
    let file = file.map(|file| {
        let announce = announcer.hook();
        file.on_first_load(listed()).on_status(move |_| announce())
    });
    let kubernetes = kubernetes.map(|source| source.on_first_lists(listed()).on_status(announcer.hook()));
    Supervised::new("sandgate", announcer.hook(), move |stop| {
        let (file, kubernetes, writer) = (file.clone(), kubernetes.clone(), writer.clone());
        Box::pin(async move {
            // No source ends by itself. If one did, the supervisor would restart them all.
            tokio::select! {
                () = run_or_wait(file.map(FileSource::run)) => {}
                () = run_or_wait(kubernetes.map(KubernetesSource::run)) => {}
                () = sweep(&writer) => {}
                () = stop.requested() => {}
            }
        })
    })
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
