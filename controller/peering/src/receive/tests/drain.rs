//! A process that is about to end, and the one that takes its place.

use sandgate_routes::{Limits, RouteTable, State};
use serde_json::json;

use super::fixture::{Plane, eventually, message, settings};
use crate::Receiver;

#[tokio::test]
async fn a_gateway_that_drains_applies_what_is_pushed_and_does_not_acknowledge_it() {
    let plane = Plane::open().await;
    plane.writer.set_ready();
    assert_eq!(plane.push(&message("running", "5")).await.status, 204);
    assert_eq!(plane.send("GET", "/readyz", "", None).await.status, 200);
    plane.drain.begin();
    for (state, version) in [("paused", "6"), ("dead", "7"), ("running", "6")] {
        let answer = plane.push(&message(state, version)).await;
        assert_eq!(answer.status, 503, "{state}");
        assert!(answer.headers["retry-after"] == "1" && answer.headers["connection"] == "close");
        assert!(answer.body.contains("about to end"), "{}", answer.body);
        let found = plane.reader.get("team--demo").map(|route| route.state());
        assert_eq!(found, (version == "6" && state == "paused").then_some(State::Paused));
    }
    let lines = format!("{}\n{}", message("running", "8"), message("running", "0"));
    let batch = plane.post("/refresh/batch", lines, None).await;
    assert!(batch.status == 200 && batch.headers["connection"] == "close");
    let statuses: Vec<_> = batch.lines().iter().map(|line| line["status"].clone()).collect();
    assert_eq!(statuses, [503, 400]);
    // What is wrong is wrong for the next one too.
    assert_eq!(plane.push(&json!({})).await.status, 400);
    assert_eq!(plane.send("GET", "/healthz", "", None).await.status, 200);
    let ready = plane.send("GET", "/readyz", "", None).await;
    assert!(ready.status == 503 && ready.headers["retry-after"] == "1");
    assert!(plane.status().draining);
}

#[tokio::test]
async fn a_receiver_that_ends_without_a_word_is_not_said_to_listen() {
    let plane = Plane::open().await;
    assert_eq!(plane.status().listening, Some(plane.address));
    plane.kill();
    eventually(|| plane.status().listening.is_none().then_some(())).await;
}

#[tokio::test]
async fn the_port_is_one_processs_alone_until_it_drains_and_then_the_next_one_has_it() {
    let old = Plane::open().await;
    let settings = settings(json!({ "insecure": true, "port": old.address.port() }));
    let (writer, reader) = RouteTable::new(Limits::default());
    let next = Receiver::new(settings, super::fixture::policy(), writer);
    let status = next.status();
    let task = tokio::spawn(next.run(std::future::pending()));
    let error = eventually(|| status.load().error).await;
    assert!(error.contains("cannot listen"), "{error}");
    old.drain.begin();
    assert_eq!(eventually(|| status.load().listening).await, old.address);
    // A sender that is told to come back comes to the next one.
    loop {
        let answer = old.push(&message("running", "5")).await;
        if answer.status == 204 {
            break;
        }
        assert_eq!(answer.status, 503);
    }
    assert!(reader.get("team--demo").is_some());
    task.abort();
}
