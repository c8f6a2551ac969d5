//! The statuses of the wire, one by one.

use sandgate_routes::{Limits, State};
use serde_json::{Value, json};

use super::fixture::{Plane, message};
use crate::peer::guard::Patience;

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
    let mut message = message("running", "18446744073709551616");
    message["requireTrafficAuth"] = json!(true);
    message["somethingNew"] = json!({ "of": ["a later", "sender"] });
    assert_eq!(plane.push(&message).await.status, 204);
    let route = plane.reader.get("team--demo").unwrap();
    assert_eq!(route.key().to_string(), "openkruise:team/demo");
    assert_eq!(route.version().to_string(), "18446744073709551616");
    assert_eq!((route.uid().as_str(), route.owner().as_str()), ("u-1", "alice"));
    assert_eq!(route.authority(80).as_str(), "127.1.2.3:80");
    assert!(route.require_traffic_auth() && route.token().unwrap().matches(b"s3cret"));
}

#[tokio::test]
async fn the_provider_is_a_setting() {
    let plane = Plane::start(json!({ "insecure": true, "provider": "mine" })).await;
    plane.push(&message("running", "1")).await;
    assert_eq!(plane.reader.get("team--demo").unwrap().key().provider(), "mine");
}

fn with(key: &str, value: impl Into<Value>) -> Value {
    let mut message = message("running", "5");
    message[key] = value.into();
    message
}

#[tokio::test]
async fn what_is_wrong_gets_400_says_why_and_changes_nothing() {
    let plane = Plane::open().await;
    plane.push(&message("paused", "4")).await;
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
        (with("state", "asleep"), "state"),
        (with("state", ""), "state"),
        (with("state", "Running"), "state"),
        (with("resourceVersion", ""), "resourceVersion"),
        (with("resourceVersion", "0"), "resourceVersion"),
        (with("resourceVersion", "01"), "resourceVersion"),
        (with("resourceVersion", "rv"), "resourceVersion"),
        (with("resourceVersion", "+5"), "resourceVersion"),
        (with("resourceVersion", "9".repeat(1025)), "resourceVersion"),
        (with("ip", "localhost"), "ip"),
        (with("ip", "127.0.0.1:80"), "ip"),
        (with("id", "a b"), ""),
        (with("id", ""), ""),
        (with("uid", ""), ""),
        (with("owner", "a\nb"), ""),
        (with("accessToken", "x".repeat(4097)), ""),
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
async fn an_address_no_sandbox_may_have_gets_400_unless_the_route_is_to_be_deleted() {
    let plane = Plane::open().await;
    let outside = ["169.254.169.254", "::1", "192.168.0.1", "0.0.0.0", "224.0.0.1", "::ffff:192.168.0.1"];
    for ip in outside {
        for state in ["running", "paused", "creating"] {
            let mut message = message(state, "5");
            message["ip"] = json!(ip);
            let answer = plane.push(&message).await;
            assert_eq!(answer.status, 400, "{ip}");
            assert!(answer.body.contains("ranges") && !answer.body.contains(ip), "{}", answer.body);
        }
    }
    assert_eq!(plane.reader.counts().objects, 0);
    assert_eq!(plane.status().outside, 18);
    plane.push(&message("running", "5")).await;
    let mut dead = message("dead", "6");
    dead["ip"] = json!("169.254.169.254");
    assert_eq!(plane.push(&dead).await.status, 204);
    assert_eq!((plane.reader.counts().objects, plane.reader.counts().tombstones), (0, 1));
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
    for key in ["ip", "owner", "accessToken", "requireTrafficAuth"] {
        message[key] = Value::Null;
    }
    assert_eq!(plane.push(&message).await.status, 204);
    let route = plane.reader.get("team--demo").unwrap();
    assert_eq!((route.state(), route.ip()), (State::Creating, None));
    assert!(route.token().is_none());
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
async fn a_full_table_is_no_fault_of_the_message_and_may_be_tried_again() {
    let limits = Limits { max_routes: 1, ..Limits::default() };
    let plane = Plane::patient(json!({ "insecure": true }), Patience::default(), limits).await;
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
