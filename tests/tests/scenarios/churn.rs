//! Hosts that come and go under load: no error that is not the sandbox's own, and nobody served by a stranger.
//!
//! `SANDGATE_CHURN=full` (`make churn`) runs the long versions: 20,000 hosts changed at 1,000 a second for a minute, and
//! 100,000 requests against addresses that change hands.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use sandgate_tests::{Client, Gateway, Request, replace_by_rename, route, routes};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

fn full() -> bool {
    std::env::var_os("SANDGATE_CHURN").is_some_and(|value| value == "full")
}

/// One server for a whole block of 127/8: it says at which address it was asked, so that every address is a sandbox.
async fn block(second: u8, port: u16) -> tokio::task::JoinHandle<()> {
    // Bound to all of loopback: each connection knows the address it was made to.
    let listener = tokio::net::TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).await.expect("listen");
    let _ = second;
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(say_address(stream));
        }
    })
}

async fn say_address(mut stream: tokio::net::TcpStream) {
    let Ok(SocketAddr::V4(address)) = stream.local_addr() else { return };
    let body = address.ip().to_string();
    let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    let (mut buffer, mut seen) = ([0_u8; 4096], Vec::new());
    while let Ok(count @ 1..) = stream.read(&mut buffer).await {
        seen.extend_from_slice(&buffer[..count]);
        while let Some(end) = seen.windows(4).position(|part| part == b"\r\n\r\n") {
            seen.drain(..end + 4);
            if stream.write_all(answer.as_bytes()).await.is_err() {
                return;
            }
        }
    }
}

fn address(second: u8, number: u32) -> Ipv4Addr {
    let [_, _, third, fourth] = number.to_be_bytes();
    Ipv4Addr::new(127, second, third, fourth)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hosts_that_come_and_go_under_load_cause_no_error_of_the_gateways() {
    let (hosts, rounds, step) = if full() { (20_000_u32, 60, 1_000_u32) } else { (2_000, 10, 200) };
    let port = std::net::TcpListener::bind(("0.0.0.0", 0))
        .expect("a free port")
        .local_addr()
        .expect("an address")
        .port();
    let second = 64;
    let server = block(second, port).await;
    // Sandbox n is at address n; in each round some get a new identity at the same address, as a pod's successor does.
    let mut generation = vec![0_u32; hosts as usize];
    let text = |generation: &[u32]| {
        routes(generation.iter().enumerate().map(|(number, generation)| {
            let number = u32::try_from(number).expect("small");
            route(&format!("s{number}"))
                .ip(IpAddr::from(address(second, number)))
                .set("uid", format!("{number}-{generation}"))
        }))
    };
    // Requests in flight to the one that is replaced end with 503 sandbox_gone: that is the sandbox's own end, so they finish here.
    let gateway = Gateway::builder().routes(&text(&generation)).cluster("on-delete", "finish").start().await;
    let gateway_address = gateway.address();
    let (stop, served) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let clients: Vec<_> = (0..8_u32)
        .map(|client| {
            let (stop, served) = (Arc::clone(&stop), Arc::clone(&served));
            tokio::spawn(async move {
                let mut connection = Client::http1(gateway_address).await.expect("connect");
                let mut state = u64::from(client);
                while !stop.load(Ordering::Relaxed) {
                    state =
                        state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    let number = u32::try_from((state >> 33) % u64::from(hosts)).expect("small");
                    let request = Request::get("/")
                        .header("e2b-sandbox-id", format!("default--s{number}"))
                        .header("e2b-sandbox-port", port.to_string());
                    let reply = connection.send(request).await.expect("an answer");
                    let expected = address(second, number).to_string();
                    assert_eq!((reply.status, reply.text()), (200, expected.as_str()), "s{number}");
                    served.fetch_add(1, Ordering::Relaxed);
                }
            })
        })
        .collect();
    let mut next = 0;
    for round in 0..rounds {
        let so_far = served.load(Ordering::Relaxed);
        for _ in 0..step {
            generation[next as usize % hosts as usize] += 1;
            next += 1;
        }
        replace_by_rename(&gateway.routes_file(), &text(&generation));
        gateway.generation(round + 2).await;
        gateway
            .until("requests are served meanwhile", async || {
                (served.load(Ordering::Relaxed) > so_far + 100).then_some(())
            })
            .await;
    }
    stop.store(true, Ordering::Relaxed);
    for client in clients {
        client.await.expect("every answer came from the sandbox that was asked for");
    }
    let status = gateway.cluster_status("sandbox").await;
    assert_eq!(status["parked"], 0, "{status}");
    assert!(status["removed"].as_u64().is_some_and(|removed| removed > 100), "{status}");
    assert_eq!(gateway.stat("sandgate.panics").await.unwrap_or(0), 0);
    println!("{} requests served, {status}", served.load(Ordering::Relaxed));
    server.abort();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_for_a_deleted_sandbox_never_reach_the_next_at_its_address() {
    let wanted = if full() { 100_000 } else { 10_000 };
    let sandboxes = [sandgate_tests::Place::reserve(), sandgate_tests::Place::reserve()];
    let mut servers = Vec::new();
    for (place, name) in sandboxes.iter().zip(["left", "right"]) {
        servers.push(sandgate_tests::Sandbox::start_at(name, place.clone(), &[8000]).await);
    }
    // "first" is at one of the two addresses or nowhere; "second" always at the other. The server knows by the header
    // that the gateway sets whom a request was meant for, and by the table's own uid which life of it.
    let text = |first: Option<usize>, second: usize, life: u32| {
        let mut all = vec![route("second").ip(sandboxes[second].ip()).set("uid", format!("second-{life}"))];
        all.extend(first.map(|at| route("first").ip(sandboxes[at].ip()).set("uid", format!("first-{life}"))));
        routes(all)
    };
    let gateway = Gateway::builder().routes(&text(Some(0), 1, 0)).concurrency(2).start().await;
    let gateway_address = gateway.address();
    let (stop, sent) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let clients: Vec<_> = (0..8)
        .map(|_| {
            let (stop, sent) = (Arc::clone(&stop), Arc::clone(&sent));
            tokio::spawn(async move {
                let mut client = Client::http1(gateway_address).await.expect("connect");
                while !stop.load(Ordering::Relaxed) {
                    let reply = client.send(crate::support::ask("default--first")).await.expect("an answer");
                    match reply.status {
                        200 => assert_eq!(reply.seen("x-sandbox-id"), ["default--first"]),
                        502 => assert_eq!(reply.json()["reason"], "sandbox_not_found"),
                        503 => assert_eq!(reply.json()["reason"], "sandbox_gone"),
                        other => panic!("{other}: {}", reply.text()),
                    }
                    sent.fetch_add(1, Ordering::Relaxed);
                }
            })
        })
        .collect();
    let (mut at, mut life, mut load) = (0, 0, 1);
    // While "second" is at an address, whoever asks for "first" must not reach that server.
    while sent.load(Ordering::Relaxed) < wanted {
        life += 1;
        // "first" goes; "second" takes its address; then "first" comes back at the other one.
        for (first, second) in [(None, 1 - at), (None, at), (Some(1 - at), at)] {
            replace_by_rename(&gateway.routes_file(), &text(first, second, life));
            load += 1;
            gateway.generation(load).await;
            let strangers = servers[second].requests();
            let own = gateway.send(crate::support::ask("default--second")).await;
            assert_eq!(
                (own.sandbox(), own.seen("x-sandbox-id")),
                (servers[second].name().to_owned(), vec!["default--second".to_owned()])
            );
            let so_far = sent.load(Ordering::Relaxed);
            gateway
                .within(Duration::from_secs(60), "clients go on", async || {
                    (sent.load(Ordering::Relaxed) > so_far + 200).then_some(())
                })
                .await;
            assert_eq!(
                servers[second].requests(),
                strangers + 1,
                "a request for the first reached the second"
            );
        }
        at = 1 - at;
    }
    stop.store(true, Ordering::Relaxed);
    for client in clients {
        client.await.expect("every answer was meant for the one that asked");
    }
}
