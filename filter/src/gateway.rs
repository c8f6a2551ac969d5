//! The one gateway of the process: the route table and the thread that keeps it true.
//!
//! Made when Envoy creates the bootstrap extension's config, which also happens in `--mode validate`:
//! making it starts nothing. [`Gateway::start`] starts the thread, once, when the server is up. Listeners
//! come and go with their filter configs; they all read this table, which is ready when the first list of
//! every source is in it.

use std::future::pending;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use sandgate_routes::{Changes, Route, RouteReader, RouteTable, RouteWriter};
use sandgate_watch::{
    FileSource, FileStatus, FileStatusReader, KubernetesSource, KubernetesStatusReader, Receiver,
    RefreshStatus, RefreshStatusReader, Settings,
};
use tokio::runtime;
use tokio::sync::{Notify, oneshot};
use tokio::time::{MissedTickBehavior, interval, sleep};

static GATEWAY: OnceLock<Gateway> = OnceLock::new();

/// The gateway, once the bootstrap extension has made it.
pub(crate) fn current() -> Option<&'static Gateway> {
    GATEWAY.get()
}

/// How often expired tombstones are swept and the gauges brought up to date.
const TICK: Duration = Duration::from_secs(1);
/// How long a stop waits for a load of the routes file that is under way.
const STOP: Duration = Duration::from_secs(1);

pub(crate) struct Gateway {
    pub(crate) reader: RouteReader,
    /// Panics caught in hooks since the start.
    pub(crate) panics: AtomicU64,
    pub(crate) made: Instant,
    writer: RouteWriter,
    file: Option<FileStatusReader>,
    kubernetes: Option<KubernetesStatusReader>,
    refresh: Option<RefreshStatusReader>,
    /// Listeners may be open from here on, ready or not.
    overdue: Arc<AtomicBool>,
    thread: Mutex<Thread>,
    announcer: Arc<Announcer>,
}

/// What keeps the table true.
struct Sources {
    file: Option<FileSource>,
    kubernetes: Option<KubernetesSource>,
    /// It has no list of its own: nobody waits for it.
    receiver: Option<Receiver>,
    open_after: Option<Duration>,
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

/// The life of the gateway's thread.
enum Thread {
    Waiting(Box<Sources>),
    Running { stop: Arc<Notify>, thread: JoinHandle<()> },
    Done,
}

impl Gateway {
    /// Makes the gateway of this process; an error if there is one already.
    pub(crate) fn install(settings: &Settings) -> Result<&'static Self, &'static str> {
        let (writer, reader) = RouteTable::new(settings.limits());
        let file = settings.routes_file().map(|path| FileSource::new(path, writer.clone()));
        let kubernetes = settings.kubernetes().map(|kubernetes| {
            KubernetesSource::new(kubernetes, writer.clone()).admitting(settings.addresses().clone())
        });
        let receiver = settings
            .refresh()
            .map(|refresh| Receiver::new(refresh.clone(), settings.addresses().clone(), writer.clone()));
        let gateway = Self {
            reader,
            panics: AtomicU64::new(0),
            made: Instant::now(),
            writer,
            file: file.as_ref().map(FileSource::status),
            kubernetes: kubernetes.as_ref().map(KubernetesSource::status),
            refresh: receiver.as_ref().map(Receiver::status),
            overdue: Arc::default(),
            thread: Mutex::new(Thread::Waiting(Box::new(Sources {
                file,
                kubernetes,
                receiver,
                open_after: settings.kubernetes().and_then(|settings| settings.open_after()),
            }))),
            announcer: Arc::default(),
        };
        GATEWAY
            .set(gateway)
            .map_err(|_| "the extension is configured twice in this process: once is enough")?;
        GATEWAY.get().ok_or("the gateway is gone")
    }

    /// Starts the thread. `announce` is called whenever the table or a source may have changed, from other
    /// threads, until [`stop`](Self::stop) returns.
    pub(crate) fn start(&self, announce: impl Fn() + Send + 'static) -> io::Result<()> {
        let mut state = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        let mut sources = match std::mem::replace(&mut *state, Thread::Done) {
            Thread::Waiting(sources) => sources,
            other => {
                *state = other;
                return Ok(());
            }
        };
        self.announcer.set(Some(Box::new(announce)));
        let receiver = sources.receiver.take();
        let running = sources.run(&self.writer, &self.announcer, Arc::clone(&self.overdue));
        let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
        let stop = Arc::new(Notify::new());
        let (stopped, writer, announcer) =
            (Arc::clone(&stop), self.writer.clone(), Arc::clone(&self.announcer));
        let (ages, pushes) = (self.kubernetes.is_some(), self.refresh.clone());
        let thread = thread::Builder::new().name("sandgate".to_owned()).spawn(move || {
            runtime.block_on(async {
                let (end, ended) = oneshot::channel::<()>();
                let receiving = receiver.map(|receiver| {
                    tokio::spawn(receiver.run(async {
                        let _dropped = ended.await;
                    }))
                });
                tokio::select! {
                    () = running => {}
                    () = tick(&writer, &announcer, pushes.as_ref(), ages) => {}
                    () = stopped.notified() => {}
                }
                drop(end);
                if let Some(receiving) = receiving {
                    // A panic of it has been logged by the panic hook.
                    let _ended = receiving.await;
                }
            });
            runtime.shutdown_timeout(STOP);
        })?;
        *state = Thread::Running { stop, thread };
        Ok(())
    }

    /// Ends the thread and waits for it: after this nothing calls into Envoy any more.
    pub(crate) fn stop(&self) {
        let mut state = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        if let Thread::Running { stop, thread } = std::mem::replace(&mut *state, Thread::Done) {
            stop.notify_one();
            // A panic of the thread has been logged by the panic hook.
            let _ = thread.join();
            self.announcer.set(None);
        }
    }

    /// Subscribes to those changes of the table that somebody cares about, who is asked what an ID was and what it is.
    pub(crate) fn subscribe(
        &self,
        capacity: usize,
        cares: impl Fn(Option<&Route>, Option<&Route>) -> bool + Send + 'static,
    ) -> Changes {
        self.writer.subscribe_where(capacity, cares)
    }

    /// What the routes file last did, if there is one.
    pub(crate) fn file_status(&self) -> Option<Arc<FileStatus>> {
        self.file.as_ref().map(FileStatusReader::load)
    }

    /// What the receiver of pushed routes has done, if there is one.
    pub(crate) fn refresh_status(&self) -> Option<RefreshStatus> {
        self.refresh.as_ref().map(RefreshStatusReader::load)
    }

    /// What the Kubernetes watch is doing, if there is one.
    pub(crate) fn kubernetes_status(&self) -> Option<&KubernetesStatusReader> {
        self.kubernetes.as_ref()
    }

    /// Whether the listeners may be open: the table is complete, or has taken longer than they may wait for it.
    pub(crate) fn may_open(&self) -> bool {
        self.reader.is_ready() || self.overdue.load(Ordering::Relaxed)
    }
}

impl Sources {
    /// Runs every source. The table is ready when the first list of each is in it.
    fn run(
        self: Box<Self>,
        writer: &RouteWriter,
        announcer: &Arc<Announcer>,
        overdue: Arc<AtomicBool>,
    ) -> impl Future<Output = ()> + Send + 'static {
        let Sources { file, kubernetes, open_after, .. } = *self;
        let missing = usize::from(file.is_some()) + usize::from(kubernetes.is_some());
        let missing = Arc::new(AtomicUsize::new(missing));
        let listed = || {
            let (missing, writer, announcer) = (Arc::clone(&missing), writer.clone(), Arc::clone(announcer));
            move || {
                if missing.fetch_sub(1, Ordering::AcqRel) == 1 {
                    writer.set_ready();
                }
                announcer.announce();
            }
        };
        let changed = || {
            let announcer = Arc::clone(announcer);
            move || announcer.announce()
        };
        let file = file.map(|file| {
            let changed = changed();
            file.on_first_load(listed()).on_status(move |_| changed())
        });
        let kubernetes = kubernetes.map(|source| source.on_first_lists(listed()).on_status(changed()));
        let opened = changed();
        async move {
            let file = async { run_or_wait(file.map(FileSource::run)).await };
            let kubernetes = async { run_or_wait(kubernetes.map(KubernetesSource::run)).await };
            let open = async {
                if let Some(wait) = open_after {
                    sleep(wait).await;
                    overdue.store(true, Ordering::Relaxed);
                    opened();
                }
                pending::<()>().await;
            };
            tokio::join!(file, kubernetes, open);
        }
    }
}

async fn run_or_wait(source: Option<impl Future<Output = ()>>) {
    match source {
        Some(source) => source.await,
        None => pending().await,
    }
}

/// Housekeeping on a timer. A sweep has no other announcement, nor has what was pushed in vain, nor the passing of time, where there are
/// gauges of `ages`.
async fn tick(writer: &RouteWriter, announcer: &Announcer, pushes: Option<&RefreshStatusReader>, ages: bool) {
    let reader = writer.reader();
    let look = || (reader.counts(), pushes.map(RefreshStatusReader::load));
    let mut seen = None;
    let mut ticks = interval(TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        writer.sweep();
        let now = Some(look());
        if now != seen || ages {
            seen = now;
            announcer.announce();
        }
    }
}
