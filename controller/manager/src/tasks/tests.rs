use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::task::{JoinHandle, yield_now};
use tokio::time::timeout;

use super::{Asked, Drain, Tasks};
use crate::{Error, ErrorKind};

/// Work that waits to be let go, and what it leaves behind when it ends.
struct Work {
    tasks: Tasks,
    go: Arc<Notify>,
    ended: Arc<()>,
}

impl Work {
    fn new() -> Self {
        Self { tasks: Tasks::default(), go: Arc::default(), ended: Arc::default() }
    }

    /// Starts it. It may have begun with something.
    async fn start(&self, drain: Drain, begins: bool) -> JoinHandle<Result<(), Error>> {
        let (tasks, go, ended) = (self.tasks.clone(), Arc::clone(&self.go), Arc::clone(&self.ended));
        let caller = tokio::spawn(async move {
            let work = |asked: Arc<Asked>| async move {
                let _ended = ended;
                if begins {
                    asked.begin();
                }
                go.notified().await;
                Ok(())
            };
            tasks.run(drain, work).await
        });
        settle().await;
        caller
    }

    fn is_under_way(&self) -> bool {
        Arc::strong_count(&self.ended) > 1
    }
}

/// Lets every task run until it waits.
async fn settle() {
    for _ in 0..20 {
        yield_now().await;
    }
}

#[tokio::test]
async fn work_ends_with_its_caller_until_it_has_begun() {
    for begins in [false, true] {
        let work = Work::new();
        let caller = work.start(Drain::Waits, begins).await;
        assert!(work.is_under_way());
        caller.abort();
        settle().await;
        assert_eq!(work.is_under_way(), begins);
        work.go.notify_one();
        settle().await;
        assert!(!work.is_under_way());
    }
}

#[tokio::test(start_paused = true)]
async fn work_learns_that_its_caller_is_gone() {
    let tasks = Tasks::default();
    let told = Arc::new(Notify::new());
    let (of, tell) = (tasks.clone(), Arc::clone(&told));
    let caller = tokio::spawn(async move {
        let work = |asked: Arc<Asked>| async move {
            asked.begin();
            asked.gone().await;
            tell.notify_one();
            Ok(())
        };
        of.run(Drain::Waits, work).await
    });
    settle().await;
    caller.abort();
    timeout(Duration::from_secs(1), told.notified()).await.expect("it is told");
}

#[tokio::test]
async fn a_drain_waits_for_what_nobody_else_would_finish_and_takes_nothing_new() {
    for (drain, waits) in [(Drain::Waits, true), (Drain::Leaves, false)] {
        let work = Work::new();
        let caller = work.start(drain, true).await;
        let tasks = work.tasks.clone();
        let drained = tokio::spawn(async move { tasks.drain().await });
        settle().await;
        assert_eq!(drained.is_finished(), !waits, "{drain:?}");
        let refused = work.tasks.run(Drain::Waits, |_| async { Ok(()) }).await;
        assert_eq!(refused.unwrap_err().kind, ErrorKind::Unavailable);
        work.go.notify_one();
        assert_eq!(caller.await.unwrap(), Ok(()));
        drained.await.unwrap();
    }
}

#[tokio::test]
async fn work_stops_where_it_is_when_the_last_clone_is_dropped() {
    let work = Work::new();
    let caller = work.start(Drain::Waits, true).await;
    let Work { tasks, ended, .. } = work;
    drop(tasks);
    caller.abort();
    settle().await;
    assert_eq!(Arc::strong_count(&ended), 1);
}
