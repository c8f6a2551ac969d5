//! Everything that goes wrong with a watch, and what the sink has afterwards.

use std::time::{Duration, Instant};

use serde_json::json;

use super::store::Running;
use crate::testing::{
    Answer, Server, Step, added, bookmark, complete, deleted, event, eventually, page, timing,
};
use crate::{FollowState, Timing};

const STREAMED: &[&str] = &["sendInitialEvents=true"];
const CURRENT: &[&str] = &["limit=1 "];

fn current(version: u64) -> Answer {
    Answer::body(page(version, &[], ""))
}

/// A list of `a` at version 5, and what the watch behind it brings.
async fn listed(server: &Server, more: &[String], end: Step) -> Running {
    let mut lines = vec![added("a", 3), complete(5)];
    lines.extend_from_slice(more);
    server.on(STREAMED, Answer::lines(&lines).then(end));
    let running = Running::start(server);
    eventually("the first list is in", || running.scope().listed.then_some(())).await;
    running
}

#[tokio::test]
async fn a_watch_that_ends_resumes_from_the_last_version_of_an_event_or_a_bookmark() {
    let server = Server::start();
    for _ in 0..2 {
        server.on(CURRENT, current(9));
    }
    server.on(&["resourceVersion=6&"], Answer::lines(&[bookmark(8)]));
    server.on(&["resourceVersion=8&"], Answer::lines(&[deleted("a", 9)]).then(Step::Hold));
    let running = listed(&server, &[added("b", 6)], Step::Send(String::new())).await;
    running.until_table_is(&["b@6"]).await;
    assert_eq!(running.scope().lists, 1);
}

#[tokio::test]
async fn a_watch_cut_within_a_line_loses_nothing() {
    let server = Server::start();
    server.on(CURRENT, current(7));
    server.on(&["resourceVersion=6&"], Answer::lines(&[added("c", 7)]).then(Step::Hold));
    let half = added("c", 7)[..20].to_owned();
    let lines = [added("a", 3), complete(5), added("b", 6)];
    server.on(STREAMED, Answer::lines(&lines).then(Step::Send(half)).then(Step::Cut));
    let running = Running::start(&server);
    running.until_table_is(&["a@3", "b@6", "c@7"]).await;
    assert_eq!(running.scope().lists, 1);
}

#[tokio::test]
async fn a_response_that_ends_properly_within_a_line_loses_nothing() {
    let server = Server::start();
    server.on(CURRENT, current(7));
    server.on(&["resourceVersion=5&"], Answer::lines(&[added("c", 7)]).then(Step::Hold));
    let half = added("c", 7)[..20].to_owned();
    let running = listed(&server, &[], Step::Send(half)).await;
    running.until_table_is(&["a@3", "c@7"]).await;
}

#[tokio::test]
async fn a_watch_resumes_before_a_garbled_line() {
    let server = Server::start();
    server.on(CURRENT, current(7));
    server.on(&["resourceVersion=6&"], Answer::lines(&[added("c", 7)]).then(Step::Hold));
    let running = listed(&server, &[added("b", 6), added("c", 7).replace('"', "\u{7}")], Step::Hold).await;
    running.until_table_is(&["a@3", "b@6", "c@7"]).await;
    assert_eq!(running.scope().lists, 1);
}

#[tokio::test]
async fn lines_that_stay_garbled_lead_to_a_list() {
    let server = Server::start();
    for _ in 0..2 {
        server.on(CURRENT, current(7));
        server.on(&["resourceVersion=5&"], Answer::lines(&["{".to_owned()]).then(Step::Hold));
    }
    let running = listed(&server, &["{".to_owned()], Step::Hold).await;
    server.on(STREAMED, Answer::lines(&[added("d", 9), complete(9)]).then(Step::Hold));
    running.until_table_is(&["d@9"]).await;
    assert_eq!(running.scope().lists, 2);
}

#[tokio::test]
async fn gone_as_an_answer_or_as_an_event_leads_to_a_list_and_the_sink_keeps_its_objects_meanwhile() {
    let gone =
        event("ERROR", &json!({ "kind": "Status", "code": 410, "message": "too old resource version" }));
    for refusal in [Answer::refusal(410, "too old"), Answer::lines(&[gone])] {
        let server = Server::start();
        server.on(CURRENT, current(7));
        server.on(&["resourceVersion=5&"], refusal);
        let running = listed(&server, &[], Step::Cut).await;
        eventually("a second list is asked for", || (server.requests(STREAMED[0]).len() > 2).then_some(()))
            .await;
        assert_eq!(running.table(), ["a@3"]);
        server.on(STREAMED, Answer::lines(&[added("b", 8), complete(9)]).then(Step::Hold));
        running.until_table_is(&["b@8"]).await;
        assert_eq!((running.scope().lists, running.first_lists()), (2, 1));
    }
}

#[tokio::test]
async fn a_silent_watch_is_resumed() {
    let server = Server::start();
    server.on(STREAMED, Answer::lines(&[added("a", 3), complete(5)]).then(Step::Hold));
    server.on(CURRENT, current(6));
    server.on(&["resourceVersion=5&"], Answer::lines(&[added("b", 6)]).then(Step::Hold));
    let timing = Timing { watch_silence: Duration::from_millis(50), ..timing() };
    let running = Running::with(&server, timing);
    eventually("b is there", || running.has("b")).await;
}

#[tokio::test]
async fn an_event_that_is_too_large_leads_to_a_list() {
    let server = Server::start();
    let lines = [added("a", 3), complete(5), format!("{:9999}", added("b", 6))];
    server.on(STREAMED, Answer::lines(&lines).then(Step::Hold));
    server.on(
        STREAMED,
        Answer::lines(&[format!("{:9999}", added("b", 6)), added("c", 7), complete(8)]).then(Step::Hold),
    );
    let running = Running::with(&server, Timing { max_line: 4096, ..timing() });
    running.until_table_is(&["c@7"]).await;
    assert_eq!(running.scope().unreadable, 1);
}

#[tokio::test]
async fn retry_after_is_obeyed() {
    for code in [429, 503] {
        let server = Server::start();
        server.on(STREAMED, Answer::refusal(code, "busy").header("retry-after: 1"));
        server.on(STREAMED, Answer::lines(&[added("a", 3), complete(5)]).then(Step::Hold));
        let began = Instant::now();
        let running = Running::start(&server);
        running.until_table_is(&["a@3"]).await;
        assert!(began.elapsed() >= Duration::from_secs(1));
    }
}

#[tokio::test]
async fn a_resource_that_is_not_there_is_waited_for() {
    let server = Server::start();
    for _ in 0..10 {
        server.on(STREAMED, Answer::body("404 page not found").status(404));
    }
    let running = Running::start(&server);
    eventually("the follower waits", || {
        (running.scope().state == FollowState::WaitingForResource).then_some(())
    })
    .await;
    let error = running.scope().error.unwrap();
    assert!(error.contains("waiting for the CRD of boxes.g/v1"), "{error}");
    assert_eq!(running.first_lists(), 0);
    server.on(STREAMED, Answer::lines(&[added("a", 3), complete(5)]).then(Step::Hold));
    running.until_table_is(&["a@3"]).await;
    assert!(running.scope().error.is_none());
}

#[tokio::test]
async fn a_missing_right_is_named_as_the_server_names_it() {
    let server = Server::start();
    let message = "boxes.g is forbidden: User \"system:serviceaccount:s:g\" cannot watch resource \"boxes\"";
    for _ in 0..1000 {
        server.on(STREAMED, Answer::refusal(403, message));
    }
    let running = Running::start(&server);
    let error = eventually("there is an error", || running.scope().error).await;
    assert!(error.contains("a right is missing") && error.contains(message), "{error}");
    assert_eq!((running.first_lists(), running.scope().state), (0, FollowState::BackingOff));
}

#[tokio::test]
async fn after_a_401_the_credentials_are_read_again() {
    let server = Server::start();
    server.on(&["Bearer first"], Answer::refusal(401, "Unauthorized"));
    server.on(&["Bearer second"], Answer::lines(&[added("a", 3), complete(5)]).then(Step::Hold));
    server.set_token("second");
    let running = Running::start(&server);
    running.until_table_is(&["a@3"]).await;
    drop(running);

    let server = Server::start();
    for _ in 0..1000 {
        server.on(&["Bearer first"], Answer::refusal(401, "Unauthorized"));
    }
    let running = Running::start(&server);
    let error = eventually("there is an error", || running.scope().error).await;
    assert!(error.contains("does not accept the credentials"), "{error}");
    server.on(&["Bearer second"], Answer::lines(&[added("a", 3), complete(5)]).then(Step::Hold));
    server.set_token("second");
    running.until_table_is(&["a@3"]).await;
}

#[tokio::test]
async fn the_error_of_an_unreadable_config_quotes_nothing_of_it() {
    let server = Server::start();
    std::fs::write(server.kubeconfig(), "users:\n - user: {token: s3cret\n").unwrap();
    let running = Running::start(&server);
    let error = eventually("there is an error", || running.scope().error).await;
    assert!(error.contains("kubeconfig") && !error.contains("s3cret"), "{error}");
}

#[tokio::test]
async fn a_server_that_comes_back_is_found_again_and_the_sink_keeps_its_objects_meanwhile() {
    let server = Server::start();
    let running = listed(&server, &[], Step::Cut).await;
    eventually("it is seen", || (running.scope().state == FollowState::BackingOff).then_some(())).await;
    assert_eq!(running.table(), ["a@3"]);
    server.on(CURRENT, current(6));
    server.on(&["resourceVersion=5&"], Answer::lines(&[added("b", 6)]).then(Step::Hold));
    running.until_table_is(&["a@3", "b@6"]).await;
    running.until_watching().await;
    assert_eq!(running.scope().lists, 1);
}
