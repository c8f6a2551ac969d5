//! The statuses of the wire, one by one.

use std::time::{Duration, Instant};

use sandgate_routes::{Clash, Limits, State, TokenKind};
use serde_json::{Value, json};

use super::fixture::{DEADLINE, Plane, message, settings};
use crate::receive::timeouts::Timeouts;

#[tokio::test]
async fn a_route_is_upserted_replaced_and_deleted_and_each_is_answered_204() {
    let plane = Plane::open().await;
    for (state, version) in [("running", "5"), ("paused", "6"), ("dead", "7")] {
        let answer = plane.push(&message(state, version)).await;
        assert_eq!((answer.status, answer.body.as_str()), (204, ""), "{state}");
        let found = plane.reader.get("team--demo").map(|route| route.state());
        assert_eq!(found, state.parse().ok().filter(|state| *state != State::Dead), "{state}");
    }
    assert_eq!(plane.reader.counts().tombstones, 1);
    // What is older or as old is ignored, and that is no error.
    for version in ["5", "6", "7"] {
        assert_eq!(plane.push(&message("running", version)).await.status, 204);
    }
    assert!(plane.reader.get("team--demo").is_none());
    let status = plane.status();
    assert_eq!((status.applied, status.stale, status.insecure), (3, 3, true));
}

#[tokio::test]
async fn everything_the_message_says_is_in_the_route() {
    let plane = Plane::open().await;
    let mut message = message("running", "18446744073709551615");
    message["requireTrafficAuth"] = json!(true);
    message["trafficAccessToken"] = json!("tr4ffic");
    message["somethingNew"] = json!({ "of": ["a later", "sender"] });
    assert_eq!(plane.push(&message).await.status, 204);
    let route = plane.reader.get("team--demo").unwrap();
    assert_eq!(route.key().to_string(), "openkruise:team/demo");
    assert_eq!(route.version().to_string(), "18446744073709551615");
    assert_eq!((route.uid().as_str(), route.owner().as_str()), ("u-1", "alice"));
    assert_eq!(route.authority(80).as_str(), "127.1.2.3:80");
    assert!(route.require_traffic_auth() && route.token().unwrap().matches(b"s3cret"));
    assert!(route.traffic_token().unwrap().matches(b"tr4ffic"));
}

#[tokio::test]
async fn a_message_of_a_sender_that_knows_no_traffic_tokens_opens_no_sandbox() {
    let plane = Plane::open().await;
    let mut closed = message("running", "5");
    closed["trafficAccessToken"] = json!("tr4ffic");
    plane.push(&closed).await;
    let mut version = 5;
    for nothing in [None, Some(Value::Null), Some(json!(""))] {
        version += 1;
        let mut message = message("running", &version.to_string());
        message.as_object_mut().unwrap().extend(nothing.map(|none| ("trafficAccessToken".to_owned(), none)));
        assert_eq!(plane.push(&message).await.status, 204);
        let route = plane.reader.get("team--demo").unwrap();
        assert_eq!(route.version().to_string(), version.to_string());
        assert!(route.traffic_token().unwrap().matches(b"tr4ffic"), "{message}");
    }
}

#[tokio::test]
async fn the_provider_is_a_setting() {
    let plane = Plane::start(json!({ "insecure": true, "provider": "mine" })).await;
    plane.push(&message("running", "1")).await;
    assert_eq!(plane.reader.get("team--demo").unwrap().key().provider(), "mine");
}

#[tokio::test]
async fn what_is_pushed_for_another_provider_is_answered_and_changes_nothing() {
    let plane = Plane::start(json!({ "insecure": true, "provider": "mine" })).await;
    for (provider, version) in [("mine", "2"), ("", "3")] {
        let mut ours = message("running", version);
        ours["provider"] = json!(provider);
        assert_eq!(plane.push(&ours).await.status, 204);
        assert_eq!(plane.reader.get("team--demo").unwrap().version().to_string(), version);
    }
    let mut other = message("dead", "4");
    other["provider"] = json!("theirs");
    assert_eq!(plane.push(&other).await.status, 204);
    // A message that is wrong withdraws its object, unless the object is another provider's.
    other["resourceVersion"] = json!("5");
    other["ip"] = json!("no address");
    assert_eq!(plane.push(&other).await.status, 204);
    let route = plane.reader.get("team--demo").unwrap();
    assert_eq!((route.version().to_string().as_str(), route.key().provider()), ("3", "mine"));
}

#[tokio::test]
async fn the_providers_way_with_a_shared_id_holds_for_what_is_pushed_too() {
    for clash in [Clash::Rank, Clash::Refuse] {
        let mut settings = settings(json!({ "insecure": true, "provider": "opensandbox" }));
        settings.pushed.clash = clash;
        let plane = Plane::with(settings).await;
        plane.push(&message("running", "5")).await;
        let mut rival = with("name", "rival");
        rival["ip"] = json!("127.1.2.4");
        plane.push(&rival).await;
        assert_eq!(
            plane.reader.get("team--demo").unwrap().is_ambiguous(),
            clash == Clash::Refuse,
            "{clash:?}"
        );
    }
}

#[tokio::test]
async fn a_pushed_address_that_a_tenant_wrote_is_not_routed_to_while_another_object_has_it() {
    let both_run = async |provider: &str| {
        let plane = Plane::start(json!({ "insecure": true, "provider": provider })).await;
        plane.push(&message("running", "5")).await;
        let mut rival = with("name", "rival");
        rival["id"] = json!("team--rival");
        assert_eq!(plane.push(&rival).await.status, 204);
        let pinned = ["team--demo", "team--rival"].map(|id| plane.reader.get(id));
        pinned.iter().flatten().filter(|route| route.state() == State::Running).count() == 2
    };
    assert!(both_run("openkruise").await, "a controller wrote it");
    assert!(!both_run("opensandbox").await);
}

fn with(key: &str, value: impl Into<Value>) -> Value {
    let mut message = message("running", "5");
    message[key] = value.into();
    message
}

#[tokio::test]
async fn what_is_wrong_gets_400_says_why_and_makes_no_route() {
    let plane = Plane::open().await;
    // Its version is newer than those of the messages.
    plane.push(&message("paused", "7")).await;
    let before = plane.dump();
    let mut bodies: Vec<(String, &str)> = vec![
        (String::new(), "JSON"),
        ("{".to_owned(), "JSON"),
        ("nonsense".to_owned(), "JSON"),
        ("[]".to_owned(), "JSON"),
        (r#"["127.0.0.1","id"]"#.to_owned(), "JSON"),
        ("{} {}".to_owned(), "JSON"),
        (r#"{"id": 7}"#.to_owned(), "JSON"),
        ("{}".to_owned(), "namespace and name"),
    ];
    let messages = [
        (with("namespace", ""), "namespace and name"),
        (with("name", ""), "namespace and name"),
        (with("namespace", "a/b"), "namespace and name"),
        (with("name", "x".repeat(254)), "namespace and name"),
        (with("resourceVersion", ""), "resourceVersion"),
        (with("resourceVersion", "0"), "resourceVersion"),
        (with("resourceVersion", "01"), "resourceVersion"),
        (with("resourceVersion", "rv"), "resourceVersion"),
        (with("resourceVersion", "+5"), "resourceVersion"),
        (with("resourceVersion", "18446744073709551616"), "resourceVersion"),
        (with("id", "a b"), ""),
        (with("id", ""), ""),
        (with("uid", ""), ""),
        (with("owner", "a\nb"), ""),
        (with("accessToken", "x".repeat(4097)), ""),
        (with("trafficAccessToken", "x".repeat(4097)), ""),
        (message("dead", ""), "resourceVersion"),
        (message("dead", "0"), "resourceVersion"),
    ];
    bodies.extend(messages.map(|(message, word)| (message.to_string(), word)));
    let count = bodies.len() as u64;
    for (body, word) in bodies {
        let answer = plane.post("/refresh", body.clone(), None).await;
        assert_eq!(answer.status, 400, "{body}");
        let error: Value = serde_json::from_str(&answer.body).unwrap();
        assert!(error["error"].as_str().unwrap().contains(word), "{body} gave {error}");
        assert!(!answer.body.contains("s3cret"), "{error}");
    }
    assert_eq!(plane.dump(), before);
    assert_eq!((plane.status().invalid, plane.reader.counts().tombstones), (count, 0));
}

#[tokio::test]
async fn an_unknown_state_is_known_and_not_served_and_does_not_leave_the_old_route_serving() {
    let plane = Plane::open().await;
    for (number, state) in (0..).zip(["asleep", "", "Running", "unknown", "running "]) {
        plane.push(&message("running", &(5 + 3 * number).to_string())).await;
        assert_eq!(plane.reader.get("team--demo").unwrap().state(), State::Running);
        let answer = plane.push(&message(state, &(6 + 3 * number).to_string())).await;
        assert_eq!((answer.status, answer.body.as_str()), (204, ""), "{state:?}");
        assert_eq!(plane.reader.get("team--demo").unwrap().state(), State::Unknown, "{state:?}");
    }
    assert_eq!((plane.status().invalid, plane.status().applied), (0, 10));
    let mut stateless = message("running", "50");
    stateless.as_object_mut().unwrap().remove("state");
    assert_eq!(plane.push(&stateless).await.status, 204);
    assert_eq!(plane.reader.get("team--demo").unwrap().state(), State::Unknown);
    // It is not brought back by what is older, and is by what is newer.
    plane.push(&message("running", "49")).await;
    assert_eq!(plane.reader.get("team--demo").unwrap().state(), State::Unknown);
    plane.push(&message("running", "51")).await;
    assert_eq!(plane.reader.get("team--demo").unwrap().state(), State::Running);
}

#[tokio::test]
async fn a_pushed_token_is_for_what_the_providers_tokens_are_for() {
    for (provider, kind) in [
        ("openkruise", TokenKind::Runtime),
        ("agent-sandbox", TokenKind::SecureAccess),
        ("opensandbox", TokenKind::SecureAccess),
    ] {
        let plane = Plane::start(json!({ "insecure": true, "provider": provider })).await;
        plane.push(&message("running", "5")).await;
        assert_eq!(plane.reader.get("team--demo").unwrap().token().unwrap().kind(), kind, "{provider}");
    }
}

#[tokio::test]
async fn an_address_no_sandbox_may_have_is_known_and_not_routed_to_as_when_it_is_watched() {
    let plane = Plane::open().await;
    let outside = [
        "169.254.169.254",
        "::1",
        "192.168.0.1",
        "0.0.0.0",
        "224.0.0.1",
        "::ffff:192.168.0.1",
        "localhost",
        "127.0.0.1:80",
    ];
    let mut version = 4;
    let mut push = async |state: &str, ip: &str| {
        version += 1;
        let mut message = message(state, &version.to_string());
        message["ip"] = json!(ip);
        plane.push(&message).await.status
    };
    for ip in outside {
        for state in ["running", "paused", "creating"] {
            // What was served before is not any more: the object has moved.
            assert_eq!(push("running", "127.1.2.3").await, 204);
            assert_eq!(plane.reader.get("team--demo").unwrap().state(), State::Running);
            assert_eq!(push(state, ip).await, 204, "{ip}");
            let route = plane.reader.get("team--demo").unwrap();
            assert!(route.state() != State::Running && route.ip().is_none(), "{ip} {state}");
        }
    }
    assert_eq!((plane.status().outside, plane.status().invalid), (24, 0));
    assert_eq!(push("dead", "169.254.169.254").await, 204);
    assert_eq!(push("dead", "localhost").await, 204);
    assert_eq!((plane.reader.counts().objects, plane.reader.counts().tombstones), (0, 1));
    assert_eq!(plane.status().outside, 24);
}

#[tokio::test]
async fn a_message_without_the_objects_name_is_an_old_senders_and_ignored() {
    let plane = Plane::open().await;
    for legacy in [
        json!({ "id": "team--demo", "ip": "127.0.0.1", "state": "running", "resourceVersion": "5" }),
        json!({ "id": "team--demo", "state": "dead" }),
        json!({ "id": "team--demo", "namespace": null, "name": "" }),
    ] {
        assert_eq!(plane.push(&legacy).await.status, 204, "{legacy}");
    }
    assert_eq!((plane.status().legacy, plane.reader.counts().objects), (3, 0));
    assert_eq!(plane.reader.counts().tombstones, 0);
}

#[tokio::test]
async fn a_route_without_an_address_or_with_nulls_is_kept_and_not_running() {
    let plane = Plane::open().await;
    let mut message = message("running", "5");
    for key in ["ip", "owner", "accessToken", "trafficAccessToken", "requireTrafficAuth"] {
        message[key] = Value::Null;
    }
    assert_eq!(plane.push(&message).await.status, 204);
    let route = plane.reader.get("team--demo").unwrap();
    assert_eq!((route.state(), route.ip()), (State::Creating, None));
    assert!(route.token().is_none() && route.traffic_token().is_none());
}

#[tokio::test]
async fn other_methods_get_405_and_other_paths_404() {
    let plane = Plane::open().await;
    for path in ["/refresh", "/refresh/batch"] {
        for method in ["GET", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS"] {
            assert_eq!(plane.send(method, path, "", None).await.status, 405, "{method} {path}");
        }
    }
    assert_eq!(plane.post("/healthz", "", None).await.status, 405);
    assert_eq!(plane.post("/refresh/", "", None).await.status, 404);
    assert_eq!(plane.send("GET", "/", "", None).await.status, 404);
}

#[tokio::test]
async fn health_is_always_good_and_readiness_is_the_tables() {
    let plane = Plane::open().await;
    assert_eq!(plane.send("GET", "/healthz", "", None).await.status, 200);
    assert_eq!(plane.send("GET", "/readyz", "", None).await.status, 503);
    plane.writer.set_ready();
    assert_eq!(plane.send("GET", "/readyz", "", None).await.status, 200);
}

#[tokio::test]
async fn a_route_that_nobody_pushes_again_is_let_go_and_one_that_is_pushed_again_is_not() {
    let limits = Limits { push_lease: Some(Duration::from_secs(2)), ..Limits::default() };
    let plane = Plane::patient(json!({ "insecure": true }), Timeouts::default(), limits).await;
    let mut kept = with("name", "kept");
    kept["id"] = json!("team--kept");
    plane.push(&message("running", "5")).await;
    let end = Instant::now() + DEADLINE;
    while plane.reader.get("team--demo").is_some() {
        // An equal one changes nothing, and says that it is still so.
        assert_eq!(plane.push(&kept).await.status, 204);
        plane.writer.sweep();
        assert!(plane.reader.get("team--kept").is_some() && Instant::now() < end);
    }
}

#[tokio::test]
async fn a_full_table_is_no_fault_of_the_message_and_may_be_tried_again() {
    let limits = Limits { max_routes: 1, ..Limits::default() };
    let plane = Plane::patient(json!({ "insecure": true }), Timeouts::default(), limits).await;
    plane.push(&message("running", "5")).await;
    let mut other = with("name", "other");
    other["id"] = json!("team--other");
    assert_eq!(plane.push(&other).await.status, 503);
    assert_eq!(plane.push(&message("dead", "6")).await.status, 204);
    assert_eq!(plane.push(&other).await.status, 204);
}

#[tokio::test]
async fn equal_messages_in_any_order_make_equal_tables() {
    let planes = [Plane::open().await, Plane::open().await];
    let paused = message("paused", "9");
    let mut messages =
        vec![message("running", "5"), message("dead", "7"), paused.clone(), message("running", "8")];
    for message in &messages {
        planes[0].push(message).await;
    }
    messages.reverse();
    for message in messages.iter().chain([&paused, &paused]) {
        planes[1].push(message).await;
    }
    assert_eq!(planes[0].dump(), planes[1].dump());
    assert!(planes[0].dump().contains("Paused"));
}
