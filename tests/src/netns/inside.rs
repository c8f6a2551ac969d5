//! What runs inside a namespace: a thread with a Tokio runtime that is handed work.

use std::pin::Pin;
use std::sync::mpsc;
use std::thread::JoinHandle;

use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::task::LocalSet;

use super::thread_in;

type Job = Box<dyn FnOnce() -> Pin<Box<dyn Future<Output = ()>>> + Send>;

/// A thread in a namespace. Sockets opened and processes started by its work are there. Dropping it ends its
/// work.
pub struct Inside {
    jobs: Option<UnboundedSender<Job>>,
    thread: Option<JoinHandle<()>>,
}

impl Inside {
    pub(super) fn new(namespace: &str) -> Self {
        let (jobs, mut handed) = unbounded_channel::<Job>();
        let thread = thread_in(namespace, "inside", move || {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            let local = LocalSet::new();
            local.block_on(&runtime, async {
                while let Some(job) = handed.recv().await {
                    tokio::task::spawn_local(job());
                }
            });
        });
        Self { jobs: Some(jobs), thread: Some(thread) }
    }

    /// Begins some work. It goes on whether or not anyone waits for it.
    pub fn begin<R, F>(&self, work: impl FnOnce() -> F + Send + 'static) -> Begun<R>
    where
        R: Send + 'static,
        F: Future<Output = R> + 'static,
    {
        let (done, finished) = mpsc::channel();
        let job: Job = Box::new(move || {
            Box::pin(async move {
                // Nobody may wait for it.
                let _unheard = done.send(work().await);
            })
        });
        assert!(self.jobs.as_ref().is_some_and(|jobs| jobs.send(job).is_ok()), "the thread has ended");
        Begun(finished)
    }

    /// Does some work and waits for it.
    pub fn run<R, F>(&self, work: impl FnOnce() -> F + Send + 'static) -> R
    where
        R: Send + 'static,
        F: Future<Output = R> + 'static,
    {
        self.begin(work).finish()
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        self.jobs.take();
        if let Some(thread) = self.thread.take() {
            // Its panics were those of its work, and whoever waited for that has been told.
            let _ended = thread.join();
        }
    }
}

/// Work that goes on inside.
pub struct Begun<R>(mpsc::Receiver<R>);

impl<R> Begun<R> {
    /// Waits for it.
    ///
    /// # Panics
    /// When it panicked.
    pub fn finish(self) -> R {
        self.0.recv().expect("the work inside the namespace does not panic; its own message is above")
    }
}
