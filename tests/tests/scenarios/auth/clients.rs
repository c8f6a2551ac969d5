//! Clients that ask without a pause, and take nothing but a good answer.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use sandgate_tests::{DEADLINE, Gateway, Request, eventually};
use tokio::task::JoinHandle;

type Make = Arc<dyn Fn() -> Request + Send + Sync>;

/// Four of them, each on a connection of its own.
pub(super) struct Clients {
    request: Arc<Mutex<Make>>,
    over: Arc<AtomicBool>,
    answered: Arc<AtomicUsize>,
    tasks: Vec<JoinHandle<()>>,
}

impl Clients {
    pub(super) async fn start(
        gateway: &Gateway,
        request: impl Fn() -> Request + Send + Sync + 'static,
    ) -> Self {
        let request: Arc<Mutex<Make>> = Arc::new(Mutex::new(Arc::new(request)));
        let (over, answered) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let mut tasks = Vec::new();
        for _ in 0..4 {
            let mut client = gateway.client().await;
            let (request, over, answered) = (Arc::clone(&request), Arc::clone(&over), Arc::clone(&answered));
            tasks.push(tokio::spawn(async move {
                while !over.load(Ordering::Relaxed) {
                    let make = Arc::clone(&request.lock().expect("the request"));
                    let reply = client.send(make()).await.expect("an answer");
                    assert_eq!(reply.status, 200, "{}", reply.text());
                    answered.fetch_add(1, Ordering::Relaxed);
                }
            }));
        }
        Self { request, over, answered, tasks }
    }

    /// What they ask from now on.
    pub(super) fn ask(&self, request: impl Fn() -> Request + Send + Sync + 'static) {
        *self.request.lock().expect("the request") = Arc::new(request);
    }

    /// Waits until so many more have been answered.
    pub(super) async fn more(&self, count: usize) {
        let wanted = self.answered.load(Ordering::Relaxed) + count;
        eventually("the clients get answers", DEADLINE, async || {
            let refused = self.tasks.iter().any(JoinHandle::is_finished);
            (refused || self.answered.load(Ordering::Relaxed) >= wanted).then_some(())
        })
        .await;
    }

    /// Ends them, and says how many answers they got. Fails if one was not good.
    pub(super) async fn finish(self) -> usize {
        self.over.store(true, Ordering::Relaxed);
        for task in self.tasks {
            task.await.expect("every answer was good");
        }
        self.answered.load(Ordering::Relaxed)
    }
}
