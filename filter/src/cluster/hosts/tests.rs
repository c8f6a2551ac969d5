use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{Book, Closed, Opener, QUIET_SWEEPS, Socket, TENURE, Want};
use crate::cluster::host::Endpoint;
use crate::cluster::host::Host;
use crate::cluster::usage::Client;
use crate::cluster::usage::Usage;

fn ip(last: u8) -> IpAddr {
    [10, 0, 0, last].into()
}

fn want(waker: &'static str, identity: u64, last: u8, port: u16, since: Instant) -> Want<&'static str> {
    let id = format!("sandbox-{identity}");
    let (endpoint, socket) = (Endpoint::new(ip(last), port), Socket::default());
    Want { endpoint, identity, id: id.into(), socket, opener: None, since, waker }
}

/// A book with an Envoy that does at once what it is told.
struct World {
    book: Book<&'static str>,
    next_pointer: usize,
    now: Instant,
}

impl World {
    fn new(max_ports: usize) -> Self {
        Self { book: Book::new(max_ports), next_pointer: 1, now: Instant::now() }
    }

    /// Someone wants a host, and what can be added is added: who is woken, and who is refused.
    fn want(
        &mut self,
        waker: &'static str,
        identity: u64,
        last: u8,
        port: u16,
    ) -> (Vec<&'static str>, Vec<&'static str>) {
        let now = self.now;
        let mut woken: Vec<_> = self.book.want(want(waker, identity, last, port, now)).into_iter().collect();
        let (more, refused) = self.add();
        woken.extend(more);
        (woken, refused)
    }

    fn add(&mut self) -> (Vec<&'static str>, Vec<&'static str>) {
        let adds = self.book.take_adds(100);
        let mut woken = Vec::new();
        for add in adds.hosts {
            let host =
                Host::new(add.endpoint, add.identity, Arc::new(Usage::default())).opened_by(add.client);
            let host = Arc::new(host);
            woken.extend(self.book.added(self.next_pointer, host, adds.shard, self.now));
            self.next_pointer += 1;
        }
        (woken, [adds.over_the_cap, adds.over_the_share].concat())
    }

    /// Everything closed passes its barrier and is removed: their addresses.
    fn remove(&mut self) -> Vec<Endpoint> {
        let closed = self.book.take_closed();
        closed.iter().for_each(|closed| self.book.removed(closed.endpoint));
        closed.into_iter().map(|closed| closed.endpoint).collect()
    }

    fn host(&self, last: u8, port: u16) -> Arc<Host> {
        let place = self.book.places.get(&Endpoint::new(ip(last), port)).expect("a place");
        Arc::clone(&place.live.as_ref().expect("a host").host)
    }
}

#[test]
fn a_host_is_added_once_for_all_who_wait_and_is_there_for_the_next() {
    let mut world = World::new(8);
    for waker in ["a", "b"] {
        assert_eq!(world.book.want(want(waker, 1, 1, 80, world.now)), None);
    }
    assert_eq!(world.book.waiting(), 2);
    assert_eq!(world.add(), (vec!["a", "b"], vec![]));
    assert_eq!((world.book.live(), world.book.waiting(), world.book.has_vacant()), (1, 0, false));
    assert_eq!(world.want("c", 1, 1, 80), (vec!["c"], vec![]));
    assert_eq!(world.book.live(), 1);
}

#[test]
fn an_identity_that_is_gone_loses_its_hosts_and_those_who_wait_are_told() {
    let mut world = World::new(8);
    world.want("a", 1, 1, 80);
    world.want("a", 1, 1, 81);
    world.want("b", 2, 2, 80);
    assert_eq!(world.book.want(want("late", 1, 1, 82, world.now)), None);
    assert_eq!(world.book.forget(1, None), ["late"]);
    assert!(world.host(1, 80).is_closing() && !world.host(2, 80).is_closing());
    let mut removed = world.remove();
    removed.sort();
    assert_eq!(removed, [Endpoint::new(ip(1), 80), Endpoint::new(ip(1), 81)]);
    assert_eq!((world.book.live(), world.book.sandboxes.len()), (1, 1));
}

#[test]
fn an_identity_that_moves_keeps_only_what_it_has_at_the_new_address() {
    let mut world = World::new(8);
    world.want("a", 1, 1, 80);
    world.want("a", 1, 2, 80);
    assert!(world.book.forget(1, Some(ip(2))).is_empty());
    assert_eq!(world.remove(), [Endpoint::new(ip(1), 80)]);
    assert!(!world.host(2, 80).is_closing());
}

#[test]
fn the_next_identity_at_an_address_waits_until_the_old_host_is_removed() {
    let mut world = World::new(8);
    world.want("old", 1, 1, 80);
    assert!(world.book.forget(1, None).is_empty());
    assert_eq!(world.want("new", 2, 1, 80), (vec![], vec![]), "the old host is still there");
    assert_eq!(world.host(1, 80).identity(), 1);
    world.remove();
    assert_eq!(world.add(), (vec!["new"], vec![]));
    assert_eq!(world.host(1, 80).identity(), 2);
}

#[test]
fn a_request_for_a_host_that_is_closing_waits_for_a_new_one_of_the_same_identity() {
    let mut world = World::new(8);
    world.want("a", 1, 1, 80);
    world.host(1, 80).leave_unused();
    for _ in 0..=QUIET_SWEEPS {
        world.book.sweep(world.book.shards());
    }
    assert_eq!(world.want("b", 1, 1, 80), (vec![], vec![]));
    world.remove();
    assert_eq!(world.add(), (vec!["b"], vec![]));
}

#[test]
fn two_identities_at_one_address_take_turns() {
    let mut world = World::new(8);
    world.want("one", 1, 1, 80);
    assert_eq!(world.want("two", 2, 1, 80), (vec![], vec![]));
    world.book.take_turns(world.now);
    assert!(!world.host(1, 80).is_closing(), "its time is not over");
    world.now += TENURE;
    world.book.take_turns(world.now);
    assert_eq!(world.remove(), [Endpoint::new(ip(1), 80)]);
    assert_eq!(world.want("one again", 1, 1, 80), (vec!["two"], vec![]));
    world.now += TENURE;
    world.book.take_turns(world.now);
    world.remove();
    assert_eq!(world.add(), (vec!["one again"], vec![]));
}

#[test]
fn a_host_nobody_uses_goes_and_one_in_use_stays() {
    let mut world = World::new(8);
    world.want("a", 1, 1, 80);
    world.want("a", 1, 1, 81);
    world.host(1, 81).enter();
    for _ in 0..QUIET_SWEEPS {
        assert!(!world.book.has_closed());
        world.book.sweep(world.book.shards());
    }
    world.book.sweep(world.book.shards());
    assert_eq!(world.remove(), [Endpoint::new(ip(1), 80)]);
    world.host(1, 81).leave();
    world.book.sweep(world.book.shards());
    assert!(!world.book.has_closed(), "it was in use since the last sweep");
}

#[test]
fn over_the_cap_an_unused_port_makes_room_and_without_one_the_request_is_refused() {
    let mut world = World::new(2);
    world.want("a", 1, 1, 80);
    world.want("b", 1, 1, 81);
    world.host(1, 80).enter();
    assert_eq!(world.want("c", 1, 1, 82), (vec!["c"], vec![]));
    assert_eq!(world.remove(), [Endpoint::new(ip(1), 81)], "the port in use stays");
    world.host(1, 82).enter();
    assert_eq!(world.want("d", 1, 1, 83), (vec![], vec!["d"]));
    assert_eq!(world.want("e", 2, 2, 83), (vec!["e"], vec![]), "another sandbox has its own count");
    assert_eq!((world.book.live(), world.book.waiting()), (3, 0));
}

#[test]
fn the_ports_that_one_client_holds_leave_room_for_others() {
    let mut world = World::new(40);
    let client = |last: u8| Client::at(format!("192.0.2.{last}:1").as_bytes()).expect("an address");
    let mut open = |last: u8, port: u16| {
        let opener = Some(Opener { client: client(last), percent: 50 });
        let wants = Want { opener, ..want("a", 1, 1, port, world.now) };
        assert_eq!(world.book.want(wants), None);
        let adds = world.book.take_adds(10);
        let refused = (adds.over_the_cap.len(), adds.over_the_share.len());
        for add in adds.hosts {
            let host =
                Host::new(add.endpoint, add.identity, Arc::new(Usage::default())).opened_by(add.client);
            // A request that does not end.
            host.enter();
            let _ = world.book.added(usize::from(port), Arc::new(host), adds.shard, world.now);
        }
        refused
    };
    for port in 0..20 {
        assert_eq!(open(1, port), (0, 0), "{port}");
    }
    assert_eq!(open(1, 20), (0, 1), "its share is over");
    for port in 20..40 {
        assert_eq!(open(2, port), (0, 0), "another client opens {port}");
    }
    assert_eq!(open(3, 40), (1, 0), "the sandbox has as many as it may");
    assert_eq!(world.book.waiting(), 0);
}

#[test]
fn ports_that_are_asked_for_all_at_once_are_counted_for_their_client() {
    let mut world = World::new(40);
    let client = Client::at(b"192.0.2.1:1").expect("an address");
    let wants =
        |port: u16, now| Want { opener: Some(Opener { client, percent: 50 }), ..want("a", 1, 1, port, now) };
    for port in 0..40 {
        assert_eq!(world.book.want(wants(port, world.now)), None);
    }
    let adds = world.book.take_adds(100);
    assert_eq!((adds.hosts.len(), adds.over_the_share.len(), adds.over_the_cap.len()), (20, 20, 0));
    let hosts: Vec<Arc<Host>> = adds
        .hosts
        .iter()
        .map(|add| {
            Host::new(add.endpoint, add.identity, Arc::new(Usage::default())).opened_by(add.client).into()
        })
        .collect();
    for (pointer, host) in hosts.iter().enumerate() {
        let _ = world.book.added(pointer, Arc::clone(host), adds.shard, world.now);
    }
    // Their requests have not begun yet, but are about to.
    let mut refused = |port: u16| {
        assert_eq!(world.book.want(wants(port, world.now)), None);
        let adds = world.book.take_adds(100);
        for add in &adds.hosts {
            let _ = world.book.refused(add.endpoint, add.identity);
        }
        adds.over_the_share.len()
    };
    assert_eq!(refused(50), 1);
    // One that began and ended is held by nobody.
    hosts[0].enter();
    hosts[0].leave();
    assert_eq!(refused(51), 0);
    // And one that nobody came for is held until the main thread looks.
    hosts[0].enter();
    assert_eq!(refused(52), 1);
    hosts[1].check_use();
    assert_eq!(refused(53), 0);
}

#[test]
fn a_client_whose_share_is_the_whole_is_told_that_the_sandbox_has_no_more() {
    let mut book = Book::new(2);
    let client = Client::at(b"192.0.2.1:1").expect("an address");
    let opener = Some(Opener { client, percent: 50 });
    for port in 0..3 {
        let wants = Want { opener, ..want("a", 1, 1, port, Instant::now()) };
        assert_eq!(book.want(wants), None);
        let adds = book.take_adds(10);
        assert_eq!(
            (adds.over_the_cap.len(), adds.over_the_share.len()),
            (usize::from(port / 2), 0),
            "{port}"
        );
        for add in adds.hosts {
            let host =
                Host::new(add.endpoint, add.identity, Arc::new(Usage::default())).opened_by(add.client);
            host.enter();
            let _ = book.added(usize::from(port), Arc::new(host), adds.shard, Instant::now());
        }
    }
}

#[test]
fn over_the_cap_on_hosts_no_more_go_than_are_waited_for_and_the_quietest_first() {
    let mut world = World::new(8);
    for last in 1..=20 {
        world.want("a", last.into(), last, 80);
    }
    let quietest = world.host(7, 80);
    for _ in 0..3 {
        quietest.check_use();
    }
    for last in 1..=20 {
        world.host(last, 80).check_use();
    }
    for last in 31..=33 {
        assert_eq!(world.book.want(want("b", last.into(), last, 80, world.now)), None);
    }
    world.book.evict(world.book.shards());
    let closed = world.book.take_closed();
    assert_eq!(closed.len(), 3, "{closed:?}");
    assert_eq!(closed[0].endpoint, Endpoint::new(ip(7), 80));
}

#[test]
fn those_who_wait_too_long_are_given_up_and_the_place_with_them() {
    let mut world = World::new(8);
    assert_eq!(world.book.want(want("early", 1, 1, 80, world.now)), None);
    let later = world.now + Duration::from_secs(1);
    assert_eq!(world.book.want(want("late", 1, 1, 81, later)), None);
    assert_eq!(world.book.expire(world.now), ["early"]);
    assert_eq!(world.add(), (vec!["late"], vec![]));
    assert_eq!(world.book.live(), 1);
}

#[test]
fn who_has_waited_longest_is_added_first_also_when_more_come_than_are_added_at_a_time() {
    let mut book = Book::new(8);
    let now = Instant::now();
    let mut added = Vec::new();
    for last in 1..=30 {
        assert_eq!(book.want(want("a", last.into(), last, 80, now)), None);
        // One is added for every two that come.
        if last % 2 == 0 {
            added.extend(book.take_adds(1).hosts.iter().map(|add| add.identity));
        }
    }
    added.extend(book.take_adds(100).hosts.iter().map(|add| add.identity));
    assert_eq!(added, (1..=30).collect::<Vec<u64>>());
}

#[test]
fn a_host_that_envoy_does_not_take_is_forgotten_with_those_who_wait() {
    let mut world = World::new(1);
    assert_eq!(world.book.want(want("a", 1, 1, 80, world.now)), None);
    let adds = world.book.take_adds(10);
    assert_eq!(world.book.refused(adds.hosts[0].endpoint, 1), ["a"]);
    assert_eq!((world.book.waiting(), world.book.places.len(), world.book.sandboxes.len()), (0, 0, 0));
}

#[test]
fn the_idle_are_looked_for_shard_by_shard() {
    let mut world = World::new(8);
    // Each want is added alone, so that the first shard is full before the second begins.
    for number in 0..u16::from(u8::MAX) {
        let last = u8::try_from(number).expect("small");
        world.want("a", u64::from(number), last, 80);
        world.host(last, 80).leave_unused();
    }
    assert_eq!(world.book.shards(), 2);
    for _ in 0..2 * (QUIET_SWEEPS - 1) {
        world.book.sweep(1);
    }
    assert!(!world.book.has_closed());
    world.book.sweep(1);
    let first = world.book.take_closed();
    assert!(!first.is_empty() && first.len() < 200, "{} closed", first.len());
    assert!(first.iter().all(|closed| closed.shard == first[0].shard));
    world.book.sweep(1);
    assert_eq!(first.len() + world.book.take_closed().len(), 255);
}

#[test]
fn of_many_closed_hosts_those_in_the_same_shards_go_together() {
    let closed = |number: u32| Closed {
        endpoint: Endpoint::new(std::net::Ipv4Addr::from(number).into(), 80),
        pointer: number as usize,
        shard: number % 7,
    };
    let mut all: Vec<Closed> = (0..70).map(closed).collect();
    let batch = Closed::take_batch(&mut all, 20);
    assert_eq!((batch.len(), all.len()), (20, 50));
    assert!(batch.iter().all(|closed| closed.shard < 2));
    assert_eq!(Closed::take_batch(&mut all, 50).len(), 50);
    assert!(all.is_empty());
}

impl Host {
    /// As if its first use were long ago.
    fn leave_unused(&self) {
        self.check_use();
    }
}
