//! What becomes of the objects of lists and events in the table.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use sandgate_follow::testing::{
    Answer, Server, Step, added, complete, deleted, event, eventually, object, page, timing,
};
use serde_json::json;

use super::source::Running;

const STREAMED: &[&str] = &["sendInitialEvents=true"];
const CURRENT: &[&str] = &["limit=1 "];

#[tokio::test]
async fn an_object_that_cannot_be_read_loses_its_route_and_only_it_does() {
    let server = Server::start();
    let mut bad = object("bad", 6);
    bad["ip"] = json!("nowhere");
    let mut worse = object("worse", 7);
    worse["ip"] = json!(["a", "list"]);
    let mut panics = object("panics", 8);
    panics["ip"] = json!("panic");
    let nameless = json!({ "metadata": { "uid": 7 } });
    let list = [
        added("bad", 2),
        added("worse", 3),
        added("panics", 4),
        added("good", 4),
        complete(5),
        event("MODIFIED", &bad),
        event("MODIFIED", &worse),
        event("MODIFIED", &panics),
        event("ADDED", &nameless),
        added("also-good", 9),
    ];
    server.on(STREAMED, Answer::lines(&list).then(Step::Hold));
    let running = Running::start(&server);
    running.until_table_is(&["also-good@9", "good@4"]).await;
    let scope = running.scope();
    assert_eq!(scope.unreadable, 4);
    let names: Vec<&str> = scope.unreadable_names.iter().map(|name| &**name).collect();
    assert_eq!(names[0], "n/bad: ip: expected an address");
    assert!(names[1].starts_with("n/worse: ") && names[2].starts_with("n/panics: "), "{names:?}");
    assert!(scope.is_up());
}

#[tokio::test]
async fn every_scope_must_be_listed_before_the_source_is_complete() {
    let server = Server::start();
    server.on(&["namespaces/x/"], Answer::lines(&[added("a", 3), complete(5)]).then(Step::Hold));
    let running = Running::with(&server, timing(), &["x", "y"]);
    eventually("one scope is listed", || running.status.scopes().iter().any(|s| s.listed).then_some(()))
        .await;
    assert_eq!((running.first_lists(), running.status.is_complete()), (0, false));
    server.on(&["namespaces/y/"], Answer::lines(&[complete(5)]).then(Step::Hold));
    eventually("both are", || (running.first_lists() == 1).then_some(())).await;
    assert!(running.status.is_complete());
}

#[tokio::test]
async fn a_moment_the_object_named_ends_its_route() {
    let server = Server::start();
    let soon = SystemTime::now() + Duration::from_millis(400);
    let mut ends = object("ends", 3);
    ends["until"] = json!(u64::try_from(soon.duration_since(UNIX_EPOCH).unwrap().as_millis()).unwrap());
    let list = [event("ADDED", &ends), added("stays", 4), complete(5)];
    server.on(STREAMED, Answer::lines(&list).then(Step::Hold));
    let running = Running::start(&server);
    running.until_watching().await;
    assert!(running.get("ends").is_some() || SystemTime::now() >= soon);
    running.until_table_is(&["stays@4"]).await;
    assert!(SystemTime::now() >= soon, "not before its time");
}

#[tokio::test]
async fn versions_that_go_back_take_the_undone_routes_away_and_bring_them_back_later() {
    let server = Server::start();
    let before = [
        added("old", 3),
        added("undone", 4),
        complete(5),
        event("MODIFIED", &object("undone", 90)),
        added("new", 91),
    ];
    server.on(STREAMED, Answer::lines(&before).then(Step::Hold).then(Step::Cut));
    let running = Running::start(&server);
    running.until_table_is(&["new@91", "old@3", "undone@90"]).await;
    // The server comes back from a backup taken at version 10.
    server.on(CURRENT, Answer::body(page(12, &[], "")));
    server.on(STREAMED, Answer::lines(&[added("old", 3), added("undone", 4), complete(12)]).then(Step::Hold));
    server.release();
    running.until_table_is(&["old@3"]).await;
    assert_eq!((running.scope().rewinds, running.scope().held_back), (1, 2));
    running.outlive_tombstones();
    // The tombstone of the undone time expires; the list that is made meanwhile brings the object back.
    let list = [added("old", 3), added("undone", 4), complete(13)];
    eventually("the object is back", || {
        if server.requests("sendInitialEvents").len() > 2 {
            server.on(STREAMED, Answer::lines(&list).then(Step::Hold));
        }
        running.get("undone").map(|_| ())
    })
    .await;
    assert_eq!(running.table(), ["old@3", "undone@4"]);
}

#[tokio::test]
async fn an_object_that_a_backup_brought_back_is_served_after_its_tombstone() {
    let server = Server::start();
    let before = [added("x", 50), added("old", 3), complete(60), deleted("x", 80)];
    server.on(STREAMED, Answer::lines(&before).then(Step::Hold).then(Step::Cut));
    let running = Running::start(&server);
    running.until_table_is(&["old@3"]).await;
    // The server comes back from a backup that was taken before the delete.
    server.on(CURRENT, Answer::body(page(60, &[], "")));
    let list = [added("old", 3), added("x", 50), complete(60)];
    server.on(STREAMED, Answer::lines(&list).then(Step::Hold));
    server.release();
    eventually("the rewind is seen", || (running.scope().rewinds == 1).then_some(())).await;
    assert_eq!(running.scope().held_back, 1);
    running.outlive_tombstones();
    eventually("the object is back", || {
        if server.requests("sendInitialEvents").len() > 2 {
            server.on(STREAMED, Answer::lines(&list).then(Step::Hold));
        }
        running.get("x").map(|_| ())
    })
    .await;
    assert_eq!(running.table(), ["old@3", "x@50"]);
}

#[tokio::test]
async fn a_displaced_object_is_not_held_back() {
    let server = Server::start();
    let mut rival = object("rival", 4);
    rival["id"] = json!("a");
    let objects = [added("a", 3), event("ADDED", &rival)];
    let list = |version| Answer::lines(&[&objects[..], &[complete(version)]].concat());
    server.on(STREAMED, list(90).then(Step::Hold).then(Step::Cut));
    let running = Running::start(&server);
    running.until_table_is(&["a@3"]).await;
    running.until_watching().await;
    assert_eq!(running.reader.counts().displaced, 1);
    // The rewind, and a list after it.
    for _ in 0..2 {
        server.on(CURRENT, Answer::body(page(12, &[], "")));
    }
    server.on(STREAMED, list(12).then(Step::Cut));
    server.on(&["resourceVersion=12&"], Answer::refusal(410, "too old"));
    server.on(STREAMED, list(13).then(Step::Hold));
    server.release();
    eventually("the third list is in", || (running.scope().lists == 3).then_some(())).await;
    // It lives: no list will ever bring more of it.
    assert_eq!((running.scope().rewinds, running.scope().held_back), (1, 0));
    assert_eq!(running.table(), ["a@3"]);
}
