//! The controller of sets: pools of sandboxes that wait to be claimed.
//!
//! Each look at a set is [`observe`](observe::observe), [`plan`](plan::plan), apply, status. What to do is
//! decided by the plan alone, which is a function of values. The status is written also when something
//! failed, and not when it did not change.
//!
//! A sandbox is claimed by taking the set's owner reference away. The set then has one less and makes a new
//! one; the claimed sandbox is none of its business any more. When a set is deleted, the garbage collector
//! deletes its sandboxes.

mod apply;
mod child;
mod observe;
mod plan;
mod status;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::ObjectReference;
use parking_lot::Mutex;
use sandgate_objects::openkruise::resources::{Sandbox, SandboxSet};
use sandgate_objects::openkruise::{API_VERSION, SANDBOX_SET};
use serde_json::{Value, json};

use crate::conditions;
use crate::events::{EventKind, Events};
use crate::failures::Failures;
use crate::merge::merge_patch;
use crate::reference::reference;
use crate::view::{Seen, View};
use crate::writes::{Merge, WriteError, Writes};
use crate::{Again, Clock, Failed, Key, Random, Reconciler};
use observe::Observed;
use plan::{Plan, Trouble};

/// The reconciler of sets.
pub struct SandboxSetReconciler {
    view: View,
    writes: Writes,
    events: Arc<dyn Events>,
    clock: Arc<dyn Clock>,
    random: Mutex<Random>,
    /// Of each set that fails, with its UID.
    failures: Mutex<BTreeMap<Key, (Arc<str>, Failures)>>,
}

impl SandboxSetReconciler {
    /// A reconciler that reads the view and writes by `writes`. `random` makes the names of sandboxes.
    pub fn new(
        view: View,
        writes: Writes,
        events: Arc<dyn Events>,
        clock: Arc<dyn Clock>,
        random: Random,
    ) -> Self {
        let (random, failures) = (Mutex::new(random), Mutex::default());
        Self { view, writes, events, clock, random, failures }
    }

    fn observe(&self, key: &Key) -> Option<Observed> {
        let failures = |uid: &str| {
            let all = self.failures.lock();
            let of_set = all.get(key).filter(|(of, _)| **of == *uid);
            of_set.map(|(_, failures)| failures.clone()).unwrap_or_default()
        };
        observe::observe(&self.view, key, failures, self.clock.now())
    }

    fn remember(&self, set: &Seen<SandboxSet>, failures: &Failures) {
        let mut all = self.failures.lock();
        if failures.count() == 0 {
            all.remove(&set.key);
        } else {
            all.insert(set.key.clone(), (Arc::clone(&set.uid), failures.clone()));
        }
    }

    fn forget(&self, key: &Key) {
        self.failures.lock().remove(key);
    }

    /// Writes what the set has now, if that is not what its status says.
    async fn write_status(&self, observed: &Observed, trouble: Option<&Trouble>) -> Result<(), WriteError> {
        let Some(set) = self.view.get::<SandboxSet>(&observed.set.key) else { return Ok(()) };
        let revision = observed.revision();
        let members = self.view.members(&set.uid, &revision, observed.now, 0, 0);
        let status = status::status(&set, &revision, &members, trouble, observed.now);
        if set.status.as_ref() == Some(&status) {
            return Ok(());
        }
        let json = |status| serde_json::to_value(status).unwrap_or(Value::Null);
        let known = set.status.as_ref().map_or(Value::Null, json);
        let Some(patch) = merge_patch(&known, &json(&status)) else { return Ok(()) };
        self.writes.patch(&set, json!({"status": patch}), Merge::Plain, Some("status")).await?;
        let before = set.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
        if let Some(Trouble { reason, message }) = trouble
            && conditions::reason(before, status::CONDITION_REPLICA_FAILURE) != *reason
        {
            let on = reference(API_VERSION, SANDBOX_SET, &set.key, &set.uid);
            self.events.publish(&on, EventKind::Warning, reason, "Reconcile", message.clone());
        }
        Ok(())
    }
}

impl Reconciler for SandboxSetReconciler {
    const NAME: &'static str = "sandboxset";

    async fn reconcile(&self, key: &Key) -> Result<Again, Failed> {
        let Some(mut observed) = self.observe(key) else {
            self.forget(key);
            return Ok(Again::Forget);
        };
        if observed.set.metadata.deletion_timestamp.is_some() {
            self.forget(key);
            return Ok(Again::Rarely);
        }
        let (mut free, mut resolved) = (Vec::new(), Ok(()));
        if !observed.members.reserved.is_empty() {
            // Only a look that was cut off leaves names behind: looks at one set never overlap.
            (free, resolved) = self.writes.resolve::<Sandbox>(&observed.members.reserved).await;
            let Some(again) = self.observe(key) else { return Ok(Again::Forget) };
            observed = again;
        }
        let mut plan = plan::plan(&observed);
        if resolved.is_err() {
            plan.create = 0;
        }
        let applied = self.apply(&observed, &mut plan, free).await;
        let failure = resolved.err().or(applied);
        self.remember(&observed.set, &plan.failures);
        let Plan { trouble, .. } = &plan;
        let written = self.write_status(&observed, trouble.as_ref()).await;
        match failure {
            // A set that waits after failures is looked at again when the wait is over, not by the queue's.
            Some(WriteError::Refused { .. }) if plan.failures.count() > 0 => {
                let wait = plan.failures.wait(&observed.revision(), observed.now);
                written?;
                wait.map_or_else(
                    || Ok(Again::After(std::time::Duration::from_secs(1))),
                    |until| Ok(crate::deadline::until(until, observed.now)),
                )
            }
            Some(error) => Err(error.into()),
            None => {
                written?;
                Ok(plan.again(observed.now))
            }
        }
    }

    fn object(&self, key: &Key) -> Option<ObjectReference> {
        let set = self.view.get::<SandboxSet>(key)?;
        Some(reference(API_VERSION, SANDBOX_SET, key, &set.uid))
    }
}
