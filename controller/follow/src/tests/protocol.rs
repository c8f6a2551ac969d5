//! The calls of a sink and their order.

use serde_json::json;

use super::store::Running;
use crate::testing::{
    Answer, Server, Step, added, bookmark, complete, deleted, event, eventually, object, page,
};

const STREAMED: &[&str] = &["sendInitialEvents=true"];
const CURRENT: &[&str] = &["limit=1 "];

fn journal(running: &Running) -> Vec<String> {
    running.shared.lock().journal.clone()
}

#[tokio::test]
async fn a_list_is_begun_filled_and_committed_and_each_event_is_followed_by_its_version() {
    let server = Server::start();
    let list = [added("a", 3), deleted("a", 4), complete(5), added("b", 6), deleted("b", 7), bookmark(9)];
    server.on(STREAMED, Answer::lines(&list).then(Step::Hold));
    let running = Running::start(&server);
    eventually("the bookmark is in", || journal(&running).contains(&"reached 9".to_owned()).then_some(()))
        .await;
    let calls = ["begin", "apply a@3", "deleted a", "commit 5", "apply b@6", "reached 6"];
    assert_eq!(journal(&running), [&calls[..], &["deleted b", "reached 7", "reached 9"]].concat());
}

#[tokio::test]
async fn a_list_that_fails_is_abandoned_and_deletes_nothing() {
    let server = Server::start();
    server.on(STREAMED, Answer::lines(&[added("a", 3)]).then(Step::Cut));
    server.on(STREAMED, Answer::lines(&[added("b", 4), complete(5)]).then(Step::Hold));
    server.on(&["limit=500"], Answer::body(page(5, &[object("b", 4)], "")));
    server.on(&["resourceVersion=5&"], Answer::lines(&[]).then(Step::Hold));
    let running = Running::start(&server);
    running.until_table_is(&["b@4"]).await;
    let calls = journal(&running);
    assert_eq!(calls[..4], ["begin", "apply a@3", "abandon", "begin"]);
    assert_eq!(calls[4..], ["apply b@4", "commit 5"]);
}

#[tokio::test]
async fn a_version_that_went_back_is_noticed_before_the_object_is_applied() {
    let server = Server::start();
    let lines = [added("a", 3), complete(50), added("b", 60), event("MODIFIED", &object("a", 12))];
    server.on(STREAMED, Answer::lines(&lines).then(Step::Hold));
    server.on(CURRENT, Answer::body(page(13, &[], "")));
    server.on(STREAMED, Answer::lines(&[added("a", 12), complete(13)]).then(Step::Hold));
    let running = Running::start(&server);
    eventually("the rewind is in", || (running.scope().rewinds == 1).then_some(())).await;
    let calls = ["begin", "apply a@3", "commit 50", "apply b@60", "reached 60"];
    assert_eq!(journal(&running), [&calls[..], &["begin", "apply a@12", "commit 13", "rewind 13"]].concat());
    assert_eq!(running.table(), ["a@12"]);
}

#[tokio::test]
async fn the_sink_decodes_each_object_once_and_gets_its_exact_bytes() {
    let server = Server::start();
    let list = [added("a", 3), complete(5), event("MODIFIED", &object("a", 6)), deleted("a", 7)];
    server.on(STREAMED, Answer::lines(&list).then(Step::Hold));
    let running = Running::start(&server);
    eventually("all is in", || (running.scope().events == 2).then_some(())).await;
    let decoded = running.shared.lock().decoded.clone();
    let bytes = [object("a", 3), object("a", 6)].map(|object| object.to_string().into_bytes());
    assert_eq!(decoded, bytes, "one decoding an object, and none of a deleted one");
}

#[tokio::test]
async fn an_object_that_the_sink_refuses_is_counted_by_name_and_not_deleted() {
    let server = Server::start();
    let mut no_version = object("odd", 1);
    no_version["metadata"]["resourceVersion"] = json!("x");
    let list = [added("refused", 3), complete(5), event("ADDED", &no_version), added("b", 6)];
    server.on(STREAMED, Answer::lines(&list).then(Step::Hold));
    let running = Running::start(&server);
    running.until_table_is(&["b@6"]).await;
    let names: Vec<String> = running.scope().unreadable_names.iter().map(ToString::to_string).collect();
    let no_version = "n/odd: metadata.resourceVersion: expected a positive decimal number";
    assert_eq!(names, ["n/refused: the store is full", no_version]);
    let calls = ["begin", "apply refused@3", "commit 5", "deleted odd", "apply b@6"];
    assert_eq!(journal(&running)[..5], calls);
}
