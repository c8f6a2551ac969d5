//! Makes and deletes the pods of a batch.
//!
//! Requests go out in batches of 16, 32, 64 and so on. A batch in which one fails is the last: what fails
//! once fails for the rest of a thousand too.

use std::sync::Arc;

use futures_util::future::join_all;
use sandgate_objects::opensandbox::names;
use sandgate_objects::opensandbox::resources::BatchSandbox;
use serde_json::{Value, json};

use super::BatchSandboxReconciler;
use super::pod::{manifest, pod_key};
use crate::events::EventKind;
use crate::view::{BatchPod, OwnPod, Seen, SeenPod, Viewed as _};
use crate::writes::{Merge, Only, WriteError};
use crate::{Category, Failed};

/// The size of the first batch.
const FIRST_BATCH: usize = 16;

impl BatchSandboxReconciler {
    /// Makes the pods of these replicas.
    pub(super) async fn create(&self, batch: &Seen<BatchSandbox>, indexes: &[u32]) -> Result<(), Failed> {
        let Some(template) = &batch.spec.template else { return Ok(()) };
        let invalid = |message: String| Failed { category: Category::Invalid, message, source: None };
        let template = template.parse().map_err(|error| invalid(format!("spec.template: {error}")))?;
        let (mut rest, mut size) = (indexes, FIRST_BATCH);
        while !rest.is_empty() {
            let (now, later) = rest.split_at(rest.len().min(size));
            let pods: Result<Vec<_>, _> =
                now.iter().map(|index| manifest(batch, &template, *index)).collect();
            let pods = pods.map_err(|error| {
                self.publish(batch, EventKind::Warning, "FailedCreate", "CreatePod", error.to_string());
                invalid(error.to_string())
            })?;
            let requests = now.iter().zip(&pods).map(|(index, pod)| self.create_one(batch, *index, pod));
            let done = join_all(requests).await;
            let made: Vec<_> = now.iter().zip(&done).filter(|(_, done)| matches!(done, Ok(true))).collect();
            if let (Some((first, _)), Some((last, _))) = (made.first(), made.last()) {
                let name = |index: u32| pod_key(&batch.key, index).name;
                let note = match made.len() {
                    1 => format!("created pod {}", name(**first)),
                    count => format!("created {count} pods, {} to {}", name(**first), name(**last)),
                };
                self.publish(batch, EventKind::Normal, "SuccessfulCreate", "CreatePod", note);
            }
            if let Some(Err(error @ WriteError::Refused { .. })) = done.iter().find(|done| done.is_err()) {
                self.publish(batch, EventKind::Warning, "FailedCreate", "CreatePod", error.to_string());
            }
            for done in done {
                done.map_err(|error| match error {
                    WriteError::AlreadyExists(_) => {
                        invalid("a pod that is not this batch's has the name of one of its pods".to_owned())
                    }
                    error => error.into(),
                })?;
            }
            (rest, size) = (later, size * 2);
        }
        Ok(())
    }

    /// Makes one pod. Returns whether this very request did.
    async fn create_one(
        &self,
        batch: &Seen<BatchSandbox>,
        index: u32,
        pod: &Value,
    ) -> Result<bool, WriteError> {
        match self.writes.create::<OwnPod>(&batch.key.namespace, pod).await {
            Ok(_) => Ok(true),
            // An earlier answer may have been lost: the pod may well be ours.
            Err(WriteError::AlreadyExists(message)) => {
                let found = self.writes.read::<OwnPod>(&pod_key(&batch.key, index)).await?;
                match found {
                    Some(pod) if pod.batch_uid() == Some(&batch.uid) => {
                        self.select(&pod, index).await.map(|()| false)
                    }
                    // Of an earlier batch of the name, whose pods are being deleted; or a stranger's.
                    Some(_) | None => Err(WriteError::AlreadyExists(message)),
                }
            }
            Err(error) => Err(error),
        }
    }

    /// Puts the label back by which the watch selects the batch's pods, if somebody has taken it off. Without
    /// it the pod would not be seen to change.
    async fn select(&self, pod: &Seen<OwnPod>, index: u32) -> Result<(), WriteError> {
        if pod.is_selected() {
            return Ok(());
        }
        let labels = json!({names::LABEL_POD_INDEX: index.to_string(), names::LABEL_POOL_NAME: null});
        let patch = json!({"metadata": {"labels": labels}});
        self.writes.patch(pod, patch, Merge::Plain, None).await.map(drop)
    }

    /// Deletes these pods, in this order.
    pub(super) async fn delete(&self, pods: &[BatchPod]) -> Result<(), WriteError> {
        let (mut rest, mut size) = (pods, FIRST_BATCH);
        while !rest.is_empty() {
            let (now, later) = rest.split_at(rest.len().min(size));
            let requests = now.iter().filter_map(|pod| {
                // A pool's pods are the pool's to delete.
                let Some(SeenPod::Own(seen)) = &pod.pod else { return None };
                Some(async {
                    let named = (&seen.key, &seen.uid, &seen.version);
                    self.writes.delete::<OwnPod>(named, Only::ThisUid, None).await
                })
            });
            join_all(requests).await.into_iter().collect::<Result<(), _>>()?;
            (rest, size) = (later, size * 2);
        }
        Ok(())
    }

    /// Whether the batch is still as it was seen, says the API server itself.
    pub(super) async fn confirm(&self, batch: &Arc<Seen<BatchSandbox>>) -> Result<(), WriteError> {
        let found = self.writes.read::<BatchSandbox>(&batch.key).await?;
        if found.is_some_and(|found| found.uid == batch.uid && found.version == batch.version) {
            return Ok(());
        }
        Err(WriteError::Conflict(format!("the batch {} is not as it was seen", batch.key)))
    }
}
