//! Work that goes on though whoever asked for it is gone.
//!
//! A server drops the future of a request whose client has left. Work that changes something, and has more
//! to do about it, therefore runs in a task of its own. Until it [begins](Asked::begin) to change something
//! it ends with its caller.

#[cfg(test)]
mod tests;

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::{Error, ErrorKind};

/// The tasks. Clones share them. When the last one is dropped, whatever is under way stops where it is, as in
/// a crash; [`drain`](Self::drain) first.
#[derive(Clone, Default)]
pub(crate) struct Tasks(Arc<Shared>);

#[derive(Default)]
struct Shared {
    running: Mutex<JoinSet<()>>,
    tracker: TaskTracker,
}

/// What a [drain](Tasks::drain) does about a piece of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Drain {
    /// It waits: nobody else would finish it.
    Waits,
    /// It does not wait: another process can go on where this one stops.
    Leaves,
}

/// What a piece of work knows of whoever asked for it.
#[derive(Default)]
pub(crate) struct Asked {
    has_begun: AtomicBool,
    gone: CancellationToken,
}

impl Asked {
    /// Something is about to be changed: from here on the work does not end with its caller.
    pub(crate) fn begin(&self) {
        self.has_begun.store(true, Ordering::Relaxed);
    }

    /// Returns when the caller is gone.
    pub(crate) async fn gone(&self) {
        self.gone.cancelled().await;
    }
}

impl Tasks {
    /// Does a piece of work in a task.
    ///
    /// # Errors
    /// Those of the work; or the process ends.
    pub(crate) async fn run<T, F>(&self, drain: Drain, work: impl FnOnce(Arc<Asked>) -> F) -> Result<T, Error>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, Error>> + Send + 'static,
    {
        if self.0.tracker.is_closed() {
            return Err(Error::new(ErrorKind::Unavailable, "the manager is stopping"));
        }
        let (mut reply, answer) = oneshot::channel();
        let asked = Arc::new(Asked::default());
        let work = work(Arc::clone(&asked));
        self.spawn(drain, async move {
            let mut work = pin!(work);
            let done = tokio::select! {
                biased;
                done = &mut work => done,
                () = reply.closed() => {
                    asked.gone.cancel();
                    if !asked.has_begun.load(Ordering::Relaxed) {
                        return;
                    }
                    work.await
                }
            };
            // A caller that is gone does not learn.
            let _ = reply.send(done);
        });
        // Its task has panicked, or was stopped where it was.
        let lost = |_| Err(Error::new(ErrorKind::Unknown, "the request broke off: nobody knows what it did"));
        answer.await.unwrap_or_else(lost)
    }

    fn spawn(&self, drain: Drain, task: impl Future<Output = ()> + Send + 'static) {
        let mut running = self.0.running.lock();
        while running.try_join_next().is_some() {}
        match drain {
            Drain::Waits => running.spawn(self.0.tracker.track_future(task)),
            Drain::Leaves => running.spawn(task),
        };
    }

    /// Takes no more work, and waits for what nobody else would finish.
    pub(crate) async fn drain(&self) {
        self.0.tracker.close();
        self.0.tracker.wait().await;
    }
}
