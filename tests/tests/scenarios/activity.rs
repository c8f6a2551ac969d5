//! What a gateway says about the activity of its sandboxes, asked as an operator asks it.

use std::fs;

use sandgate_peering::{
    ActiveSandbox, ActivityClient, ActivitySettings, AskError, Credentials, Known, PeerAddress, Peers,
};
use sandgate_tests::{DEADLINE, Gateway, Request, Sandbox, WebSocket};
use serde_json::{Value, json};

use crate::support::{PORT, ask, sandbox};

const PROVIDER: &str = "openkruise";

fn message(name: &str, state: &str, version: u64, sandbox: &Sandbox) -> Value {
    json!({
        "ip": sandbox.ip().to_string(), "id": name, "namespace": "team", "name": name, "uid": uid(name),
        "state": state, "resourceVersion": version.to_string(),
    })
}

fn uid(name: &str) -> String {
    format!("u-{name}")
}

/// Asks the gateway.
async fn try_known(gateway: &Gateway, credentials: &Credentials) -> Result<Known, AskError> {
    let address = PeerAddress::at(gateway.refresh_address().await, false, None);
    let settings =
        ActivitySettings { connect_timeout: DEADLINE, timeout: DEADLINE, ..ActivitySettings::default() };
    let client =
        ActivityClient::new(settings, Peers::Static(vec![address]), credentials).expect("credentials");
    let mut answers = client.ask(PROVIDER, 0).await.expect("a fixed list of gateways");
    answers.pop_first().expect("one gateway").1
}

async fn known(gateway: &Gateway) -> Known {
    try_known(gateway, &Credentials::default()).await.expect("an answer")
}

/// What the gateway knows of this sandbox once that is as it should be.
async fn known_to_be(
    gateway: &Gateway,
    name: &str,
    what: &str,
    is: impl Fn(&Known, Option<&ActiveSandbox>) -> bool,
) -> Known {
    gateway
        .until(what, async || {
            let known = known(gateway).await;
            is(&known, known.sandboxes.get(&uid(name))).then_some(known)
        })
        .await
}

async fn serving(names: &[(&str, &Sandbox)]) -> Gateway {
    let gateway =
        Gateway::builder().refresh(json!({ "insecure": true })).cluster("idle-seconds", 1).start().await;
    for (name, sandbox) in names {
        assert_eq!(gateway.push(&message(name, "running", 5, sandbox)).await.status, 204);
    }
    gateway
}

#[tokio::test]
async fn a_request_is_activity_and_is_remembered_when_its_connections_are_gone_and_until_the_sandbox_dies() {
    let demo = sandbox("demo").await;
    let gateway = serving(&[("demo", &demo), ("other", &demo)]).await;
    let before = known(&gateway).await;
    assert!(before.sandboxes.is_empty() && before.complete <= before.now, "{before:?}");
    assert_eq!(gateway.send(ask("demo")).await.sandbox(), "demo");
    let first = known(&gateway).await;
    let used = &first.sandboxes[&uid("demo")];
    assert_eq!((used.id.as_str(), used.namespace.as_str(), used.name.as_str()), ("demo", "team", "demo"));
    assert!(used.last_active + 2 >= before.now && used.last_active <= first.now, "{used:?} after {before:?}");
    assert_eq!(first.sandboxes.len(), 1, "nobody asked for the other one: {first:?}");
    // The host goes, and its connections with it. What is known stays.
    gateway.stat_is("sandgate.hosts", 0).await;
    let quiet = known_to_be(&gateway, "demo", "it was quiet for a while", |known, used| {
        let last = used.expect("it is remembered").last_active;
        known.now >= last + 4
    })
    .await;
    let last = quiet.sandboxes[&uid("demo")].last_active;
    assert!(quiet.quiet_for(&uid("demo")).as_secs() >= 4);
    assert_eq!(gateway.send(ask("demo")).await.sandbox(), "demo");
    known_to_be(&gateway, "demo", "another request is later", |_, used| {
        used.is_some_and(|used| used.open == 0 && used.last_active > last + 1)
    })
    .await;
    assert_eq!(gateway.push(&message("demo", "dead", 6, &demo)).await.status, 204);
    assert!(known(&gateway).await.sandboxes.is_empty());
    assert_eq!(gateway.push(&message("demo", "running", 7, &demo)).await.status, 204);
    assert!(known(&gateway).await.sandboxes.is_empty(), "a new one of this name has done nothing yet");
}

#[tokio::test]
async fn a_silent_websocket_and_a_slow_answer_keep_their_sandboxes_active() {
    let (talker, waiter) = (sandbox("talker").await, sandbox("waiter").await);
    let gateway = serving(&[("talker", &talker), ("waiter", &waiter)]).await;
    let port = PORT.to_string();
    let headers = [("e2b-sandbox-id", "talker"), ("e2b-sandbox-port", port.as_str())];
    let socket = WebSocket::open(gateway.address(), None, "/ws", &headers).await.expect("an upgrade");
    let mut client = gateway.client().await;
    let slow = Request::get("/slow").header("e2b-sandbox-id", "waiter").header("e2b-sandbox-port", &port);
    let slow = tokio::spawn(async move { client.send(slow).await });
    waiter.holding(1).await;
    let opened = known(&gateway).await;
    let later = known_to_be(&gateway, "talker", "time passes", |known, _| known.now >= opened.now + 3).await;
    for name in ["talker", "waiter"] {
        let used = &later.sandboxes[&uid(name)];
        assert_eq!(
            (used.open, used.last_active, later.quiet_for(&uid(name)).as_secs()),
            (1, later.now, 0),
            "{name}"
        );
    }
    socket.close().await;
    waiter.release(1);
    assert_eq!(slow.await.expect("no panic").expect("an answer").status, 200);
    for name in ["talker", "waiter"] {
        let ended = known_to_be(&gateway, name, "nothing is in flight", |_, used| {
            used.is_some_and(|used| used.open == 0)
        })
        .await;
        assert!(ended.sandboxes[&uid(name)].last_active >= later.now, "{name}: its end counts");
    }
}

#[tokio::test]
async fn the_next_envoy_knows_nothing_of_what_was_before_it_and_says_since_when_it_knows() {
    let demo = sandbox("demo").await;
    let mut gateway = Gateway::builder().refresh(json!({ "insecure": true })).restartable().start().await;
    assert_eq!(gateway.push(&message("demo", "running", 5, &demo)).await.status, 204);
    assert_eq!(gateway.send(ask("demo")).await.sandbox(), "demo");
    let before = known_to_be(&gateway, "demo", "it is older than a second", |known, used| {
        used.is_some() && known.now > known.start + 1
    })
    .await;
    let _old = gateway.restart().await;
    assert_eq!(gateway.push(&message("demo", "running", 5, &demo)).await.status, 204);
    let after = known(&gateway).await;
    assert!(after.start > before.start, "{after:?} after {before:?}");
    assert!(after.complete >= after.start && after.sandboxes.is_empty(), "{after:?}");
    let certain = after.quiet_for(&uid("demo")).as_secs();
    assert!(certain <= after.now - after.start, "{certain} s of {after:?}");
}

#[tokio::test]
async fn strangers_are_told_nothing() {
    let builder = Gateway::builder();
    let file = builder.folder().join("key");
    fs::write(&file, "a-shared-key-of-at-least-thirty-two-bytes").expect("write the key");
    let gateway =
        builder.refresh(json!({ "hmac": { "keys": [{ "id": "main", "file": file }] } })).start().await;
    let refused = try_known(&gateway, &Credentials::default()).await;
    assert!(matches!(&refused, Err(AskError::Refused { status, .. }) if *status == 401), "{refused:?}");
    let keyed = Credentials { hmac: Some(("main".to_owned(), file)), ..Credentials::default() };
    // What is signed in the second in which the gateway began is not believed.
    gateway.until("the key is believed", async || try_known(&gateway, &keyed).await.ok()).await;
}

#[tokio::test]
async fn a_gateway_that_sends_requests_past_its_own_cluster_does_not_call_anybody_idle() {
    let demo = sandbox("demo").await;
    let gateway = Gateway::builder().refresh(json!({ "insecure": true })).original_dst().start().await;
    assert_eq!(gateway.push(&message("demo", "running", 5, &demo)).await.status, 204);
    assert_eq!(gateway.send(ask("demo")).await.sandbox(), "demo");
    let refused = try_known(&gateway, &Credentials::default()).await;
    assert!(matches!(&refused, Err(AskError::Refused { status, .. }) if *status == 501), "{refused:?}");
}
