//! What every part of the manager shares, and the steps that a create takes with it.

use std::sync::Arc;

use jiff::Timestamp;
use sandgate_cache::{Cache, Seen, WriteError};
use sandgate_objects::openkruise::resources::{PodTemplate, SandboxFacts};
use serde_json::Value;

use crate::claim::Prepare;
use crate::describe::Size;
use crate::find::Lookups;
use crate::gateways::Gateways;
use crate::quota::Quota;
use crate::runtime::{Init, Runtime};
use crate::{Caller, Error, ErrorKind, Network, Secrets, Settings, Writes};

/// How often a change is decided anew because somebody else was faster.
pub(crate) const TRIES: usize = 10;

/// What every part of the manager shares.
pub(crate) struct Core {
    pub(crate) cache: Cache,
    pub(crate) writes: Writes,
    pub(crate) gateways: Gateways,
    pub(crate) runtime: Runtime,
    pub(crate) quota: Quota,
    pub(crate) secrets: Arc<dyn Secrets>,
    pub(crate) settings: Settings,
    pub(crate) lookups: Lookups,
}

impl Core {
    /// Now.
    pub(crate) fn now(&self) -> Timestamp {
        self.cache.clock().now()
    }

    /// Changes a sandbox by what `decide` says of it, which is a merge patch, or none if nothing is to be
    /// done. Where somebody else was faster, or no answer came, the sandbox is read and decided on again: a
    /// patch that was done is not needed a second time. Returns the sandbox as it is then.
    pub(crate) async fn change(
        &self,
        caller: &Caller,
        id: &str,
        seen: &Arc<Seen<SandboxFacts>>,
        mut decide: impl FnMut(&Seen<SandboxFacts>) -> Result<Option<Value>, Error>,
    ) -> Result<Arc<Seen<SandboxFacts>>, Error> {
        let mut seen = Arc::clone(seen);
        let mut last = None;
        for _ in 0..TRIES {
            let Some(patch) = decide(&seen)? else { return Ok(seen) };
            match self.writes.patch(&seen, patch).await {
                Ok(written) => return Ok(written),
                Err(WriteError::NotFound(_)) => return Err(Error::no_sandbox(id)),
                Err(error @ (WriteError::Conflict(_) | WriteError::Unanswered(_))) => last = Some(error),
                Err(error) => return Err(error.into()),
            }
            seen = match self.again(caller, id, &seen).await {
                Ok(seen) => seen,
                // Whether the write was done stays unknown.
                Err(error) if error.kind == ErrorKind::Unavailable => {
                    return Err(last.map_or(error, Error::from));
                }
                Err(error) => return Err(error),
            };
        }
        Err(last.map_or_else(|| Error::new(ErrorKind::Internal, "nothing was tried"), Error::from))
    }
}

impl Prepare for Core {
    async fn admit(&self, caller: &Caller, lock: &str, template: Option<&PodTemplate>) -> Result<(), Error> {
        let size = Size::of(template.and_then(|template| template.parse().ok()));
        self.quota.admit(caller, lock, size).await
    }

    async fn release(&self, caller: &Caller, lock: &str) {
        self.quota.release(caller, lock).await;
    }

    async fn init(&self, sandbox: &Arc<Seen<SandboxFacts>>) -> Result<(), Error> {
        self.runtime.init(&self.cache, sandbox, Init::First).await
    }

    async fn restrict(&self, sandbox: &Arc<Seen<SandboxFacts>>, network: &Network) -> Result<(), Error> {
        Self::restrict(self, sandbox, network).await
    }

    async fn announce(&self, sandbox: &Arc<Seen<SandboxFacts>>) {
        self.gateways.announce(&self.newest(sandbox), self.now()).await;
    }

    async fn withdraw(&self, sandbox: &Arc<Seen<SandboxFacts>>) {
        self.gateways.withdraw(&self.newest(sandbox)).await;
    }
}
