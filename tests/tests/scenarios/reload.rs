//! Config replaced and Envoy restarted while sandboxes are spoken to: open streams go on, new ones work at
//! once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use sandgate_tests::{Client, Gateway, Place, Request, WebSocket, replace_by_rename, route, routes};
use serde_json::{Value, json};

use crate::churn::loopback;
use crate::support::{ask, assert_refused, sandbox};
use crate::upstream::Deaf;

const HOST: Option<&str> = Some("8000-default--demo.sandbox.test");

async fn echo(socket: &mut WebSocket, text: &str) {
    socket.send(text).await;
    assert_eq!(socket.next().await.as_deref(), Some(text));
}

#[tokio::test]
async fn replacing_the_clusters_under_traffic_fails_no_request_and_open_streams_go_on() {
    let demo = sandbox("demo").await;
    let mut gateway = Gateway::builder().routes(&routes([route("demo").ip(demo.ip())])).cds().start().await;
    let mut socket = WebSocket::open(gateway.address(), HOST, "/ws", &[]).await.expect("an upgrade");
    assert_eq!(socket.next().await.as_deref(), Some("demo"));
    let address = gateway.address();
    let (stop, answered) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let traffic: Vec<_> = (0..4)
        .map(|_| {
            let (stop, answered) = (Arc::clone(&stop), Arc::clone(&answered));
            tokio::spawn(async move {
                let mut client = Client::http1(address).await.expect("connect");
                while !stop.load(Ordering::Relaxed) {
                    let reply = client.send(ask("default--demo")).await.expect("an answer");
                    assert_eq!(reply.sandbox(), "demo");
                    answered.fetch_add(1, Ordering::Relaxed);
                }
            })
        })
        .collect();
    for seconds in [6, 7, 8, 9] {
        gateway.update_clusters(|cluster| cluster["connect_timeout"] = json!(format!("{seconds}s")));
        gateway.stat_is("cluster_manager.cluster_modified", 2 * (seconds - 5)).await;
        let so_far = answered.load(Ordering::Relaxed);
        gateway
            .until("traffic goes on", async || (answered.load(Ordering::Relaxed) > so_far + 40).then_some(()))
            .await;
        echo(&mut socket, "through the old cluster").await;
    }
    stop.store(true, Ordering::Relaxed);
    for task in traffic {
        task.await.expect("no request fails");
    }
    // The old cluster's streams end with their sandbox like any other.
    replace_by_rename(&gateway.routes_file(), &routes([]));
    assert_eq!(socket.next().await, None);
    gateway.until("its connections are closed", async || (demo.open_connections() == 0).then_some(())).await;
    assert_eq!(gateway.stat("sandgate.panics").await.unwrap_or(0), 0);
    assert!(gateway.is_alive());
}

/// A request that cannot be connected waits for its second try while the clusters are replaced again and
/// again, and new hosts are made where the old ones were in memory. It must never be sent to one of those.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_that_is_tried_again_in_a_cluster_that_was_replaced_meanwhile_never_reaches_a_stranger() {
    const SANDBOXES: usize = 40;
    const DEAF: usize = 4;
    const REPLACEMENTS: u32 = 25;
    let (server, port) = loopback().await;
    let places: Vec<Place> = (0..SANDBOXES + DEAF).map(|_| Place::reserve()).collect();
    let mut deaf = Vec::new();
    for place in &places[SANDBOXES..] {
        deaf.push(Deaf::start(place.ip()).await);
    }
    let text =
        routes(places.iter().enumerate().map(|(number, place)| route(&format!("s{number}")).ip(place.ip())));
    let timeout = |cluster: &mut Value, millis: u32| {
        cluster["connect_timeout"] = json!(format!("0.{millis:03}s"));
    };
    let mut gateway = Gateway::builder()
        .routes(&text)
        .cds()
        .adjust(move |config| {
            for cluster in config["static_resources"]["clusters"].as_array_mut().expect("clusters") {
                timeout(cluster, 100);
            }
        })
        .start()
        .await;
    let on = |number: usize, port: u16| {
        Request::get("/")
            .header("e2b-sandbox-id", format!("default--s{number}"))
            .header("e2b-sandbox-port", port.to_string())
    };
    let (stop, served) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let failed = Arc::new(AtomicUsize::new(0));
    let address = gateway.address();
    let mut traffic = Vec::new();
    for first in 0..4 {
        let (stop, served, places) = (Arc::clone(&stop), Arc::clone(&served), places.clone());
        traffic.push(tokio::spawn(async move {
            let mut client = Client::http1(address).await.expect("connect");
            for number in (first..SANDBOXES).cycle() {
                if stop.load(Ordering::Relaxed) {
                    return;
                }
                let reply = client.send(on(number, port)).await.expect("an answer");
                assert_eq!((reply.status, reply.text()), (200, places[number].ip().to_string().as_str()));
                served.fetch_add(1, Ordering::Relaxed);
            }
        }));
    }
    for (number, deaf) in (SANDBOXES..).zip(&deaf) {
        let port = deaf.address.port();
        for _ in 0..4 {
            let (stop, failed) = (Arc::clone(&stop), Arc::clone(&failed));
            traffic.push(tokio::spawn(async move {
                let mut client = Client::http1(address).await.expect("connect");
                while !stop.load(Ordering::Relaxed) {
                    let reply = client.send(on(number, port)).await.expect("an answer");
                    let text = reply.text();
                    assert!(
                        [503, 504].contains(&reply.status),
                        "s{number} was answered by {text}: {}",
                        reply.status
                    );
                    failed.fetch_add(1, Ordering::Relaxed);
                }
            }));
        }
    }
    for round in 1..=REPLACEMENTS {
        let so_far = (served.load(Ordering::Relaxed), failed.load(Ordering::Relaxed));
        gateway.update_clusters(|cluster| timeout(cluster, 100 + round));
        gateway.stat_is("cluster_manager.cluster_modified", u64::from(2 * round)).await;
        gateway
            .until("traffic goes on", async || {
                let now = (served.load(Ordering::Relaxed), failed.load(Ordering::Relaxed));
                (now.0 > so_far.0 + SANDBOXES && now.1 > so_far.1).then_some(())
            })
            .await;
    }
    stop.store(true, Ordering::Relaxed);
    for task in traffic {
        task.await.expect("every answer came from the sandbox that was asked for");
    }
    assert!(gateway.stat("cluster.sandbox.upstream_rq_retry").await > Some(0), "nothing was tried again");
    assert_eq!(gateway.stat("sandgate.panics").await.unwrap_or(0), 0);
    assert!(gateway.is_alive());
    server.abort();
}

#[tokio::test]
async fn replacing_a_listener_leaves_its_open_streams_and_the_connections_to_sandboxes() {
    let demo = sandbox("demo").await;
    let filter = |port: u16| json!({ "dialects": { "agent-sandbox": { "default-port": port } } });
    let mut gateway = Gateway::builder()
        .routes(&routes([route("demo").ip(demo.ip())]))
        .filter(filter(1))
        .lds()
        .start()
        .await;
    let mut socket = WebSocket::open(gateway.address(), HOST, "/ws", &[]).await.expect("an upgrade");
    assert_eq!(socket.next().await.as_deref(), Some("demo"));
    assert_eq!(gateway.send(ask("default--demo")).await.sandbox(), "demo");
    let added = gateway.cluster_status("sandbox").await["added"].clone();
    for port in 2..6 {
        gateway.update_filter(&filter(port));
        gateway.stat_is("listener_manager.lds.update_success", u64::from(port)).await;
        assert_eq!(gateway.send(ask("default--demo")).await.sandbox(), "demo");
        echo(&mut socket, "through the old listener").await;
    }
    assert_eq!(gateway.cluster_status("sandbox").await["added"], added, "hosts were added anew");
    replace_by_rename(&gateway.routes_file(), &routes([]));
    assert_eq!(socket.next().await, None);
}

#[tokio::test]
async fn in_a_hot_restart_open_streams_go_on_in_the_old_envoy_and_end_there_with_their_sandbox() {
    let demo = sandbox("demo").await;
    let mut gateway =
        Gateway::builder().routes(&routes([route("demo").ip(demo.ip())])).restartable().start().await;
    let mut old = WebSocket::open(gateway.address(), HOST, "/ws", &[]).await.expect("an upgrade");
    assert_eq!(old.next().await.as_deref(), Some("demo"));
    let mut before = gateway.restart().await;
    echo(&mut old, "through the old Envoy").await;
    let mut new = WebSocket::open(gateway.address(), HOST, "/ws", &[]).await.expect("an upgrade");
    assert_eq!(new.next().await.as_deref(), Some("demo"));
    for _ in 0..20 {
        assert_eq!(gateway.send(ask("default--demo")).await.sandbox(), "demo");
    }
    assert!(before.is_alive(), "the old Envoy ended with a stream open");
    // Both have the table, and both end what was the sandbox's.
    replace_by_rename(&gateway.routes_file(), &routes([]));
    assert_eq!((old.next().await, new.next().await), (None, None));
    gateway.generation(2).await;
    assert_refused(&gateway, &gateway.send(ask("default--demo")).await, 502, "sandbox_not_found").await;
    gateway.until("no connection is left", async || (demo.open_connections() == 0).then_some(())).await;
}
