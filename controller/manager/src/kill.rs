//! Deleting sandboxes.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join;
use sandgate_cache::predicates::is_reserved_failed;
use sandgate_cache::request::Only;
use sandgate_cache::{Kept, Seen, WriteError};
use sandgate_objects::openkruise::names::ANNOTATION_LOCK;
use tokio::time::{Instant, sleep};

use crate::core::Core;
use crate::describe::annotation;
use crate::{Caller, Error};

/// How long a delete that is not answered is tried.
const PATIENCE: Duration = Duration::from_secs(15);
/// The pause between two tries.
const PAUSE: Duration = Duration::from_millis(100);

impl Core {
    /// Deletes a sandbox. One that has failed or ended is deleted too: nobody else would.
    pub(crate) async fn kill(&self, caller: &Caller, id: &str) -> Result<(), Error> {
        let seen = self.find(caller, id).await?;
        if seen.is_deleting || is_reserved_failed(&seen) {
            return Err(Error::no_sandbox(id));
        }
        self.delete(&seen).await?;
        let lock = annotation(&seen, ANNOTATION_LOCK).to_owned();
        let last = self.newest(&seen);
        join(self.gateways.withdraw(&last), self.quota.release(caller, &lock)).await;
        Ok(())
    }

    /// Deletes the object that was seen, and no other of its name. It is tried until it is known to be gone.
    pub(crate) async fn delete<T: Kept>(&self, seen: &Arc<Seen<T>>) -> Result<(), Error> {
        let until = Instant::now() + PATIENCE;
        loop {
            match self.writes.delete(seen, Only::ThisUid).await {
                Ok(()) => return Ok(()),
                Err(WriteError::Conflict(_) | WriteError::Unanswered(_) | WriteError::PutOff(_))
                    if Instant::now() < until =>
                {
                    sleep(PAUSE).await;
                }
                Err(error) => return Err(error.into()),
            }
        }
    }
}
