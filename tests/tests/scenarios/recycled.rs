//! A recycled address: the next sandbox at an address never gets what was meant for the one before.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use sandgate_tests::{Client, Gateway, Place, Sandbox, replace_by_rename, route, routes};

use crate::support::{PORT, ask};

/// Asks for one sandbox over and over; whoever answers must be that one.
async fn insist(gateway: std::net::SocketAddr, name: &str, stop: &AtomicBool, counts: &[AtomicUsize; 2]) {
    let mut client = Client::http1(gateway).await.expect("connect");
    let id = format!("default--{name}");
    while !stop.load(Ordering::Relaxed) {
        let reply = client.send(ask(&id)).await.expect("an answer");
        match reply.status {
            200 => {
                assert_eq!(reply.sandbox(), name, "a stranger answered");
                assert_eq!(reply.seen("x-sandbox-id"), [id.as_str()]);
                counts[0].fetch_add(1, Ordering::Relaxed);
            }
            502 => {
                assert_eq!(reply.json()["reason"], "sandbox_not_found");
                counts[1].fetch_add(1, Ordering::Relaxed);
            }
            // The sandbox has gone while the request was on its way to it.
            503 => {}
            other => panic!("{other}: {}", reply.text()),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_for_a_deleted_sandbox_never_reaches_the_next_one_at_its_address() {
    let place = Place::reserve();
    let ip = place.ip();
    let names = ["ann", "ben"];
    let mut current = Sandbox::start_at(names[0], place, &[PORT]).await;
    let gateway = Gateway::serving(&routes([route(names[0]).ip(ip)])).await;
    let address = gateway.address();
    let stop = Arc::new(AtomicBool::new(false));
    let counts: [Arc<[AtomicUsize; 2]>; 2] = Default::default();
    let clients: Vec<_> = (0..4)
        .map(|number| {
            let (stop, counts) = (Arc::clone(&stop), Arc::clone(&counts[number % 2]));
            tokio::spawn(async move { insist(address, names[number % 2], &stop, &counts).await })
        })
        .collect();
    let mut load = 1;
    for round in 0..20 {
        let (here, next) = (round % 2, (round + 1) % 2);
        let (served, refused) = (&counts[here][0], &counts[next][1]);
        let (so_far, refused_so_far) = (served.load(Ordering::Relaxed), refused.load(Ordering::Relaxed));
        gateway
            .until("both clients get their answers", async || {
                (served.load(Ordering::Relaxed) > so_far + 40
                    && refused.load(Ordering::Relaxed) > refused_so_far + 40)
                    .then_some(())
            })
            .await;
        // The one goes, its address is free, the next one takes it: as a cluster does it, with no pause.
        replace_by_rename(&gateway.routes_file(), &routes([]));
        load += 1;
        gateway.generation(load).await;
        let place = current.stop().await;
        current = Sandbox::start_at(names[next], place, &[PORT]).await;
        replace_by_rename(&gateway.routes_file(), &routes([route(names[next]).ip(ip)]));
        load += 1;
        gateway.generation(load).await;
    }
    stop.store(true, Ordering::Relaxed);
    for client in clients {
        client.await.expect("every answer came from the sandbox that was asked for");
    }
    let answered: usize = counts.iter().map(|counts| counts[0].load(Ordering::Relaxed)).sum();
    assert!(answered > 800, "only {answered} requests were served");
}

#[tokio::test]
async fn a_route_that_moves_to_another_address_takes_its_requests_along_at_once() {
    let (old, new) = (Sandbox::on_ports("old", &[PORT]).await, Sandbox::on_ports("new", &[PORT]).await);
    let gateway = Gateway::serving(&routes([route("demo").ip(old.ip())])).await;
    let mut client = gateway.client().await;
    for load in 2..12 {
        let (from, to) = if load % 2 == 0 { (&old, &new) } else { (&new, &old) };
        assert_eq!(client.send(ask("default--demo")).await.expect("an answer").sandbox(), from.name());
        replace_by_rename(&gateway.routes_file(), &routes([route("demo").ip(to.ip())]));
        gateway.generation(load).await;
        let seen = from.requests();
        for _ in 0..20 {
            assert_eq!(client.send(ask("default--demo")).await.expect("an answer").sandbox(), to.name());
        }
        assert_eq!(from.requests(), seen);
    }
}
