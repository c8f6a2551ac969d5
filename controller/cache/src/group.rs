//! Tasks that are stopped together.

use std::collections::HashMap;
use std::future::pending;

use tokio::task::{AbortHandle, Id, JoinError, JoinSet};
use tokio_util::sync::CancellationToken;

/// Tasks with names and one stop signal. Dropping it ends them at once.
#[derive(Default)]
pub struct Group {
    tasks: JoinSet<()>,
    names: HashMap<Id, String>,
    stop: CancellationToken,
}

impl Group {
    /// Starts a task, which ends soon after the signal that it is given.
    pub fn spawn<F>(&mut self, name: &str, task: impl FnOnce(CancellationToken) -> F) -> AbortHandle
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let handle = self.tasks.spawn(task(self.stop.clone()));
        self.names.insert(handle.id(), name.to_owned());
        handle
    }

    /// Waits for a task that ends without being asked to, and says which one and how.
    pub async fn ended(&mut self) -> String {
        match self.tasks.join_next_with_id().await {
            Some(ended) => self.describe(&ended),
            None => pending().await,
        }
    }

    /// Stops the tasks and waits for them. A panic on the way is logged by the panic hook.
    pub async fn stop(&mut self) {
        self.stop.cancel();
        while let Some(ended) = self.tasks.join_next_with_id().await {
            tracing::debug!("{}", self.describe(&ended));
        }
    }

    fn describe(&self, ended: &Result<(Id, ()), JoinError>) -> String {
        let (id, how) = match ended {
            Ok((id, ())) => (*id, "ended"),
            Err(error) if error.is_panic() => (error.id(), "panicked"),
            Err(error) => (error.id(), "was cancelled"),
        };
        let name = self.names.get(&id).map_or("a task", String::as_str);
        format!("{name} {how}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn whichever_task_ends_is_named_with_how_it_ended() {
        let mut group = Group::default();
        group.spawn("the good one", async |stop: CancellationToken| stop.cancelled().await);
        group.spawn("the bad one", async |_| panic!("as asked"));
        assert_eq!(group.ended().await, "the bad one panicked");
        group.spawn("the short one", async |_| {});
        assert_eq!(group.ended().await, "the short one ended");
        group.stop().await;
        assert!(group.tasks.is_empty());
    }
}
