//! What is remembered of a pool: nothing that its pods depend on.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tokio::time::Instant;

use super::PoolReconciler;
use super::observe::{LOOK, Observed};
use super::plan::Plan;
use crate::events::EventKind;
use crate::failures::Failures;

/// What is remembered of a pool.
#[derive(Debug, Default)]
pub(super) struct State {
    uid: Arc<str>,
    /// How its pods fail.
    pub(super) failures: Failures,
    /// Since when batches lack pods, by their UIDs.
    pub(super) waiting: BTreeMap<Arc<str>, Instant>,
    /// With how many of them those that are gone are looked for.
    tidied_at: usize,
    /// When the status was last written.
    pub(super) status_written: Option<Instant>,
    /// Whether people were told that there is no pod left, and none to come.
    is_exhausted: bool,
    /// The generation of which people were told what is wrong with it.
    warned: Option<i64>,
}

impl State {
    /// Forgets everything if it is about another pool.
    pub(super) fn be_of(&mut self, uid: &Arc<str>) {
        if self.uid != *uid {
            *self = Self { uid: Arc::clone(uid), ..Self::default() };
        }
    }

    /// Notes who waits. A look that shows some of the batches alone does not say who waits no more: then
    /// those that are gone are taken out whenever there are twice as many as the last time.
    pub(super) fn planned(&mut self, observed: &Observed, living: impl FnOnce() -> BTreeSet<Arc<str>>) {
        let lacking = observed.look.needs.iter().filter(|(_, need)| need.lacks() > 0);
        let lacking: Vec<_> = lacking.map(|(batch, _)| Arc::clone(&batch.uid)).collect();
        if !observed.look.more {
            let kept: BTreeSet<_> = lacking.iter().collect();
            self.waiting.retain(|uid, _| kept.contains(uid));
        }
        let now = Instant::now();
        for uid in lacking {
            self.waiting.entry(uid).or_insert(now);
        }
        if self.waiting.len() > self.tidied_at.max(2 * LOOK) {
            let living = living();
            self.waiting.retain(|uid, _| living.contains(uid));
            self.tidied_at = 2 * self.waiting.len();
        }
    }
}

impl PoolReconciler {
    /// Tells once that batches wait and the pool may not grow, until that is over.
    pub(super) fn tell_exhausted(&self, observed: &Observed, plan: &Plan) {
        let was = self.with_state(&observed.pool, |state| {
            std::mem::replace(&mut state.is_exhausted, plan.is_exhausted)
        });
        if plan.is_exhausted && !was {
            let note =
                format!("{} pods are asked for beyond poolMax {}", plan.unmet, observed.terms.pool_max);
            self.tell(observed, EventKind::Warning, "PoolExhausted", "Allocate", note);
        }
    }

    /// Tells once a generation what is wrong with the pool.
    pub(super) fn tell_invalid(&self, observed: &Observed) {
        let generation = observed.pool.metadata.generation;
        let was = self.with_state(&observed.pool, |state| std::mem::replace(&mut state.warned, generation));
        if was == generation && generation.is_some() {
            return;
        }
        let warnings = observed.pool.warnings();
        if !warnings.is_empty() {
            self.tell(observed, EventKind::Warning, "InvalidPool", "Reconcile", warnings.join("; "));
        }
    }
}
