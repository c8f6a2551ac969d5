//! The routes file: YAML or JSON, loaded as a whole, again at every change.
//!
//! # Loading
//!
//! 1. The file is read and checked completely. If it has a mistake or cannot be read, the table does not
//!    change: the last good load is served, and the status and the log say what is wrong and where.
//! 2. A good file is one relist of the provider `file`, at a version that counts the loads. Its routes are
//!    added and changed one by one; a reader sees each route as it was or as it is, never half of one.
//! 3. When all are in, routes that left the file leave the table.
//!
//! Step 2 ends early in one case: the table has no room for a route ([`FileError::Refused`]). Then the routes
//! before it are in the table, and nothing was removed. The next good load makes the table equal to the file
//! again.
//!
//! The same content is not loaded twice in a row. A file that cannot be read (too many open files, a failing
//! disk, a missing right) is tried again at every poll, changed or not, because such trouble passes without a
//! change of the file.
//!
//! An unknown state does not make a file bad: to refuse the file would leave the sandbox served as it was.
//! The route is kept and not served, and the status and the log say where it stands.
//!
//! # Noticing a change
//!
//! Every folder that decides what the path means is watched: the file's own, and that of each symbolic link
//! on the way. So an edit in place, a rename over the file, a swapped link (a ConfigMap's `..data`) and a
//! file that appears later are all seen, once the writes have stopped for 20 ms. Where the file system
//! reports nothing, the file's metadata is read every two seconds.
//!
//! # Writing the file
//!
//! Write a new file beside the old one and rename it. A file written in place may be read half written. It is
//! refused if it does not parse, and an empty file always is, but half a list can be a good list.
//!
//! Run one source for one writer: loads are numbered from 1, and the numbers of two sources would clash.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use sandgate_routes::RouteWriter;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, timeout};

mod check;
mod error;
mod load;
mod parse;
mod raw;
mod trail;

#[cfg(test)]
mod tests;

pub use error::FileError;
pub use load::{FileStatus, FileStatusReader, read_routes};
pub use parse::{Format, parse_routes};
pub use raw::routes_file_schema;

use load::{Loader, Trigger};
use trail::Watch;

/// The provider in the keys of routes that come from a file.
pub const PROVIDER: &str = "file";
/// The largest routes file.
pub const MAX_BYTES: usize = 64 << 20;
/// The most routes in a file.
pub const MAX_ROUTES: usize = 1_000_000;

/// A file is read when it has not changed for so long, and after `SETTLE_AT_MOST` even if it still changes.
const SETTLE: Duration = Duration::from_millis(20);
const SETTLE_AT_MOST: Duration = Duration::from_millis(500);
/// How often the metadata is read, for file systems that report no changes.
const POLL: Duration = Duration::from_secs(2);

/// Keeps a table equal to a routes file.
///
/// A clone is the same source: run it when the first run has ended, and it counts loads on from there. At
/// most one of them may run at a time.
#[derive(Clone)]
pub struct FileSource {
    loader: Arc<Mutex<Loader>>,
    path: Arc<Path>,
    status: FileStatusReader,
    poll: Duration,
    watching: bool,
}

impl FileSource {
    /// Nothing is read before [`run`](Self::run).
    pub fn new(path: impl Into<PathBuf>, writer: RouteWriter) -> Self {
        let loader = Loader::new(path.into(), writer);
        FileSource {
            path: loader.path().into(),
            status: loader.status.clone(),
            loader: Arc::new(Mutex::new(loader)),
            poll: POLL,
            watching: true,
        }
    }

    /// Calls `hook` after every change of the status, from a thread that may block.
    #[must_use]
    pub fn on_status(self, hook: impl Fn(&FileStatus) + Send + 'static) -> Self {
        self.loader.lock().on_status = Box::new(hook);
        self
    }

    /// Calls `hook` once, when the first good load is in the table. From then on a gateway may be ready.
    #[must_use]
    pub fn on_first_load(self, hook: impl FnOnce() + Send + 'static) -> Self {
        self.loader.lock().on_first_load = Some(Box::new(hook));
        self
    }

    /// A view of the status for other threads.
    pub fn status(&self) -> FileStatusReader {
        self.status.clone()
    }

    /// The file being watched, as it was given.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Runs until the future is dropped or its task aborted. A load under way is still finished then.
    ///
    /// It ends by itself only because of a bug that made a step panic. Then run a clone of the source. It
    /// needs a Tokio runtime with time enabled, and reads and parses on its blocking threads.
    pub async fn run(self) {
        let wake = Arc::new(Notify::new());
        let watch = self.watching.then(|| Watch::new(Arc::clone(&wake)));
        let mut work = Work { loader: self.loader, watch };
        let mut trigger = Trigger::Event;
        loop {
            match tokio::task::spawn_blocking(move || work.step(trigger)).await {
                Ok(back) => work = back,
                // The runtime is going away, or the step panicked.
                Err(_) => return,
            }
            trigger = tokio::select! {
                () = wake.notified() => {
                    settle(&wake).await;
                    Trigger::Event
                }
                () = sleep(self.poll) => Trigger::Poll,
            };
        }
    }
}

/// Waits until nothing has changed for a moment.
async fn settle(wake: &Notify) {
    let deadline = Instant::now() + SETTLE_AT_MOST;
    while timeout(SETTLE, wake.notified()).await.is_ok() && Instant::now() < deadline {}
}

/// The state that moves to a blocking thread and back.
struct Work {
    loader: Arc<Mutex<Loader>>,
    watch: Option<Watch>,
}

impl Work {
    fn step(mut self, trigger: Trigger) -> Self {
        let mut loader = self.loader.lock();
        // Watch first, then read: a change in between wakes the next step.
        if let Some(watch) = &mut self.watch {
            watch.follow(loader.path(), trigger == Trigger::Event);
        }
        // A panic must not end the watch: the next version of the file may be loadable.
        if catch_unwind(AssertUnwindSafe(|| loader.check(trigger))).is_err() {
            loader.panicked();
        }
        drop(loader);
        self
    }
}
