//! The main thread's book: which hosts there are, whose they are, which are wanted, and which have to go.
//!
//! It calls nothing and knows neither a clock nor Envoy. The main thread reports to it what happened and asks
//! it what to do.
//!
//! # The life of a host
//! 1. *Wanted*: a request wants an address for an identity ([`Book::want`]) and waits.
//! 2. *Added*: if the address has no host, it is vacant. [`Book::take_adds`] hands vacant addresses out in
//!    the order in which they were wanted; [`Book::added`] records the host and returns the requests that
//!    waited for it.
//! 3. *Closed*: the identity is not served there any more ([`Book::forget`]), the host was unused for a while
//!    ([`Book::sweep`], [`Book::evict`]), nothing listens there ([`Book::give_up`]), or another identity
//!    waits for the address ([`Book::take_turns`]). The host takes no new requests, but Envoy still has it.
//! 4. *Past the barrier*: the main thread has [`Book::take_closed`] and a barrier that every worker passes.
//!    After it no worker is about to use the host.
//! 5. *Removed*: [`Book::removed`] makes the address vacant again if a request waits for it.
//!
//! An address is vacant only without a host (steps 2 and 5). So one address never has two hosts, and a new
//! identity never gets an old one's connections. Two identities that are served at one address at the same
//! time take turns: the one that has the address keeps it for [`TENURE`], then step 3 gives it to the one
//! that waits.
//!
//! # Why no update is lost
//! Every request that waits is in `wants`, and its address is in one of four states, each with an event that
//! ends it:
//! * vacant: it is in `vacant`, and stays there until `take_adds` or `take_vacant` takes it;
//! * being added: the main thread reports `added` or `refused`, and both return those who wait; an address
//!   that another identity still waits for after `added` becomes contested;
//! * contested: it is in `contested`, and stays there until `take_turns` closes its host or nobody waits;
//! * closed: `closed` hands it out once, and `removed` makes it vacant.
//!
//! An identity that the table stops serving is reported with `forget`, which closes its hosts and returns its
//! waiting requests. The main thread reports every host that it was handed before it reads another change, so
//! `forget` finds all of them. A request that waits too long all the same is returned by [`Book::expire`].

#[cfg(test)]
mod model;
mod shards;
#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use foldhash::fast::RandomState;

use super::host::{Endpoint, Host};
use super::usage::{Client, share};
use shards::Shards;

/// How long a served identity keeps an address that another one wants.
pub(crate) const TENURE: Duration = Duration::from_millis(100);

/// After so many sweeps without use a host is closed.
pub(crate) const QUIET_SWEEPS: u8 = 4;

/// A request that waits for its host.
#[derive(Debug)]
pub(crate) struct Want<W> {
    pub(crate) endpoint: Endpoint,
    pub(crate) identity: u64,
    /// What the table calls the sandbox.
    pub(crate) id: Arc<str>,
    /// How Envoy connects to it.
    pub(crate) socket: Socket,
    /// Whose it is, where clients have shares.
    pub(crate) opener: Option<Opener>,
    /// Since when the request has been waiting, also for another host before this.
    pub(crate) since: Instant,
    /// Whom to tell.
    pub(crate) waker: W,
}

/// A client, and how much of the sandbox's ports it may have, in percent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Opener {
    pub(crate) client: Client,
    pub(crate) percent: u32,
}

/// How Envoy connects to a host: the transport socket match and the server's name, where it is not plain TCP.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Socket {
    pub(crate) tls: Option<String>,
    pub(crate) server_name: Option<String>,
}

/// A host to be added now.
#[derive(Debug)]
pub(crate) struct Add {
    pub(crate) endpoint: Endpoint,
    pub(crate) identity: u64,
    pub(crate) id: Arc<str>,
    pub(crate) socket: Socket,
    pub(crate) client: Option<Client>,
}

/// Hosts to be added now, all at one priority, and those who wait in vain.
#[derive(Debug)]
pub(crate) struct Adds<W> {
    pub(crate) shard: u32,
    pub(crate) hosts: Vec<Add>,
    /// Their sandbox has as many ports as it may.
    pub(crate) over_the_cap: Vec<W>,
    /// Their client has as many ports of the sandbox as one may have.
    pub(crate) over_the_share: Vec<W>,
}

/// Who is first in line for an address.
struct First {
    identity: u64,
    id: Arc<str>,
    socket: Socket,
    opener: Option<Opener>,
}

/// Why there is no room for one more host of a sandbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Full {
    Sandbox,
    Client,
}

#[derive(Debug)]
struct Live {
    pointer: usize,
    host: Arc<Host>,
    since: Moment,
    shard: u32,
}

/// Milliseconds since the book was begun, in a quarter of an `Instant`'s room. It comes round after 49 days;
/// then an address may change hands a tenth of a second late.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Moment(u32);

impl Moment {
    fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(self.0.wrapping_sub(earlier.0).into())
    }
}

/// A closed host, to be removed after a barrier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Closed {
    pub(crate) endpoint: Endpoint,
    /// Envoy's pointer to it.
    pub(crate) pointer: usize,
    pub(crate) shard: u32,
}

impl Closed {
    /// Takes at most so many to be removed together: of many, those that are in the same shards.
    pub(crate) fn take_batch(all: &mut Vec<Self>, most: usize) -> Vec<Self> {
        if all.len() <= most {
            return std::mem::take(all);
        }
        all.sort_unstable_by_key(|closed| closed.shard);
        let rest = all.split_off(most);
        std::mem::replace(all, rest)
    }
}

/// An address where there is a host, or is to be. There are a hundred thousand: who waits is kept elsewhere.
#[derive(Debug, Default)]
struct Place {
    live: Option<Live>,
    adding: Adding,
}

/// Whether a host is handed out to be added and not reported yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Adding {
    #[default]
    No,
    /// For this client, where clients have shares.
    For(Option<Client>),
}

pub(crate) struct Book<W> {
    max_ports: usize,
    begun: Instant,
    places: HashMap<Endpoint, Place, RandomState>,
    /// The hosts of each identity that has some.
    sandboxes: HashMap<u64, Vec<Endpoint>, RandomState>,
    shards: Shards,
    /// Those who wait, by address; none where nobody does. Each address has a place.
    wants: HashMap<Endpoint, Vec<Want<W>>, RandomState>,
    /// Which identities wait at which addresses.
    waits: BTreeSet<(u64, Endpoint)>,
    /// Places that have no host and somebody waiting, the first that was wanted first. May name one twice, or
    /// one where nobody waits any more.
    vacant: VecDeque<Endpoint>,
    /// Places whose host belongs to another identity than somebody waiting.
    contested: Vec<Endpoint>,
    /// Hosts closed since they were last asked for.
    closed: Vec<Endpoint>,
    live: usize,
    waiting: usize,
}

impl<W> Book<W> {
    pub(crate) fn new(max_ports: usize) -> Self {
        Self {
            max_ports: max_ports.max(1),
            begun: Instant::now(),
            places: HashMap::default(),
            sandboxes: HashMap::default(),
            shards: Shards::default(),
            wants: HashMap::default(),
            waits: BTreeSet::new(),
            vacant: VecDeque::new(),
            contested: Vec::new(),
            closed: Vec::new(),
            live: 0,
            waiting: 0,
        }
    }

    /// Hosts that Envoy has.
    pub(crate) fn live(&self) -> usize {
        self.live
    }

    /// Requests that wait.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting
    }

    /// Whether somebody waits for an address that nobody has.
    pub(crate) fn has_vacant(&self) -> bool {
        !self.vacant.is_empty()
    }

    /// Whether hosts were closed since they were last asked for.
    pub(crate) fn has_closed(&self) -> bool {
        !self.closed.is_empty()
    }

    /// Whether somebody waits for an address that another identity has.
    pub(crate) fn has_contested(&self) -> bool {
        !self.contested.is_empty()
    }

    /// Whose an address is.
    pub(crate) fn owner(&self, endpoint: Endpoint) -> Option<u64> {
        Some(self.places.get(&endpoint)?.live.as_ref()?.host.identity())
    }

    /// A request wants a host. Gives the waker back if there is nothing to wait for.
    #[must_use]
    pub(crate) fn want(&mut self, want: Want<W>) -> Option<W> {
        let endpoint = want.endpoint;
        match &self.places.entry(endpoint).or_default().live {
            Some(live) if live.host.is_closing() => {}
            Some(live) if live.host.identity() == want.identity => return Some(want.waker),
            Some(_) => {
                if !self.contested.contains(&endpoint) {
                    self.contested.push(endpoint);
                }
            }
            None => {
                if !self.is_wanted(endpoint) {
                    self.vacant.push_back(endpoint);
                }
            }
        }
        self.waits.insert((want.identity, endpoint));
        self.wants.entry(endpoint).or_default().push(want);
        self.waiting += 1;
        None
    }

    /// An identity is not served any more, or only at `keep`. Closes its other hosts and gives those back who
    /// wait for them.
    #[must_use]
    pub(crate) fn forget(&mut self, identity: u64, keep: Option<IpAddr>) -> Vec<W> {
        if let Some(hosts) = self.sandboxes.get(&identity) {
            for endpoint in hosts.clone() {
                if Some(endpoint.ip()) != keep {
                    self.close(endpoint);
                }
            }
        }
        let of_identity = (identity, Endpoint::FIRST)..=(identity, Endpoint::LAST);
        let elsewhere = |(_, endpoint): &&(u64, Endpoint)| Some(endpoint.ip()) != keep;
        let keys: Vec<Endpoint> =
            self.waits.range(of_identity).filter(elsewhere).map(|(_, endpoint)| *endpoint).collect();
        keys.into_iter()
            .flat_map(|endpoint| self.take_from(endpoint, |want| want.identity == identity))
            .collect()
    }

    /// The cluster ends: none of its hosts takes a new request.
    pub(crate) fn close_all(&mut self) {
        for live in self.places.values().filter_map(|place| place.live.as_ref()) {
            live.host.close();
        }
    }

    /// How many shards the hosts are in.
    pub(crate) fn shards(&self) -> usize {
        self.shards.len()
    }

    /// Looks through the next so many shards in turn, and closes the hosts there that nobody has used for
    /// [`QUIET_SWEEPS`] of its turns.
    pub(crate) fn sweep(&mut self, shards: usize) {
        let idle = |host: &&Arc<Host>| !host.is_closing() && host.check_use() >= QUIET_SWEEPS;
        let idle: Vec<Endpoint> =
            self.shards.next_in_turn(shards).filter(idle).map(|host| host.endpoint()).collect();
        for endpoint in idle {
            self.close(endpoint);
        }
    }

    /// Takes an address from an identity that has had it for its [`TENURE`], for the one that waits.
    pub(crate) fn take_turns(&mut self, now: Instant) {
        for endpoint in std::mem::take(&mut self.contested) {
            let live = self.places.get(&endpoint).and_then(|place| place.live.as_ref());
            let Some(live) = live.filter(|live| !live.host.is_closing() && self.is_wanted(endpoint)) else {
                continue;
            };
            if self.moment(now).since(live.since) >= TENURE {
                self.close(endpoint);
            } else {
                self.contested.push(endpoint);
            }
        }
    }

    /// Nothing listens on a port of an identity: its host goes unless somebody uses it.
    pub(crate) fn give_up(&mut self, endpoint: Endpoint, identity: u64) {
        let live = self.places.get(&endpoint).and_then(|place| place.live.as_ref());
        if live.is_some_and(|live| live.host.identity() == identity && live.host.in_flight() == 0) {
            self.close(endpoint);
        }
    }

    /// Closes hosts in the next so many shards that nobody uses and nobody has used since they were last
    /// looked at: as many as are waited for, those that have been quiet the longest first.
    pub(crate) fn evict(&mut self, shards: usize) {
        let idle = |host: &Arc<Host>| {
            let quiet = if host.is_closing() { 0 } else { host.check_use() };
            (quiet > 0).then(|| (Reverse(quiet), host.endpoint()))
        };
        let mut idle: Vec<(Reverse<u8>, Endpoint)> =
            self.shards.next_in_turn(shards).filter_map(idle).collect();
        idle.sort_by_key(|(quiet, _)| *quiet);
        for (_, endpoint) in idle.into_iter().take(self.vacant.len()) {
            self.close(endpoint);
        }
    }

    /// Takes those who wait for addresses that nobody has, in order, at so many addresses at the most.
    #[must_use]
    pub(crate) fn take_vacant(&mut self, most: usize) -> Vec<W> {
        let count = most.min(self.vacant.len());
        let keys: Vec<Endpoint> = self.vacant.drain(..count).collect();
        keys.into_iter().flat_map(|endpoint| self.take_from(endpoint, |_| true)).collect()
    }

    /// Those who have been waiting since before `limit`.
    #[must_use]
    pub(crate) fn expire(&mut self, limit: Instant) -> Vec<W> {
        if self.waiting == 0 {
            return Vec::new();
        }
        self.take_waiting(|want| want.since <= limit)
    }

    /// What to add now. Each of the hosts must be reported with [`Self::added`] or [`Self::refused`].
    pub(crate) fn take_adds(&mut self, most: usize) -> Adds<W> {
        let shard = self.shards.pick();
        let mut adds =
            Adds { shard, hosts: Vec::new(), over_the_cap: Vec::new(), over_the_share: Vec::new() };
        let mut left = std::mem::take(&mut self.vacant);
        while adds.hosts.len() < most
            && let Some(endpoint) = left.pop_front()
        {
            while let Some(First { identity, id, socket, opener }) = self.first_for_vacant(endpoint) {
                let full = self.make_room(identity, opener);
                if full.is_none() {
                    self.sandboxes.entry(identity).or_insert_with(|| Vec::with_capacity(1)).push(endpoint);
                    let client = opener.map(|opener| opener.client);
                    if let Some(place) = self.places.get_mut(&endpoint) {
                        place.adding = Adding::For(client);
                    }
                    adds.hosts.push(Add { endpoint, identity, id, socket, client });
                    break;
                }
                let of_client = full == Some(Full::Client);
                let refused = self.take_from(endpoint, |want| {
                    want.identity == identity && (!of_client || want.opener == opener)
                });
                let those = if of_client { &mut adds.over_the_share } else { &mut adds.over_the_cap };
                those.extend(refused);
            }
        }
        // Who was pushed meanwhile comes after those who waited before.
        left.append(&mut self.vacant);
        self.vacant = left;
        adds
    }

    /// Envoy has taken a host. Gives those back who waited for it.
    #[must_use]
    pub(crate) fn added(&mut self, pointer: usize, host: Arc<Host>, shard: u32, now: Instant) -> Vec<W> {
        let (endpoint, identity) = (host.endpoint(), host.identity());
        let since = self.moment(now);
        let place = self.places.entry(endpoint).or_default();
        place.adding = Adding::No;
        place.live = Some(Live { pointer, host: Arc::clone(&host), since, shard });
        self.live += 1;
        self.shards.entered(shard, host);
        let woken = self.take_from(endpoint, |want| want.identity == identity);
        if self.is_wanted(endpoint) {
            self.contested.push(endpoint);
        }
        woken
    }

    /// Envoy has not taken a host. Gives everybody back who waited for it.
    #[must_use]
    pub(crate) fn refused(&mut self, endpoint: Endpoint, identity: u64) -> Vec<W> {
        self.leave_sandbox(endpoint, identity);
        if let Some(place) = self.places.get_mut(&endpoint) {
            place.adding = Adding::No;
        }
        self.take_from(endpoint, |_| true)
    }

    /// The hosts closed since this was last asked. They may be removed after a barrier.
    pub(crate) fn take_closed(&mut self) -> Vec<Closed> {
        let closed = |endpoint: Endpoint| {
            let live = self.places.get(&endpoint)?.live.as_ref()?;
            Some(Closed { endpoint, pointer: live.pointer, shard: live.shard })
        };
        std::mem::take(&mut self.closed).into_iter().filter_map(closed).collect()
    }

    /// Whether somebody waits for this address.
    pub(crate) fn is_wanted(&self, endpoint: Endpoint) -> bool {
        self.wants.contains_key(&endpoint)
    }

    fn moment(&self, at: Instant) -> Moment {
        let millis = at.saturating_duration_since(self.begun).as_millis() & u128::from(u32::MAX);
        Moment(u32::try_from(millis).unwrap_or_default())
    }

    /// Envoy has removed a host.
    pub(crate) fn removed(&mut self, endpoint: Endpoint) {
        let Some(place) = self.places.get_mut(&endpoint) else { return };
        let Some(live) = place.live.take() else { return };
        self.live -= 1;
        self.shards.left(live.shard, &live.host);
        self.leave_sandbox(endpoint, live.host.identity());
        if self.is_wanted(endpoint) {
            self.vacant.push_back(endpoint);
        } else {
            self.places.remove(&endpoint);
        }
    }

    fn close(&mut self, endpoint: Endpoint) {
        if let Some(live) = self.places.get(&endpoint).and_then(|place| place.live.as_ref())
            && !live.host.is_closing()
        {
            live.host.close();
            self.closed.push(endpoint);
        }
    }

    /// Why the identity may not have one more host, for this client. Closes one that nobody uses if that is
    /// what it takes.
    fn make_room(&mut self, identity: u64, opener: Option<Opener>) -> Option<Full> {
        let hosts = self.sandboxes.get(&identity)?;
        let live = |endpoint: &Endpoint| self.places.get(endpoint).and_then(|place| place.live.as_ref());
        let open = |endpoint: &&Endpoint| live(endpoint).is_none_or(|live| !live.host.is_closing());
        if let Some(Opener { client, percent }) = opener {
            // Those that nobody uses make room, so that they are held by nobody. One that is being added, or
            // was just added, is held by whoever waits for it: else all that are asked for at once would be
            // for free.
            let holds = |place: &Place| match &place.live {
                Some(live) => {
                    live.host.opener() == Some(client) && !live.host.is_closing() && live.host.is_held()
                }
                None => place.adding == Adding::For(Some(client)),
            };
            let held = hosts.iter().filter(|endpoint| self.places.get(endpoint).is_some_and(holds)).count();
            let most = u32::try_from(self.max_ports).unwrap_or(u32::MAX);
            let share = share(most, percent);
            if share < most && held >= share as usize {
                return Some(Full::Client);
            }
        }
        if hosts.iter().filter(open).count() < self.max_ports {
            return None;
        }
        // Of those not in use, the one that has been quiet the longest.
        let unused = |endpoint: &&Endpoint| {
            live(endpoint).is_some_and(|live| !live.host.is_closing() && live.host.in_flight() == 0)
        };
        let quietest = hosts
            .iter()
            .filter(unused)
            .max_by_key(|endpoint| live(endpoint).map(|live| (live.host.quiet(), Reverse(live.since))))
            .copied();
        match quietest {
            Some(endpoint) => {
                self.close(endpoint);
                None
            }
            None => Some(Full::Sandbox),
        }
    }

    /// Who is first in line for an address that nobody has.
    fn first_for_vacant(&self, endpoint: Endpoint) -> Option<First> {
        self.places.get(&endpoint).filter(|place| place.live.is_none() && place.adding == Adding::No)?;
        let want = self.wants.get(&endpoint)?.first()?;
        let Want { identity, opener, .. } = *want;
        Some(First { identity, id: Arc::clone(&want.id), socket: want.socket.clone(), opener })
    }

    fn leave_sandbox(&mut self, endpoint: Endpoint, identity: u64) {
        if let Some(hosts) = self.sandboxes.get_mut(&identity) {
            hosts.retain(|host| *host != endpoint);
            if hosts.is_empty() {
                self.sandboxes.remove(&identity);
            }
        }
    }

    /// Takes those who wait for one address and match; the place goes if nothing is left of it.
    fn take_from(&mut self, endpoint: Endpoint, matches: impl Fn(&Want<W>) -> bool) -> Vec<W> {
        let wants = self.wants.remove(&endpoint).unwrap_or_default();
        let (taken, kept): (Vec<_>, Vec<_>) = wants.into_iter().partition(matches);
        self.waiting -= taken.len();
        let mut last = None;
        for want in &taken {
            if last.replace(want.identity) != Some(want.identity)
                && !kept.iter().any(|other| other.identity == want.identity)
            {
                self.waits.remove(&(want.identity, endpoint));
            }
        }
        if !kept.is_empty() {
            self.wants.insert(endpoint, kept);
        } else if self
            .places
            .get(&endpoint)
            .is_some_and(|place| place.live.is_none() && place.adding == Adding::No)
        {
            self.places.remove(&endpoint);
        }
        taken.into_iter().map(|want| want.waker).collect()
    }

    /// Takes everybody who matches, wherever they wait. Looks only at places where somebody does.
    fn take_waiting(&mut self, matches: impl Fn(&Want<W>) -> bool) -> Vec<W> {
        let busy: Vec<Endpoint> = self.wants.keys().copied().collect();
        busy.into_iter().flat_map(|endpoint| self.take_from(endpoint, &matches)).collect()
    }
}
