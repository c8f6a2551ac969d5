//! Displaced objects: those that are not shown under the ID they claim, in the order in which they would be.
//!
//! Most IDs have one claimant. An ID without rivals costs nothing here.

use std::collections::{BTreeMap, HashMap};

use crate::{ObjectKey, Route};

/// Where a claimant stands among those of its ID: the lowest is first.
///
/// Every field is a fact of the object, so every replica ranks alike, in whatever order it learns. The order
/// of the fields is the rule: an object's own name before a label; a known age before an unknown one; the
/// older object before the younger; the smaller UID; the smaller key.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Rank {
    is_not_own: bool,
    age_is_unknown: bool,
    created: u32,
    uid: Box<str>,
    key: ObjectKey,
}

impl Rank {
    /// The rank of a route whose object was created then; 0 if unknown.
    pub(crate) fn of(route: &Route, created: u32) -> Self {
        Self {
            is_not_own: !route.has_own_id(),
            age_is_unknown: created == 0,
            created,
            uid: route.uid().as_str().into(),
            key: route.key().to_key(),
        }
    }

    /// The key of the claimant.
    pub(crate) fn key(&self) -> &ObjectKey {
        &self.key
    }

    /// The rank of one that claims an address: by its age alone.
    pub(crate) fn by_age(key: &ObjectKey, uid: &str, created: u32) -> Self {
        let age_is_unknown = created == 0;
        Self { is_not_own: true, age_is_unknown, created, uid: uid.into(), key: key.clone() }
    }
}

/// The routes that are not shown, by slot and by the hash of the ID they claim.
#[derive(Default)]
pub(crate) struct Displaced {
    routes: HashMap<u32, (Rank, Box<Route>)>,
    by_id: HashMap<u64, Claimants>,
}

/// The displaced claimants of one ID.
#[derive(Default)]
struct Claimants {
    id: Box<[u8]>,
    slots: BTreeMap<Rank, u32>,
    providers: Vec<Contest>,
}

/// The claimants of one provider, counted.
struct Contest {
    provider: Box<str>,
    /// How many could be served.
    servable: usize,
    /// How many of these refuse to share.
    refusing: usize,
}

impl Claimants {
    fn count(&mut self, route: &Route, add: bool) {
        if !route.could_be_served() {
            return;
        }
        let provider = route.key().provider();
        let at = match self.providers.iter().position(|contest| *contest.provider == *provider) {
            Some(at) => at,
            None => {
                self.providers.push(Contest { provider: provider.into(), servable: 0, refusing: 0 });
                self.providers.len() - 1
            }
        };
        let contest = &mut self.providers[at];
        let refusing = usize::from(route.refuses());
        if add {
            contest.servable += 1;
            contest.refusing += refusing;
        } else {
            contest.servable -= 1;
            contest.refusing -= refusing;
        }
    }
}

impl Displaced {
    pub(crate) fn len(&self) -> usize {
        self.routes.len()
    }

    pub(crate) fn get(&self, slot: u32) -> Option<&Route> {
        self.routes.get(&slot).map(|(_, route)| &**route)
    }

    /// Every route that is not shown.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Route> {
        self.routes.values().map(|(_, route)| &**route)
    }

    /// Keeps a route that is not there yet.
    pub(crate) fn insert(&mut self, route: Route, created: u32) {
        let route = route.marked(false);
        let rank = Rank::of(&route, created);
        let claimants = self.by_id.entry(route.id_hash()).or_default();
        claimants.id = route.raw_id().into();
        claimants.slots.insert(rank.clone(), route.slot());
        claimants.count(&route, true);
        self.routes.insert(route.slot(), (rank, Box::new(route)));
    }

    pub(crate) fn remove(&mut self, slot: u32) -> Option<Route> {
        let (rank, route) = self.routes.remove(&slot)?;
        if let Some(claimants) = self.by_id.get_mut(&route.id_hash()) {
            claimants.slots.remove(&rank);
            claimants.count(&route, false);
            if claimants.slots.is_empty() {
                self.by_id.remove(&route.id_hash());
            }
        }
        Some(*route)
    }

    /// Whether a displaced object claims an ID of this hash.
    pub(crate) fn any(&self, id_hash: u64) -> bool {
        self.by_id.contains_key(&id_hash)
    }

    /// The ID of this hash that is claimed, if one is.
    pub(crate) fn id(&self, id_hash: u64) -> Option<&[u8]> {
        self.by_id.get(&id_hash).map(|claimants| &*claimants.id)
    }

    /// The displaced claimants of an ID, the first in rank first.
    pub(crate) fn claimants(&self, id_hash: u64) -> impl Iterator<Item = &Route> {
        let claimants = self.by_id.get(&id_hash).into_iter().flat_map(|claimants| claimants.slots.values());
        claimants.filter_map(|&slot| self.get(slot))
    }

    /// Whether an ID is contested among the claimants of one provider: two or more of them could be served,
    /// and one of these refuses to share it.
    pub(crate) fn is_contested(&self, id_hash: u64, provider: &str) -> bool {
        let claimants = self.by_id.get(&id_hash).into_iter().flat_map(|claimants| &claimants.providers);
        let mut contests = claimants.filter(|contest| *contest.provider == *provider);
        contests.any(|contest| contest.servable > 1 && contest.refusing > 0)
    }
}
