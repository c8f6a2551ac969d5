//! Which connections may stay when there is no room for all.
//!
//! A new connection is always accepted, so it never waits behind connections that say nothing. There are
//! three kinds, each with room of its own:
//!
//! - **Unproven**: no request on it was authenticated yet. They have a quarter of the room. When there is
//!   none left, the oldest of the [source](source_of) with the most of them is evicted, so a host that opens
//!   many connections evicts its own.
//! - **Proven**: it sent an authenticated request, or a good client certificate. They have the rest and are
//!   never evicted. One that finds no room is answered, and closes after the answer.
//! - **Probes**: it asked for `/healthz` or `/readyz`, and nothing was authenticated. There are [`PROBES`] of
//!   them; the oldest is evicted first.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use tokio::sync::Notify;

/// The most connections of probes.
const PROBES: usize = 16;

#[derive(Debug)]
pub(crate) struct Connections {
    max_unproven: usize,
    max_proven: usize,
    open: Mutex<Open>,
}

#[derive(Debug, Default)]
struct Open {
    next: u64,
    unproven: BTreeMap<u64, Waiting>,
    probes: BTreeMap<u64, Waiting>,
    proven: BTreeSet<u64>,
}

#[derive(Debug)]
struct Waiting {
    source: IpAddr,
    evicted: Arc<Notify>,
}

/// The room of one connection, until it is dropped.
#[derive(Debug)]
pub(crate) struct Slot {
    connections: Arc<Connections>,
    number: u64,
    evicted: Arc<Notify>,
    /// It is proven and found no room.
    leaving: AtomicBool,
}

impl Connections {
    pub(crate) fn new(max: usize) -> Arc<Self> {
        let max_unproven = (max / 4).max(1);
        Arc::new(Self { max_unproven, max_proven: max.saturating_sub(max_unproven), open: Mutex::default() })
    }

    /// Adds an unproven connection, and evicts another if there is no room.
    pub(crate) fn enter(self: &Arc<Self>, address: IpAddr) -> Slot {
        let source = source_of(address);
        let evicted = Arc::new(Notify::new());
        let mut open = self.open.lock();
        if open.unproven.len() >= self.max_unproven
            && let Some(oldest) = oldest_of_the_most(&open.unproven)
        {
            evict(&mut open.unproven, oldest);
        }
        let number = open.next;
        open.next += 1;
        open.unproven.insert(number, Waiting { source, evicted: Arc::clone(&evicted) });
        drop(open);
        Slot { connections: Arc::clone(self), number, evicted, leaving: AtomicBool::new(false) }
    }
}

fn oldest_of_the_most(unproven: &BTreeMap<u64, Waiting>) -> Option<u64> {
    let mut counts: HashMap<IpAddr, usize> = HashMap::new();
    for connection in unproven.values() {
        *counts.entry(connection.source).or_default() += 1;
    }
    let most = *counts.values().max()?;
    unproven.iter().find(|(_, connection)| counts[&connection.source] == most).map(|(number, _)| *number)
}

fn evict(waiting: &mut BTreeMap<u64, Waiting>, number: u64) {
    if let Some(connection) = waiting.remove(&number) {
        connection.evicted.notify_one();
    }
}

impl Slot {
    /// Completes when the connection is evicted.
    pub(crate) async fn evicted(&self) {
        self.evicted.notified().await;
    }

    /// Whether the connection may stay after the answer.
    pub(crate) fn stays(&self) -> bool {
        !self.leaving.load(Ordering::Relaxed)
    }

    /// Its sender is authenticated.
    pub(crate) fn prove(&self) {
        if !self.promote() {
            self.leaving.store(true, Ordering::Relaxed);
        }
    }

    fn promote(&self) -> bool {
        let mut open = self.connections.open.lock();
        if open.proven.contains(&self.number) {
            return true;
        }
        if open.proven.len() >= self.connections.max_proven {
            return false;
        }
        // One that was evicted is in neither map.
        let is_open =
            open.unproven.remove(&self.number).or_else(|| open.probes.remove(&self.number)).is_some();
        is_open && open.proven.insert(self.number)
    }

    /// It asks for health. That changes nothing for a proven one.
    pub(crate) fn probe(&self) {
        let mut open = self.connections.open.lock();
        let Some(connection) = open.unproven.remove(&self.number) else { return };
        if open.probes.len() >= PROBES
            && let Some(oldest) = open.probes.keys().next().copied()
        {
            evict(&mut open.probes, oldest);
        }
        open.probes.insert(self.number, connection);
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut open = self.connections.open.lock();
        open.proven.remove(&self.number);
        open.unproven.remove(&self.number);
        open.probes.remove(&self.number);
    }
}

/// What counts as one sender before it is authenticated: an IPv4 address, or the /64 of an IPv6 address,
/// because one host has as many addresses of its /64 as it likes. IPv4 written as IPv6 is IPv4.
pub fn source_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(ip) => Ipv6Addr::from_bits(ip.to_bits() >> 64 << 64).into(),
        ip => ip,
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Waker};

    use super::*;

    fn address(last: u8) -> IpAddr {
        [10, 0, 0, last].into()
    }

    fn is_cut(slot: &Slot) -> bool {
        pin!(slot.evicted()).poll(&mut Context::from_waker(Waker::noop())).is_ready()
    }

    #[test]
    fn the_oldest_stranger_of_the_address_with_most_goes_first() {
        let connections = Connections::new(16);
        let mut slots: Vec<Slot> = [1, 2, 2, 3].map(|last| connections.enter(address(last))).into();
        assert!(!slots.iter().any(is_cut));
        slots.push(connections.enter(address(4)));
        let cut: Vec<bool> = slots.iter().map(is_cut).collect();
        assert_eq!(cut, [false, true, false, false, false]);
        // Now all have one each: the oldest.
        slots.push(connections.enter(address(5)));
        assert!(is_cut(&slots[0]));
        // Whoever leaves makes room.
        drop(slots.pop());
        slots.push(connections.enter(address(6)));
        assert!(![2, 3, 4, 5].iter().any(|at| is_cut(&slots[*at])));
    }

    #[test]
    fn all_addresses_of_one_ipv6_network_count_as_one() {
        let connections = Connections::new(16);
        let enter = |text: &str| connections.enter(text.parse().unwrap());
        let mut slots: Vec<Slot> =
            ["2001:db8:1::1", "2001:db8::1", "2001:db8::2:0:0:7", "10.0.0.1"].map(enter).into();
        slots.push(enter("::ffff:10.0.0.2"));
        let cut: Vec<bool> = slots.iter().map(is_cut).collect();
        assert_eq!(cut, [false, true, false, false, false]);
    }

    #[test]
    fn a_friend_is_cut_off_for_nobody_and_there_are_only_so_many() {
        let connections = Connections::new(8);
        let mut proven = || {
            let slot = connections.enter(address(1));
            (slot.promote() && slot.promote()).then_some(slot)
        };
        let friends: Vec<Slot> = std::iter::from_fn(&mut proven).collect();
        assert_eq!(friends.len(), 6);
        let late = connections.enter(address(1));
        late.prove();
        assert!(!late.stays());
        let strangers: Vec<Slot> = (0..50).map(|_| connections.enter(address(1))).collect();
        assert_eq!(strangers.iter().filter(|slot| !is_cut(slot)).count(), 2);
        assert!(is_cut(&late) && !friends.iter().any(is_cut));
        drop(friends);
        assert!(!strangers[0].promote(), "it was cut off");
        assert!(strangers[49].promote() && strangers[49].stays());
    }

    #[test]
    fn probes_have_places_of_their_own() {
        let connections = Connections::new(8);
        let probes: Vec<Slot> = (0..40)
            .map(|_| {
                let slot = connections.enter(address(1));
                slot.probe();
                slot
            })
            .collect();
        assert_eq!(probes.iter().filter(|slot| !is_cut(slot)).count(), PROBES);
        let strangers = [connections.enter(address(1)), connections.enter(address(1))];
        assert!(!strangers.iter().any(is_cut));
        drop(probes);
        assert!(connections.open.lock().probes.is_empty());
    }

    #[test]
    fn an_ipv6_source_is_its_network_and_an_ipv4_source_its_address() {
        for (address, source) in [
            ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::"),
            ("2001:db8:1:3::", "2001:db8:1:3::"),
            ("10.0.0.1", "10.0.0.1"),
            ("::ffff:10.0.0.1", "10.0.0.1"),
        ] {
            assert_eq!(source_of(address.parse().unwrap()).to_string(), source);
        }
    }
}
