//! The routes file: YAML or JSON, loaded as a whole, again at every change.
//!
//! **Loading.** The file is read and checked completely before the table hears of it. A good file is one relist of
//! everything the provider `file` has, at a version that counts the loads, so routes that left the file leave the
//! table. Readers see each route as it was or as it is, never half of one. A bad or missing file changes nothing: the
//! last good table serves, the status and the log say what is wrong and where. The same content is not loaded twice in a
//! row. A state that is none of ours does not make a file bad: refusing it would leave the sandbox served as it was. Its
//! route is known and not served, and status and log say where. A file that cannot be read (too many open files, a failing disk, a missing right) is tried again at every look,
//! changed or not, because such trouble passes without a change of the file.
//!
//! **Noticing a change.** Every folder that has a say in what the path means is watched: the file's own, and that of
//! each symbolic link on the way. So an edit in place, a rename over the file, a swapped link (a ConfigMap's `..data`)
//! and a file that appears later are all seen, within the time it takes the writes to settle (20 ms). Where the file
//! system reports nothing, a look at the file's metadata every two seconds does.
//!
//! **Writing in place** is the writer's risk: a file caught half written is refused when it does not parse, and an
//! empty one always is, but half a list can be a good list. Write beside it and rename.
//!
//! One source runs for one writer: loads are numbered from 1 and two sources would number over each other.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sandgate_routes::RouteWriter;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, timeout};

mod error;
mod load;
mod notes;
mod parse;
mod places;
mod read;
mod route;
mod schema;
mod status;
mod trail;

#[cfg(test)]
mod tests;

pub use error::FileError;
pub use load::{FileStatusReader, read_routes};
pub use parse::{Format, parse_routes};
pub use schema::routes_file_schema;
pub use status::FileStatus;

use load::{Loader, Look};
use trail::Watch;

/// The provider in the keys of routes that come from a file.
pub const PROVIDER: &str = "file";
/// The largest routes file.
pub const MAX_BYTES: usize = 64 << 20;
/// The most routes in a file.
pub const MAX_ROUTES: usize = 1_000_000;

/// How long a file must be left alone before it is read, and the most a steady stream of changes can put it off.
const SETTLE: Duration = Duration::from_millis(20);
const SETTLE_AT_MOST: Duration = Duration::from_millis(500);
/// How often the metadata is looked at, for file systems that report no changes.
const POLL: Duration = Duration::from_secs(2);

/// Keeps a table true to a routes file. A clone is the same source, to be run again when its run has ended: it goes on
/// counting loads where the run before stopped. At most one of them runs at a time.
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
        lock(&self.loader).on_status = Box::new(hook);
        self
    }

    /// Calls `hook` once, when the first good load is in the table: the moment a gateway may say it is ready.
    #[must_use]
    pub fn on_first_load(self, hook: impl FnOnce() + Send + 'static) -> Self {
        lock(&self.loader).on_first_load = Some(Box::new(hook));
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

    /// Runs until the future is dropped or its task aborted; a load that is under way then is still finished. It ends
    /// by itself only if following the file failed in a way that is a bug: run a clone of the source again then. Needs
    /// a Tokio runtime with time enabled. Reading and parsing happen on its blocking threads.
    pub async fn run(self) {
        let wake = Arc::new(Notify::new());
        let watch = self.watching.then(|| Watch::new(Arc::clone(&wake)));
        let mut work = Work { loader: self.loader, watch };
        let mut look = Look::Closely;
        loop {
            match tokio::task::spawn_blocking(move || work.step(look)).await {
                Ok(back) => work = back,
                // The runtime is going away, or the step panicked.
                Err(_) => return,
            }
            look = tokio::select! {
                () = wake.notified() => {
                    settle(&wake).await;
                    Look::Closely
                }
                () = sleep(self.poll) => Look::Briefly,
            };
        }
    }
}

/// Waits until nothing has changed for a moment.
async fn settle(wake: &Notify) {
    let deadline = Instant::now() + SETTLE_AT_MOST;
    while timeout(SETTLE, wake.notified()).await.is_ok() && Instant::now() < deadline {}
}

/// What moves to a blocking thread and back.
struct Work {
    loader: Arc<Mutex<Loader>>,
    watch: Option<Watch>,
}

/// The lock is a matter of form: one run follows the other. A load that panicked has said so in the status.
fn lock(loader: &Mutex<Loader>) -> MutexGuard<'_, Loader> {
    loader.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Work {
    fn step(mut self, look: Look) -> Self {
        let mut loader = lock(&self.loader);
        // Watch first, then read: a change in between is then seen by one or the other.
        if let Some(watch) = &mut self.watch {
            watch.follow(loader.path(), look == Look::Closely);
        }
        // A panic here must not end the watch: the next change of the file may be the cure.
        if catch_unwind(AssertUnwindSafe(|| loader.look(look))).is_err() {
            loader.panicked();
        }
        drop(loader);
        self
    }
}
