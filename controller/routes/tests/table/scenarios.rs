//! The scenarios this project exists for.

use sandgate_routes::{Capability, Outcome, Service, State, verdict};

use crate::fixture::{at, everything, key, sandbox, table, version};

#[test]
fn a_paused_push_is_seen_equally_by_two_tables() {
    // A gateway that can wake and one that cannot: both keep the route, and say for themselves what a request
    // gets.
    let [gateway, manager] = [table(), table()];
    for table in [&gateway, &manager] {
        table.writer.apply(sandbox("a").at(1));
        assert_eq!(table.writer.apply(sandbox("a").paused().at(2)), Outcome::Applied);
    }
    let [one, other] = [&gateway, &manager].map(|table| table.reader.get("team--a").unwrap());
    assert_eq!(one.state(), State::Paused);
    assert_eq!((one.state(), one.version(), one.ip()), (other.state(), other.version(), other.ip()));
    assert_eq!(verdict(one.state(), Capability { wake: true }).service, Service::Wake);
    assert_eq!(verdict(other.state(), Capability { wake: false }).service, Service::Refuse);
}

#[test]
fn a_dead_push_then_a_stale_watch_upsert_leaves_it_dead() {
    let table = table();
    table.writer.apply(sandbox("a").at(5));
    assert_eq!(table.writer.apply(sandbox("a").dead().at(8)), Outcome::Applied);
    for stale in [5, 6, 7, 8] {
        assert_eq!(table.writer.apply_in(&everything(), sandbox("a").at(stale)), Outcome::Stale, "{stale}");
        assert_eq!(table.served("team--a"), None);
    }
}

#[test]
fn a_dead_push_that_comes_first_keeps_the_object_from_ever_appearing() {
    let table = table();
    assert_eq!(table.writer.apply(sandbox("a").dead().at(8)), Outcome::Applied);
    assert_eq!(table.writer.apply(sandbox("a").at(5)), Outcome::Stale);
    let mut relist = table.writer.begin_relist(everything(), version(7));
    assert_eq!(relist.observe(sandbox("a").at(5)), Outcome::Stale, "nor by a list that is older");
    relist.commit();
    assert_eq!(table.served("team--a"), None);
}

#[test]
fn reordered_peer_pushes_end_as_ordered_ones() {
    let ip = |last: u8| Some([10, 0, 0, last].into());
    let pushes = [
        sandbox("a").with_ip(ip(1)).at(1),
        sandbox("a").paused().at(2),
        sandbox("a").with_ip(ip(2)).at(3),
        sandbox("a").dead().at(4),
        sandbox("a").with_uid("reborn").with_ip(ip(3)).at(5),
    ];
    let mut orders = vec![vec![]];
    for _ in &pushes {
        orders = orders
            .into_iter()
            .flat_map(|order: Vec<usize>| {
                let rest = (0..pushes.len()).filter(|at| !order.contains(at)).collect::<Vec<_>>();
                rest.into_iter().map(move |at| [order.clone(), vec![at]].concat())
            })
            .collect();
    }
    assert_eq!(orders.len(), 120);
    for order in orders {
        let table = table();
        for &at in &order {
            table.writer.apply(pushes[at].clone());
        }
        let route = table.reader.get("team--a").unwrap();
        assert_eq!(
            (route.uid().as_str(), route.ip(), route.state()),
            ("reborn", ip(3), State::Running),
            "{order:?}"
        );
        assert_eq!(table.reader.counts().tombstones, 0);
    }
}

#[test]
fn a_route_is_found_by_its_full_id_and_nothing_else() {
    let table = table();
    let id = "team-a--demo-5f9c.region_1";
    table.writer.apply(sandbox("demo").called(id).at(1));
    assert_eq!(table.served(id), Some(1));
    for other in
        ["team-a--demo", "demo", "team--demo", "TEAM-A--DEMO-5F9C.REGION_1", "", &format!("{id}-"), &id[1..]]
    {
        assert_eq!(table.served(other), None, "{other:?}");
    }
}

#[test]
fn a_recycled_address_is_never_reached_through_a_dead_route() {
    // The bug this project exists to end: the pod is gone, its address is another's, and a late message of
    // the old one arrives.
    let table = table();
    let address = Some([10, 0, 0, 7].into());
    table.writer.apply(sandbox("victim").with_ip(address).at(10));
    table.writer.delete(&key("victim"), at(20));
    table.writer.apply(sandbox("tenant").with_ip(address).at(21));
    table.writer.apply(sandbox("victim").with_ip(address).at(15));
    table.pass(599);
    table.writer.sweep();
    table.writer.apply(sandbox("victim").with_ip(address).at(20));
    assert_eq!((table.served("team--victim"), table.served("team--tenant")), (None, Some(21)));
}
