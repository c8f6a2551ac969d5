//! What is wrong with the specs of batches: told once for each generation, and again by the next process.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use sandgate_objects::opensandbox::resources::BatchSandbox;

use super::BatchSandboxReconciler;
use crate::Key;
use crate::events::EventKind;
use crate::view::{Seen, is_leaving};

/// A batch by its UID, in one generation.
type Generation = (Arc<str>, Option<i64>);

/// The batches with warnings that were told.
#[derive(Debug, Default)]
pub(super) struct Told(Mutex<BTreeMap<Key, Generation>>);

impl Told {
    /// Whether nobody was told yet. From now on somebody was.
    fn is_news(&self, batch: &Seen<BatchSandbox>) -> bool {
        let told = (Arc::clone(&batch.uid), batch.metadata.generation);
        let known = self.0.lock().insert(batch.key.clone(), told.clone());
        known.is_none_or(|known| known != told)
    }

    /// The batch is gone, or nothing is wrong with it.
    pub(super) fn forget(&self, batch: &Key) {
        self.0.lock().remove(batch);
    }
}

impl BatchSandboxReconciler {
    /// Tells what is wrong with the spec. It does not matter what the status says that has been observed:
    /// another operator may have written that.
    pub(super) fn warn(&self, batch: &Seen<BatchSandbox>) {
        let warnings = batch.warnings();
        // The end of a batch is a generation too.
        if is_leaving(batch) {
            return;
        }
        if warnings.is_empty() {
            return self.told.forget(&batch.key);
        }
        if self.told.is_news(batch) {
            for warning in warnings {
                self.publish(batch, EventKind::Warning, "SpecWarning", "Reconcile", warning);
            }
        }
    }
}
