//! Hosts that come and go under load: no error that is not the sandbox's own, and nobody served by a
//! stranger.
//!
//! `SANDGATE_CHURN=full` (`make churn`) runs the long versions: 20,000 hosts changed at 1,000 a second for a
//! minute, and 100,000 requests against addresses that change hands.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use sandgate_tests::{Client, Gateway, Request, refresh_request, replace_by_rename, route, routes};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::support::Seeded;

fn full() -> bool {
    std::env::var_os("SANDGATE_CHURN").is_some_and(|value| value == "full")
}

/// One in so many sandboxes keeps its connections: all of them would be more files than a process may open.
const KEPT: u32 = 8;

/// One server for all of 127/8: it says at which address it was asked, so that every address is a sandbox.
pub(crate) async fn loopback() -> (tokio::task::JoinHandle<()>, u16) {
    // Bound to everything, since 127/8 has no name: each connection knows the address it was made to.
    let listener = tokio::net::TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).await.expect("listen");
    let port = listener.local_addr().expect("an address").port();
    let server = tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(say_address(stream));
        }
    });
    (server, port)
}

async fn say_address(mut stream: tokio::net::TcpStream) {
    let Ok(SocketAddr::V4(address)) = stream.local_addr() else { return };
    let keeps = u32::from(*address.ip()).is_multiple_of(KEPT);
    let (body, end) = (address.ip().to_string(), if keeps { "" } else { "connection: close\r\n" });
    let answer = format!("HTTP/1.1 200 OK\r\n{end}content-length: {}\r\n\r\n{body}", body.len());
    let (mut buffer, mut seen) = ([0_u8; 4096], Vec::new());
    while let Ok(count @ 1..) = stream.read(&mut buffer).await {
        seen.extend_from_slice(&buffer[..count]);
        while let Some(end) = seen.windows(4).position(|part| part == b"\r\n\r\n") {
            seen.drain(..end + 4);
            if stream.write_all(answer.as_bytes()).await.is_err() || !keeps {
                return;
            }
        }
    }
}

fn address(number: u32) -> Ipv4Addr {
    let [_, _, third, fourth] = number.to_be_bytes();
    Ipv4Addr::new(127, 64, third, fourth)
}

/// A sandbox in one of its lives, as a peer tells of it: each life has its own UID, and all of them one
/// address.
fn told(number: u32, life: u64) -> Request {
    refresh_request(&json!({
        "ip": address(number).to_string(), "id": format!("s{number}"), "namespace": "default",
        "name": format!("s{number}"), "uid": format!("{number}-{life}"), "owner": "", "state": "running",
        "resourceVersion": life.to_string(),
    }))
}

/// Asks for a sandbox, which is the only one that may answer.
async fn ask(client: &mut Client, number: u32, port: u16) {
    let request = Request::get("/")
        .header("e2b-sandbox-id", format!("s{number}"))
        .header("e2b-sandbox-port", port.to_string());
    let reply = client.send(request).await.expect("an answer");
    let expected = address(number).to_string();
    assert_eq!((reply.status, reply.text()), (200, expected.as_str()), "s{number}");
}

/// What everybody who takes part in the churn knows.
struct Churn {
    gateway: SocketAddr,
    refresh: SocketAddr,
    port: u16,
    hosts: u32,
    /// How many sandboxes have been told of, new lives of old ones included.
    told: AtomicU64,
    asked: AtomicU64,
    stop: AtomicBool,
}

impl Churn {
    /// Tells of the next sandbox and asks for it, until `last` have been told of; not before its time if
    /// there is a rate (a second).
    async fn replace(&self, last: u64, rate: Option<u32>, since: Instant) {
        let mut peer = Client::http1(self.refresh).await.expect("connect");
        let mut client = Client::http1(self.gateway).await.expect("connect");
        loop {
            let turn = self.told.fetch_add(1, Ordering::Relaxed);
            if turn >= last {
                break;
            }
            if let Some(rate) = rate {
                let so_far = turn.saturating_sub(u64::from(self.hosts));
                let due = Duration::from_secs_f64(so_far as f64 / f64::from(rate));
                tokio::time::sleep_until((since + due).into()).await;
            }
            let number = u32::try_from(turn % u64::from(self.hosts)).expect("small");
            let life = turn / u64::from(self.hosts) + 1;
            let reply = peer.send(told(number, life)).await.expect("an answer of the receiver");
            assert_eq!(reply.status, 204, "s{number}: {}", reply.text());
            ask(&mut client, number, self.port).await;
        }
    }

    /// Asks for any sandbox until it is over.
    async fn ask_on(&self, seed: u32) {
        let mut client = Client::http1(self.gateway).await.expect("connect");
        let mut random = Seeded(u64::from(seed) + 1);
        while !self.stop.load(Ordering::Relaxed) {
            let number = u32::try_from(random.next(self.hosts as usize)).expect("small");
            ask(&mut client, number, self.port).await;
            self.asked.fetch_add(1, Ordering::Relaxed);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hosts_that_come_and_go_under_load_cause_no_error_of_the_gateways() {
    // How many live, how many get a new identity at the same address, as a pod's successor does, and at which
    // rate.
    let (hosts, replaced, rate) = if full() { (20_000, 60_000, Some(1_000)) } else { (2_000, 2_000, None) };
    let (server, port) = loopback().await;
    // Requests in flight to the one that is replaced end with 503 sandbox_gone: that is the sandbox's own
    // end, so they finish here.
    let gateway =
        Gateway::builder().refresh(json!({ "insecure": true })).cluster("on-delete", "finish").start().await;
    let churn = Arc::new(Churn {
        gateway: gateway.address(),
        refresh: gateway.refresh_address().await,
        port,
        hosts,
        told: AtomicU64::new(0),
        asked: AtomicU64::new(0),
        stop: AtomicBool::new(false),
    });
    let all = |last: u64, rate: Option<u32>| {
        // As many at a time as it takes to keep the rate when each waits for its host.
        let since = Instant::now();
        let one = |churn: Arc<Churn>| tokio::spawn(async move { churn.replace(last, rate, since).await });
        (0..64).map(|_| one(Arc::clone(&churn))).collect::<Vec<_>>()
    };
    let every_answer = "every answer came from the sandbox that was asked for";
    for task in all(u64::from(hosts), None) {
        task.await.expect(every_answer);
    }
    let before = gateway.cluster_status("sandbox").await;
    assert_eq!(before["hosts"], hosts, "{before}");

    churn.told.store(u64::from(hosts), Ordering::Relaxed);
    let load: Vec<_> = (0..8)
        .map(|seed| {
            let churn = Arc::clone(&churn);
            tokio::spawn(async move { churn.ask_on(seed).await })
        })
        .collect();
    let begun = Instant::now();
    for task in all(u64::from(hosts) + replaced, rate) {
        task.await.expect(every_answer);
    }
    let took = begun.elapsed().as_secs_f64();
    churn.stop.store(true, Ordering::Relaxed);
    for task in load {
        task.await.expect(every_answer);
    }
    gateway
        .until("the hosts of the replaced are gone", async || {
            let status = gateway.cluster_status("sandbox").await;
            (status["hosts"] == hosts && status["parked"] == 0).then_some(())
        })
        .await;
    let after = gateway.cluster_status("sandbox").await;
    let count = |key: &str| {
        let of = |status: &serde_json::Value| status[key].as_u64().expect("a number");
        of(&after) - of(&before)
    };
    // Each of the replaced had a host, and has one again.
    assert_eq!((count("removed"), count("added")), (replaced, replaced), "{after}");
    assert_eq!(gateway.stat("sandgate.panics").await.unwrap_or(0), 0);
    println!(
        "{replaced} of {hosts} hosts replaced in {took:.1} s, {:.0} a second; meanwhile {} other requests; {:.1} µs of the main thread \
         a host added or removed",
        replaced as f64 / took,
        churn.asked.load(Ordering::Relaxed),
        count("mainThreadMicros") as f64 / (2 * replaced) as f64,
    );
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
    // "first" is at one of the two addresses or nowhere; "second" always at the other. The server knows by
    // the header that the gateway sets whom a request was meant for, and by the table's own uid which life of
    // it.
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
