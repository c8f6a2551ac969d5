//! Many messages in one request.

use sandgate_routes::State;
use serde_json::{Value, json};

use super::fixture::{Answer, Plane, message};
use crate::receive::router::MAX_MESSAGE;
use crate::receive::router::{MAX_BATCH, MAX_LINES};

async fn push(plane: &Plane, body: String) -> Answer {
    plane.post("/refresh/batch", body, None).await
}

fn named(name: &str, state: &str, version: &str) -> Value {
    let mut message = message(state, version);
    message["name"] = json!(name);
    message["id"] = json!(format!("team--{name}"));
    message
}

#[tokio::test]
async fn each_line_is_answered_for_itself_in_order() {
    let plane = Plane::open().await;
    let body = [
        named("a", "running", "1").to_string(),
        "nonsense".to_owned(),
        String::new(),
        named("a", "paused", "2").to_string() + "\r",
        named("a", "running", "1").to_string(),
        named("b", "running", "01").to_string(),
        named("b", "running", "1").to_string(),
    ];
    let answer = push(&plane, body.join("\n")).await;
    assert_eq!(
        (answer.status, answer.headers["content-type"].to_str().unwrap()),
        (200, "application/x-ndjson")
    );
    let results: Vec<(u64, u64, bool)> = answer
        .lines()
        .iter()
        .map(|line| {
            (line["line"].as_u64().unwrap(), line["status"].as_u64().unwrap(), line.get("error").is_some())
        })
        .collect();
    let expected =
        [(1, 204, false), (2, 400, true), (4, 204, false), (5, 204, false), (6, 400, true), (7, 204, false)];
    assert_eq!(results, expected);
    assert_eq!(plane.reader.get("team--a").unwrap().state(), State::Paused);
    assert_eq!(plane.reader.get("team--b").unwrap().state(), State::Running);
    let status = plane.status();
    assert_eq!((status.batches, status.applied, status.stale, status.invalid), (1, 3, 1, 2));
}

#[tokio::test]
async fn ten_thousand_lines_are_taken_and_one_more_is_refused_whole() {
    let plane = Plane::open().await;
    let lines = |count: usize| {
        (0..count).map(|n| named(&format!("n{n}"), "running", "1").to_string() + "\n").collect::<String>()
    };
    assert_eq!(push(&plane, lines(MAX_LINES + 1)).await.status, 413);
    assert_eq!(plane.reader.counts().objects, 0);
    let answer = push(&plane, lines(MAX_LINES)).await;
    assert_eq!((answer.status, answer.lines().len()), (200, MAX_LINES));
    assert_eq!(plane.reader.counts().objects, MAX_LINES as u64);
}

#[tokio::test]
async fn a_batch_that_is_too_large_is_refused_whole_and_a_line_that_is_alone() {
    let plane = Plane::open().await;
    let good = named("a", "running", "1").to_string();
    assert_eq!(push(&plane, good.clone() + "\n" + &" ".repeat(MAX_BATCH)).await.status, 413);
    assert_eq!(plane.reader.counts().objects, 0);
    let mut long = named("b", "running", "1").to_string();
    long.insert_str(1, &" ".repeat(MAX_MESSAGE));
    let answer = push(&plane, [long, good].join("\n")).await;
    let statuses: Vec<_> = answer.lines().iter().map(|line| line["status"].as_u64().unwrap()).collect();
    assert_eq!((answer.status, statuses), (200, vec![413, 204]));
}

#[tokio::test]
async fn an_empty_batch_is_answered_with_nothing() {
    let plane = Plane::open().await;
    for body in ["", "\n\n", " \r\n"] {
        let answer = push(&plane, body.to_owned()).await;
        assert_eq!((answer.status, answer.body.as_str()), (200, ""));
    }
}
