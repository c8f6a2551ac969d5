//! What passes through a provider, counted by state: also objects that never become a route.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::SystemTime;

use parking_lot::Mutex;
use sandgate_routes::{Clash, ObjectKey, State};
use sandgate_watch::{Projection, Provider, Resource, Unreadable};

/// The last state of each object.
#[derive(Clone, Default)]
pub(super) struct Tally(Arc<Mutex<HashMap<ObjectKey, State>>>);

impl Tally {
    pub(super) fn seen(&self) -> usize {
        self.0.lock().len()
    }

    /// How many objects are in each state, in one namespace or all, states with none left out.
    pub(super) fn by_state(&self, namespace: Option<&str>) -> Vec<(State, usize)> {
        let states = self.0.lock();
        let counted = State::ALL.map(|state| {
            let here = |key: &ObjectKey| namespace.is_none_or(|name| key.namespace() == name);
            (state, states.iter().filter(|(key, found)| **found == state && here(key)).count())
        });
        counted.into_iter().filter(|(_, count)| *count > 0).collect()
    }
}

/// A provider that is counted.
pub(super) struct Counted {
    pub(super) provider: Arc<dyn Provider>,
    pub(super) tally: Tally,
}

impl Provider for Counted {
    fn name(&self) -> &str {
        self.provider.name()
    }

    fn resource(&self) -> &Resource {
        self.provider.resource()
    }

    fn selector(&self) -> &str {
        self.provider.selector()
    }

    fn clash(&self) -> Clash {
        self.provider.clash()
    }

    fn address_is_claimed(&self) -> bool {
        self.provider.address_is_claimed()
    }

    fn project(&self, object: &[u8], now: SystemTime) -> Result<Projection, Unreadable> {
        let projection = self.provider.project(object, now)?;
        let observation = &projection.observation;
        self.tally.0.lock().insert(observation.key.clone(), observation.state);
        Ok(projection)
    }
}
