//! Runs of reconcilers that tell how they end, and that can be cut off.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use parking_lot::Mutex;
use sandgate_operator::{
    Again, Category, Failed, Job, Key, Leadership, Limits, Metrics, NoEvents, Queue, Reconciler, Workers,
};
use tokio_util::sync::CancellationToken;

use super::cut::{self, Cut};

/// What the runs of reconcilers tell.
#[derive(Clone, Default)]
pub(crate) struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    fn tell(&self, line: String) {
        self.0.lock().push(line);
    }

    /// What was told since.
    pub(crate) fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock())
    }
}

/// A reconciler that tells how its runs end.
struct Told<R> {
    reconciler: R,
    log: Log,
}

/// Tells that a run has panicked, which the workers would survive.
struct Fuse<'a>(&'a Log, &'a Key);

impl Drop for Fuse<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.tell(format!("PANIC in {}", self.1));
        }
    }
}

impl<R: Reconciler> Reconciler for Told<R> {
    const NAME: &'static str = R::NAME;

    async fn reconcile(&self, key: &Key) -> Result<Again, Failed> {
        let _fuse = Fuse(&self.log, key);
        let mut run = Box::pin(self.reconciler.reconcile(key));
        let ended = poll_fn(|context| match cut::at_this_poll() {
            None | Some(Cut::Next) => run.as_mut().poll(context),
            Some(Cut::Dead) => Poll::Pending,
            Some(Cut::Dropped) => Poll::Ready(Err(Failed {
                category: Category::Unanswered,
                message: "it was dropped".to_owned(),
                source: None,
            })),
        });
        let ended = ended.await;
        let how = match &ended {
            Ok(again) => format!("{again:?}"),
            Err(failed) => format!("{:?}: {failed}", failed.category),
        };
        self.log.tell(format!("{} {key} ends: {how}", R::NAME));
        ended
    }
}

/// The work on one object, which ends by itself.
pub(crate) type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The workers of one controller, whichever it is.
pub(crate) trait Ran: Send + Sync {
    /// The name of the controller.
    fn name(&self) -> &'static str;

    /// Works on a job.
    fn perform(self: Arc<Self>, job: Job) -> Work;
}

impl<R: Reconciler> Ran for Workers<Told<R>> {
    fn name(&self) -> &'static str {
        R::NAME
    }

    fn perform(self: Arc<Self>, job: Job) -> Work {
        Box::pin(async move { Workers::perform(&self, job, &CancellationToken::new()).await })
    }
}

/// Workers whose runs tell how they end.
pub(crate) fn workers<R: Reconciler>(
    reconciler: R,
    queue: &Queue,
    leadership: &Leadership,
    metrics: &Metrics,
    log: &Log,
) -> Arc<dyn Ran> {
    let reconciler = Told { reconciler, log: log.clone() };
    let (queue, leadership, metrics) = (queue.clone(), leadership.clone(), metrics.controller(R::NAME));
    Arc::new(Workers::new(reconciler, queue, leadership, Arc::new(NoEvents), metrics, Limits::default()))
}
