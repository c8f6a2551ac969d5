//! What pools may have, and what statuses may say.

use sandgate_sim::model::object::{controller, number, text, uid};
use sandgate_sim::model::{BATCHES, Model, PODS, POOLS, Place, SNAPSHOTS};
use serde_json::Value;

use super::{Broken, Laws, broken};

/// The most pods that a pool may have.
#[derive(Clone, Copy, Default)]
pub(super) struct Most {
    /// The most that it has asked for so far.
    asked: i64,
    /// Pods that were made when whoever had asked for them did not wait any more, or did not lead alone: the
    /// leader cannot have counted them.
    uncounted: i64,
}

impl Laws {
    /// A pod that is made is one of those that its pool may have. `is_counted` is whether the only leader
    /// has asked for it, and still waits for the answer.
    pub(super) fn check_creation(
        &mut self,
        model: &Model,
        pod: &Value,
        is_counted: bool,
    ) -> Result<(), Broken> {
        let Some(pool) = model.list(&POOLS).find(|pool| uid(pool) == controller(pod)) else { return Ok(()) };
        self.take_in_pools(model);
        let most = self.most.entry(uid(pool).to_owned()).or_default();
        most.uncounted += i64::from(!is_counted);
        let pods = model.list(&PODS).filter(|pod| controller(pod) == uid(pool)).count();
        let bound = most.asked + most.uncounted;
        if i64::try_from(pods).unwrap_or(i64::MAX) > bound {
            let name = text(pool, "/metadata/name");
            return broken(format!("pool {name} has {pods} pods, and may have {bound}"));
        }
        Ok(())
    }

    /// Takes in what the pools ask for.
    pub(super) fn take_in_pools(&mut self, model: &Model) {
        for pool in model.list(&POOLS) {
            let asked = number(pool, "/spec/capacitySpec/poolMax").unwrap_or(0);
            let most = self.most.entry(uid(pool).to_owned()).or_default();
            most.asked = most.asked.max(asked);
        }
    }

    pub(super) fn check_statuses(&mut self, model: &Model) -> Result<(), Broken> {
        for kind in [&BATCHES, &POOLS, &SNAPSHOTS] {
            for object in model.list(kind) {
                let Some(observed) = number(object, "/status/observedGeneration") else { continue };
                let before = self.observed.insert(uid(object).to_owned(), observed).unwrap_or(0);
                let generation = number(object, "/metadata/generation").unwrap_or(0);
                if observed < before || observed > generation {
                    let place = Place::of(kind, object);
                    return broken(format!(
                        "the status of {place} was of generation {before} and is of {observed}, of {generation}"
                    ));
                }
            }
        }
        Ok(())
    }
}
