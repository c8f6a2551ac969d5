//! Does what a plan says, and writes the status of what was done.

use std::sync::Arc;

use sandgate_objects::openkruise::API_VERSION;
use sandgate_objects::openkruise::names;
use sandgate_objects::openkruise::resources::Sandbox;
use serde_json::{Value, json};

use super::observe::Observed;
use super::plan::{Plan, PodStep, Settle};
use super::status::{Draft, notices};
use super::{SandboxReconciler, TAKEN_AGAIN};
use crate::events::EventKind;
use crate::merge::merge_patch;
use crate::view::{PodFacts, Seen, Viewed as _};
use crate::writes::{Merge, Only, WriteError};
use crate::{Again, Failed, Key};

/// What became of a step about the pod.
enum Applied {
    /// It was done.
    Done,
    /// The pod was created.
    Created(Arc<Seen<PodFacts>>),
    /// Things are not as they were observed, and the view knows better by now.
    Void,
    /// A pod of the name belongs to somebody else.
    Taken,
    /// The API server refuses the pod.
    NotCreated(WriteError),
    /// The API server refuses the change of the pod.
    NotChanged(WriteError),
}

impl SandboxReconciler {
    pub(super) async fn apply(&self, observed: &Observed, plan: Plan) -> Result<Again, Failed> {
        let sandbox = &observed.sandbox;
        match plan {
            Plan::Delete => {
                let seen = (&sandbox.key, &sandbox.uid, &sandbox.version);
                self.writes.delete::<Sandbox>(seen, Only::ThisVersion, None).await?;
                Ok(Again::Rarely)
            }
            // The answer is a change that is looked at next.
            Plan::Patch(patch) => {
                self.writes.patch(sandbox, patch, Merge::Plain, None).await?;
                Ok(Again::Rarely)
            }
            Plan::Leave(step) => {
                self.pod_step(observed, step).await?;
                Ok(Again::Rarely)
            }
            Plan::Settle(settle) => self.settle(observed, *settle).await,
        }
    }

    async fn settle(&self, observed: &Observed, settle: Settle) -> Result<Again, Failed> {
        let Settle { pod, mut status, again } = settle;
        let mut failure = None;
        let again = match self.pod_step(observed, pod).await? {
            Applied::Done => again,
            Applied::Created(pod) => {
                if status.phase() == names::PHASE_PENDING {
                    status.show(&pod);
                }
                again
            }
            Applied::Void => {
                let message = format!("the pod {} is not as it was seen", observed.sandbox.key);
                return Err(WriteError::Conflict(message).into());
            }
            Applied::Taken => {
                status.taken();
                super::plan::sooner(again, TAKEN_AGAIN)
            }
            Applied::NotCreated(error) => {
                status.create_failed(observed.sandbox.status.as_ref(), &error.to_string());
                failure = Some(error);
                again
            }
            Applied::NotChanged(error) => {
                status.update_failed(&error.to_string());
                if let Some(pod) = observed.pod.own() {
                    status.show_readiness(pod);
                }
                again
            }
        };
        self.write_status(&observed.sandbox, status).await?;
        failure.map_or(Ok(again), |error| Err(error.into()))
    }

    /// Writes the status if it changed, and tells of what changed.
    async fn write_status(&self, sandbox: &Arc<Seen<Sandbox>>, draft: Draft) -> Result<(), WriteError> {
        let before = sandbox.status.as_ref();
        if before == Some(&draft.status) {
            return Ok(());
        }
        let json = |status| serde_json::to_value(status).unwrap_or(Value::Null);
        let known = before.map_or(Value::Null, json);
        let Some(patch) = merge_patch(&known, &json(&draft.status)) else { return Ok(()) };
        self.writes.patch(sandbox, json!({"status": patch}), Merge::Plain, Some("status")).await?;
        let on = crate::reference::reference(API_VERSION, "Sandbox", &sandbox.key, &sandbox.uid);
        for notice in notices(before, &draft.status) {
            let kind = if notice.is_warning { EventKind::Warning } else { EventKind::Normal };
            self.events.publish(&on, kind, notice.reason, "Reconcile", notice.message);
        }
        Ok(())
    }

    async fn pod_step(&self, observed: &Observed, step: PodStep) -> Result<Applied, WriteError> {
        match step {
            PodStep::Keep => Ok(Applied::Done),
            PodStep::Confirm => self.confirm_pod(observed).await,
            PodStep::Create { claims, pod } => self.create_pod(observed, &claims, &pod).await,
            PodStep::Delete { grace } => {
                self.delete_pod(observed, Only::ThisUid, grace).await?;
                Ok(Applied::Done)
            }
            PodStep::Discard => {
                self.delete_pod(observed, Only::ThisVersion, None).await?;
                Ok(Applied::Done)
            }
            PodStep::Patch { resize, patch } => {
                let Some(pod) = observed.pod.own() else { return Ok(Applied::Void) };
                match self.change_pod(pod, resize, *patch).await {
                    Err(error @ WriteError::Refused { .. }) => Ok(Applied::NotChanged(error)),
                    done => done.map(|()| Applied::Done),
                }
            }
        }
    }

    async fn delete_pod(
        &self,
        observed: &Observed,
        only: Only,
        grace: Option<u32>,
    ) -> Result<(), WriteError> {
        let Some(pod) = observed.pod.own() else { return Ok(()) };
        self.writes.delete::<PodFacts>((&pod.key, &pod.uid, &pod.version), only, grace).await
    }

    /// Asks which pod there is. A stranger's pod that the watch does not select is as good as none.
    async fn confirm_pod(&self, observed: &Observed) -> Result<Applied, WriteError> {
        let sandbox = &observed.sandbox;
        let found = self.writes.read::<PodFacts>(&sandbox.key).await?;
        let found = found.filter(|pod| pod.is_selected() || belongs_to(pod, sandbox));
        if found.as_ref().map(|pod| &pod.uid) == observed.pod.uid() {
            return Ok(Applied::Done);
        }
        if let Some(pod) = &found {
            self.select(sandbox, pod).await?;
        }
        Ok(Applied::Void)
    }

    /// Puts the label back by which the watch selects the sandbox's pod, if somebody has taken it off.
    /// Without it the pod would not be seen to change.
    async fn select(&self, sandbox: &Seen<Sandbox>, pod: &Seen<PodFacts>) -> Result<(), WriteError> {
        if pod.is_selected() || !belongs_to(pod, sandbox) {
            return Ok(());
        }
        let label = json!({"metadata": {"labels": {names::LABEL_CREATED_BY: names::CREATED_BY_SANDBOX}}});
        self.writes.patch(pod, label, Merge::Strategic, None).await.map(drop)
    }

    /// First the resources: the second patch also says that the pod has the new revision.
    async fn change_pod(
        &self,
        pod: &Seen<PodFacts>,
        resize: Option<Value>,
        patch: Value,
    ) -> Result<(), WriteError> {
        let resized = match resize {
            Some(resize) => Some(self.writes.patch(pod, resize, Merge::Strategic, Some("resize")).await?),
            None => None,
        };
        let pod = resized.as_deref().unwrap_or(pod);
        self.writes.patch(pod, patch, Merge::Strategic, None).await.map(drop)
    }

    async fn create_pod(
        &self,
        observed: &Observed,
        claims: &[Value],
        pod: &Value,
    ) -> Result<Applied, WriteError> {
        let Key { namespace, .. } = &observed.sandbox.key;
        for claim in claims {
            match self.create_claim(&observed.sandbox, claim).await {
                Err(error @ WriteError::Refused { .. }) => return Ok(Applied::NotCreated(error)),
                done => done?,
            }
        }
        match self.writes.create::<PodFacts>(namespace, pod).await {
            Ok(pod) => Ok(Applied::Created(pod)),
            // An earlier answer may have been lost: the pod may well be ours.
            Err(WriteError::AlreadyExists(_)) => {
                let sandbox = &observed.sandbox;
                match self.writes.read::<PodFacts>(&sandbox.key).await? {
                    Some(pod) if !belongs_to(&pod, sandbox) => Ok(Applied::Taken),
                    Some(pod) => self.select(sandbox, &pod).await.map(|()| Applied::Void),
                    None => Ok(Applied::Void),
                }
            }
            Err(error @ WriteError::Refused { .. }) => Ok(Applied::NotCreated(error)),
            Err(error) => Err(error),
        }
    }

    async fn create_claim(&self, sandbox: &Seen<Sandbox>, claim: &Value) -> Result<(), WriteError> {
        match self.writes.create_claim(&sandbox.key.namespace, claim).await {
            Err(WriteError::AlreadyExists(_)) => {}
            done => return done,
        }
        // It is there from before a pause; or it is somebody else's, whose data is not for this sandbox.
        let name = claim["metadata"]["name"].as_str().unwrap_or_default();
        let owner = self.writes.owner_of_claim(&Key::new(&sandbox.key.namespace, name)).await?;
        if owner.as_deref() == Some(&*sandbox.uid) {
            return Ok(());
        }
        Err(WriteError::Refused { code: 409, message: format!("the volume claim {name} is somebody else's") })
    }
}

fn belongs_to(pod: &PodFacts, sandbox: &Seen<Sandbox>) -> bool {
    pod.owner_uid.as_deref() == Some(&*sandbox.uid)
}
