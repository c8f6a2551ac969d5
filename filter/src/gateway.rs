//! The one gateway of the process: the route table and the thread that keeps it true.
//!
//! Made when Envoy creates the bootstrap extension's config, which also happens in `--mode validate`:
//! making it starts nothing. [`Gateway::start`] starts the thread, once, when the server is up. Listeners
//! come and go with their filter configs; they all read this table.

use std::io;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use sandgate_routes::{RouteReader, RouteTable, RouteWriter};
use sandgate_watch::{FileSource, FileStatus, FileStatusReader, Settings};
use tokio::runtime;
use tokio::sync::Notify;
use tokio::time::{MissedTickBehavior, interval};

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
    file: FileStatusReader,
    thread: Mutex<Thread>,
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

/// The life of the gateway's thread.
enum Thread {
    Waiting(FileSource),
    Running { stop: Arc<Notify>, thread: JoinHandle<()> },
    Done,
}

impl Gateway {
    /// Makes the gateway of this process; an error if there is one already.
    pub(crate) fn install(settings: &Settings) -> Result<&'static Self, &'static str> {
        let (writer, reader) = RouteTable::new(settings.limits());
        let source = FileSource::new(settings.routes_file(), writer.clone());
        let gateway = Self {
            reader,
            panics: AtomicU64::new(0),
            made: Instant::now(),
            writer,
            file: source.status(),
            thread: Mutex::new(Thread::Waiting(source)),
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
        let source = match std::mem::replace(&mut *state, Thread::Done) {
            Thread::Waiting(source) => source,
            other => {
                *state = other;
                return Ok(());
            }
        };
        self.announcer.set(Some(Box::new(announce)));
        let (ready, first, changed) =
            (self.writer.clone(), Arc::clone(&self.announcer), Arc::clone(&self.announcer));
        let source = source
            .on_first_load(move || {
                ready.set_ready();
                first.announce();
            })
            .on_status(move |_| changed.announce());
        let runtime = runtime::Builder::new_current_thread().enable_time().build()?;
        let stop = Arc::new(Notify::new());
        let (stopped, writer, announcer) =
            (Arc::clone(&stop), self.writer.clone(), Arc::clone(&self.announcer));
        let thread = thread::Builder::new().name("sandgate".to_owned()).spawn(move || {
            runtime.block_on(async {
                tokio::select! {
                    () = source.run() => {}
                    () = tick(&writer, &announcer) => {}
                    () = stopped.notified() => {}
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

    /// What the routes file last did.
    pub(crate) fn file_status(&self) -> Arc<FileStatus> {
        self.file.load()
    }
}

/// Housekeeping on a timer. A sweep has no other announcement.
async fn tick(writer: &RouteWriter, announcer: &Announcer) {
    let reader = writer.reader();
    let mut seen = reader.counts();
    let mut ticks = interval(TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        writer.sweep();
        let now = reader.counts();
        if now != seen {
            seen = now;
            announcer.announce();
        }
    }
}
