//! Lists: streamed and paged.

use serde_json::json;

use super::store::Running;
use crate::testing::{Answer, Server, Step, added, complete, deleted, object, page, timing};
use crate::{ListMode, Timing};

const STREAMED: &[&str] = &["sendInitialEvents=true"];
const WATCH: &[&str] = &["watch=true&resourceVersion="];
const PAGE: &[&str] = &["limit=500"];

#[tokio::test]
async fn a_streamed_list_continues_as_a_watch() {
    let server = Server::start();
    let list = [added("a", 3), added("b", 2), complete(5), added("c", 6), deleted("b", 7)];
    server.on(STREAMED, Answer::lines(&list).then(Step::Hold));
    let running = Running::start(&server);
    running.until_table_is(&["a@3", "c@6"]).await;
    let scope = running.scope();
    assert_eq!((scope.mode, scope.lists, scope.objects, scope.events), (Some(ListMode::Streaming), 1, 2, 2));
    assert!(scope.is_up());
    assert_eq!(running.first_lists(), 1);
    assert_eq!(server.requests("GET").len(), 1);
    assert!(server.requests("GET")[0].contains("authorization: Bearer first"));
}

#[tokio::test]
async fn a_server_without_streamed_lists_is_listed_in_pages() {
    for code in [400, 422] {
        let server = Server::start();
        server.on(STREAMED, Answer::refusal(code, "sendInitialEvents is forbidden"));
        server.on(&["continue=more"], Answer::body(page(5, &[object("b", 2)], "")));
        server.on(PAGE, Answer::body(page(5, &[object("a", 3)], "more")));
        server.on(&["resourceVersion=5"], Answer::lines(&[added("c", 6)]).then(Step::Hold));
        let running = Running::start(&server);
        running.until_table_is(&["a@3", "b@2", "c@6"]).await;
        assert_eq!(running.scope().mode, Some(ListMode::Paged));
    }
}

#[tokio::test]
async fn a_streamed_list_without_an_end_is_not_complete() {
    let server = Server::start();
    server.on(STREAMED, Answer::lines(&[added("a", 3)]));
    server.on(PAGE, Answer::body(page(5, &[object("b", 4)], "")));
    server.on(WATCH, Answer::lines(&[]).then(Step::Hold));
    let running = Running::start(&server);
    running.until_watching().await;
    assert_eq!(running.table(), ["b@4"], "what the complete list does not name is gone");
    assert_eq!((running.scope().mode, running.first_lists()), (Some(ListMode::Paged), 1));
}

#[tokio::test]
async fn an_expired_token_of_the_next_page_restarts_the_list() {
    let server = Server::start();
    server.on(STREAMED, Answer::refusal(422, "no"));
    server.on(&["continue=old"], Answer::refusal(410, "The provided continue parameter is too old"));
    server.on(PAGE, Answer::body(page(5, &[object("a", 3)], "old")));
    server.on(STREAMED, Answer::lines(&[added("b", 8), complete(9)]).then(Step::Hold));
    let running = Running::start(&server);
    running.until_table_is(&["b@8"]).await;
    assert_eq!(running.first_lists(), 1);
}

#[tokio::test]
async fn a_page_that_is_too_large_is_requested_in_smaller_ones() {
    let server = Server::start();
    server.on(STREAMED, Answer::refusal(422, "no"));
    server.on(PAGE, Answer::body(" ".repeat(5000)));
    server.on(&["limit=125"], Answer::body(page(5, &[object("a", 3)], "")));
    server.on(WATCH, Answer::lines(&[]).then(Step::Hold));
    let timing = Timing { max_page: 4096, ..timing() };
    let running = Running::with(&server, timing);
    running.until_table_is(&["a@3"]).await;
}

#[tokio::test]
async fn an_unreadable_object_does_not_spoil_its_page() {
    let server = Server::start();
    server.on(STREAMED, Answer::refusal(422, "no"));
    let mut bad = object("bad", 2);
    bad["ip"] = json!({});
    server.on(PAGE, Answer::body(page(5, &[bad, json!(7), object("good", 3)], "")));
    server.on(WATCH, Answer::lines(&[]).then(Step::Hold));
    let running = Running::start(&server);
    running.until_table_is(&["good@3"]).await;
    assert_eq!(running.scope().unreadable, 2);
}
