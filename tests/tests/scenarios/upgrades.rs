//! Upgrades under load: no request fails, by the count of the clients.
//!
//! What WebSockets are promised stands with each scenario. Everybody else is promised that nothing fails.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use sandgate_tests::{
    Client, DEADLINE, Front, Gateway, Load, Request, Running, Sandbox, Traffic, eventually, route, routes,
};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::sandbox;

const WEBSOCKETS: usize = 6;

/// How long a gateway that drains goes on as before, and how long streams may take after that. A busy machine
/// must have let the front know within the first.
const DELAY: Duration = Duration::from_secs(6);
const STREAMS: Duration = Duration::from_secs(2);

fn load(front: &Front, sandboxes: &[Sandbox; 2]) -> Traffic {
    let [one, two] = sandboxes;
    Load::new(front).sandbox(one).sandbox(two).http1(100).http2(60).websockets(WEBSOCKETS).start()
}

async fn two_sandboxes() -> ([Sandbox; 2], String) {
    let sandboxes = [sandbox("one").await, sandbox("two").await];
    let text = routes(sandboxes.iter().map(|sandbox| route(sandbox.name()).ip(sandbox.ip())));
    (sandboxes, text)
}

/// `sandgate run` on ports of its own.
struct Replica {
    running: Running,
    gateway: SocketAddr,
}

impl Replica {
    /// Starts one and waits until it says that it is ready.
    async fn start(file: &Path, delay: Duration, streams: Duration) -> Self {
        let file = file.to_str().expect("a path of text");
        let (delay, streams) = (delay.as_secs().to_string(), streams.as_secs().to_string());
        let mut running = Running::start(&[
            "run",
            "--port",
            "0",
            "--admin-port",
            "0",
            "--concurrency",
            "2",
            "--routes",
            file,
            "--drain-delay",
            &delay,
            "--drain-time",
            &streams,
        ]);
        let gateway = running.address("gateway").await;
        let admin = running.address("admin").await;
        eventually("the gateway is ready", DEADLINE, async || {
            let mut client = Client::http1(admin).await.ok()?;
            (client.send(Request::get("/ready")).await.ok()?.status == 200).then_some(())
        })
        .await;
        Self { running, gateway }
    }
}

/// Three replicas behind a front, and what they serve.
struct Fleet {
    replicas: Vec<Replica>,
    front: Front,
    sandboxes: [Sandbox; 2],
    file: PathBuf,
    _folder: TempDir,
}

impl Fleet {
    async fn start(delay: Duration, streams: Duration) -> Self {
        let (sandboxes, text) = two_sandboxes().await;
        let folder = TempDir::with_prefix("sandgate-routes-").expect("create a folder");
        let file = folder.path().join("routes.yaml");
        fs::write(&file, text).expect("write");
        let mut replicas = Vec::new();
        for _ in 0..3 {
            replicas.push(Replica::start(&file, delay, streams).await);
        }
        let front = Front::to(replicas.iter().map(|replica| replica.gateway));
        Self { replicas, front, sandboxes, file, _folder: folder }
    }
}

/// As a Deployment does it: the new one is ready and gets connections, then the old one is asked to end, and
/// what stands before them learns of that late.
///
/// A WebSocket through the old one is promised the delay and the time for streams. Then it is ended; it may
/// lose what is under way at that moment. It connects again at once, to a gateway that is there. No other
/// WebSocket ends.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rolling_replacement_of_three_gateways_fails_no_request() {
    let mut fleet = Fleet::start(DELAY, STREAMS).await;
    let traffic = load(&fleet.front, &fleet.sandboxes);
    traffic.more(50).await;
    let mut terminated = Vec::new();
    for _ in 0..3 {
        let new = Replica::start(&fleet.file, DELAY, STREAMS).await;
        fleet.front.add(new.gateway);
        traffic.more_connections(new.gateway, 1).await;
        fleet.replicas.push(new);

        let mut old = fleet.replicas.remove(0);
        terminated.push((old.gateway, traffic.so_far().took));
        let asked = Instant::now();
        old.running.terminate();
        eventually("it says that it drains", DEADLINE, async || {
            old.running.stderr().contains("draining").then_some(())
        })
        .await;
        // It goes on for those who have not heard of it.
        traffic.more_connections(old.gateway, 4).await;
        fleet.front.remove(old.gateway);
        traffic.may_end(old.gateway);
        assert!(asked.elapsed() < DELAY, "this machine is too busy for a delay of {DELAY:?}");
        assert_eq!(old.running.ended().await, Some(0), "{}", old.running.stderr());
        traffic.more(50).await;
    }
    let outcome = traffic.finish().await;
    println!("rolling replacement of three gateways: {outcome}");
    outcome.assert_none_failed();
    assert!(outcome.http1.left > 0 && outcome.http2.left > 0, "nobody was told to leave: {outcome}");
    assert_eq!(outcome.http1.found_closed, 0, "connections were closed without a word: {outcome}");
    assert!(outcome.websockets.left >= 3, "each had some: {outcome}");
    for (gateway, at) in &outcome.ends {
        let (_, asked) = terminated.iter().find(|(one, _)| one == gateway).expect("one of the old gateways");
        assert!(*at >= *asked + DELAY + STREAMS, "ended {:?} after the signal: {outcome}", *at - *asked);
    }
}

/// The same without the delay is seen to fail: new connections go to a gateway that has gone, and WebSockets
/// end that were promised more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replacement_without_a_drain_delay_fails_requests() {
    let mut fleet = Fleet::start(Duration::ZERO, STREAMS).await;
    let traffic = load(&fleet.front, &fleet.sandboxes);
    traffic.more(50).await;
    let mut old = fleet.replicas.remove(0);
    old.running.terminate();
    eventually("requests fail", DEADLINE, async || {
        let now = traffic.so_far();
        (now.http1.failed > 0 && now.websockets.broken > 0).then_some(())
    })
    .await;
    fleet.front.remove(old.gateway);
    assert_eq!(old.running.ended().await, Some(0), "{}", old.running.stderr());
    let outcome = traffic.finish().await;
    assert!(outcome.failures.iter().all(|failure| failure.gateway == Some(old.gateway)), "{outcome}");
}

/// The filter's config, which differs in nothing that the clients use.
fn filter(port: u16) -> Value {
    json!({ "dialects": { "agent-sandbox": { "default-port": port } } })
}

/// Another one of the same: first what Envoy reads of a cluster, then what the module reads.
fn change_clusters(gateway: &mut Gateway, round: u16) {
    gateway.update_clusters(|cluster| {
        cluster["connect_timeout"] = json!(format!("{}s", 5 + round));
        cluster["cluster_type"]["typed_config"]["cluster_config"]["value"]["idle-seconds"] =
            json!(60 + round);
    });
}

/// A change of the listener leaves the connections that it has: they go on with the filter as it was until
/// Envoy's drain time is over. A change of a cluster leaves the streams that it has.
///
/// Here the drain time is Envoy's own, ten minutes. A WebSocket is promised that it does not notice: none
/// ends, no message is lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changes_of_filter_and_clusters_fail_no_request_and_end_no_websocket() {
    const ROUNDS: u16 = 5;
    let (sandboxes, text) = two_sandboxes().await;
    let mut gateway = Gateway::builder().routes(&text).filter(filter(1)).lds().cds().start().await;
    let traffic = load(&Front::to([gateway.address()]), &sandboxes);
    traffic.more(50).await;
    for round in 1..=ROUNDS {
        let (listeners, clusters) = (u64::from(2 * round), u64::from(4 * round));
        gateway.update_filter(&filter(1 + round));
        gateway.stat_is("listener_manager.lds.update_success", listeners).await;
        traffic.more(30).await;
        change_clusters(&mut gateway, round);
        gateway.stat_is("cluster_manager.cluster_modified", clusters - 2).await;
        traffic.more(30).await;
        // Both at once.
        change_clusters(&mut gateway, 100 + round);
        gateway.update_filter(&filter(100 + round));
        gateway.stat_is("listener_manager.lds.update_success", listeners + 1).await;
        gateway.stat_is("cluster_manager.cluster_modified", clusters).await;
        traffic.more(30).await;
    }
    let outcome = traffic.finish().await;
    println!("changes by LDS and CDS: {outcome}");
    outcome.assert_none_failed();
    assert_eq!((outcome.websockets.connections, outcome.websockets.lost), (6, 0), "{outcome}");
    assert_eq!(gateway.stat("sandgate.panics").await.unwrap_or(0), 0);
}

/// The same to its end: the drain time is short, so that the old listener goes with all its connections,
/// again and again. Clients are told at the first answer (`connection: close`, GOAWAY).
///
/// A WebSocket is promised the drain time. Then it is ended; it may lose what is under way at that moment,
/// and connects again at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn listeners_that_are_replaced_and_go_fail_no_request() {
    const ROUNDS: u16 = 3;
    const DRAIN: Duration = Duration::from_secs(3);
    let (sandboxes, text) = two_sandboxes().await;
    let mut gateway = Gateway::builder()
        .routes(&text)
        .filter(filter(1))
        .lds()
        .cds()
        .arguments(&["--drain-strategy", "immediate", "--drain-time-s", &DRAIN.as_secs().to_string()])
        .start()
        .await;
    let address = gateway.address();
    let traffic = load(&Front::to([address]), &sandboxes);
    traffic.more(50).await;
    let mut updated = Vec::new();
    for round in 1..=ROUNDS {
        // Those through the listener that goes, and none of the new one's.
        gateway
            .until("every WebSocket is open", async || {
                (traffic.so_far().websockets.connections == u64::from(round) * WEBSOCKETS as u64)
                    .then_some(())
            })
            .await;
        traffic.may_end(address);
        updated.push(traffic.so_far().took);
        gateway.update_filter(&filter(1 + round));
        gateway.stat_is("listener_manager.lds.update_success", u64::from(1 + round)).await;
        change_clusters(&mut gateway, round);
        gateway.stat_is("cluster_manager.cluster_modified", u64::from(2 * round)).await;
        traffic.ended(u64::from(round) * WEBSOCKETS as u64).await;
        gateway.stat_is("listener_manager.total_filter_chains_draining", 0).await;
        traffic.more(50).await;
    }
    let outcome = traffic.finish().await;
    println!("listeners that are replaced and go: {outcome}");
    outcome.assert_none_failed();
    assert!(outcome.http1.left > 0 && outcome.http2.left > 0, "nobody was told to leave: {outcome}");
    assert_eq!(outcome.http1.found_closed, 0, "connections were closed without a word: {outcome}");
    assert_eq!(outcome.ends.len(), usize::from(ROUNDS) * WEBSOCKETS, "{outcome}");
    for (at, number) in outcome.ends.iter().map(|(_, at)| *at).zip(0..) {
        let updated = updated[number / WEBSOCKETS];
        // Envoy's timers count from the beginning of the turn they are set in.
        let at = at + Duration::from_millis(50);
        assert!(at >= updated + DRAIN, "ended {:?} after the change: {outcome}", at - updated);
    }
}
