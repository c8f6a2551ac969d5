//! Objects that are not shown under the ID they claim: because another took it, or because it is ambiguous and another stands for all.
//!
//! Few have any: an ID is a claimant's own as a rule. So what is kept here may cost, and an ID that is not contested costs nothing.

use std::collections::{BTreeMap, HashMap};

use crate::{ObjectKey, Route};

/// The routes that are not shown, by slot and by the ID they claim.
#[derive(Default)]
pub(crate) struct Displaced {
    routes: HashMap<u32, Box<Route>>,
    by_id: HashMap<Box<[u8]>, Claimants>,
}

/// Those of one ID, in the order of their keys, which is the same in every process.
#[derive(Default)]
struct Claimants {
    slots: BTreeMap<ObjectKey, u32>,
    refusing: usize,
}

impl Displaced {
    pub(crate) fn get(&self, slot: u32) -> Option<&Route> {
        self.routes.get(&slot).map(|route| &**route)
    }

    /// Keeps a route that is not there yet.
    pub(crate) fn insert(&mut self, route: &Route) {
        let claimants = self.by_id.entry(route.raw_id().into()).or_default();
        claimants.slots.insert(route.key().to_key(), route.slot());
        claimants.refusing += usize::from(route.refuses());
        self.routes.insert(route.slot(), Box::new(route.clone().marked(false)));
    }

    pub(crate) fn remove(&mut self, slot: u32) -> Option<Route> {
        let route = self.routes.remove(&slot)?;
        if let Some(claimants) = self.by_id.get_mut(route.raw_id()) {
            claimants.slots.remove(&route.key().to_key());
            claimants.refusing -= usize::from(route.refuses());
            if claimants.slots.is_empty() {
                self.by_id.remove(route.raw_id());
            }
        }
        Some(*route)
    }

    /// How many claim an ID.
    pub(crate) fn count(&self, id: &[u8]) -> usize {
        self.by_id.get(id).map_or(0, |claimants| claimants.slots.len())
    }

    /// Whether one of those who claim an ID refuses to share it.
    pub(crate) fn any_refuses(&self, id: &[u8]) -> bool {
        self.by_id.get(id).is_some_and(|claimants| claimants.refusing > 0)
    }

    /// Who claims an ID, in order.
    pub(crate) fn claimants(&self, id: &[u8]) -> impl Iterator<Item = (&ObjectKey, u32)> {
        self.by_id.get(id).into_iter().flat_map(|claimants| &claimants.slots).map(|(key, &slot)| (key, slot))
    }

    /// Takes out the first of those who claim an ID.
    pub(crate) fn take_first(&mut self, id: &[u8]) -> Option<Route> {
        let (_, slot) = self.claimants(id).next()?;
        self.remove(slot)
    }
}
