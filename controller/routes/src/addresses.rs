//! Who gets an address, where tenants write addresses.
//!
//! Some providers take a sandbox's address from an annotation that its owner may change
//! ([`Observation::ip_is_claimed`]). Pointed at another sandbox's pod, such a claim would bypass that
//! sandbox's checks. So a claimed address is routed to only while no other live object has it:
//!
//! 1. An address that a controller assigned beats every claim.
//! 2. Among claims from one namespace the oldest object wins, then the smaller UID.
//! 3. If claims come from several namespaces, none wins: nothing proves whose pod it is.
//!
//! The losers stay known without an address, and so are not running. A paused object, or one in an unknown
//! state, has no address either: its pod is gone, and the address may be another's.
//!
//! Nothing is stored here before the first claim. Then every live object is read once.

use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;

use crate::claims::Rank;
use crate::reader::Shared;
use crate::served::PinnedMap;
use crate::table::Table;
use crate::{Observation, Route, State};

/// Who has which address.
#[derive(Default)]
pub(crate) struct Addresses {
    by_ip: HashMap<IpAddr, Holders>,
    by_slot: HashMap<u32, Holder>,
    /// So many claim an address, and so many of them are routed to.
    claims: usize,
    routed: usize,
}

/// Those who have one address.
#[derive(Default)]
struct Holders {
    /// So many by their controllers' word.
    assigned: usize,
    claimed: BTreeSet<(Rank, u32)>,
    /// How many claim it of each provider and namespace.
    namespaces: Vec<(Box<str>, Box<str>, usize)>,
    /// Who is routed to of those who claim it.
    routed: Option<u32>,
}

struct Holder {
    ip: IpAddr,
    state: State,
    /// The rank of a claim.
    claim: Option<Rank>,
}

impl Holders {
    fn count(&mut self, claim: &Rank, add: bool) {
        let (provider, namespace) = (claim.key().provider(), claim.key().namespace());
        let at = self.namespaces.iter().position(|(p, n, _)| **p == *provider && **n == *namespace);
        match (at, add) {
            (Some(at), true) => self.namespaces[at].2 += 1,
            (None, true) => self.namespaces.push((provider.into(), namespace.into(), 1)),
            (Some(at), false) if self.namespaces[at].2 > 1 => self.namespaces[at].2 -= 1,
            (Some(at), false) => drop(self.namespaces.swap_remove(at)),
            (None, false) => {}
        }
    }
}

impl Addresses {
    fn insert(&mut self, slot: u32, holder: Holder) {
        let holders = self.by_ip.entry(holder.ip).or_default();
        match &holder.claim {
            Some(rank) => {
                holders.claimed.insert((rank.clone(), slot));
                holders.count(rank, true);
                self.claims += 1;
            }
            None => holders.assigned += 1,
        }
        self.by_slot.insert(slot, holder);
    }

    fn remove(&mut self, slot: u32) -> Option<IpAddr> {
        let holder = self.by_slot.remove(&slot)?;
        if let Some(holders) = self.by_ip.get_mut(&holder.ip) {
            match holder.claim {
                Some(rank) => {
                    holders.count(&rank, false);
                    holders.claimed.remove(&(rank, slot));
                    self.claims -= 1;
                }
                None => holders.assigned -= 1,
            }
        }
        Some(holder.ip)
    }

    /// Decides anew who is routed to at an address. Says who was and who is, where that differs.
    fn elect(&mut self, ip: IpAddr) -> Option<(Option<u32>, Option<u32>)> {
        let holders = self.by_ip.get_mut(&ip)?;
        let first = holders.claimed.first().map(|(_, slot)| *slot);
        let now = first.filter(|_| holders.assigned == 0 && holders.namespaces.len() == 1);
        let before = std::mem::replace(&mut holders.routed, now);
        self.routed = self.routed + usize::from(now.is_some()) - usize::from(before.is_some());
        if holders.assigned == 0 && holders.claimed.is_empty() {
            self.by_ip.remove(&ip);
        }
        (before != now).then_some((before, now))
    }

    /// Whether a claim is not the one that is routed to.
    fn is_withheld(&self, slot: u32) -> bool {
        let Some(holder) = self.by_slot.get(&slot) else { return false };
        let routed = self.by_ip.get(&holder.ip).and_then(|holders| holders.routed);
        holder.claim.is_some() && routed != Some(slot)
    }

    /// What a route said of its address, where that is withheld.
    fn withheld(&self, slot: u32) -> Option<(IpAddr, State)> {
        self.by_slot.get(&slot).filter(|_| self.is_withheld(slot)).map(|holder| (holder.ip, holder.state))
    }
}

/// What an object has in a state; `claim` gives the rank of a claim.
fn holder(ip: Option<IpAddr>, state: State, claim: impl FnOnce() -> Option<Rank>) -> Option<Holder> {
    let has_a_pod = matches!(state, State::Running | State::Creating | State::Available);
    let ip = ip.filter(|_| has_a_pod)?;
    Some(Holder { ip: ip.to_canonical(), state, claim: claim() })
}

impl Table {
    /// Takes the address of an object's new observation into account, for the others who have it, and takes
    /// it away from the observation if it is another's.
    pub(crate) fn assign_address(
        &mut self,
        shared: &Shared,
        served: &PinnedMap<'_>,
        slot: u32,
        observed: &mut Observation,
        created: u32,
    ) {
        if self.addresses.is_none() {
            if !observed.ip_is_claimed {
                return;
            }
            self.learn_addresses(served);
        }
        let Some(addresses) = &mut self.addresses else { return };
        let old = addresses.remove(slot);
        let claim = || observed.ip_is_claimed.then(|| Rank::by_age(&observed.key, &observed.uid, created));
        let new = holder(observed.ip, observed.state, claim).map(|holder| {
            let ip = holder.ip;
            addresses.insert(slot, holder);
            ip
        });
        if let Some(ip) = old.filter(|old| Some(*old) != new) {
            self.reassign_address(shared, served, ip, slot);
        }
        if let Some(ip) = new {
            self.reassign_address(shared, served, ip, slot);
        }
        if self.addresses.as_ref().is_some_and(|addresses| addresses.is_withheld(slot)) {
            observed.ip = None;
        }
        self.count_withheld(shared);
    }

    /// An object is gone, and so is what it had.
    pub(crate) fn release_address(&mut self, shared: &Shared, served: &PinnedMap<'_>, slot: u32) {
        let Some(ip) = self.addresses.as_mut().and_then(|addresses| addresses.remove(slot)) else { return };
        self.reassign_address(shared, served, ip, slot);
        self.count_withheld(shared);
    }

    /// What was observed of an object, its address too if it is withheld.
    pub(crate) fn observation_of(&self, slot: u32, route: &Route, created: u32) -> Observation {
        let mut observed = route.observation(created);
        if let Some((ip, state)) = self.addresses.as_ref().and_then(|addresses| addresses.withheld(slot)) {
            (observed.ip, observed.state) = (Some(ip), state);
        }
        observed
    }

    /// Routes to another at an address, if another is to be routed to. The `changing` one is about to be
    /// published anyway.
    fn reassign_address(&mut self, shared: &Shared, served: &PinnedMap<'_>, ip: IpAddr, changing: u32) {
        let changed = self.addresses.as_mut().and_then(|addresses| addresses.elect(ip));
        let (before, now) = changed.unwrap_or_default();
        // Whoever loses it goes first: no two are ever routed to one claimed address.
        for slot in [before, now].into_iter().flatten().filter(|slot| *slot != changing) {
            self.reroute(shared, served, slot);
        }
    }

    /// Publishes the route of an object anew, with or without its address.
    fn reroute(&mut self, shared: &Shared, served: &PinnedMap<'_>, slot: u32) {
        let Some(old) = self.records.route(served, slot).cloned() else { return };
        let Some(holder) = self.addresses.as_ref().and_then(|addresses| addresses.by_slot.get(&slot)) else {
            return;
        };
        let mut observed = old.observation(self.records.created(slot));
        (observed.ip, observed.state) = (Some(holder.ip), holder.state);
        if self.addresses.as_ref().is_some_and(|addresses| addresses.is_withheld(slot)) {
            observed.ip = None;
        }
        let new = Route::build(observed, old.identity(), slot, old.id_hash());
        shared.counters.state(old.state()).down();
        self.records.displaced.remove(slot);
        self.publish(shared, served, new);
    }

    /// Looks at every live object, once, and copies nothing of those who claim nothing: the writer's lock is
    /// held.
    fn learn_addresses(&mut self, served: &PinnedMap<'_>) {
        let mut addresses = Addresses::default();
        for at in 0..self.records.slots() {
            let Ok(slot) = u32::try_from(at) else { break };
            let Some(route) = self.records.route(served, slot) else { continue };
            let rank =
                || Rank::by_age(&route.key().to_key(), route.uid().as_str(), self.records.created(slot));
            let claim = || route.ip_is_claimed().then(rank);
            if let Some(holder) = holder(route.ip(), route.state(), claim) {
                addresses.insert(slot, holder);
            }
        }
        self.addresses = Some(addresses);
    }

    fn count_withheld(&self, shared: &Shared) {
        if let Some(addresses) = &self.addresses {
            shared.counters.withheld.set(addresses.claims - addresses.routed);
        }
    }
}
