//! What is left to do where a pool is gone or goes: nobody recycles the pods of its batches any more, the
//! garbage collector deletes them. So its batches need not be waited for.

use std::sync::Arc;

use futures_util::future::join_all;
use sandgate_objects::opensandbox::names;
use sandgate_objects::opensandbox::resources::{BatchSandbox, Pool};
use serde_json::json;

use super::PoolReconciler;
use super::ledger::with_finalizer;
use crate::Key;
use crate::view::{Seen, Slots, has_finalizer, is_leaving};
use crate::writes::{Merge, WriteError};

impl PoolReconciler {
    /// Takes the finalizer off the batches that are being deleted, or hold nothing.
    pub(super) async fn disown(&self, pool: &Key) -> Result<(), WriteError> {
        let batches = self.view.batches_of(pool).into_iter();
        let batches = batches.filter_map(|key| self.view.get::<BatchSandbox>(&key));
        let batches: Vec<_> = batches.filter(|batch| is_free(batch)).collect();
        if batches.is_empty() {
            return Ok(());
        }
        // The pool may be there and not be seen yet.
        let now = self.writes.read::<Pool>(pool).await?;
        if now.is_some_and(|pool| pool.metadata.deletion_timestamp.is_none()) {
            return Ok(());
        }
        join_all(batches.iter().map(|batch| self.disown_one(batch))).await.into_iter().collect()
    }

    async fn disown_one(&self, batch: &Arc<Seen<BatchSandbox>>) -> Result<(), WriteError> {
        let _permit = self.reading.acquire().await;
        let patch = json!({"metadata": {"finalizers": with_finalizer(batch, false)}});
        match self.writes.patch(batch, patch, Merge::Plain, None).await {
            Ok(_) => Ok(()),
            Err(error @ (WriteError::Conflict(_) | WriteError::NotFound(_))) => {
                self.writes.read::<BatchSandbox>(&batch.key).await?;
                match error {
                    WriteError::NotFound(_) => Ok(()),
                    error => Err(error),
                }
            }
            Err(error) => Err(error),
        }
    }
}

fn is_free(batch: &Seen<BatchSandbox>) -> bool {
    let holds_none = || Slots::of(batch).is_ok_and(|slots| slots.held().next().is_none());
    has_finalizer(batch, names::FINALIZER_POOL_ALLOCATION) && (is_leaving(batch) || holds_none())
}
