//! The controller of sandboxes: one pod for each, paused, resumed and ended as the spec says.
//!
//! Each look at a sandbox is [`observe`](observe::observe), [`plan`](plan::plan), apply. What to do is
//! decided by the plan alone, which is a function of values.
//!
//! - The pod has the sandbox's name and its UID as controller. A pod of the name that belongs to somebody
//!   else is never touched; the sandbox waits for it to go.
//! - A sandbox whose pod is lost has failed and keeps its identity. A set replaces it, if it has one.
//! - A pause stops the pod: see [`pause`].
//! - The finalizer of OpenKruise's controller is honoured and removed; this controller needs none.

mod apply;
mod drift;
mod follow;
mod observe;
mod pause;
mod plan;
mod pod;
mod status;
#[cfg(test)]
mod tests;
mod timers;

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::ObjectReference;
use sandgate_objects::openkruise::API_VERSION;
use sandgate_objects::openkruise::resources::Sandbox;

use crate::events::Events;
use crate::reference::reference;
use crate::view::View;
use crate::writes::Writes;
use crate::{Again, Clock, Failed, Key, Reconciler};
pub use pause::{PauseStrategy, Pauses, Pausing, Refusal, Stop};

/// When to look again at a pod that is in the way.
const TAKEN_AGAIN: Duration = Duration::from_secs(10);

/// The reconciler of sandboxes.
pub struct SandboxReconciler {
    view: View,
    writes: Writes,
    events: Arc<dyn Events>,
    clock: Arc<dyn Clock>,
    pauses: Pauses,
}

impl SandboxReconciler {
    /// A reconciler that reads the view and writes by `writes`.
    pub fn new(
        view: View,
        writes: Writes,
        events: Arc<dyn Events>,
        clock: Arc<dyn Clock>,
        pauses: Pauses,
    ) -> Self {
        Self { view, writes, events, clock, pauses }
    }
}

impl Reconciler for SandboxReconciler {
    const NAME: &'static str = "sandbox";

    async fn reconcile(&self, key: &Key) -> Result<Again, Failed> {
        let Some(observed) = observe::observe(&self.view, key, self.clock.now()) else {
            return Ok(Again::Forget);
        };
        let plan = plan::plan(&observed, &self.pauses);
        self.apply(&observed, plan).await
    }

    fn object(&self, key: &Key) -> Option<ObjectReference> {
        let sandbox = self.view.get::<Sandbox>(key)?;
        Some(reference(API_VERSION, "Sandbox", key, &sandbox.uid))
    }
}
