//! How `sandgate run` ends: it is taken out of the endpoints first, goes on for the delay, lets requests
//! under way finish, and ends.

use std::fs;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use sandgate_tests::{
    Cli, Client, DEADLINE, Place, Request, Running, WebSocket, eventually, process_exists, refresh_request,
};
use serde_json::json;

use crate::cli::{address, get, one_sandbox, running};
use crate::support::ask;

const HOST: Option<&str> = Some("8000-default--demo.sandbox.test");
/// Longer than any scenario takes.
const FOR_EVER: &str = "3600";

async fn admin(running: &mut Running) -> SocketAddr {
    running.printed("the admin port", |output| address(output, "admin")).await
}

/// Asks it to end, and waits until it has said that it drains.
async fn drain(running: &Running) {
    running.terminate();
    running.said("draining").await;
}

async fn ready(admin: SocketAddr) -> u16 {
    get(admin, Request::get("/ready")).await.status
}

#[tokio::test]
async fn for_the_delay_it_is_not_ready_and_serves_new_connections_that_it_tells_to_close() {
    let (_demo, _folder, file) = one_sandbox().await;
    let (mut running, gateway) = running(&file, &["--drain-delay", FOR_EVER]).await;
    let admin = admin(&mut running).await;
    assert_eq!(ready(admin).await, 200);
    let mut kept = Client::http1(gateway).await.expect("connect");
    let before = kept.send(ask("default--demo")).await.expect("an answer");
    assert_eq!((before.sandbox().as_str(), before.header("connection")), ("demo", ""));
    drain(&running).await;
    assert_eq!(ready(admin).await, 503, "endpoints are made of what is ready");
    // A connection from before, and ones that are made now.
    let after = kept.send(ask("default--demo")).await.expect("an answer");
    assert_eq!((after.sandbox().as_str(), after.header("connection")), ("demo", "close"));
    for _ in 0..5 {
        let reply = get(gateway, ask("default--demo")).await;
        assert_eq!((reply.sandbox().as_str(), reply.header("connection")), ("demo", "close"));
    }
    // Nobody is under way, and it stays.
    let envoy = running.children()[0];
    running.terminate();
    running.ended().await;
    assert!(!process_exists(envoy), "the second signal did not end it at once");
}

#[tokio::test]
async fn after_the_delay_it_ends_with_the_last_request_and_not_before() {
    let (demo, _folder, file) = one_sandbox().await;
    let (mut running, gateway) = running(&file, &["--drain-delay", "1", "--drain-time", FOR_EVER]).await;
    let held = tokio::spawn(async move { get(gateway, ask("default--demo").path("/slow")).await });
    demo.holding(1).await;
    let asked = Instant::now();
    drain(&running).await;
    // Two seconds: the delay is over, and the request is not.
    eventually("the delay is over", DEADLINE, async || {
        (asked.elapsed() > Duration::from_secs(2)).then_some(())
    })
    .await;
    assert_eq!(get(gateway, ask("default--demo")).await.sandbox(), "demo");
    assert!(!held.is_finished());
    demo.release(1);
    assert_eq!(held.await.expect("no panic").sandbox(), "demo");
    assert_eq!(running.ended().await, Some(0), "{}", running.stderr());
}

#[tokio::test]
async fn an_idle_gateway_ends_when_the_delay_is_over() {
    let (_demo, _folder, file) = one_sandbox().await;
    let (mut running, _gateway) = running(&file, &["--drain-delay", "1", "--drain-time", FOR_EVER]).await;
    let asked = Instant::now();
    drain(&running).await;
    assert_eq!(running.ended().await, Some(0), "{}", running.stderr());
    assert!(asked.elapsed() >= Duration::from_secs(1), "it ended after {:?}", asked.elapsed());
}

#[tokio::test]
async fn an_http2_client_is_told_to_go_away_and_its_streams_finish() {
    let (demo, _folder, file) = one_sandbox().await;
    let (mut running, gateway) = running(&file, &["--drain-time", FOR_EVER]).await;
    let client = Client::http2(gateway).await.expect("connect");
    let mut slow = client.share();
    let held = tokio::spawn(async move { slow.send(ask("default--demo").path("/slow")).await });
    demo.holding(1).await;
    drain(&running).await;
    // The next answer brings the GOAWAY; one that comes too late for this connection is refused by the client
    // itself.
    eventually("the client may open no more streams", DEADLINE, async || {
        client.share().send(ask("default--demo")).await.is_err().then_some(())
    })
    .await;
    assert!(!held.is_finished());
    demo.release(1);
    assert_eq!(held.await.expect("no panic").expect("its answer").sandbox(), "demo");
    assert_eq!(running.ended().await, Some(0), "{}", running.stderr());
}

#[tokio::test]
async fn a_websocket_lives_until_the_drain_time_is_over_and_holds_the_end_up_no_longer() {
    let (_demo, _folder, file) = one_sandbox().await;
    let (mut running, gateway) = running(&file, &["--drain-time", "2"]).await;
    let mut socket = WebSocket::open(gateway, HOST, "/ws", &[]).await.expect("an upgrade");
    assert_eq!(socket.next().await.as_deref(), Some("demo"));
    let asked = Instant::now();
    drain(&running).await;
    socket.send("still here").await;
    assert_eq!(socket.next().await.as_deref(), Some("still here"));
    assert_eq!(socket.next().await, None);
    assert!(asked.elapsed() >= Duration::from_secs(2), "it was cut after {:?}", asked.elapsed());
    assert_eq!(running.ended().await, Some(0), "{}", running.stderr());
}

#[tokio::test]
async fn the_push_port_takes_part_it_acknowledges_nothing_from_the_first_signal_on() {
    let (demo, folder, file) = one_sandbox().await;
    let config = folder.path().join("config.yaml");
    let settings = json!({ "gateway": {
        "pod-ranges": ["127.0.0.0/8"],
        "refresh": { "insecure": true, "address": "127.0.0.1", "port": 0, "provider": "openkruise" },
    }});
    fs::write(&config, settings.to_string()).expect("write");
    let options = ["--drain-delay", FOR_EVER, "--config", config.to_str().expect("text")];
    let (mut running, gateway) = running(&file, &options).await;
    let admin = admin(&mut running).await;
    let port: SocketAddr = eventually("the receiver listens", DEADLINE, async || {
        let status = get(admin, Request::get("/sandgate/status")).await.json();
        status["refresh"]["listening"].as_str()?.parse().ok()
    })
    .await;
    let message = |version: u32| {
        json!({ "provider": "openkruise", "namespace": "team", "name": "pushed", "id": "team--pushed", "uid": "u",
            "ip": demo.ip(), "owner": "", "state": "running", "resourceVersion": version.to_string() })
    };
    assert_eq!(get(port, refresh_request(&message(1))).await.status, 204);
    assert_eq!(get(gateway, ask("team--pushed")).await.sandbox(), "demo");
    drain(&running).await;
    let reply = get(port, refresh_request(&message(2))).await;
    assert_eq!((reply.status, reply.header("retry-after")), (503, "1"), "{}", reply.text());
    assert_eq!(get(gateway, ask("team--pushed")).await.sandbox(), "demo");
}

/// Closes: a SIGTERM in the 50 ms in which clients knew that Envoy served, and the command did not, ended
/// Envoy without a drain.
#[tokio::test]
async fn one_that_is_told_to_end_as_soon_as_it_serves_cuts_no_request() {
    let (demo, _folder, file) = one_sandbox().await;
    let place = Place::reserve();
    let (ip, gateway) = (place.ip().to_string(), SocketAddr::new(place.ip(), 7788));
    let options = ["run", "--address", &ip, "--admin-port", "0", "--routes", file.to_str().expect("text")];
    let mut running = Running::start(&options);
    let mut client =
        eventually("the gateway listens", DEADLINE, async || Client::http1(gateway).await.ok()).await;
    let held = tokio::spawn(async move { client.send(ask("default--demo").path("/slow")).await });
    demo.holding(1).await;
    drain(&running).await;
    assert!(!held.is_finished());
    demo.release(1);
    assert_eq!(held.await.expect("no panic").expect("its answer").sandbox(), "demo");
    assert_eq!(running.ended().await, Some(0), "{}", running.stderr());
}

#[tokio::test]
async fn as_process_1_it_reaps_what_others_leave_behind_and_drains_when_it_is_told_to_end() {
    let (_demo, _folder, file) = one_sandbox().await;
    let options = ["run", "--port", "0", "--admin-port", "0", "--routes", file.to_str().expect("text")];
    let mut running = Running::start_as_process_1(&options);
    let gateway = running.printed("the address of the gateway", |output| address(output, "gateway")).await;
    let [process] = running.children()[..] else { panic!("unshare has one child") };
    // A shell that ends before what it started: as a probe or `kubectl exec` does.
    let left_behind = "for n in 1 2 3; do (true &) ; done";
    let done = Cli::shell(&format!("nsenter --target {process} --pid --mount sh -c '{left_behind}'")).await;
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    eventually("Envoy is its only child", DEADLINE, async || (children(process).len() == 1).then_some(()))
        .await;
    assert_eq!(get(gateway, ask("default--demo")).await.sandbox(), "demo");
    let told = Cli::shell(&format!("kill -TERM {process}")).await;
    assert_eq!(told.code, Some(0), "{}", told.stderr);
    running.said("draining").await;
    assert_eq!(running.ended().await, Some(0), "{}", running.stderr());
}

/// The children of a process that have not been reaped, whether or not they have ended.
fn children(process: u32) -> Vec<String> {
    let children = fs::read_to_string(format!("/proc/{process}/task/{process}/children")).unwrap_or_default();
    children.split_whitespace().map(ToOwned::to_owned).collect()
}
