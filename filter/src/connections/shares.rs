//! How many connections each client address has, without a lock and in fixed memory.
//!
//! Two tables of counters, each indexed by a hash of its own that no client can compute. A connection adds
//! one to a counter in both tables and takes it back when it ends. An address is over its share when *both*
//! of its counters are: another address would have to meet it in both tables to be counted with it, which for
//! a given pair happens once in `SLOTS * SLOTS` (2^28). Counters are never too low, so no address gets more
//! than its share but for connections that begin at the same instant on several workers: each of those may be
//! refused, none is admitted in excess.

use std::hash::BuildHasher;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use foldhash::quality::RandomState;

const SLOTS: usize = 1 << 14;

pub(super) struct Shares {
    limit: u32,
    hashes: [RandomState; 2],
    tables: [Box<[AtomicU32]>; 2],
}

impl Shares {
    pub(super) fn new(limit: u32) -> Arc<Self> {
        let table = || (0..SLOTS).map(|_| AtomicU32::new(0)).collect();
        Arc::new(Self {
            limit,
            hashes: [RandomState::default(), RandomState::default()],
            tables: [table(), table()],
        })
    }

    /// One connection of a client, until the share is dropped; `None` if the client has as many as it may.
    pub(super) fn acquire(self: &Arc<Self>, client: IpAddr) -> Option<Share> {
        let key = key(client);
        let slots = [0, 1].map(|table| slot(&self.hashes[table], key));
        let share = Share { shares: Arc::clone(self), slots };
        let before = [0, 1].map(|table| share.counter(table).fetch_add(1, Ordering::Relaxed));
        // Dropping the share takes the counts back.
        before.iter().any(|count| *count < self.limit).then_some(share)
    }
}

/// A place among the connections of one client.
pub(super) struct Share {
    shares: Arc<Shares>,
    slots: [usize; 2],
}

impl Share {
    fn counter(&self, table: usize) -> &AtomicU32 {
        &self.shares.tables[table][self.slots[table]]
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        for table in [0, 1] {
            self.counter(table).fetch_sub(1, Ordering::Relaxed);
        }
    }
}

#[allow(clippy::cast_possible_truncation, reason = "any bits of a hash will do")]
fn slot(hash: &RandomState, key: u128) -> usize {
    hash.hash_one(key) as usize % SLOTS
}

/// What is one client: an IPv4 address, or the 64 bits of an IPv6 address that a network hands out to one of
/// its hosts.
fn key(client: IpAddr) -> u128 {
    match client.to_canonical() {
        IpAddr::V4(ip) => ip.to_ipv6_mapped().to_bits(),
        IpAddr::V6(ip) => ip.to_bits() >> 64 << 64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn a_client_has_its_share_and_no_more_until_a_connection_ends() {
        let shares = Shares::new(3);
        let mut held: Vec<_> =
            (0..3).map(|_| shares.acquire(ip("10.0.0.1")).expect("within the share")).collect();
        assert!(shares.acquire(ip("10.0.0.1")).is_none());
        assert!(shares.acquire(ip("10.0.0.1")).is_none(), "a refusal is not counted");
        assert!(shares.acquire(ip("10.0.0.2")).is_some(), "another client has its own");
        held.pop();
        held.push(shares.acquire(ip("10.0.0.1")).expect("one has ended"));
        assert!(shares.acquire(ip("10.0.0.1")).is_none());
        drop(held);
        assert!(shares.tables.iter().flatten().all(|count| count.load(Ordering::Relaxed) == 0));
    }

    #[test]
    fn an_ipv6_client_is_its_network_and_a_mapped_address_is_the_ipv4_one() {
        let shares = Shares::new(1);
        let _held = [ip("2001:db8::1"), ip("10.0.0.1")].map(|ip| shares.acquire(ip).expect("the first"));
        for taken in ["2001:db8::2", "2001:db8::ffff:0:1", "::ffff:10.0.0.1"] {
            assert!(shares.acquire(ip(taken)).is_none(), "{taken}");
        }
        for free in ["2001:db8:0:1::1", "10.0.0.2"] {
            assert!(shares.acquire(ip(free)).is_some(), "{free}");
        }
    }

    #[test]
    fn thousands_of_clients_do_not_take_each_others_share() {
        let shares = Shares::new(4);
        let clients: Vec<IpAddr> =
            (0..4_000_u32).map(|number| (0x0a00_0000 + number).to_be_bytes().into()).collect();
        let mut held = Vec::new();
        let mut refused = 0;
        for _ in 0..4 {
            for client in &clients {
                match shares.acquire(*client) {
                    Some(share) => held.push(share),
                    None => refused += 1,
                }
            }
        }
        // Two others that meet a client, one in each table, can take of its share; that is rare even here,
        // where every client has all it may.
        assert!(refused < 16_000 / 20, "{refused} of 16000");
    }

    #[test]
    fn workers_take_and_give_back_at_once_and_nothing_is_lost() {
        let shares = Shares::new(8);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..20_000 {
                        let held = [shares.acquire(ip("10.0.0.1")), shares.acquire(ip("10.0.0.1"))];
                        drop(held);
                    }
                });
            }
        });
        assert!(shares.tables.iter().flatten().all(|count| count.load(Ordering::Relaxed) == 0));
        let held: Vec<_> = (0..8).map(|_| shares.acquire(ip("10.0.0.1")).expect("all is free")).collect();
        assert!(shares.acquire(ip("10.0.0.1")).is_none());
        drop(held);
    }
}
