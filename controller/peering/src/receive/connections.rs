//! Who may be connected, and who has to go when there is no room.
//!
//! Whoever connects is taken in at once; nobody waits behind connections that say nothing. There are three kinds, and none
//! takes room of another:
//!
//! - **Strangers** have proven nothing yet. They have a quarter of the places. When another one comes and there is no
//!   room, the oldest stranger is cut off: of the [`source`] that has most of them, so that one host that opens many
//!   connections cuts off its own.
//! - **Friends** have sent a request that proved who they are, or a good client certificate. They have the rest of the
//!   places and are not cut off for anybody. One that finds no place is answered, and its connection ends then.
//! - **Probes** have asked for `/healthz` or `/readyz` and proven nothing. They have places of their own; the oldest goes
//!   first.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use super::source;

/// Probes that are answered at a time.
const PROBES: usize = 16;

#[derive(Debug)]
pub(crate) struct Connections {
    max_strangers: usize,
    max_friends: usize,
    open: Mutex<Open>,
}

#[derive(Debug, Default)]
struct Open {
    next: u64,
    strangers: BTreeMap<u64, Guest>,
    probes: BTreeMap<u64, Guest>,
    friends: usize,
}

#[derive(Debug)]
struct Guest {
    source: IpAddr,
    cut: Arc<Notify>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Stranger,
    Friend,
    Probe,
}

/// A place, until it is dropped.
#[derive(Debug)]
pub(crate) struct Seat {
    connections: Arc<Connections>,
    number: u64,
    kind: Mutex<Kind>,
    cut: Arc<Notify>,
    /// It has proven who it is and found no place.
    leaving: AtomicBool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Connections {
    pub(crate) fn new(max: usize) -> Arc<Self> {
        let max_strangers = (max / 4).max(1);
        Arc::new(Self {
            max_strangers,
            max_friends: max.saturating_sub(max_strangers),
            open: Mutex::default(),
        })
    }

    /// Takes a stranger in, and cuts another off if there is no room.
    pub(crate) fn enter(self: &Arc<Self>, address: IpAddr) -> Seat {
        let source = source::of(address);
        let cut = Arc::new(Notify::new());
        let mut open = lock(&self.open);
        if open.strangers.len() >= self.max_strangers
            && let Some(oldest) = oldest_of_the_most(&open.strangers)
        {
            cut_off(&mut open.strangers, oldest);
        }
        let number = open.next;
        open.next += 1;
        open.strangers.insert(number, Guest { source, cut: Arc::clone(&cut) });
        drop(open);
        Seat {
            connections: Arc::clone(self),
            number,
            kind: Mutex::new(Kind::Stranger),
            cut,
            leaving: AtomicBool::new(false),
        }
    }
}

fn oldest_of_the_most(strangers: &BTreeMap<u64, Guest>) -> Option<u64> {
    let mut counts: HashMap<IpAddr, usize> = HashMap::new();
    for guest in strangers.values() {
        *counts.entry(guest.source).or_default() += 1;
    }
    let most = *counts.values().max()?;
    strangers.iter().find(|(_, guest)| counts[&guest.source] == most).map(|(number, _)| *number)
}

fn cut_off(guests: &mut BTreeMap<u64, Guest>, number: u64) {
    if let Some(guest) = guests.remove(&number) {
        guest.cut.notify_one();
    }
}

impl Seat {
    /// Ends when the connection has to.
    pub(crate) async fn cut(&self) {
        self.cut.notified().await;
    }

    /// Whether the connection may stay after the answer.
    pub(crate) fn stays(&self) -> bool {
        !self.leaving.load(Ordering::Relaxed)
    }

    /// Its sender has proven who it is.
    pub(crate) fn befriend(&self) {
        if !self.sit_down() {
            self.leaving.store(true, Ordering::Relaxed);
        }
    }

    fn sit_down(&self) -> bool {
        let mut kind = lock(&self.kind);
        if *kind == Kind::Friend {
            return true;
        }
        let mut open = lock(&self.connections.open);
        if open.friends >= self.connections.max_friends {
            return false;
        }
        let number = self.number;
        // One that was cut off before is not there.
        let there = open.strangers.remove(&number).or_else(|| open.probes.remove(&number)).is_some();
        if there {
            open.friends += 1;
            *kind = Kind::Friend;
        }
        there
    }

    /// It asks for health. What a friend asks for does not matter.
    pub(crate) fn probe(&self) {
        let mut kind = lock(&self.kind);
        if *kind != Kind::Stranger {
            return;
        }
        let mut open = lock(&self.connections.open);
        let Some(guest) = open.strangers.remove(&self.number) else { return };
        if open.probes.len() >= PROBES
            && let Some(oldest) = open.probes.keys().next().copied()
        {
            cut_off(&mut open.probes, oldest);
        }
        open.probes.insert(self.number, guest);
        *kind = Kind::Probe;
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let kind = *lock(&self.kind);
        let mut open = lock(&self.connections.open);
        match kind {
            Kind::Friend => open.friends -= 1,
            Kind::Stranger => drop(open.strangers.remove(&self.number)),
            Kind::Probe => drop(open.probes.remove(&self.number)),
        }
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

    fn is_cut(seat: &Seat) -> bool {
        pin!(seat.cut()).poll(&mut Context::from_waker(Waker::noop())).is_ready()
    }

    #[test]
    fn the_oldest_stranger_of_the_address_with_most_goes_first() {
        let connections = Connections::new(16);
        let mut seats: Vec<Seat> = [1, 2, 2, 3].map(|last| connections.enter(address(last))).into();
        assert!(!seats.iter().any(is_cut));
        seats.push(connections.enter(address(4)));
        let cut: Vec<bool> = seats.iter().map(is_cut).collect();
        assert_eq!(cut, [false, true, false, false, false]);
        // Now all have one each: the oldest.
        seats.push(connections.enter(address(5)));
        assert!(is_cut(&seats[0]));
        // Whoever leaves makes room.
        drop(seats.pop());
        seats.push(connections.enter(address(6)));
        assert!(![2, 3, 4, 5].iter().any(|at| is_cut(&seats[*at])));
    }

    #[test]
    fn all_addresses_of_one_ipv6_network_count_as_one() {
        let connections = Connections::new(16);
        let enter = |text: &str| connections.enter(text.parse().unwrap());
        let mut seats: Vec<Seat> =
            ["2001:db8:1::1", "2001:db8::1", "2001:db8::2:0:0:7", "10.0.0.1"].map(enter).into();
        seats.push(enter("::ffff:10.0.0.2"));
        let cut: Vec<bool> = seats.iter().map(is_cut).collect();
        assert_eq!(cut, [false, true, false, false, false]);
    }

    #[test]
    fn a_friend_is_cut_off_for_nobody_and_there_are_only_so_many() {
        let connections = Connections::new(8);
        let mut befriended = || {
            let seat = connections.enter(address(1));
            (seat.sit_down() && seat.sit_down()).then_some(seat)
        };
        let friends: Vec<Seat> = std::iter::from_fn(&mut befriended).collect();
        assert_eq!(friends.len(), 6);
        let late = connections.enter(address(1));
        late.befriend();
        assert!(!late.stays());
        let strangers: Vec<Seat> = (0..50).map(|_| connections.enter(address(1))).collect();
        assert_eq!(strangers.iter().filter(|seat| !is_cut(seat)).count(), 2);
        assert!(is_cut(&late) && !friends.iter().any(is_cut));
        drop(friends);
        assert!(!strangers[0].sit_down(), "it was cut off");
        assert!(strangers[49].sit_down() && strangers[49].stays());
    }

    #[test]
    fn probes_have_places_of_their_own() {
        let connections = Connections::new(8);
        let probes: Vec<Seat> = (0..40)
            .map(|_| {
                let seat = connections.enter(address(1));
                seat.probe();
                seat
            })
            .collect();
        assert_eq!(probes.iter().filter(|seat| !is_cut(seat)).count(), PROBES);
        let strangers = [connections.enter(address(1)), connections.enter(address(1))];
        assert!(!strangers.iter().any(is_cut));
        drop(probes);
        assert!(lock(&connections.open).probes.is_empty());
    }
}
